"use strict";
// Draws one state of the cache. Whatever comes from the file is set as text, never as markup.

const ROW = 84, DENSE = 62, SMALLEST = 104, WIDEST = 150, MOST_NODES = 300, MOST_CHIPS = 24, MOST_CELLS = 256;

// An element with a class, text or children, and attributes.
function make(name, kind, inside, attributes) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  if (inside !== undefined) made.append(...[].concat(inside).map(childOf));
  for (const key in attributes || {}) made.setAttribute(key, attributes[key]);
  return made;
}
function childOf(thing) {
  return thing instanceof Node ? thing : document.createTextNode(String(thing));
}
const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
const ordinal = (n) => n + (n % 100 > 10 && n % 100 < 14 ? "th" : ["th", "st", "nd", "rd"][n % 10] || "th");
const range = ([first, last]) => (first === last ? `${first}` : `${first}\u2013${last}`);
const tokensOf = (content) =>
  `[${content.tokens.join(", ")}${content.tail ? `, \u2026 ${content.count - content.tokens.length - content.tail.length} more \u2026, ${content.tail.join(", ")}` : ""}]`;

function slotsOf(content) {
  const slots = [];
  for (const [first, last] of content.slots || [])
    for (let slot = first; slot <= last && slots.length < 4096; slot++) slots.push(slot);
  return slots;
}

// The order in which unlocked nodes would go if all had to: each time the leaf of the least time.
function evictionOrder(nodes, policy) {
  const below = new Map();
  for (const node of nodes.values()) below.set(node.parent, (below.get(node.parent) || 0) + 1);
  const time = (node) => (policy === "fifo" ? node.created : node.recency);
  const leaves = [...nodes.values()].filter((node) => !below.get(node.id) && !node.locks);
  const order = [];
  while (leaves.length && order.length < 500) {
    let least = 0;
    for (let i = 1; i < leaves.length; i++) if (time(leaves[i]) < time(leaves[least])) least = i;
    const [node] = leaves.splice(least, 1);
    order.push(node);
    const parent = nodes.get(node.parent);
    if (!parent) continue;
    below.set(parent.id, below.get(parent.id) - 1);
    if (!below.get(parent.id) && !parent.locks) leaves.push(parent);
  }
  return order;
}

// Where each node stands: x by its tokens, a row for each leaf. Nodes come before those below.
function layout(all, contents, unit) {
  const below = new Map();
  for (const node of all) {
    if (!below.has(node.parent)) below.set(node.parent, []);
    below.get(node.parent).push(node);
  }
  const space = (node) => contents[node.content].namespace ?? null;
  const roots = below.get(-1) || [];
  // Those without a namespace first, the others by name.
  const spaces = [...new Set(roots.map(space))].sort((a, b) => (a === null ? -1 : b === null ? 1 : a < b ? -1 : 1));
  // By creation, which a split keeps: a box stays where it is while one steps.
  const byAge = (a, b) => a.created - b.created || a.id - b.id;
  const placed = [], at = new Map();
  let row = 0;
  const waiting = roots.sort((a, b) => spaces.indexOf(space(b)) - spaces.indexOf(space(a)) || byAge(b, a));
  while (waiting.length) {
    const node = waiting.pop(), over = at.get(node.parent);
    const place = {
      node, x: over ? over.x + over.width : 0, row, rows: 0, level: over ? over.level + 1 : 1, over,
      width: Math.max(SMALLEST, unit * contents[node.content].count), space: spaces.indexOf(space(node)),
    };
    at.set(node.id, place);
    placed.push(place);
    const children = below.get(node.id) || [];
    if (!children.length) { row++; place.rows = 1; }
    waiting.push(...children.sort(byAge).reverse());
  }
  for (const place of placed.slice().reverse()) if (place.over) place.over.rows += place.rows;
  return { placed, spaces };
}

// Of very many nodes those that changed, what they stand on, and the most recent ones.
function fewer(all, marks) {
  if (all.length <= MOST_NODES) return all;
  const byId = new Map(all.map((node) => [node.id, node])), kept = new Set();
  const first = (node) => (marks.has(node.id) ? 0 : 1);
  for (const node of all.slice().sort((a, b) => first(a) - first(b) || b.recency - a.recency)) {
    if (kept.size >= MOST_NODES) break;
    for (let each = node; each && !kept.has(each.id); each = byId.get(each.parent)) kept.add(each.id);
  }
  return all.filter((node) => kept.has(node.id));
}

