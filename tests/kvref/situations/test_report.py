"""The report: what it says of a tally, as a page and in the terminal."""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
from html.parser import HTMLParser

import msgspec
import pytest
from typer.testing import CliRunner

from kvref.cli import exercised
from kvref.cli.app import app
from kvref.promises import Promises
from kvref.situations.counting import Counting
from kvref.situations.page import page
from kvref.situations.registry import SITUATIONS
from kvref.situations.tally import LawTally, SituationTally, merge, read, write
from kvref.situations.view import view
from kvref.targets.kvgpu import naive
from tests.kvref.situations.test_collector import run_campaign
from tests.kvref.situations.test_tally import tally_of

RIGHT = "tests.kvref.wrong_targets:right"
HOSTILE = '<script>alert("1")</script>&[red]'


@pytest.fixture(scope="module")
def manager():
    return tally_of("manager", 1, runs=30, name=HOSTILE)


@pytest.fixture(scope="module")
def requests():
    return tally_of("requests", 1, runs=30)


@pytest.fixture(scope="module")
def of_naive():
    counting = Counting("kvgpu-naive", naive.promises)
    run_campaign(naive, runs=150, counting=counting)
    return counting.tally()


def without(tally, name: str):
    """As if one situation had never been met."""
    changed = copy.deepcopy(tally)
    changed.situations[name] = SituationTally()
    return changed


class TestView:
    def test_what_was_met_what_was_not_and_what_cannot_be(self, manager, of_naive):
        shown = view(without(manager, "evict-cascades"))
        states = {row.id: row.status for row in shown.situations}
        assert states["evict-cascades"] == "missed"
        assert states["match-finds-all"] == "met"
        assert "evict-cascades" in shown.missed
        few = view(of_naive)
        assert {row.status for row in few.situations} == {"met", "ruled out"}
        assert few.missed == []
        assert "80 ruled out by its promises" in few.headline

    def test_a_law_with_nothing_at_stake_is_not_one_that_was_judged(self, manager):
        changed = copy.deepcopy(manager)
        changed.laws["locked-stay"] = LawTally(5, 0)
        changed.laws["handles"] = LawTally()
        rows = {row.id: row for row in view(changed).laws}
        assert (rows["locked-stay"].status, rows["handles"].status) == ("vacuous", "not judged")
        assert rows["locked-stay"].why == "nothing was ever at stake"
        assert rows["sizes"].status == "counted"
        assert "legal-victims" not in rows

    def test_why_a_law_was_not_judged(self):
        promises = Promises(value_handles=False, keeps_prefixes=False)
        rows = {row.id: row for row in view(Counting("x", promises).tally()).laws}
        assert rows["locked-stay"].why == "it remembers nothing"
        legal = Promises(eviction="legal", value_handles=False)
        rows = {row.id: row for row in view(Counting("x", legal).tally()).laws}
        assert rows["handles"].why == "its handles are not values"
        assert rows["victims"].status == "ruled out"
        assert rows["legal-victims"].status == "not judged"

    def test_laws_and_situations_are_those_of_the_machine(self, manager, requests):
        assert {SITUATIONS[row.id].machine for row in view(requests).situations} == {"requests"}
        assert view(requests).kinds[0] == "begin"
        assert view(manager).kinds == ["match", "insert", "lock", "unlock", "evict", "reset"]

    def test_what_a_file_of_another_version_holds_is_shown_apart(self, manager):
        changed = copy.deepcopy(manager)
        changed.situations["of-old"] = SituationTally()
        changed.accepted["of-old"] = 3
        assert view(changed).unknown == ["of-old"]
        assert view(changed).kinds[-1] == "of-old"


class TestChanges:
    def test_against_itself_there_are_none(self, manager):
        assert not view(manager, manager).changes
        assert view(manager).changes is None

    def test_what_came_and_what_went(self, manager):
        changes = view(without(manager, "evict-cascades"), manager).changes
        assert changes.no_longer_met == ["evict-cascades"]
        assert view(manager, without(manager, "evict-cascades")).changes.newly_met == [
            "evict-cascades"
        ]

    def test_a_share_that_fell_to_a_quarter(self, manager):
        name = "match-finds-all"
        rarer = copy.deepcopy(manager)
        few = manager.situations[name].met // 5
        rarer.situations[name] = SituationTally(few, "match", {"match": few})
        assert view(rarer, manager).changes.rarer == [name]
        assert view(manager, rarer).changes.more_often == [name]
        # A longer run of the same is no change.
        assert not view(merge([manager] * 9), manager).changes

    def test_laws_that_have_nothing_at_stake_any_more(self, manager):
        vacuous = copy.deepcopy(manager)
        vacuous.laws["locked-stay"].counted = 0
        assert view(vacuous, manager).changes.laws_lost == ["locked-stay"]
        assert view(manager, vacuous).changes.laws_gained == ["locked-stay"]


