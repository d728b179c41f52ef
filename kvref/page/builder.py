"""Makes the page's data from the steps of a run, one after the other, in bounded memory.

A step of `kvref.steps` has the whole tree. Here only what it changes is kept, and steps that do
not fit any more are folded into the state that the page starts from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from kvref.page.model import Content, Mark, Node, OnePage, PoolCell, ShownStep
from kvref.page.text import cut, runs, short
from kvref.steps import PoolPage, Step
from kvref.tree import TreeNode

__all__ = ["MOST_STEPS", "PageBuilder"]

MOST_STEPS = 2_000
_MOST_RECORDS = 200_000
"""Nodes and pages in all steps of a page: prompts of thousands of nodes make it shorter."""
_WORDS = 1_000
"""Characters of a call or of an answer."""
_TOKENS, _HEAD, _TAIL = 64, 8, 4
"""A node of more tokens than the first shows its ends."""
_SLOT_RUNS = 64
_NAME = 60
"""Characters of a namespace or an owner."""

_Key = tuple[str | None, tuple[int, ...]]


class PageBuilder:
    """Takes the steps (`add`), and gives what the page reads (`page`).

    Args:
        most: steps on the page; of more, the last ones are shown.
        ran: operations that ran before the first step that is added.
    """

    def __init__(self, most: int = MOST_STEPS, ran: int = 0) -> None:
        self._most = most
        self._steps: deque[ShownStep] = deque()
        self._records = 0
        self._ran = ran
        self._depth = 1
        self._next_id = 0
        # As of the last step.
        self._ids: dict[_Key, int] = {}
        self._nodes: dict[_Key, Node] = {}
        self._trees: dict[_Key, tuple[_Key | None, TreeNode]] = {}
        self._pages: dict[int, tuple[str, int]] = {}
        # Before the first step on the page.
        self._start: dict[int, Node] = {}
        self._start_pages: dict[int, PoolCell] = {}
        self._contents: dict[Content, int] = {}
        self._owners: dict[str, int] = {"free": 0}

    def add(self, step: Step) -> None:
        """The next step."""
        shown = ShownStep(
            index=step.index,
            call=cut(step.call, _WORDS),
            status=step.status,
            expected=None if step.expected is None else cut(step.expected, _WORDS),
            got=None if step.got is None else cut(step.got, _WORDS),
            evictable=step.evictable_size,
            protected=step.protected_size,
            differs=step.divergence is not None,
        )
        self._tree(step, shown)
        self._pool(step.pool, shown)
        self._steps.append(shown)
        self._ran += 1
        self._records += _size(shown)
        while len(self._steps) > 1 and (
            len(self._steps) > self._most or self._records > _MOST_RECORDS
        ):
            self._drop()

    def page(self, *, page_size: int, num_pages: int, order: str, operations: int) -> OnePage:
        """All of it; the builder is used up."""
        used: dict[int, int] = {}
        for node in self._all_nodes():
            node.content = used.setdefault(node.content, len(used))
        contents = list(self._contents)
        return OnePage(
            page_size=page_size,
            num_pages=num_pages,
            order=order,
            listed=len(self._pages) >= num_pages,
            operations=operations,
            dropped=self._ran - len(self._steps),
            depth=self._depth,
            contents=[contents[old] for old in used],
            owners=list(self._owners),
            start=list(self._start.values()),
            start_pages=list(self._start_pages.values()),
            steps=list(self._steps),
        )

    @property
    def ran(self) -> int:
        """How many operations ran."""
        return self._ran

    # ----------------------------------------------------------------------------- the tree

    def _tree(self, step: Step, shown: ShownStep) -> None:
        ids, nodes, trees = self._ids, self._nodes, self._trees
        self._ids, self._nodes, self._trees = {}, {}, {}
        fresh: list[_Key] = []
        for key, over, node in _flat(step.tree):
            number = ids.get(key)
            if number is None:
                fresh.append(key)
                number, self._next_id = self._next_id, self._next_id + 1
            self._ids[key], self._trees[key] = number, (over, node)
            self._depth = max(self._depth, len(key[1]))
            parent = -1 if over is None else self._ids[over]
            was = trees[key][1] if key in trees else None
            holds_the_same = was is not None and (was.tokens, was.slots) == (
                node.tokens,
                node.slots,
            )
            content = nodes[key].content if holds_the_same else self._content(node)
            record = self._nodes[key] = _node(number, parent, content, node)
            if nodes.get(key) != record:
                shown.put.append(record)
        for key in ids:
            if key not in self._ids:
                shown.gone.append(ids[key])
                over, node = _remains(key, trees[key], fresh)
                parent = -1 if over is None else self._ids.get(over, ids.get(over, -1))
                shown.ghosts.append(_node(ids[key], parent, self._content(node), node))
        for change in step.changed:
            key = (change.namespace, change.prefix)
            number = self._ids[key] if key in self._ids else ids[key]
            where = short(change.prefix)
            if change.namespace is not None:
                where += f" of {cut(repr(change.namespace), _NAME)}"
            shown.changed.append(Mark(change.what, number, where, change.before, change.after))

    def _content(self, node: TreeNode) -> int:
        many = len(node.tokens) > _TOKENS
        content = Content(
            namespace=None if node.namespace is None else cut(node.namespace, _NAME),
            count=len(node.tokens),
            tokens=tuple(map(str, node.tokens[:_HEAD] if many else node.tokens)),
            tail=tuple(map(str, node.tokens[-_TAIL:])) if many else (),
            slots=tuple(runs(node.slots)[:_SLOT_RUNS]),
        )
        return self._contents.setdefault(content, len(self._contents))

    # ----------------------------------------------------------------------------- the pool

    def _pool(self, pool: Sequence[PoolPage], shown: ShownStep) -> None:
        now = {page.number: (page.owner, page.locks) for page in pool}
        for number, (owner, locks) in now.items():
            if self._pages.get(number, ("free", 0)) != (owner, locks):
                shown.pages.append(PoolCell(number, self._owner(owner), locks))
        shown.pages += [
            PoolCell(number, 0, 0)
            for number, (owner, _) in self._pages.items()
            if number not in now and owner != "free"
        ]
        self._pages = now

    def _owner(self, owner: str) -> int:
        return self._owners.setdefault(cut(owner, _NAME), len(self._owners))

    # -------------------------------------------------------------------------- long runs

    def _drop(self) -> None:
        """The first step is no longer on the page."""
        step = self._steps.popleft()
        self._records -= _size(step)
        for node in step.put:
            self._start[node.id] = node
        for number in step.gone:
            del self._start[number]
        for cell in step.pages:
            self._start_pages[cell.number] = cell

    def _all_nodes(self) -> Iterator[Node]:
        yield from self._start.values()
        for step in self._steps:
            yield from step.put
            yield from step.ghosts


def _node(number: int, parent: int, content: int, node: TreeNode) -> Node:
    return Node(
        number,
        parent,
        content,
        node.locks,
        node.own_locks,
        node.recency,
        node.created,
        node.evictable,
    )


def _size(step: ShownStep) -> int:
    return len(step.put) + len(step.ghosts) + len(step.pages) + len(step.changed)


def _flat(roots: Sequence[TreeNode]) -> Iterator[tuple[_Key, _Key | None, TreeNode]]:
    """Every node by namespace and whole prefix, after its parent; no recursion."""
    waiting: list[tuple[_Key | None, TreeNode]] = [(None, node) for node in reversed(roots)]
    while waiting:
        over, node = waiting.pop()
        key = (node.namespace, (over[1] if over is not None else ()) + node.tokens)
        yield key, over, node
        waiting += [(key, child) for child in reversed(node.children)]


def _remains(
    key: _Key, was: tuple[_Key | None, TreeNode], fresh: Sequence[_Key]
) -> tuple[_Key | None, TreeNode]:
    """What was evicted, and what it stands on: its parent, as a rule.

    Where single pages go, the rest of the node is a node that is new, and what went stands on it.
    """
    namespace, prefix = key
    rests = [each for each in fresh if each[0] == namespace and prefix[: len(each[1])] == each[1]]
    if not rests:
        return was
    over, node = max(rests, key=lambda each: len(each[1])), was[1]
    kept = len(node.tokens) - (len(prefix) - len(over[1]))
    return over, msgspec.structs.replace(node, tokens=node.tokens[kept:], slots=node.slots[kept:])
