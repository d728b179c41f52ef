"""The report as one HTML page that needs nothing else: no network, no script."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from html import escape
from importlib.resources import files
from itertools import groupby

from kvref.situations.registry import PAGE_SIZES, POLICIES, SHAPES
from kvref.situations.tally import Tally
from kvref.situations.view import Changes, LawRow, SituationRow, View
from kvref.situations.witnesses import WITNESSES

__all__ = ["page"]

_MARKS = (*PAGE_SIZES, *POLICIES, *SHAPES)


def page(views: Iterable[View]) -> str:
    """The whole page. Everything that came from a file is escaped."""
    style = files("kvref.situations").joinpath("page.css").read_text(encoding="utf-8")
    body = "\n".join(_section(view) for view in views)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        "<title>kvref: what the run exercised</title>\n"
        f"<style>\n{style}</style>\n</head>\n<body>\n{body}\n"
        "<footer>Counts are of the oracle's side. Bars and shades grow with the logarithm of a "
        "count. Situations and laws are explained in kvref's docs/situations.md.</footer>\n"
        "</body>\n</html>\n"
    )


def _section(view: View) -> str:
    tally = view.tally
    versions = "; ".join(f"{name} {', '.join(found)}" for name, found in tally.versions.items())
    return "\n".join(
        (
            "<main>",
            f"<h1>What the run exercised {escape(tally.target)}, {tally.machine}</h1>",
            f"<p class=about>{_size(tally)}; {escape(versions)}</p>",
            _tiles(view),
            _missed(view),
            _changed(view.changes),
            _laws(view.laws),
            _situations(view),
            _unknown(view.unknown),
            "</main>",
        )
    )


def _size(tally: Tally) -> str:
    return f"{tally.runs:,} runs, {tally.operations:,} operations"


def _tiles(view: View) -> str:
    tally = view.tally
    counted = sum(row.status == "counted" for row in view.laws)
    accepted = sum(tally.accepted.values())
    share = f"{accepted / tally.operations:.0%}" if tally.operations else "none"
    tiles = (
        (f"{view.count('met')}", f"of {len(view.situations)} situations met"),
        (f"{len(view.missed)}", "required and never met"),
        (f"{view.count('ruled out')}", "ruled out by its promises"),
        (f"{counted}", f"of {len(view.laws)} laws judged with something at stake"),
        (share, "of the operations were accepted"),
    )
    cells = "".join(f"<li><b>{number}</b> {escape(words)}</li>" for number, words in tiles)
    return f"<ul class=tiles>{cells}</ul>"


def _missed(view: View) -> str:
    if not view.missed:
        return '<p class="verdict good">Every situation that has to be met was met.</p>'
    return f'<p class="verdict bad">Never met, and required: {_names(view.missed)}</p>'


def _changed(changes: Changes | None) -> str:
    if changes is None:
        return ""
    words = {
        "no_longer_met": "no longer met", "newly_met": "newly met",
        "laws_lost": "laws with nothing at stake any more",
        "laws_gained": "laws with something at stake now",
        "rarer": "a quarter as often, or less", "more_often": "four times as often, or more",
    }  # fmt: skip
    rows = "".join(
        f"<dt>{what}</dt><dd>{_names(getattr(changes, name))}</dd>"
        for name, what in words.items()
        if getattr(changes, name)
    )
    found = f"<dl>{rows}</dl>" if rows else "<p>Nothing that is worth a word.</p>"
    return f"<h2>Since the baseline</h2>\n{found}"


def _laws(rows: list[LawRow]) -> str:
    most = max((row.tally.judged for row in rows), default=0)
    lines = []
    for row in rows:
        when = f"counts when {row.counts_when}" if row.counts_when else "each judgement counts"
        note = f"<em>{escape(row.why)}</em>" if row.why else ""
        lines.append(
            f'<tr class="{row.status.replace(" ", "-")}"><th scope=row>'
            f"<code>{escape(row.id)}</code>"
            f"<small>{escape(row.sentence)}</small></th>"
            f"<td class=number>{row.tally.judged:,}</td><td class=number>{row.tally.counted:,}</td>"
            f"<td class=bars>{_bar(row.tally.judged, most, 'all')}"
            f"{_bar(row.tally.counted, most, 'some')}</td>"
            f"<td><small>{escape(when)}</small>{note}</td></tr>"
        )
    return (
        "<h2>Laws</h2>\n<div class=wide><table class=laws><thead><tr><th>law</th>"
        "<th class=number>judged</th><th class=number>at stake</th><th class=bars></th>"
        "<th></th></tr></thead>\n<tbody>" + "\n".join(lines) + "</tbody></table></div>"
    )


def _situations(view: View) -> str:
    most = max((row.tally.met for row in view.situations), default=0)
    columns = (*view.kinds, *_MARKS)
    heads = "".join(f"<th class=slant><span>{escape(name)}</span></th>" for name in columns)
    parts = [
        "<h2>Situations</h2>\n<div class=wide><table class=situations>",
        "<thead><tr><th>situation</th><th class=number>met</th><th class=bars></th>",
        f"<th>first by</th>{heads}</tr></thead>",
    ]
    for group, rows in groupby(view.situations, key=lambda row: row.group):
        width = 4 + len(columns)
        parts.append(f"<tbody><tr class=group><th colspan={width}>{escape(group)}</th></tr>")
        parts += [_situation(row, view.kinds, most) for row in rows]
        parts.append("</tbody>")
    return "\n".join((*parts, "</table></div>"))


def _situation(row: SituationRow, kinds: list[str], most: int) -> str:
    tally = row.tally
    marks: Mapping[str, int] = {**tally.page_sizes, **tally.policies, **tally.shapes}
    cells = "".join(
        [_heat(name, tally.operations.get(name, 0), most) for name in kinds]
        + [_heat(name, marks.get(name, 0), most, "mark") for name in _MARKS]
    )
    witness = WITNESSES.get(row.id)
    example = ""
    if witness is not None:
        example = f"<pre>{escape(witness.steps())}</pre>"
    state = row.reason or row.status
    met = f"{tally.met:,}" if tally.met else f"<em>{escape(state)}</em>"
    return (
        f'<tr class="{row.status.replace(" ", "-")}"><th scope=row><details><summary>'
        f"<code>{escape(row.id)}</code><small>{escape(row.sentence)}</small></summary>"
        f"<p>{escape(row.why)}</p>{example}</details></th>"
        f"<td class=number>{met}</td><td class=bars>{_bar(tally.met, most, 'all')}</td>"
        f"<td>{escape(tally.first)}</td>{cells}</tr>"
    )


def _unknown(names: list[str]) -> str:
    if not names:
        return ""
    return f"<p class=about>In the files, and not known to this version: {_names(names)}</p>"


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"<code>{escape(name)}</code>" for name in names)


def _share(count: int, most: int) -> float:
    """From 0 to 1 with the logarithm: what was met once can be seen beside a million."""
    return math.log1p(count) / math.log1p(most) if most else 0.0


def _bar(count: int, most: int, kind: str) -> str:
    return f'<i class={kind} style="width:{100 * _share(count, most):.1f}%"></i>'


def _heat(name: str, count: int, most: int, kind: str = "heat") -> str:
    title = f"{escape(name)}: {count:,}"
    if count == 0:
        return f'<td class="{kind} zero" title="{title}"></td>'
    shade = 0.12 + 0.88 * _share(count, most)
    return f'<td class={kind} style="--shade:{shade:.2f}" title="{title}">{_short(count)}</td>'


def _short(count: int) -> str:
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return (
                f"{count / size:.0f}{letter}"
                if count >= 10 * size
                else f"{count / size:.1f}{letter}"
            )
    return str(count)