class Tags(HTMLParser):
    """The tags of a page, which have to close each other."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


class TestPage:
    def test_all_that_came_from_a_file_is_escaped(self, manager, requests):
        hostile = copy.deepcopy(manager)
        hostile.versions = {"kvref": [HOSTILE]}
        text = page([view(hostile, manager), view(requests)])
        assert HOSTILE not in text
        assert "<script" not in text
        assert "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;[red]" in text

    def test_tags_close_and_nothing_is_fetched(self, manager, requests, of_naive):
        tags = Tags()
        text = page([view(without(manager, "evict-cascades"), manager), view(requests),
                     view(of_naive)])  # fmt: skip
        tags.feed(text)
        tags.close()
        assert tags.open == []
        assert tags.links == []
        assert not {"script", "link", "img", "iframe"} & tags.seen
        assert "url(" not in text
        assert "@import" not in text
        assert "prefers-color-scheme: dark" in text

    def test_every_situation_is_there_with_its_example(self, manager, requests):
        text = page([view(manager), view(requests)])
        for name in SITUATIONS:
            assert f"<code>{name}</code>" in text
        assert text.count("<pre>") == len(SITUATIONS)

    def test_what_was_never_met_is_named_at_the_top(self, manager):
        text = page([view(without(manager, "evict-cascades"))])
        verdict = re.search(r'<p class="verdict bad">.*?</p>', text).group()
        assert "<code>evict-cascades</code>" in verdict
        assert "Every situation that has to be met was met" in page(
            [view(merge([manager, tally_of("manager", 2, runs=300, name=HOSTILE)]))]
        )

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_a_browser_shows_it(self, manager, requests, tmp_path, scheme):
        names = ("chromium", "chromium-browser", "google-chrome", "chrome")
        browser = next(filter(None, map(shutil.which, names)), None)
        if browser is None:
            pytest.skip("no Chromium was found, so nobody looked at the page")
        path = tmp_path / "page.html"
        path.write_text(page([view(manager), view(requests)]), encoding="utf-8")
        dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
        command = [
            browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/p",
            *dark, "--window-size=1300,1200",
        ]  # fmt: skip
        shot = tmp_path / "page.png"
        for what in ("--dump-dom", f"--screenshot={shot}"):
            done = subprocess.run(
                [*command, what, path.as_uri()], capture_output=True, text=True, timeout=120,
                check=True,
            )  # fmt: skip
            if what == "--dump-dom":
                assert "match-finds-all" in done.stdout
                assert "begin-with-a-hit" in done.stdout
        assert shot.read_bytes().startswith(b"\x89PNG")
        assert shot.stat().st_size > 50_000  # not a blank page


@pytest.fixture
def kvref(tmp_path, monkeypatch):
    """Runs a command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str, status: int) -> str:
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == status, result.output
        return result.output

    return run