function drawTree(host, note, view, data) {
  host.replaceChildren();
  const marks = new Map();
  for (const [what, id, , before, after] of view.step.changed || [])
    marks.set(id, { ...marks.get(id), [what]: [before, after] });
  const gone = new Set((view.step.ghosts || []).map((node) => node.id));
  const everything = [...view.nodes.values(), ...(view.step.ghosts || [])];
  const all = fewer(everything, marks);
  const letters = Math.max(1, ...all.map((node) => Math.max(...data.contents[node.content].tokens.map((t) => Math.min(t.length, 7)))));
  const cell = Math.max(30, 9 * letters + 8);
  const unit = Math.min(WIDEST, (host.clientWidth - 2) / data.depth);
  const { placed, spaces } = layout(all, data.contents, Math.max(unit, 0.02));
  const named = spaces.some((space) => space !== null), heading = named ? 22 : 0;
  const places = new Map(view.order.map((node, i) => [node.id, i + 1]));
  view.went.forEach((node, i) => gone.has(node.id) && places.set(node.id, i + 1));
  const row = placed.reduce((rows, place) => Math.max(rows, place.row), 0) < 10 ? ROW : DENSE;
  const seen = new Set();
  let bottom = 0, changed = 0;
  for (const place of placed) {
    const top = place.row * row + (place.space + 1) * heading;
    if (named && !seen.has(place.space)) {
      seen.add(place.space);
      const name = spaces[place.space];
      const label = make("div", "space", name === null ? "no namespace" : `namespace ${name}`);
      label.style.top = `${top - heading + 2}px`;
      host.append(label);
    }
    const box = drawNode(place, marks.get(place.node.id) || {}, gone.has(place.node.id), cell, places, view, data);
    box.style.left = `${place.x}px`;
    box.style.top = `${top}px`;
    box.style.width = `${place.width - 3}px`;
    box.style.height = `${place.rows * row - 4}px`;
    host.append(box);
    bottom = Math.max(bottom, top + place.rows * row);
    if (marks.has(place.node.id)) changed = top;
  }
  if (!placed.length) host.append(make("p", "nothing", "Nothing is cached."));
  host.style.height = placed.length ? `${bottom + 14}px` : "auto";
  // A tree that does not fit is scrolled to what changed.
  host.scrollTop = changed - host.clientHeight / 2;
  const notes = [];
  if (placed.some((place) => place.width > unit * data.contents[place.node.content].count + 1))
    notes.push("Boxes of few tokens are drawn wider than to scale.");
  if (all.length < everything.length)
    notes.push(`${plural(everything.length - all.length, "node")} that did not change are not drawn.`);
  note.hidden = !notes.length;
  note.textContent = notes.join(" ");
}

function drawNode(place, mark, evicted, cell, places, view, data) {
  const { node } = place, content = data.contents[node.content];
  const slots = slotsOf(content), whole = !content.tail;
  const kinds = ["node"], said = [`level ${place.level}`, `tokens ${tokensOf(content)}`];
  if (evicted) kinds.push("evicted");
  else if (node.locks) kinds.push("locked");
  else kinds.push(node.evictable ? "leaf" : "inner");
  if (mark.cached) kinds.push("cached");
  if (Object.keys(mark).length) kinds.push("touched");
  const box = make("div", kinds.join(" "), undefined, { role: "group", tabindex: "0" });
  const inside = make("div", "inside"); // stays in sight in a box that is higher than the window
  box.append(inside);
  // The tokens, each over its slot; of many the ends.
  if (whole && slots.length === content.count && place.width - 14 >= cell * content.count) {
    const cells = make("div", "cells");
    content.tokens.forEach((token, i) =>
      cells.append(make("span", (i + 1) % data.page_size ? "" : "page-end", [make("b", "", token, { title: `token ${token}` }), make("small", "", slots[i])])));
    inside.append(cells);
  } else {
    const where = (content.slots || []).map(range).join(", ");
    inside.append(make("span", "gist", tokensOf(content), { title: tokensOf(content) }));
    inside.append(make("span", "gist", make("small", "", `${plural(content.count, "token")}, slots ${where}`), { title: where }));
  }
  const meta = make("div", "meta");
  const put = (text, kind) => { meta.append(make("span", kind, text)); said.push(text); };
  if (mark.cached) put("+ cached", "tag");
  if (mark.evicted) put("\u2212 evicted", "tag");
  if (mark.split) put("/ split here", "tag");
  if (mark.used) put(`used ${mark.used[0]} \u2192 ${mark.used[1]}`, "hot");
  else put(`used ${node.recency}`);
  if (mark.locks) put(`locks ${mark.locks[0]} \u2192 ${mark.locks[1]}`, "lock");
  else if (node.locks) put(plural(node.locks, "lock"), "lock");
  if (node.locks && node.own_locks && node.own_locks !== node.locks) put(`${node.own_locks} its own`);
  if (places.has(node.id) && data.order !== "own" && (evicted || node.evictable))
    put(`${evicted ? "went" : "goes"} ${ordinal(places.get(node.id))}`);
  // At the difference: which of its slots the two sides named.
  if (view.step.differs && data.expected_slots) {
    const place = (list) => Math.min(...slots.map((slot) => list.indexOf(slot)).filter((i) => i >= 0));
    const ours = place(data.expected_slots), theirs = place(data.got_slots);
    if (ours < Infinity && theirs === Infinity) put("not got", "sign");
    else if (theirs < Infinity && ours === Infinity) put("not expected", "sign");
    else if (slots.some((slot) => data.moved.includes(slot))) put(theirs < ours ? "got too early" : "got too late", "sign");
  }
  inside.append(meta);
  box.setAttribute("aria-label", said.join(", ") + `, slots ${(content.slots || []).map(range).join(", ")}`);
  const show = (on) => linkPages(slots, on, data);
  box.addEventListener("mouseenter", () => show(true));
  box.addEventListener("focus", () => show(true));
  box.addEventListener("mouseleave", () => show(false));
  box.addEventListener("blur", () => show(false));
  return box;
}

