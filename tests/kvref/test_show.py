"""`kvref show`: the command, and its page in a browser."""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kvref.configuration import Configuration
from kvref.machine import Program
from kvref.manager_machine import MANAGER
from kvref.operations import Evict, Insert, Lock, Match, Unlock
from kvref.traces.writer import write_trace
from tests.kvref.test_page import FORGETS, HOSTILE, bench_of, trace_of
from tests.kvref.wrong_targets import ForgetsRecency

WRONG = "tests.kvref.wrong_targets:"
ON = ("--target", WRONG + "ForgetsRecency")
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


def write(path: Path, program: Program = FORGETS, target: str | None = None, **header) -> Path:
    trace = trace_of(program, target or WRONG + "ForgetsRecency", **header)
    divergence = bench_of(ForgetsRecency).run(program)
    write_trace(path, MANAGER, trace.header, program, (), divergence)
    return path


class TestTheCommand:
    def test_it_writes_the_page_beside_the_trace(self, kvref, tmp_path):
        write(tmp_path / "a.jsonl")
        text = kvref("show", "a.jsonl", *ON, status=0)
        assert "victims at operation 4\nThe recorded failure still occurs.\n" in text
        assert "written to a.html (" in text
        assert "cache.evict(2)" in (tmp_path / "a.html").read_text("utf-8")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.jsonl"]

    def test_another_target_another_verdict_and_a_place_of_choice(self, kvref, tmp_path):
        write(tmp_path / "a.jsonl")
        text = kvref("show", "a.jsonl", "--target", WRONG + "right", "-o", "b/c.html", status=0)
        assert "No difference from the oracle" in text
        assert "The recorded failure does not occur: recorded was victims at operation 4" in text
        assert f"This page shows {WRONG}right; recorded was {WRONG}ForgetsRecency." in text
        assert "recorded on" in (tmp_path / "b" / "c.html").read_text("utf-8")

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (None, "missing.jsonl: No such file or directory"),
            (b"", "missing.jsonl: empty"),
            (b"{}\n", "missing.jsonl, line 1: Object missing required field `schema`"),
        ],
    )
    def test_what_is_no_trace_is_named_with_line_and_reason(self, kvref, tmp_path, content, reason):
        if content is not None:
            (tmp_path / "missing.jsonl").write_bytes(content)
        assert reason in kvref("show", "missing.jsonl", status=2)
        assert not (tmp_path / "missing.html").exists()

    def test_a_target_that_is_not_there_or_cannot_be_built_so(self, kvref, tmp_path):
        write(tmp_path / "a.jsonl", Program((Evict(0),), Configuration(policy="fifo")), "no:such")
        text = kvref("show", "a.jsonl", "--target", "no:such", status=125)
        assert "cannot be imported" in text
        text = kvref("show", "a.jsonl", "--target", WRONG + "lru_only", status=125)
        assert "cannot be built so" in text

    def test_the_trace_itself_is_not_written_over(self, kvref, tmp_path):
        before = write(tmp_path / "a.html").read_bytes()
        assert "a.html is the input itself; give another file with -o" in kvref(
            "show", "a.html", status=2
        )
        assert (tmp_path / "a.html").read_bytes() == before

    def test_a_page_that_cannot_be_written_leaves_the_former_one(
        self, kvref, tmp_path, monkeypatch
    ):
        write(tmp_path / "a.jsonl")
        (tmp_path / "a.html").write_text("the former")

        def full(path, content):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "write_bytes", full)
        assert "No space left" in kvref("show", "a.jsonl", *ON, status=2)
        assert (tmp_path / "a.html").read_text() == "the former"

    def test_what_hangs_is_shown(self, kvref, tmp_path):
        write(tmp_path / "a.jsonl", Program((Evict(0),), Configuration()), WRONG + "BusyLoop")
        on = ("--target", WRONG + "BusyLoop")
        kvref("show", "a.jsonl", *on, "--time-limit", "0.2", status=0)
        assert "nothing within 0.2 s" in (tmp_path / "a.html").read_text("utf-8")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium to open a page with")
