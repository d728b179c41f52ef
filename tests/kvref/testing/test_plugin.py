"""Whole sessions of pytest with the plugin: what it prints, and when it fails one."""

from __future__ import annotations

import shutil

import msgspec
import pytest

from kvref import pytest_plugin
from kvref.known import add, fingerprint
from kvref.manager_machine import MANAGER, ManagerBench
from kvref.shrink import shrink
from kvref.situations.tally import read
from kvref.target import TargetFactory
from kvref.traces.reader import read as read_trace
from kvstrategies import profiles
from tests.kvref.testing.conftest import ROOT
from tests.kvref.wrong_targets import ForgetsRecency

pytest_plugins = ["pytester"]

TITLE = "kvref: what this session exercised"

SMALL = """
from kvstrategies.suite import ManagerSuite

class TestMine(ManagerSuite):
    target = "tests.kvref.wrong_targets:right"
    shards = 1
    parts = 4
"""
WITHOUT_EVICT = """
from kvref import campaign, composer
from kvstrategies.manager import ManagerMachine

for rule in ("evict_some", "evict_exactly", "evict_nothing", "evict_too_much"):
    composer._WEIGHTS[rule] = 0
campaign.drain = lambda judge: iter(())
"""
ONE_RUN = """
from itertools import islice
from kvref.campaign import Totals, campaign, start_locally
from kvref.situations import collector
from kvref.target import TargetFactory
from tests.kvref.oracle_target import OracleTarget

def run(held, runs=1, factory=TargetFactory(OracleTarget)):
    counting = collector.counting(factory, "mine", held=held)
    assert counting is not None
    start = start_locally(factory, 10.0)
    list(islice(campaign(start, factory, 0, Totals(), counting=counting), runs))
"""
HELD = ONE_RUN + "\ndef test_one():\n    run(True)\n\ndef test_other():\n    pass\n"


class TestASessionThatUsesNoneOfIt:
    def test_sees_no_line_and_imports_nothing(self, session, pytester):
        pytester.makepyfile(
            "import sys\ndef test_it(pytestconfig):\n"
            "    assert pytestconfig.pluginmanager.has_plugin('kvref.pytest_plugin')\n"
            "    assert not {'msgspec', 'hypothesis', 'torch'} & set(sys.modules)\n"
            "    assert not any(name.startswith('kvref.') and name != 'kvref.pytest_plugin'"
            " for name in sys.modules)\n"
        )
        assert "kvref" not in session().partition("collected")[2]

    def test_nor_does_one_that_judges_nothing(self, session, pytester):
        pytester.makepyfile("import kvref.situations.collector\ndef test_it(): pass")
        assert TITLE not in session("-n", "1")


class TestTheTable:
    def test_a_suite_passes_that_meets_all_that_is_required(self, session, pytester):
        pytester.makepyfile(SMALL)
        said = session("-n", "2", "--kv-profile", "dev", "--kv-report", "out/today.json")
        assert TITLE in said
        assert "every situation that has to be met was met" in said
        assert "tests.kvref.wrong_targets:right  manager" in said
        (tally,) = read(pytester.path / "out" / "today.json")
        assert tally.target == "tests.kvref.wrong_targets:right"
        assert "<!doctype html>" in (pytester.path / "out" / "today.html").read_text()

    def test_without_its_evict_rules_the_suite_fails_and_names_what_it_missed(
        self, session, pytester
    ):
        pytester.makeconftest(WITHOUT_EVICT)
        pytester.makepyfile(SMALL.replace("shards = 1", "shards = 0").replace("= 4", "= 2"))
        said = session("-n", "2", status=1)
        assert "2 passed" in said
        assert "FAILED: required and never met by tests.kvref.wrong_targets:right (manager)" in said
        assert "  evict-exactly: " in said
        assert "  match-finds-all: " not in said

    def test_what_no_suite_ran_on_has_to_meet_nothing(self, session, pytester):
        pytester.makepyfile(ONE_RUN + "\ndef test_it():\n    run(False)\n")
        said = session()
        assert "on 1 target that nothing is asked of" in said
        assert "every situation" not in said

    def test_what_promises_rule_out_is_said(self, session, pytester):
        pytester.makepyfile(
            ONE_RUN + "from tests.kvref.wrong_targets import modest\n"
            "def test_it():\n    run(True, factory=modest)\n"
        )
        assert "mine (manager), ruled out by its promises: " in session("-k", "it")


