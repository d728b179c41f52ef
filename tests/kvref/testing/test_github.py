"""What GitHub is told: commands whose text cannot end them, Markdown that shows what was said."""

from __future__ import annotations

from kvref.promises import Promises
from kvref.situations.tally import ManagerTally
from kvref.situations.view import view
from kvref.testing.github import append_summary, commands, summary
from kvref.testing.verdict import Outcome

FAILURE = {
    "file": "tests/a,b:c.py", "line": "7", "test": "test_it[a|b]",
    "text": "100% wrong\n::error::no\n```\ncode", "trace": "kvref-failures/a_b.jsonl",
}  # fmt: skip


def outcome(name: str = "mine|<b>", **options) -> Outcome:
    tally = ManagerTally(target=name, promises=Promises(), versions={})
    return Outcome(views=[view(tally)], **options)


def test_a_failure_is_one_command_on_one_line():
    (line, *_) = commands([FAILURE], outcome())
    assert line == (
        "::error file=tests/a%2Cb%3Ac.py,line=7,title=kvref%3A test_it[a|b]"
        "::100%25 wrong%0A::error::no%0A```%0Acode"
    )


def test_what_was_never_met_is_one_too():
    *_, line = commands([], outcome())
    assert line.startswith("::error title=kvref%3A never met::required and never met by mine|<b> (")
    assert "match-misses" in line


def test_of_a_part_of_a_suite_nothing_is_annotated():
    assert commands([], outcome(narrowed="-k was given")) == []


def test_the_summary_shows_text_as_text():
    page = summary([FAILURE], outcome())
    assert "| mine\\|&lt;b&gt; | manager | 0 | 0 of " in page
    assert "### test\\_it\\[a\\|b\\]\n" in page
    assert "\n````\n100% wrong\n::error::no\n```\ncode\n````\n" in page
    assert "Trace: kvref-failures/a\\_b.jsonl" in page


def test_it_is_appended_where_there_is_something_to_say(tmp_path):
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    append_summary(str(path), [], Outcome())
    assert path.read_text() == "before\n"
    append_summary(str(path), [FAILURE], Outcome())
    assert path.read_text().startswith("before\n## kvref\n")
    append_summary(str(tmp_path / "none" / "summary.md"), [FAILURE], Outcome())
    append_summary(None, [FAILURE], Outcome())
