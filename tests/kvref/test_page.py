"""The page of a run, as data and as HTML: what is on it, and what cannot get on it."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from importlib.resources import files

import msgspec
import pytest

from kvref.campaign import Totals, campaign, start_locally
from kvref.configuration import Configuration
from kvref.divergence import DivergenceKind
from kvref.machine import Program
from kvref.manager_machine import MANAGER, ManagerBench
from kvref.operations import Evict, Insert, Lock, Match, Reset
from kvref.page.builder import PageBuilder
from kvref.page.model import Node, OnePage
from kvref.page.show import show
from kvref.page.text import cut, plain, runs, short
from kvref.page.verdict import in_step
from kvref.promises import Promises
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.machine import REQUESTS, RequestBench
from kvref.requests.operations import Begin, Finish, Store
from kvref.requests.target import RequestTargetFactory
from kvref.steps import PoolPage, Step, walk
from kvref.target import TargetFactory
from kvref.traces.format import Record, Trace
from kvref.traces.writer import header_of
from tests.kvref.oracle_target import OracleTarget
from tests.kvref.requests.wrong_lives import PROMISES, Life
from tests.kvref.wrong_targets import ForgetsRecency

HOSTILE = '</script><img src=x onerror="document.title=1">\u202e<!--\ud800&amp;'
FORGETS = Program(
    (Insert((0, 1), (0, 1)), Insert((2,), (2,)), Lock(0), Match((0,)), Evict(2)),
    Configuration(num_pages=4),
)


def bench_of(target=OracleTarget, **promises) -> ManagerBench:
    return ManagerBench(TargetFactory(target, Promises(**promises)), look_every=1, seconds=5.0)


def trace_of(program: Program, target: str = "a:b", divergence=None, **header) -> Trace:
    whole = isinstance(program.configuration, RequestConfiguration)
    machine, promises = (REQUESTS, PROMISES) if whole else (MANAGER, Promises())
    head = header_of(machine, target, promises, program.configuration, **header)
    records = tuple(Record() for _ in program.operations)
    return Trace(head, machine, promises, program, records, divergence)


def page_of(
    trace: Trace, bench: ManagerBench | RequestBench, name: str = "a.jsonl", **options
) -> str:
    return show(trace, bench, target="a:b", name=name, in_plain=repr, **options)[0]


def data_of(page: str) -> OnePage:
    (text,) = re.findall(r'<script type="application/json" id="run">(.*?)</script>', page)
    return msgspec.json.decode(text, type=OnePage)


class Elements(HTMLParser):
    """Every element of a page with its attributes, and the text of the styles and scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[str] = []
        self.within = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self.inside.append("")

        self.within = tag in ("script", "style")

    def handle_endtag(self, tag):
        self.within = False

    def handle_data(self, data):
        if self.within:
            self.inside[-1] += data


@pytest.fixture(scope="module")
def walked() -> tuple[Program, list[Step]]:
    """A run of a campaign with all kinds of operations, step by step."""
    factory = TargetFactory(ForgetsRecency)
    failures = campaign(start_locally(factory, 5.0), factory, 1, Totals())
    failure = next(each for each in failures if each and len(each.operations) > 80)
    program = Program(failure.operations, failure.configuration)
    steps: list[Step] = []
    walk(ManagerBench(factory, look_every=256), program, steps.append)
    return program, steps


@pytest.fixture(scope="module")
def hostile() -> str:
    program = Program(
        (Insert((1, 2), (0, 1), HOSTILE.replace("\ud800", "")), Match((1,), "<b>"), Evict(1)),
        Configuration(),
    )
    trace = trace_of(program, note=HOSTILE, target=HOSTILE)
    header = msgspec.structs.replace(trace.header, versions={HOSTILE: HOSTILE})
    trace = Trace(header, MANAGER, trace.promises, program, trace.records, None)
    return page_of(trace, bench_of(), name=HOSTILE)


def built(steps: list[Step], most: int = 2000) -> OnePage:
    builder = PageBuilder(most)
    for step in steps:
        builder.add(step)
    return builder.page(page_size=1, num_pages=8, order="lru", operations=len(steps))