class TestAPartOfASuite:
    @pytest.mark.parametrize(
        ("arguments", "why"),
        [
            (["-n", "1", "-k", "one"], "-k was given"),
            (["test_held.py"], "it was given test_held.py"),
        ],
    )
    def test_has_to_meet_nothing(self, session, pytester, arguments, why):
        pytester.makepyfile(test_held=HELD)
        assert f"not a whole session, so nothing has to be met: {why}" in session(*arguments)

    def test_the_whole_fails(self, session, pytester):
        pytester.makefile(".ini", pytest="[pytest]\ntestpaths = tests\n")
        (pytester.path / "tests").mkdir()
        (pytester.path / "tests" / "test_held.py").write_text(HELD)
        for arguments in ((), ("tests", "--ff")):
            said = session(*arguments, status=1)
            assert "FAILED: required and never met by mine (manager)" in said

    def test_a_hook_that_deselects_makes_it_a_part(self, session, pytester):
        pytester.makeconftest(
            "def pytest_collection_modifyitems(config, items):\n"
            "    config.hook.pytest_deselected(items=[items.pop()])\n"
        )
        pytester.makepyfile(test_held=HELD)
        assert "1 tests were deselected" in session("-n", "1")

    def test_a_session_that_was_stopped_says_so(self, session, pytester):
        pytester.makepyfile(test_held=HELD + "\ndef test_wrong():\n    assert 0\n")
        said = session("-x", status=1)
        assert "nothing has to be met: it was stopped" in said

    def test_one_that_only_collects_has_no_table(self, session, pytester):
        pytester.makepyfile(test_held=HELD)
        assert TITLE not in session("--collect-only")


class TestWorkers:
    def test_one_that_died_fails_the_run(self, session, pytester):
        # The worker that takes its place runs what comes after, and that is ours.
        dies = "def test_first():\n    import os\n    os._exit(3)\n"
        pytester.makepyfile(test_held=ONE_RUN + dies + "\ndef test_one():\n    run(True)\n")
        said = session("-n", "1", status=1)
        assert "FAILED: worker gw0 died, and what it met is not known" in said


def keep(folder):
    """Some traces in a folder of the session."""
    folder.mkdir()
    for path in (ROOT / "tests" / "regressions").glob("*.jsonl"):
        shutil.copy(path, folder)


