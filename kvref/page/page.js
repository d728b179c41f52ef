// Steps through the run. Each step of the data says what it changes; `goTo` adds these up.

const data = JSON.parse(document.getElementById("run").textContent);
const byName = (id) => document.getElementById(id);
const steps = data.steps;
const difference = steps.findIndex((step) => step.differs);
let at = -1; // the step that `nodes` and `pages` are after; -1 is before the first
let nodes, pages, went; // `went`: in which order nodes would go before that step

function begin() {
  nodes = new Map();
  pages = new Map();
  at = -1;
  went = [];
  put(data.start, data.start_pages);
}

function put(some, cells) {
  for (const [id, parent, content, locks, own_locks, recency, created, evictable] of some || [])
    nodes.set(id, { id, parent, content, locks, own_locks, recency, created, evictable });
  for (const cell of cells || []) pages.set(cell[0], cell);
}

const named = ([id, parent, content, locks, own_locks, recency, created, evictable]) =>
  ({ id, parent, content, locks, own_locks, recency, created, evictable });

function goTo(wanted, focus) {
  if (!steps.length) return;
  const to = Math.max(0, Math.min(steps.length - 1, wanted));
  if (to < at) begin();
  for (; at < to; at++) {
    const next = steps[at + 1];
    if (at + 1 === to) went = evictionOrder(nodes, data.order);
    for (const id of next.gone || []) nodes.delete(id);
    put(next.put, next.pages);
  }
  draw(focus);
  // A page that is sent on opens where its sender looked.
  try { history.replaceState(null, "", `#step=${steps[at].index}`); } catch { /* not allowed here */ }
}

function draw(focus) {
  const step = { ...steps[at], ghosts: (steps[at].ghosts || []).map(named) };
  const view = { step, nodes, pages, went, order: evictionOrder(nodes, data.order) };
  drawStep(step);
  drawTree(byName("tree"), byName("tree-note"), view, data);
  drawOrder(byName("order"), byName("order-how"), view, data);
  drawPool(byName("pool"), byName("pool-how"), view, data);
  byName("sizes").textContent = `evictable ${step.evictable}, protected ${step.protected} slots`;
  // Operations are numbered from 0 everywhere, so "143 of 144" would be taken for the one before.
  const last = step.index === data.operations - 1;
  byName("where").textContent = `operation ${step.index}, the ${last ? "last" : ordinal(step.index + 1)} of ${data.operations.toLocaleString("en")}`;
  byName("slider").value = at;
  byName("first").disabled = byName("back").disabled = at === 0;
  byName("last").disabled = byName("on").disabled = at === steps.length - 1;
  byName("jump").hidden = difference < 0 || at === difference;
  const now = document.querySelector("#chart .now");
  if (now) now.setAttribute("x", at + 0.5);
  for (const old of document.querySelectorAll("#operations [aria-current]")) old.removeAttribute("aria-current");
  const button = byName("operations").children[at].firstChild;
  button.setAttribute("aria-current", "step");
  if (focus) button.focus({ preventScroll: true });
  // Only the list is scrolled, not the page.
  const list = byName("operations");
  list.scrollTop = button.offsetTop - list.clientHeight / 2;
}

function drawStep(step) {
  const host = byName("step");
  host.classList.toggle("differs", Boolean(step.differs));
  const call = make("div", "call", [step.call, make("span", `status ${step.differs ? "differs" : ""}`, step.differs ? "the difference is here" : step.status)]);
  host.replaceChildren(call);
  if (step.status === "skipped") {
    host.append(make("p", "aside", "Not issued: the target does not promise it, or what it names is not there."));
  } else {
    const other = step.got === undefined || step.got === null || (step.status === "accepted" && step.got !== step.expected);
    const side = (title, text, kind) => make("div", `side ${kind}`, [make("h3", "", title), make("div", "said", text)]);
    host.append(make("div", "sides", [
      side("expected, by the oracle", step.expected ?? "nothing", ""),
      side("got, from the target", step.got ?? "nothing was said", `got${step.differs && other ? " wrong" : ""}`),
    ]));
    if (step.differs && !other) host.append(make("p", "warning", "The answer is as expected; the difference, above, was seen when the target was looked at after it."));
    if (!step.differs && other) host.append(make("p", "aside", "Not the same words, and allowed."));
  }
  if (step.otherwise) host.append(make("p", "warning", `Otherwise than recorded: ${step.otherwise}`));
  const words = {
    cached: () => "", evicted: () => "", split: () => "",
    locks: (before, after) => `: ${before} \u2192 ${after}`, used: (before, after) => `: ${before} \u2192 ${after}`,
  };
  const signs = { cached: "+ cached", evicted: "\u2212 evicted", split: "/ split at", locks: "locks of", used: "used" };
  const changes = (step.changed || []).slice(0, 40).map(([what, , where, before, after]) =>
    make("li", what, [make("b", "", signs[what] || what), ` ${where}${(words[what] || words.used)(before, after)}`]));
  const more = (step.changed || []).length - changes.length;
  if (more > 0) changes.push(make("li", "", `and ${plural(more, "change")} more`));
  host.append(changes.length ? make("ul", "changes", changes, { "aria-label": "What changed" }) : make("p", "aside", `Nothing changed in the tree${step.pages ? `; ${plural(step.pages.length, "page")} of the pool changed hands` : ""}.`));
}

