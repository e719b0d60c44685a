"""One self-contained HTML page of results: pictures inline, plain CSS, no scripts, no links out."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from itertools import groupby

from reproduce.archive import Entry, origin_line
from reproduce.plain import number
from reproduce.results import Figure, Goal, Picture, Row, Table

STYLE = """
body { font: 16px/1.5 Georgia, serif; color: #222; background: #fdfcf9; max-width: 62rem;
       margin: 2rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin-bottom: .3rem; }
h2 { font-size: 1.35rem; margin-top: 3.2rem; border-top: 1px solid #ccc; padding-top: 1rem; }
h3 { font-size: 1.05rem; margin-bottom: .2rem; }
p.origin, p.about, figcaption { color: #666; font-size: .88rem; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; font: .84rem/1.35 system-ui, sans-serif; margin: .6rem 0; }
th { text-align: right; padding: .2rem .7rem; border-bottom: 2px solid #888; }
td { text-align: right; padding: .15rem .7rem; border-bottom: 1px solid #eee; white-space: nowrap;
     font-variant-numeric: tabular-nums; vertical-align: top; }
td.name, th.name { text-align: left; }
tr.group td { font-weight: bold; text-align: left; padding-top: .7rem;
              border-bottom: 1px solid #bbb; }
small { color: #777; display: block; font-size: .78em; }
td.beyond { background: #fbe3dc; }
td.beyond small { color: #a33; }
td.agrees { background: #e9f4e6; }
li.met::marker { content: "\\2713\\00a0"; color: #2f7d32; }
li.missed::marker { content: "\\2717\\00a0"; color: #b03a2e; }
li.missed { color: #8e2a1f; }
figure { margin: 1.2rem 0; }
img { max-width: 100%; height: auto; border: 1px solid #e5e2da; background: white; }
.key span { padding: 0 .4rem; }
nav ul { columns: 2; font-size: .92rem; }
"""
LEAD = """Five papers on sparse online learning print tables and pictures. Here they are again, made
by streamlearn itself: the engine and the settings that a user has. Each cell has our mean, below it
what the paper prints and how far we are from that."""
KEY = """<p class="key">A cell is <span style="background:#e9f4e6">green</span> where ours and the
printed figure agree within two standard errors plus the rounding of the printed digits,
<span style="background:#fbe3dc">red</span> where they do not, and plain where nothing was printed.
What does not repeat is told below each table, with what was tried.</p>"""


def page(entries: Sequence[Entry], missing: Sequence[str] = ()) -> str:
    """The whole page."""
    goals = [g for e in entries for g in e.result.goals]
    compared = [f for e in entries for t in e.result.tables for r in t.rows
                for f in r.figures.values() if f.printed is not None]  # fmt: skip
    agree = sum(not f.beyond for f in compared)
    parts = [
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>The papers, repeated</title><style>{STYLE}</style></head><body>",
        f"<h1>The papers, repeated</h1><p>{LEAD}</p>",
        f"<p><b>{agree} of {len(compared)}</b> printed figures agree with ours; "
        f"<b>{sum(g.met for g in goals)} of {len(goals)}</b> goals are reached.</p>{KEY}",
        "<nav><ul>",
        *(f"<li><a href='#{e.name}'>{escape(e.title)}</a></li>" for e in entries),
        "</ul></nav>",
        *(section(e) for e in entries),
    ]
    if missing:
        parts.append("<h2>Not here</h2><ul>")
        parts += [f"<li>{escape(text)}</li>" for text in missing]
        parts.append("</ul>")
    return "\n".join([*parts, "</body></html>"]) + "\n"


def section(entry: Entry) -> str:
    result = entry.result
    parts = [
        f"<section id='{entry.name}'><h2>{escape(entry.title)}</h2>",
        f"<p class='origin'>{escape(entry.name)}: {escape(origin_line(entry.origin))}</p>",
    ]
    if result.goals:
        parts += ["<ul>", *map(goal, result.goals), "</ul>"]
    parts += map(picture, result.pictures)
    parts += map(table, result.tables)
    if result.notes:
        parts += ["<h3>What to know</h3><ul>"]
        parts += [f"<li>{escape(note)}</li>" for note in result.notes]
        parts.append("</ul>")
    return "\n".join([*parts, "</section>"])


def goal(found: Goal) -> str:
    kind = "met" if found.met else "missed"
    state = "" if found.met else "not reached: "
    return f"<li class='{kind}'>{escape(found.text)}: {state}{escape(found.found)}</li>"


def picture(shown: Picture) -> str:
    data = base64.b64encode(shown.png).decode()
    caption = escape(shown.caption)
    return (
        f"<figure><img alt='{caption}' src='data:image/png;base64,{data}'>"
        f"<figcaption>{caption}</figcaption></figure>"
    )


def table(shown: Table) -> str:
    trials = sorted({f.trials for row in shown.rows for f in row.figures.values()})
    counted = f"Trials: {', '.join(map(str, trials))}."
    parts = [
        f"<h3>{escape(shown.title)}</h3><p class='about'>{escape(shown.about)} {counted}</p>",
        "<div class='wide'><table><tr><th class='name'></th>",
        *(f"<th>{escape(column)}</th>" for column in shown.columns),
        "</tr>",
    ]
    for group, rows in groupby(shown.rows, key=lambda row: row.group):
        if group:
            span = len(shown.columns) + 1
            parts.append(f"<tr class='group'><td colspan='{span}'>{escape(group)}</td></tr>")
        parts += [line(row, shown.columns) for row in rows]
    return "\n".join([*parts, "</table></div>"])


def line(row: Row, columns: Sequence[str]) -> str:
    cells = "".join(cell(row.figures.get(column)) for column in columns)
    return f"<tr><td class='name'>{escape(row.name)}</td>{cells}</tr>"


def cell(figure: Figure | None) -> str:
    if figure is None:
        return "<td></td>"
    error = f"standard error {figure.error:.2g}, {figure.trials} trials"
    ours = number(figure.mean, figure)
    if figure.printed is None or figure.difference is None:
        return f"<td title='{error}'>{ours}</td>"
    kind = "beyond" if figure.beyond else "agrees"
    off = number(abs(figure.difference), figure)
    sign = "+" if figure.difference >= 0.0 else "&minus;"
    return (
        f"<td class='{kind}' title='{error}'>{ours}"
        f"<small>{escape(figure.printed)} printed, {sign}{off}</small></td>"
    )