class TestTraces:
    def test_each_file_of_the_folder_is_a_test(self, session, pytester):
        keep(pytester.path / "kept")
        pytester.makepyfile("def test_it(): pass")
        count = len(list((pytester.path / "kept").glob("*.jsonl")))
        said = session("--kv-traces", "kept", "--kv-target", "tests.kvref.wrong_targets:right")
        assert f"{count + 1} passed" in said

    def test_without_the_option_none_is(self, session, pytester):
        keep(pytester.path / "kept")
        pytester.makepyfile("def test_it(): pass")
        assert "1 passed" in session()

    def test_the_ini_file_may_name_it_and_workers_have_them_too(self, session, pytester):
        keep(pytester.path / "kept")
        pytester.makefile(
            ".ini", pytest="[pytest]\nkv_traces = kept\n"
            "kv_target = tests.kvref.wrong_targets:right\ntestpaths = own\n",
        )  # fmt: skip
        (pytester.path / "own").mkdir()
        (pytester.path / "own" / "test_it.py").write_text("def test_it(): pass")
        assert "11 passed" in session("-n", "2")

    def test_an_empty_folder_is_an_error(self, session, pytester):
        pytester.makepyfile("def test_it(): pass")
        assert "--kv-traces: there is no *.jsonl in" in session("--kv-traces", "none", status=4)

    def test_one_that_fails_shows_its_program_and_how_to_replay_it(self, session, pytester):
        source = ROOT / "tests" / "regressions" / "split-prefix-keeps-its-age.jsonl"
        (pytester.path / "kept").mkdir()
        shutil.copy(source, pytester.path / "kept")
        pytester.makepyfile("def test_it(): pass")
        wrong = "tests.kvref.testing.targets:forgets"
        said = session("--kv-traces", "kept", "--kv-target", wrong, status=1)
        assert "victims at operation" in said
        assert "the program (from " in said
        assert "replay it: kvref replay kvref-failures/" in said
        assert list((pytester.path / "kvref-failures").glob("*.jsonl"))

    def test_a_file_that_is_no_trace_fails_with_its_line(self, session, pytester):
        (pytester.path / "kept").mkdir()
        (pytester.path / "kept" / "bad.jsonl").write_text("{}\n")
        pytester.makepyfile("def test_it(): pass")
        said = session("--kv-traces", "kept", status=1)
        assert "bad.jsonl, line 1" in said
        assert "reader.py" not in said


class TestKnownFailures:
    def test_they_are_gone_past_and_counted_over_all_workers(self, session, pytester):
        source = ROOT / "tests" / "regressions" / "split-prefix-keeps-its-age.jsonl"
        bench = ManagerBench(TargetFactory(ForgetsRecency), look_every=1)
        shrunk = shrink(MANAGER, bench, read_trace(source).program, seconds=5)
        known = fingerprint(MANAGER, shrunk.program, shrunk.divergence, "recency")
        add(pytester.path / "known.jsonl", known)
        path = pytester.path / "kept"
        path.mkdir()
        shutil.copy(source, path)
        pytester.makepyfile("def test_it(): pass")
        said = session(
            "-n", "1", "--kv-known", "known.jsonl", "--kv-traces", "kept",
            "--kv-target", "tests.kvref.testing.targets:forgets",
        )  # fmt: skip
        assert "1 xfailed" in said
        assert "known, 1 times: victims, recency" in said

    def test_a_file_of_them_that_cannot_be_read_is_an_error(self, session, pytester):
        pytester.makepyfile("def test_it(): pass")
        assert "--kv-known: none.jsonl" not in session("--kv-known", "none.jsonl", status=4)


class TestTheFixture:
    def test_it_is_the_factory_that_the_option_names(self, session, pytester):
        pytester.makepyfile(
            "import pytest\nfrom tests.kvref import wrong_targets\n"
            "def test_it(kv_target):\n    assert kv_target is wrong_targets.right\n"
            "@pytest.mark.kv_target('tests.kvref.wrong_targets:modest')\n"
            "def test_marked(kv_target):\n    assert kv_target is wrong_targets.modest\n"
        )
        said = session("--strict-markers", "--kv-target", "tests.kvref.wrong_targets:right")
        assert "2 passed" in said

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ([], "name one with --kv-target"),
            (["--kv-target", "nobody:there"], "target 'nobody:there' cannot be imported"),
        ],
    )
    def test_without_a_target_the_test_says_what_to_do(self, session, pytester, arguments, words):
        pytester.makepyfile("def test_it(kv_target): pass")
        assert words in session(*arguments, status=1)

    def test_the_marker_takes_one_name_by_its_place_or_as_name_and_says_so(self, session, pytester):
        right = "tests.kvref.wrong_targets:right"
        pytester.makepyfile(
            "import pytest\n"
            f"@pytest.mark.kv_target(name={right!r})\ndef test_it(kv_target): pass\n"
            "@pytest.mark.kv_target\ndef test_bare(kv_target): pass\n"
            "@pytest.mark.kv_target()\ndef test_empty(kv_target): pass\n"
            f"@pytest.mark.kv_target(target={right!r})\ndef test_other(kv_target): pass\n"
            "@pytest.mark.kv_target(7)\ndef test_number(kv_target): pass\n"
            f"@pytest.mark.kv_target({right!r}, name='x')\ndef test_two(kv_target): pass\n"
        )
        said = session(status=1)
        assert "1 passed, 5 errors" in said
        assert said.count("\nkv_target: the marker takes one name") == 5
        assert "IndexError" not in said