class TestReport:
    def test_several_files_are_added_up(self, kvref, manager, requests, tmp_path):
        write(tmp_path / "a.json", [manager])
        write(tmp_path / "b.json", [manager, requests])
        text = kvref("report", "a.json", "b.json", status=0)
        assert f"{HOSTILE}, manager" in text
        assert f"{2 * manager.runs} runs, {2 * manager.operations:,} operations" in text
        assert "here, requests" in text
        assert re.search(rf"match-finds-all +{2 * manager.situations['match-finds-all'].met:,}",
                         text)  # fmt: skip
        assert "counts when something was locked" in text

    def test_what_was_never_met_is_named_and_fails_where_that_is_asked(
        self, kvref, manager, tmp_path
    ):
        write(tmp_path / "a.json", [without(manager, "evict-cascades")])
        for options, status in (((), 0), (("--require",), 1)):
            text = kvref("report", "a.json", *options, status=status)
            assert re.search(r"required and never met: .*evict-cascades", text)

    def test_where_nothing_was_counted_nothing_that_is_required_was_met(self, kvref, tmp_path):
        write(tmp_path / "a.json", [])
        assert "nothing was counted" in kvref("report", "a.json", "--require", status=1)
        assert "nothing was counted" in kvref("report", "a.json", status=0)

    def test_a_page_never_takes_the_place_of_a_report(self, kvref, manager, tmp_path):
        write(tmp_path / "a.json", [manager])
        for others in ((), ("--baseline", "b.json")):
            write(tmp_path / "b.json", [manager])
            out = "b.json" if others else "a.json"
            words = kvref("report", "a.json", *others, "--html", out, status=2)
            assert f"{out} is the input itself" in words
        assert read(tmp_path / "a.json") == read(tmp_path / "b.json") == [manager]

    def test_text_of_a_report_cannot_command_the_terminal(self, kvref, manager, tmp_path):
        changed = copy.deepcopy(manager)
        changed.target, changed.versions["torch"] = "\x1b[2J", ["\x1b[2J"]
        write(tmp_path / "a.json", [changed])
        text = kvref("report", "a.json", "--baseline", "a.json", status=0)
        assert "\x1b" not in text
        assert "\\x1b[2J" in text

    @pytest.mark.parametrize("columns", ["40", "80", "200"])
    def test_no_name_is_cut_however_narrow_the_terminal(
        self, kvref, manager, requests, tmp_path, monkeypatch, columns
    ):
        write(tmp_path / "a.json", [manager, requests])
        monkeypatch.setenv("COLUMNS", columns)
        for command in (("report", "a.json"), ("situations",), ("targets",)):
            text = kvref(*command, status=0)
            assert "\u2026" not in text
            assert max(map(len, text.splitlines())) <= int(columns)
            if columns != "40" and command != ("targets",):
                assert all(situation in text.split() for situation in SITUATIONS)
        text = " ".join(kvref("report", "a.json", status=0).split())
        assert ("on a wider terminal, or with --html" in text) == (columns != "200")

    def test_nothing_is_missed_where_it_is_ruled_out(self, kvref, of_naive, tmp_path):
        write(tmp_path / "a.json", [of_naive])
        text = kvref("report", "a.json", "--require", status=0)
        assert "every situation that has to be met was met" in text
        assert re.search(r"match-finds-all +it remembers nothing", text)

    def test_a_page_is_written(self, kvref, manager, tmp_path):
        write(tmp_path / "a.json", [manager])
        assert "page: out.html" in kvref("report", "a.json", "--html", "out.html", status=0)
        assert (tmp_path / "out.html").read_text().startswith("<!doctype html>")

    def test_what_changed_since_a_baseline(self, kvref, manager, requests, tmp_path):
        write(tmp_path / "old.json", [manager])
        write(tmp_path / "new.json", [without(manager, "evict-cascades"), requests])
        text = kvref("report", "new.json", "--baseline", "old.json", status=0)
        assert "no longer met: evict-cascades" in text
        assert "the baseline holds nothing of here (requests)" in text
        same = kvref("report", "old.json", "--baseline", "old.json", status=0)
        assert "since the baseline: nothing that is worth a word" in same

    def test_what_another_version_wrote_is_shown(self, kvref, manager, tmp_path):
        changed = copy.deepcopy(manager)
        changed.situations["of-old"] = SituationTally()
        write(tmp_path / "a.json", [changed])
        assert "not known to this version: of-old" in kvref("report", "a.json", status=0)

    @pytest.mark.parametrize(
        "arguments",
        [("broken.json",), ("good.json", "broken.json"), ("good.json", "--baseline", "broken.json"),
         ("none.json",), ("good.json", "--html", "good.json/page.html")],
    )  # fmt: skip
    def test_files_that_cannot_be_used(self, kvref, manager, arguments, tmp_path):
        write(tmp_path / "good.json", [manager])
        (tmp_path / "broken.json").write_text('{"schema": "kvref.situations/1", "tallies": [[]]}')
        text = kvref("report", *arguments, status=2)
        assert text.startswith("kvref report: ")
        assert arguments[-1] in text

    def test_no_file_is_called_wrongly(self, kvref):
        assert "Missing argument" in kvref("report", status=2)