class TestInABrowser:
    @pytest.fixture
    def opened(self, kvref, tmp_path):
        """Opens the page of a program at an address, after a change to it; what is to be read."""
        write(tmp_path / "a.jsonl")

        def look(fragment: str = "", change=lambda page: page, name: str = "a") -> str:
            kvref("show", f"{name}.jsonl", *ON, status=0)
            page = tmp_path / f"{name}.html"
            page.write_text(change(page.read_text("utf-8")), "utf-8")
            done = subprocess.run(
                [
                    CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
                    "--disable-dev-shm-usage", f"--user-data-dir={tmp_path / 'profile'}",
                    "--window-size=1300,1000", f"{page.as_uri()}{fragment}",
                ],
                capture_output=True, text=True, timeout=120, check=False,
                env={**os.environ, "HOME": str(tmp_path)},
            )  # fmt: skip
            assert "</html>" in done.stdout, done.stderr[-2000:]
            # What stands in a script is not shown.
            return re.sub(r"<(script|style|noscript).*?</\1>", "", done.stdout, flags=re.DOTALL)

        return look

    def test_it_opens_at_the_difference_with_expected_beside_got(self, opened):
        dom = opened()
        step = part(dom, "step")
        assert "the difference is here" in step
        assert words(step).index("slots [1, 2]") < words(step).index("slots [1, 0]")
        assert labels(dom) == [
            "level 1, tokens [0], used 3, goes 1st, not expected, slots 0",
            "level 2, tokens [1], \u2212 evicted, used 1, went 1st, slots 1",
            "level 1, tokens [2], \u2212 evicted, used 2, went 2nd, not got, slots 2",
        ]
        assert 'aria-current="step"' in part(dom, "operations").split("<li>")[5]

    def test_at_each_step_the_cache_after_it(self, opened):
        dom = opened("#step=0")
        assert "operation 0, the 1st of 5<" in dom
        assert labels(dom) == ["level 1, tokens [0, 1], + cached, used 1, goes 1st, slots 0\u20131"]
        assert "0 cached before" in part(dom, "step")
        dom = opened("#step=3")
        assert labels(dom) == [
            "level 1, tokens [0], / split here, used 3, slots 0",
            "level 2, tokens [1], used 1, goes 1st, slots 1",
            "level 1, tokens [2], used 2, goes 2nd, slots 2",
        ]
        assert "1 [1] used 1 2 [2] used 2 3 [0] used 3" in words(part(dom, "order"))
        assert "skipped" in part(dom, "operations").split("<li>")[3]

    def test_locks_are_counted_in_words_too(self, opened, tmp_path):
        program = Program(
            (Insert((1, 2), (0, 1), "a"), Match((1, 2), "a"), Lock(1), Lock(1), Unlock(1)),
            Configuration(page_size=2, num_pages=3),
        )
        write(tmp_path / "locks.jsonl", program)
        dom = opened("#step=3", name="locks")
        assert labels(dom) == ["level 1, tokens [1, 2], used 2, locks 1 \u2192 2, slots 0\u20131"]
        assert "namespace a" in part(dom, "tree")
        assert 'aria-label="page 0, slots 0\u20131, cached, 2 locks, changed in this step"' in dom
        assert 'aria-label="page 2, slots 4\u20135, free"' in dom

    @pytest.mark.parametrize(
        ("keys", "index"), [("Home", 0), ("Home ArrowRight", 1), ("ArrowLeft", 3), ("Home d", 4)]
    )
    def test_keys_step(self, opened, keys, index):
        press = "".join(
            f'document.dispatchEvent(new KeyboardEvent("keydown", {{key: "{key}"}}));'
            for key in keys.split()
        )
        dom = opened("", lambda page: without_policy(page) + f"<script>{press}</script>")
        assert f">operation {index}, the " in dom

    def test_the_last_operation_is_called_so_and_the_number_is_that_of_the_list(self, opened):
        dom = opened("#step=4")
        assert ">operation 4, the last of 5<" in dom
        assert '<span class="number">4</span>' in part(dom, "operations").split("<li>")[5]

    def test_at_the_width_of_a_phone_nothing_is_beside_the_step_or_cut_off(self, opened):
        """In a frame, since a window of Chromium may not be made as narrow."""
        measure = (
            "<script>const of = (s) => document.querySelector(s).getBoundingClientRect();"
            "const page = document.documentElement;"
            "parent.postMessage([innerWidth, page.scrollWidth - page.clientWidth,"
            " of('.timeline').bottom <= of('main').top,"
            " of('.side.got').top >= of('.side').bottom].join(), '*')</script>"
        )
        hear = "addEventListener('message', (event) => { document.title = event.data; })"

        def framed(page):
            inside = html.escape(without_policy(page) + measure)
            frame = f'<iframe style="width: 400px; height: 800px; border: 0" srcdoc="{inside}">'
            return f"<html><title>none</title><script>{hear}</script>{frame}</iframe></html>"

        assert "<title>400,0,true,true<" in opened("", framed)

    def test_its_policy_lets_no_other_script_run(self, opened):
        added = "<script>document.title = 'it ran'</script>"
        assert "<title>it ran" in opened("", lambda page: without_policy(page) + added)
        assert "<title>it ran" not in opened("", lambda page: page + added)

    def test_a_hostile_trace_is_text(self, opened, tmp_path):
        name = HOSTILE.replace("\ud800", "")
        program = Program((Insert((1,), (0,), name), Match((1,), name)), Configuration())
        write(tmp_path / "hostile.jsonl", program, note=name)
        dom = opened("#step=0", name="hostile")
        assert "<img" not in dom
        assert "<title>1" not in dom
        assert "namespace </script><img src=x" in words(part(dom, "tree"))


def without_policy(page: str) -> str:
    return re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)


def part(dom: str, name: str) -> str:
    """From the element of this id to the end of its section or panel."""
    return dom.split(f'id="{name}"', 1)[1].split("</section>")[0].split("</nav>")[0]


def labels(dom: str) -> list[str]:
    """What a screen reader says of each box of the tree."""
    found = re.findall(r'role="group"[^>]*aria-label="([^"]*)"', dom)
    return [html.unescape(label) for label in found]


def words(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", ">" + markup)).lstrip(">").split())