def added_up(page: OnePage):
    """The cache after each step, as the page's script adds it up."""
    nodes = {node.id: node for node in page.start}
    pages = {cell.number: cell for cell in page.start_pages}
    for step in page.steps:
        for number in step.gone:
            del nodes[number]
        nodes |= {node.id: node for node in step.put}
        pages |= {cell.number: cell for cell in step.pages}
        yield nodes, pages


def as_nested(nodes: dict[int, Node], contents):
    """Like a tree of `kvref.tree`, in no order."""

    def below(parent: int):
        return frozenset(
            (
                contents[n.content].namespace, contents[n.content].tokens,
                contents[n.content].slots, n.locks, n.own_locks, n.recency, n.created,
                n.evictable, below(n.id),
            )
            for n in nodes.values() if n.parent == parent
        )  # fmt: skip

    return below(-1)


def expected_nested(tree):
    return frozenset(
        (
            n.namespace, tuple(map(str, n.tokens)), tuple(runs(n.slots)), n.locks, n.own_locks,
            n.recency, n.created, n.evictable, expected_nested(n.children),
        )
        for n in tree
    )  # fmt: skip


class TestTheData:
    @pytest.mark.parametrize("most", [2000, 17, 1])
    def test_what_each_step_changes_adds_up_to_the_tree_and_the_pool(self, walked, most):
        _, steps = walked
        page = built(steps, most)
        shown = steps[-most:]
        assert page.dropped == len(steps) - len(shown)
        assert [step.index for step in page.steps] == [step.index for step in shown]
        for (nodes, pages), step in zip(added_up(page), shown, strict=True):
            assert as_nested(nodes, page.contents) == expected_nested(step.tree)
            for each in step.pool:
                cell = pages.get(each.number)
                owner, locks = (
                    ("free", 0) if cell is None else (page.owners[cell.owner], cell.locks)
                )
                assert (owner, locks) == (each.owner, each.locks)

    def test_what_changed_names_nodes_that_are_drawn(self, walked):
        _, steps = walked
        page = built(steps)
        kinds = set()
        for (nodes, _), step in zip(added_up(page), page.steps, strict=True):
            drawn = set(nodes) | {ghost.id for ghost in step.ghosts}
            for mark in step.changed:
                kinds.add(mark.what)
                assert mark.node in drawn
                assert (mark.what == "evicted") == (mark.node not in nodes)
            for ghost in step.ghosts:
                assert ghost.parent == -1 or ghost.parent in drawn
        assert kinds == {"cached", "evicted", "split", "locks", "used"}

    def test_where_single_pages_go_the_ghost_stands_on_the_rest_of_its_node(self):
        program = Program((Insert((1, 2, 3), (5, 6, 7)), Evict(1)), Configuration())
        steps: list[Step] = []
        promises = {"granularity": "page", "eviction": "legal"}
        bench = bench_of(lambda configuration: OracleTarget(configuration, "page"), **promises)
        assert walk(bench, program, steps.append) is None
        page = built(steps)
        (rest,), (ghost,) = page.steps[1].put, page.steps[1].ghosts
        assert (page.contents[rest.content].tokens, rest.parent) == (("1", "2"), -1)
        assert (page.contents[ghost.content].tokens, ghost.parent) == (("3",), rest.id)
        assert page.contents[ghost.content].slots == ((7, 7),)

    def test_whole_requests_are_shown_as_well(self):
        program = Program((Begin((1, 2, 3)), Store(0), Finish(0)), RequestConfiguration())
        bench = RequestBench(RequestTargetFactory(Life, PROMISES), look_every=1)
        page = data_of(page_of(trace_of(program), bench))
        owners = [
            {page.owners[cell.owner] for cell in pages.values()} for _, pages in added_up(page)
        ]
        assert owners == [{"request r0"}, {"request r0"}, {"cached"}]
        assert page.steps[0].expected == page.steps[0].got == "0 matched, 3 more slots"

    def test_a_page_of_the_pool_that_a_request_owns_has_that_owner(self):
        step = Step(
            index=0, operation=None, call="r0 = requests.begin(ids([1]))", status="accepted",
            expected="done", got="done", evictable_size=0, protected_size=0, tree=(), changed=(),
            pool=(PoolPage(0, "request r0"), PoolPage(1, "free")),
        )  # fmt: skip
        page = built([step])
        ((number, owner, locks),) = [
            (cell.number, page.owners[cell.owner], cell.locks) for cell in page.steps[0].pages
        ]
        assert (number, owner, locks) == (0, "request r0", 0)

    def test_a_long_node_has_its_ends_alone(self):
        tokens = tuple(range(10**6, 10**6 + 5000))
        program = Program((Insert(tokens, tuple(range(5000))),), Configuration(num_pages=6000))
        page = data_of(page_of(trace_of(program), bench_of()))
        (content,) = page.contents
        assert (content.count, len(content.tokens), len(content.tail)) == (5000, 8, 4)
        assert content.slots == ((0, 4999),)
        assert len(page.steps[0].call) < 1100
        assert not page.listed  # so large a pool is shown by what is cached

    def test_the_order_is_the_targets_own_where_only_legality_is_promised(self):
        program = Program((Insert((1,), (1,)),), Configuration(policy="fifo"))
        assert data_of(page_of(trace_of(program), bench_of())).order == "fifo"
        assert data_of(page_of(trace_of(program), bench_of(eviction="legal"))).order == "own"


