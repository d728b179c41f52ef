"""The pytest plugin: what a test session exercised, traces as tests, `kv_target`.

A session that runs no state machine and no campaign of kvref, and gives none of the options,
does not see a line of it. So nothing but the standard library and pytest is imported here, and
everything else when it is used: nobody's start gets slower.

Every process that runs tests collects what they met, workers of pytest-xdist send it to the
controller, and that one (or the only process) judges it and prints the table.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kvref.target import TargetFactory
    from kvref.testing.verdict import Outcome

_OPTIONS = {
    "target": ("NAME", "the target of kv_target and --kv-traces: a name, or module:factory"),
    "profile": ("NAME", "the settings profile of kvstrategies: dev, ci or nightly"),
    "traces": ("DIR", "replay every *.jsonl in this folder as a test; an empty one is an error"),
    "report": ("FILE", "write what was exercised to FILE (JSON), and a page beside it (.html)"),
    "known": ("FILE", "go past the failures that this file knows (see kvref known)"),
    "worker-mib": ("N", "of a GPU's memory, for a worker of -n auto: no more workers than fit"),
}
_PROFILES = ("dev", "ci", "nightly")
"""Those of `kvstrategies.profiles`, which would import Hypothesis; a test compares."""


@dataclass
class _State:
    """Of this process's session; `arguments` are those before the traces were added."""

    root: Path
    arguments: list[str]
    traces: frozenset[Path] = frozenset()
    collecting: bool = False
    deselected: int = 0
    received: list[dict[str, Any]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    failures: list[dict[str, str]] = field(default_factory=list)
    outcome: Outcome | None = None


_STATE = pytest.StashKey[_State]()


def _setting(config: pytest.Config, name: str) -> str:
    """Of the command line, or of the ini file."""
    key = f"kv_{name.replace('-', '_')}"
    return str(config.getoption(key) or config.getini(key) or "")


def _path(config: pytest.Config, name: str) -> Path | None:
    """A path of the command line is relative to where it was typed, one of the file to the file."""
    if given := config.getoption(f"kv_{name}"):
        return config.invocation_params.dir / str(given)
    if given := config.getini(f"kv_{name}"):
        return (config.inipath.parent if config.inipath else config.rootpath) / str(given)
    return None


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


# ------------------------------------------------------------------------- options, collection


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, and an ini option of each name."""
    group = parser.getgroup("kvref", "KV-cache managers under test (kvref)")
    for name, (metavar, text) in _OPTIONS.items():
        key = f"kv_{name.replace('-', '_')}"
        group.addoption(f"--kv-{name}", dest=key, metavar=metavar, default=None, help=text)
        parser.addini(key, text, default="")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """The profile goes into the environment, where a conftest's `profiles.load()` finds it."""
    profile = early_config.known_args_namespace.kv_profile or early_config.getini("kv_profile")
    if profile:
        if profile.removeprefix("kv-") not in _PROFILES:  # before it is a traceback of that load
            there_are = ", ".join(_PROFILES)
            raise pytest.UsageError(f"--kv-profile: no profile {profile!r}; there are {there_are}")
        os.environ["KV_PROFILE"] = profile


def pytest_configure(config: pytest.Config) -> None:
    """Load what was asked for. UsageError for what cannot be."""
    config.addinivalue_line(
        "markers", "kv_target(name): the fixture kv_target is this target, and not the session's"
    )
    state = config.stash[_STATE] = _State(config.rootpath, list(config.args))
    if profile := _setting(config, "profile"):
        from kvstrategies import profiles

        profiles.ensure(profile)
    _worker_mib(config)
    if target := _setting(config, "target"):
        from kvref.testing.options import check_target

        check_target(target)
    if folder := _path(config, "traces"):
        traces = sorted(path.resolve() for path in folder.glob("**/*.jsonl"))
        if not traces:
            raise pytest.UsageError(f"--kv-traces: there is no *.jsonl in {folder}")
        state.traces = frozenset(traces)
        config.args += map(str, traces)  # the files alone: other tests there are not asked for
    if (report := _path(config, "report")) and report.suffix == ".html":
        raise pytest.UsageError(f"--kv-report: {report} is where the page would go; name the JSON")
    if known := _path(config, "known"):
        from kvref.testing.options import load_known

        load_known(known)
    if any(_setting(config, name) for name in ("target", "traces", "report", "known")):
        _collect(state)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """The traces of --kv-traces, and no other file of that ending."""
    if (
        file_path.suffix != ".jsonl"
        or file_path.resolve() not in parent.config.stash[_STATE].traces
    ):
        return None
    from kvref.testing.items import TraceFile

    file: pytest.Collector = TraceFile.from_parent(parent, path=file_path)
    return file


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Of what was left out nothing can be said."""
    if items:
        items[0].config.stash[_STATE].deselected += len(items)


@pytest.fixture(scope="session")
def _kv_targets() -> dict[str, TargetFactory]:
    return {}


@pytest.fixture
def kv_target(
    request: pytest.FixtureRequest, _kv_targets: dict[str, TargetFactory]
) -> TargetFactory:
    """The factory of managers that --kv-target, or the marker of the test, names."""
    from kvref.registry import UnknownTarget, find

    marker = request.node.get_closest_marker("kv_target")
    name = _named(marker) if marker else _setting(request.config, "target")
    if not name:
        pytest.fail("kv_target: name one with --kv-target, or the marker kv_target", pytrace=False)
    if name not in _kv_targets:
        try:
            _kv_targets[name] = find(name)
        except UnknownTarget as error:
            pytest.fail(f"kv_target: {error}", pytrace=False)
    return _kv_targets[name]


def _named(marker: pytest.Mark) -> str:
    """The one argument of the marker, by its place or as `name`."""
    given = marker.args or (marker.kwargs.get("name"),)
    if len(marker.args) + len(marker.kwargs) != 1 or not isinstance(given[0], str):
        pytest.fail('kv_target: the marker takes one name, kv_target("NAME")', pytrace=False)
    return given[0]


# ------------------------------------------------------------------------------------ the run


def _collect(state: _State) -> None:
    from kvref.situations import collector

    state.collecting = True
    collector.start_session()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Collect as soon as something was imported that there can be something to collect of."""
    state = item.config.stash[_STATE]
    if not state.collecting and "kvref.situations.collector" in sys.modules:
        _collect(state)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A difference from the oracle is its own text: the frames are those of engines."""
    report = yield
    found = sys.modules.get("kvref.testing.found")
    if report.failed and found and call.excinfo and isinstance(call.excinfo.value, found.Found):
        error = call.excinfo.value
        report.longrepr = shown = call.excinfo.getrepr(style="value")
        for note in getattr(error, "__notes__", ()):
            if "@reproduce_failure" in note:  # the other notes are the program unshrunk
                shown.addsection("Hypothesis", note.strip())
        # An attribute like any other: it travels from a worker with the report.
        vars(report)["kvref"] = {"text": str(call.excinfo.value), "trace": str(error.trace or "")}
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember what a CI page has to show; with xdist these come from the workers."""
    if (found := getattr(report, "kvref", None)) and _CURRENT:
        state, (where, line, _) = _CURRENT[-1], report.location
        path = report.nodeid.partition("::")[0]
        # A test that was made elsewhere (a shard, a part of a campaign) has its line there.
        own = str((line or 0) + 1) if Path(where) == Path(path) else "1"
        base = os.environ.get("GITHUB_WORKSPACE") or state.root
        file = os.path.relpath(state.root / path, base)
        state.failures.append({"file": file, "line": own, "test": report.nodeid, **found})


_CURRENT: list[_State] = []  # a stack: a session may run inside a test of another one


def pytest_sessionstart(session: pytest.Session) -> None:
    """The reports of this one are the next to come."""
    _CURRENT.append(session.config.stash[_STATE])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """A worker of pytest-xdist ended: with what it collected, or without a word."""
    state = node.config.stash[_STATE]
    output = getattr(node, "workeroutput", None)
    if error or output is None:
        state.lost.append(str(node.gateway.id))
    elif "kvref" in output:
        state.received.append(output["kvref"])
        state.deselected = max(state.deselected, output["kvref"]["deselected"])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """As many workers as fit on the devices, where the session says what one takes."""
    needed = _worker_mib(config)
    if needed is None or os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    from kvref.testing.workers import fitting, free_memory, usable_cores

    free = free_memory()
    return fitting(usable_cores(), free, needed) if free else None


def _worker_mib(config: pytest.Config) -> int | None:
    needed = _setting(config, "worker-mib")
    if needed and not (needed.isdecimal() and int(needed) > 0):
        raise pytest.UsageError(f"--kv-worker-mib: {needed!r} is no number of MiB")
    return int(needed) if needed else None


# ------------------------------------------------------------------------------------ the end


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send what was collected, or judge it."""
    config = session.config
    state = config.stash[_STATE]
    if _CURRENT and _CURRENT[-1] is state:
        _CURRENT.pop()
    if state.collecting:
        from kvref.testing.verdict import collected

        state.received.append({**collected(), "deselected": state.deselected})
    if _is_worker(config):
        for sent in state.received:
            config.workeroutput["kvref"] = sent  # type: ignore[attr-defined]
        return
    if not state.received:
        return
    from kvref.testing.explaining import known_failures
    from kvref.testing.narrowing import narrowed
    from kvref.testing.verdict import judge, write_report

    why = narrowed(session, state.arguments, state.deselected)
    if state.failures and why is None:
        why = "it failed, and where a target fails a run ends"
    outcome = state.outcome = judge(state.received, why, state.lost, known_failures())
    if (report := _path(config, "report")) and not config.getoption("collectonly"):
        outcome.notes.append(write_report(report, outcome))
    if outcome.failed and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The table; and on GitHub Actions what its pages show."""
    state = config.stash.get(_STATE, None)
    if state is None or state.outcome is None:
        return
    lines = state.outcome.lines()
    if lines:
        terminalreporter.write_sep("=", "kvref: what this session exercised")
    for line, urgent in lines:
        terminalreporter.write_line(line, **({"red": True, "bold": True} if urgent else {}))
    if os.environ.get("GITHUB_ACTIONS") == "true":
        from kvref.testing.github import append_summary, commands

        for line in commands(state.failures, state.outcome):
            terminalreporter.write_line(line)
        append_summary(os.environ.get("GITHUB_STEP_SUMMARY"), state.failures, state.outcome)