class TestFuzz:
    def test_what_was_exercised_is_said_and_written(self, kvref, tmp_path):
        text = kvref("fuzz", RIGHT, "--ops", "3000", "--seed", "4", "--report", "a.json", status=0)
        assert re.search(r"\d+ of 90 situations met, 0 ruled out", text)
        assert "report: a.json" in text
        assert text.rstrip().endswith("clean: no difference from the oracle")
        (tally,) = read(tmp_path / "a.json")
        assert (tally.target, tally.machine) == (RIGHT, "manager")
        assert 1000 < tally.operations < 3000  # every second run

    def test_both_machines_are_in_one_file(self, kvref, tmp_path):
        text = kvref("fuzz", RIGHT, "--machine", "both", "--ops", "900", "--seed", "4",
                     "--report", "a.json", status=0)  # fmt: skip
        assert re.search(r"manager: \d+ of 90 situations met", text)
        assert re.search(r"requests: \d+ of 61 situations met", text)
        assert [each.machine for each in read(tmp_path / "a.json")] == ["manager", "requests"]

    def test_a_short_run_says_what_it_missed_and_does_not_fail(self, kvref):
        text = kvref("fuzz", RIGHT, "--ops", "50", "--seed", "4", status=0)
        assert "never met: " in text

    def test_a_whole_run_that_never_met_something_fails(self, kvref, monkeypatch):
        monkeypatch.setitem(exercised.WHOLE, "manager", 20)
        text = kvref("fuzz", RIGHT, "--ops", "50", "--seed", "4", status=1)
        assert re.search(r"not a meaningful run: it never met .*evict", text)
        kvref("fuzz", RIGHT, "--run", "1", "--seed", "4", status=0)

    def test_it_can_be_left_out(self, kvref):
        text = kvref("fuzz", RIGHT, "--ops", "50", "--seed", "4", "--no-situations", status=0)
        assert "situations met" not in text
        words = kvref("fuzz", RIGHT, "--no-situations", "--report", "a.json", status=2)
        assert "--report and --no-situations exclude each other" in words

    ASKED = ("fuzz", RIGHT, "--ops", "50", "--seed", "4", "--report")

    def test_the_folder_of_the_report_is_made(self, kvref, tmp_path):
        kvref(*self.ASKED, "no/a.json", status=0)
        assert read(tmp_path / "no" / "a.json")

    def test_a_report_that_cannot_be_written_is_refused_before_anything_runs(self, kvref, tmp_path):
        (tmp_path / "file").touch()
        text = kvref(*self.ASKED, "file/a.json", status=2)
        assert "kvref fuzz: [Errno " in text
        assert "operations in" not in text

    def test_a_report_that_could_not_be_written_in_the_end_is_no_success(self, kvref, monkeypatch):
        def full(path, tallies):
            raise OSError(28, "No space left on device", str(path))

        monkeypatch.setattr(exercised, "write", full)
        text = kvref(*self.ASKED, "a.json", status=2)
        assert "report NOT written: [Errno 28] No space left on device: 'a.json'" in text

    def test_where_nothing_ran_there_is_no_report(self, kvref, tmp_path):
        target = "tests.kvref.wrong_targets:cannot_be_built"
        text = kvref("fuzz", target, "--report", "a.json", status=2)
        assert "report NOT written: no run came to its end" in text
        assert list(tmp_path.iterdir()) == []

    def test_laws_with_nothing_at_stake_are_named(self, kvref):
        text = kvref("fuzz", RIGHT, "--ops", "20", "--seed", "2", status=0)
        assert "judged, but with nothing at stake: " in text


class TestSituations:
    def test_all_are_listed(self, kvref):
        text = kvref("situations", status=0)
        for situation in SITUATIONS.values():
            assert situation.id in text

    def test_one_is_shown_as_a_program(self, kvref):
        text = kvref("situations", "evict-cascades", status=0)
        assert SITUATIONS["evict-cascades"].why in text
        assert text.rstrip().endswith("cache.evict(2)")

    @pytest.mark.parametrize("name", ["evict-cascades", "begin-evicts"])
    def test_and_judged_on_a_target(self, kvref, name):
        assert f"{RIGHT}: clean\n" in kvref("situations", name, "--target", RIGHT, status=0)

    def test_what_a_target_does_not_promise_is_not_met(self, kvref):
        text = kvref("situations", "stale-after-evict", "--target",
                     "tests.kvref.wrong_targets:modest", status=0)  # fmt: skip
        assert "clean, and not met" in text

    def test_an_example_that_the_promises_rule_out_is_not_judged(self, kvref, monkeypatch):
        name = "evict-spares-what-is-new"
        text = kvref("situations", name, "--target", "tests.kvref.wrong_targets:lru_only", status=0)
        assert "lru_only: not judged, its promises rule it out: the example has policy fifo" in text

    def test_a_target_without_a_situation_is_called_wrongly(self, kvref):
        assert "--target judges" in kvref("situations", "--target", RIGHT, status=2)

    def test_a_wrong_target_differs(self, kvref):
        text = kvref("situations", "evict-spares-what-was-used", "--target",
                     "tests.kvref.wrong_targets:ForgetsRecency", status=1)  # fmt: skip
        assert "victims at operation 3" in text

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("evict-cascade",), "no situation 'evict-cascade': did you mean evict-cascades?"),
            (("zzz",), "`kvref situations` lists them"),
            (("evict-cascades", "--target", "none"), "no target named 'none'"),
            (("evict-cascades", "--target", "tests.kvref.wrong_targets:cannot_be_built"),
             "cannot be built"),
        ],
    )  # fmt: skip
    def test_called_wrongly(self, kvref, arguments, words):
        text = kvref("situations", *arguments, status=2)
        assert "kvref situations: " in text
        assert words in text


def test_a_struct_of_a_tally_is_no_place_for_markup():
    with pytest.raises(msgspec.ValidationError, match="regex"):
        msgspec.convert({"met": 0, "operations": {"<b>": 0}}, SituationTally)