class TestWhatIsWrongWithAnOption:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["--kv-target", "nobody"], "--kv-target: no target named 'nobody'"),
            (["--kv-target", "nobody:"], "--kv-target: no target named 'nobody:'"),
            (["--kv-worker-mib", "abc"], "--kv-worker-mib: 'abc' is no number of MiB"),
            (["-n", "auto", "--kv-worker-mib", "0"], "--kv-worker-mib: '0' is no number of MiB"),
        ],
    )
    def test_is_said_at_the_start_though_no_test_needs_it(
        self, session, pytester, arguments, words
    ):
        pytester.makepyfile("def test_it(): pass")
        said = session(*arguments, status=4)
        assert words in said
        assert "Traceback" not in said

    def test_a_target_of_that_form_is_not_imported_at_the_start(self, session, pytester):
        pytester.makepyfile(nobody="raise SystemExit", test_it="def test_it(): pass")
        session("--kv-target", "nobody:factory")


class TestTheProfile:
    def test_a_conftest_that_loads_one_finds_the_one_of_the_option(self, session, pytester):
        pytester.makeconftest("from kvstrategies import profiles\nNAME = profiles.load()\n")
        pytester.makepyfile(
            "import conftest\nfrom hypothesis import settings\ndef test_it():\n"
            "    assert conftest.NAME == settings.get_current_profile_name() == 'kv-nightly'\n"
        )
        session("-n", "1", "--kv-profile", "nightly")

    def test_one_that_there_is_not_is_an_error(self, session, pytester):
        pytester.makeconftest("from kvstrategies import profiles\nprofiles.load()\n")
        pytester.makepyfile("def test_it(): pass")
        said = session("--kv-profile", "fast", status=4)
        assert "--kv-profile: no profile 'fast'; there are dev, ci, nightly" in said
        assert "Traceback" not in said

    def test_the_plugin_knows_those_of_kvstrategies(self):
        assert [f"kv-{name}" for name in pytest_plugin._PROFILES] == list(profiles.PROFILES)


class TestAFailure:
    def test_shows_the_shrunk_program_and_how_to_replay_it_here_and_on_github(
        self, session, pytester, monkeypatch
    ):
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
        pytester.makepyfile(
            test_mine="from kvstrategies.suite import ManagerSuite\nclass TestMine(ManagerSuite):\n"
            "    target = 'tests.kvref.testing.targets:keeps'\n    shards = parts = 1\n"
        )
        said = session("-n", "1", status=1)
        assert "2 failed" in said
        for number in range(2):  # the shard, and the part of the campaign
            text = said.split("replay it: kvref replay kvref-failures/")[number]
            assert "victims at operation" in text
            assert "the program" in text
            assert "\ncache.evict(" in text
        assert "@reproduce_failure" in said
        assert "stateful.py:" not in said
        assert "state.teardown()" not in said
        header = next((pytester.path / "kvref-failures").glob("*.jsonl")).read_text().split("\n")[0]
        assert msgspec.json.decode(header)["target"] == "tests.kvref.testing.targets:keeps"

        lines = [line for line in said.splitlines() if line.startswith("::error ")]
        failures = [line for line in lines if line.startswith("::error file=")]
        assert len(failures) == 2
        assert all("file=test_mine.py,line=1," in line for line in failures)
        assert "nothing has to be met: it failed" in said
        assert all("%0A  expected: " in line for line in failures)
        page = (pytester.path / "summary.md").read_text()
        assert "| target | machine | operations |" in page
        assert "\n```\nvictims at operation " in page