function drawTimeline() {
  const list = byName("operations");
  steps.forEach((step, i) => {
    const flag = step.differs ? "differs" : step.status === "accepted" ? "" : step.status;
    const button = make("button", flag, [make("span", "number", step.index), make("span", "text", step.call), make("span", "flag", flag)], { title: step.call });
    button.addEventListener("click", () => goTo(i));
    list.append(make("li", "", button));
  });
  const ran = data.dropped + steps.length;
  if (data.dropped) {
    byName("dropped").hidden = false;
    byName("dropped").textContent = `The last ${plural(steps.length, "step")} of ${ran.toLocaleString("en")}; the ${plural(data.dropped, "operation")} before them ran and are not shown.`;
  }
  if (ran < data.operations) {
    byName("not-run").hidden = false;
    byName("not-run").textContent = `${plural(data.operations - ran, "operation")} more in the trace did not run.`;
  }
}

// Evictable on top of protected size, step by step.
function drawChart() {
  const host = byName("chart"), count = steps.length;
  const most = Math.max(1, ...steps.map((step) => step.evictable + step.protected));
  const svg = (name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    return made;
  };
  const area = (low, high) => {
    const there = steps.map((step, i) => `L${i} ${100 - high(step)}L${i + 1} ${100 - high(step)}`);
    const back = steps.map((step, i) => `L${i + 1} ${100 - low(step)}L${i} ${100 - low(step)}`).reverse();
    return `M0 100${there.join("")}${back.join("")}Z`;
  };
  const share = (size) => (96 * size) / most;
  const picture = svg("svg", { viewBox: `0 0 ${count} 100`, preserveAspectRatio: "none", role: "img", "aria-label": "Slots in the cache at each step" });
  picture.append(svg("path", { class: "protected", d: area(() => 0, (step) => share(step.protected)) }));
  picture.append(svg("path", { class: "evictable", d: area((step) => share(step.protected), (step) => share(step.protected + step.evictable)) }));
  picture.append(svg("rect", { class: "now", x: 0, y: 0, width: Math.max(0.03, count / 400), height: 100 }));
  picture.addEventListener("click", (event) => {
    const box = picture.getBoundingClientRect();
    goTo(Math.floor((count * (event.clientX - box.left)) / box.width));
  });
  host.append(picture);
  byName("chart-how").textContent = `slots in the cache, at most ${most.toLocaleString("en")}: protected below, evictable above`;
}

function fromAddress() {
  const found = /^#step=(\d+)$/.exec(location.hash);
  const i = found ? steps.findIndex((step) => step.index === Number(found[1])) : -1;
  return i >= 0 ? i : difference >= 0 ? difference : steps.length - 1;
}

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.target.id === "slider") return;
  const inList = event.target.closest && event.target.closest(".timeline");
  const to = {
    ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: steps.length - 1,
    d: difference >= 0 ? difference : at,
    ...(inList ? { ArrowUp: at - 1, ArrowDown: at + 1 } : {}),
  }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  goTo(to, inList);
});

byName("app").hidden = false;
byName("slider").max = Math.max(0, steps.length - 1);
byName("slider").addEventListener("input", (event) => goTo(Number(event.target.value)));
for (const [id, to] of [["first", () => 0], ["back", () => at - 1], ["on", () => at + 1], ["last", () => steps.length - 1], ["jump", () => difference]])
  byName(id).addEventListener("click", () => goTo(to()));
byName("jump-key").hidden = difference < 0;
begin();
drawTimeline();
if (steps.length) drawChart();
goTo(fromAddress());
addEventListener("hashchange", () => goTo(fromAddress()));
addEventListener("resize", () => steps.length && draw());
