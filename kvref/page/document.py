"""Puts the page together: the template, its style and scripts, and the data.

What comes from a trace reaches the page in two ways only: escaped as text, or as JSON in which
no "<" is left, which the scripts show as text. And the page allows itself nothing: no address at
all, and no style or script but those whose hashes stand in its policy.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files

import msgspec

from kvref.page.model import OnePage
from kvref.page.text import cut
from kvref.page.text import plain as in_plain
from kvref.page.verdict import Difference, Verdict, in_step

__all__ = ["document"]

_SHORT_PROGRAM = 40
"""Lines of a program that is in sight at once."""


def document(
    data: OnePage,
    *,
    name: str,
    facts: Sequence[tuple[str, str]],
    verdict: Verdict,
    program: str,
    plain: str,
) -> str:
    """The page. `program` and `plain` are the run as Python, and its last step as text."""
    style = _file("page.css")
    script = f"{_file('draw.js')}\n{_file('page.js')}"
    state = "agrees" if verdict.difference is None else "differs"
    parts = {
        "policy": (
            f"default-src 'none'; script-src 'sha256-{_hash(script)}'; "
            f"style-src 'sha256-{_hash(style)}'; base-uri 'none'; form-action 'none'"
        ),
        "name": _text(cut(name, 200)),
        "style": style,
        "facts": "".join(f"<div><dt>{_text(k)}</dt><dd>{_text(v)}</dd></div>" for k, v in facts),
        "state": state,
        "verdict": _verdict(verdict),
        "program": _program(program),
        "plain": _text(plain),
        "data": _json(data),
        "script": script,
    }
    # In one pass: what was put in is not looked at again.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _file("page.html"))


def _verdict(verdict: Verdict) -> str:
    sentences = "".join(f"<p>{_text(sentence)}</p>" for sentence in verdict.sentences)
    difference = verdict.difference
    if difference is None:
        return f"<h2>{_text(verdict.title)}</h2>{sentences}"
    return (
        f'<h2><span class="word">Difference</span> {_text(verdict.title)}</h2>'
        f'<p class="law">The law: {_text(difference.law)}.</p>'
        f'<p class="call"><code>{_text(difference.call)}</code></p>'
        f'<div class="sides">{_sides(difference)}</div>'
        f"{sentences}"
    )


def _sides(difference: Difference) -> str:
    """Expected beside got; of two lists of slots, where they differ is marked."""
    expected, got = _text(difference.expected), _text(difference.got)
    ours, theirs = difference.expected_slots, difference.got_slots
    if ours is not None and theirs is not None:
        alike = in_step(ours, theirs)
        expected = _slots(ours, {i for i, _ in alike}, theirs, "got")
        got = _slots(theirs, {i for _, i in alike}, ours, "expected")
    return (
        '<div class="side"><h3>expected, by the oracle</h3>'
        f'<div class="said">{expected}</div></div>'
        '<div class="side got"><h3>got, from the target</h3>'
        f'<div class="said">{got}</div></div>'
    )


def _slots(slots: Sequence[int], alike: set[int], other: Sequence[int], there: str) -> str:
    def one(place: int, slot: int) -> str:
        if place in alike:
            return f"<li>{slot}</li>"
        sign = f"not {there}"
        if slot in other:
            sign = f"{there} {'earlier' if other.index(slot) < place else 'later'}"
        return f'<li class="differs">{slot} <span class="sign">{sign}</span></li>'

    listed = "".join(one(place, slot) for place, slot in enumerate(slots))
    return f'<p class="aside">slots</p><ol class="slots">{listed}</ol>' if slots else "no slots"


def _program(program: str) -> str:
    if not program:
        return ""
    opened = " open" if program.count("\n") <= _SHORT_PROGRAM else ""
    return (
        f"<details{opened}><summary>The program in Python, against the manager of kvgpu</summary>"
        f"<pre>{_text(program)}</pre></details>"
    )


def _text(text: str) -> str:
    return escape(in_plain(text))


def _json(data: OnePage) -> str:
    """JSON that ends no script element and begins no comment, whatever is in it."""
    # In UTF-8 already: the texts in it went through `plain`.
    return msgspec.json.encode(data).decode().replace("<", "\\u003c").replace("&", "\\u0026")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _file(name: str) -> str:
    return (files("kvref.page") / name).read_text(encoding="utf-8")