// The pages of the pool that a box stands for stand out while it is pointed at.
function linkPages(slots, on, data) {
  const pages = new Set(slots.map((slot) => String(Math.floor(slot / data.page_size))));
  for (const cell of document.querySelectorAll("#pool [data-page]"))
    cell.classList.toggle("linked", on && pages.has(cell.dataset.page));
}

function drawOrder(host, how, view, data) {
  host.replaceChildren();
  const chip = (node, kind, first) => {
    const content = data.contents[node.content];
    const times = data.order === "fifo" ? `created ${node.created}` : `used ${node.recency}`;
    const space = content.namespace === undefined || content.namespace === null ? "" : `${content.namespace} `;
    const tokens = content.count > 8 ? `[${content.tokens.slice(0, 4).join(", ")}, \u2026]` : tokensOf(content);
    host.append(make("li", kind, [make("b", "", first), ` ${space}${tokens} `, make("small", "", times)]));
  };
  const locked = [...view.nodes.values()].filter((node) => node.locks).sort((a, b) => a.recency - b.recency);
  how.textContent = {
    lru: "the least recently used leaf first, then what it stood on",
    fifo: "the leaf that was created first, then what it stood on",
    own: "the target chooses; here from the least recently used on",
  }[data.order] || "";
  view.order.slice(0, MOST_CHIPS).forEach((node, i) => chip(node, "", `${i + 1}`));
  if (view.order.length > MOST_CHIPS) host.append(make("li", "plain", `and ${view.order.length - MOST_CHIPS} more`));
  if (!view.order.length) host.append(make("li", "plain", "nothing can go"));
  if (locked.length) host.append(make("li", "plain", "locked, and stay:"));
  locked.slice(0, MOST_CHIPS).forEach((node) => chip(node, "locked", plural(node.locks, "lock")));
  if (locked.length > MOST_CHIPS) host.append(make("li", "plain", `and ${locked.length - MOST_CHIPS} more`));
}

function drawPool(host, how, view, data) {
  host.replaceChildren();
  const changed = new Set((view.step.pages || []).map(([number]) => number));
  const numbers = data.listed ? [...new Set([...Array(data.num_pages).keys(), ...view.pages.keys()])]
    : [...view.pages.keys()].filter((number) => view.pages.get(number)[1] || changed.has(number));
  numbers.sort((a, b) => a - b);
  // Runs of pages of one owner; folded only where single pages would be too many.
  const fold = numbers.length > MOST_CELLS, runs = [], counts = new Map();
  for (const number of numbers) {
    const [, owner, locks] = view.pages.get(number) || [number, 0, 0];
    const name = data.owners[owner] + (locks ? " and locked" : "");
    counts.set(name, (counts.get(name) || 0) + 1);
    const last = runs[runs.length - 1], mark = changed.has(number);
    if (fold && last && last.owner === owner && last.locks === locks && last.mark === mark && last.to === number - 1) last.to = number;
    else runs.push({ from: number, to: number, owner, locks, mark });
  }
  for (const run of runs.slice(0, 2 * MOST_CELLS)) {
    const owner = data.owners[run.owner], size = data.page_size, count = run.to - run.from + 1;
    const slots = range([run.from * size, (run.to + 1) * size - 1]);
    const kind = owner === "free" || owner === "cached" ? owner : "owned";
    const short = run.locks ? plural(run.locks, "lock") : owner.replace(/^request /, "");
    const words = count > 1 ? `${short}, ${plural(count, "page")}` : short;
    const label = `page ${range([run.from, run.to])}, slots ${slots}, ${owner}${run.locks ? `, ${plural(run.locks, "lock")}` : ""}${run.mark ? ", changed in this step" : ""}`;
    const kinds = `${kind}${run.locks ? " locked" : ""}${run.mark ? " changed" : ""}${count > 1 ? " fold" : ""}`;
    const cell = make("li", kinds, [make("b", "", words), slots], { title: label, "aria-label": label });
    if (count === 1) cell.dataset.page = run.from;
    host.append(cell);
  }
  if (runs.length > 2 * MOST_CELLS) host.append(make("li", "free fold", `and ${runs.length - 2 * MOST_CELLS} runs more`));
  const sums = [...counts].map(([name, count]) => `${count.toLocaleString("en")} ${name}`).join(", ");
  const of = `${plural(data.num_pages, "page")} of ${plural(data.page_size, "slot")}`;
  how.textContent = `${of}: ${sums}${data.listed ? "" : "; free pages are not drawn"}. By slots.`;
}