class TestTheVerdict:
    def test_expected_stands_beside_got_with_what_differs_marked(self):
        page = page_of(trace_of(FORGETS), bench_of(ForgetsRecency))
        assert '<span class="word">Difference</span> victims at operation 4' in page
        sides = re.search(r'<div class="sides">(.*?)</section>', page, re.DOTALL)
        expected, got = re.findall(r'<div class="said">.*?</ol>', sides[1])
        assert "<li>1</li>" in expected
        assert '<li class="differs">2 <span class="sign">not got</span></li>' in expected
        assert '<li class="differs">0 <span class="sign">not expected</span></li>' in got
        data = data_of(page)
        assert (data.expected_slots, data.got_slots, data.moved) == ((1, 2), (1, 0), ())
        assert [step.differs for step in data.steps] == [False, False, False, False, True]

    def test_only_what_stands_elsewhere_is_marked(self):
        assert in_step((1, 2, 3, 4), (1, 4, 2, 3)) == [(0, 0), (1, 2), (2, 3)]

    @pytest.mark.parametrize(
        ("target", "kind", "sentence"),
        [
            (ForgetsRecency, "victims", "The recorded failure still occurs."),
            (ForgetsRecency, "sizes", "otherwise than recorded: recorded was sizes at operation 4"),
            (OracleTarget, "victims", "The recorded failure does not occur: recorded was victims"),
            (ForgetsRecency, None, "The trace recorded no difference."),
        ],
    )
    def test_it_says_whether_the_recorded_failure_still_occurs(self, target, kind, sentence):
        divergence = bench_of(ForgetsRecency).run(FORGETS)
        if kind is None:
            divergence = None
        else:
            divergence = msgspec.structs.replace(divergence, kind=DivergenceKind(kind))
        page = page_of(trace_of(FORGETS, divergence=divergence), bench_of(target))
        assert sentence in page

    def test_it_says_where_a_run_ended_that_breaks_the_contract_itself(self):
        unchecked = Configuration(checked=False)
        program = Program((Insert((1,), (1,)), Insert((2,), (1,)), Reset()), unchecked)
        page = page_of(trace_of(program), bench_of())
        assert "The run ended before operation 1, with 2 of 3 left: " in page

    def test_what_went_otherwise_than_recorded_is_said_at_its_step(self):
        trace = trace_of(FORGETS)
        then = (Record("0 cached before", "7 cached before", "x"), *trace.records[1:])
        trace = Trace(trace.header, MANAGER, trace.promises, FORGETS, then, None)
        page = page_of(trace, bench_of())
        assert "First otherwise than recorded at operation 0: came back 7 cached before" in page
        assert [bool(step.otherwise) for step in data_of(page).steps] == [True, *[False] * 4]

    def test_a_long_run_shows_its_end_and_keeps_count(self):
        data = data_of(page_of(trace_of(FORGETS), bench_of(), most=2))
        assert (data.operations, data.dropped) == (5, 3)
        assert [step.index for step in data.steps] == [3, 4]
        whole = data_of(page_of(trace_of(FORGETS), bench_of()))
        assert [each.changed for each in data.steps] == [each.changed for each in whole.steps[3:]]
        (*_, (nodes, pages)), (*_, (all_nodes, all_pages)) = added_up(data), added_up(whole)
        assert as_nested(nodes, data.contents) == as_nested(all_nodes, whole.contents)
        assert {cell.number for cell in pages.values() if cell.owner} == {
            cell.number for cell in all_pages.values() if cell.owner
        }

    def test_no_operation_at_all_is_a_page_too(self):
        page = page_of(trace_of(Program((), Configuration())), bench_of())
        assert "No difference from the oracle" in page
        assert data_of(page).steps == []


