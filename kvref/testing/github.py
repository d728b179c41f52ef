"""What the pages of GitHub Actions show: annotations, and a summary of the job in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from kvref.situations.view import View
from kvref.testing.verdict import Outcome

__all__ = ["append_summary", "commands", "summary"]

Failure = dict[str, str]
"""A failed test: file, line, test, text, trace."""


def commands(failures: Sequence[Failure], outcome: Outcome) -> list[str]:
    """A workflow command for each failure, and for what was required and never met."""
    found = [
        f"::error file={_value(each['file'])},line={_value(each['line'])},"
        f"title={_value('kvref: ' + each['test'])}::{_message(each['text'])}"
        for each in failures
    ]
    for shown, missing in outcome.missed:
        about = f"{shown.tally.target} ({shown.tally.machine})"
        text = f"required and never met by {about}: {', '.join(missing)}"
        found.append(f"::error title={_value('kvref: never met')}::{_message(text)}")
    return found


def summary(failures: Sequence[Failure], outcome: Outcome) -> str:
    """The job summary. Nothing in it is read as Markdown or HTML but what is written here."""
    lines = ["## kvref", ""]
    if outcome.views:
        lines += ["| target | machine | operations | situations met | never met |"]
        lines += ["| --- | --- | ---: | ---: | --- |"]
        lines += [_row(each) for each in outcome.views]
        lines.append("")
    for urgent in (line for line, is_urgent in outcome.lines() if is_urgent):
        lines.append(f"- {_text(urgent.strip())}")
    if outcome.narrowed:
        lines.append(f"Not a whole session: {_text(outcome.narrowed)}.")
    for each in failures:
        fence = _fence(each["text"])
        lines += ["", f"### {_text(each['test'])}", "", fence, each["text"], fence]
        if each["trace"]:
            lines += ["", f"Trace: {_text(each['trace'])}"]
    return "\n".join(lines) + "\n"


def append_summary(path: str | None, failures: Sequence[Failure], outcome: Outcome) -> None:
    """Append it to the file that GitHub names; a full disk fails no tests."""
    if not path or not (outcome.views or failures):
        return
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(summary(failures, outcome))
    except OSError:
        return


def _row(shown: View) -> str:
    tally = shown.tally
    possible = len(shown.situations) - shown.count("ruled out")
    return _joined(
        (
            tally.target, tally.machine, f"{tally.operations:,}",
            f"{shown.count('met')} of {possible}", ", ".join(shown.missed),
        )
    )  # fmt: skip


def _joined(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(_text, cells))} |"


def _text(text: str) -> str:
    """As text in Markdown, and in a cell of a table."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*_{}\[\]#|~!])", r"\\\1", text)
    return " ".join(text.split())


def _fence(text: str) -> str:
    """Longer than any run of backticks in the text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(3, longest + 1)


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _value(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