class TestWhatCannotGetOnIt:
    def test_no_element_of_a_hostile_file(self, hostile):
        clean = Elements(page_of(trace_of(FORGETS), bench_of(ForgetsRecency)))
        found = Elements(hostile)
        names = {tag for tag, _ in found.found}
        assert names <= {tag for tag, _ in clean.found}
        assert not names & {"img", "b", "iframe", "a", "link"}
        assert [tag for tag, _ in found.found if tag == "script"] == ["script"] * 2
        assert hostile.lower().count("</script") == 2
        assert "<!--" not in hostile
        assert "\u202e" not in hostile  # it would turn the direction of what follows
        assert "&lt;/script&gt;&lt;img" in hostile

    def test_no_event_handler_and_no_inline_style(self, hostile):
        for _, attributes in Elements(hostile).found:
            assert not any(name.startswith("on") or name == "style" for name in attributes)

    def test_no_address(self, hostile):
        for tag, attributes in Elements(hostile).found:
            assert not {"src", "href", "action", "srcset", "data"} & set(attributes), tag
        page = page_of(trace_of(FORGETS), bench_of(ForgetsRecency))
        # The name of the SVG namespace is no address that anything is loaded from.
        assert re.findall(r"\w+://[^\"' ]*", page) == ["http://www.w3.org/2000/svg"]
        for word in ("url(", "@import", "fetch(", "XMLHttpRequest", "import(", "WebSocket"):
            assert word not in page

    def test_the_policy_allows_its_own_style_and_script_by_hash_and_nothing_else(self, hostile):
        page = Elements(hostile)
        (policy,) = (
            attributes["content"]
            for tag, attributes in page.found
            if attributes.get("http-equiv") == "Content-Security-Policy"
        )
        style, _, script = (
            base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            for text in page.inside
        )
        assert policy.split("; ") == [
            "default-src 'none'", f"script-src 'sha256-{script}'", f"style-src 'sha256-{style}'",
            "base-uri 'none'", "form-action 'none'",
        ]  # fmt: skip

    def test_the_scripts_set_text_and_never_markup(self):
        for name in ("draw.js", "page.js"):
            text = (files("kvref.page") / name).read_text("utf-8")
            for word in ("HTML", "document.write", "eval(", "Function(", 'setAttribute("on'):
                assert word not in text, name

    def test_without_javascript_the_last_step_and_the_program_are_there(self):
        trace = trace_of(FORGETS)
        page = show(
            trace, bench_of(ForgetsRecency), target="a:b", name="a",
            in_plain=lambda step: f"step <{step.index}>",
        )[0]  # fmt: skip
        fallback = re.search(r"<noscript>(.*?)</noscript>", page, re.DOTALL)[1]
        assert "<pre>step &lt;4&gt;</pre>" in fallback
        assert "cache.insert_prefix(ids([0, 1]), slots([0, 1]))" in page.split("<details open>")[1]
        assert '<div id="app" class="app" hidden>' in page


class TestText:
    def test_what_is_not_printed_as_itself_is_written_out(self):
        assert plain("a\u202eb\x00\ud800\n") == "a\\u202eb\\x00\\ud800\n"
        assert plain("naïve 漢字") == "naïve 漢字"

    def test_long_text_keeps_both_ends(self):
        assert cut("a" * 50 + "b" * 50, 30) == f"{'a' * 20} ... 70 characters more ... {'b' * 10}"
        assert cut("short", 30) == "short"

    def test_numbers(self):
        assert runs([3, 4, 5, 9, 8]) == [(3, 5), (9, 9), (8, 8)]
        assert short(tuple(range(30))).startswith("[0, 1, 2,")
        assert "... 6 more ..." in short(tuple(range(30)))
