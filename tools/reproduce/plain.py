"""A result as plain text: ours, printed, difference, mark. Writes no files."""

from __future__ import annotations

import math
import textwrap

from reproduce.results import Figure, Result, Table

WIDTH = 100
MARK = "*"


def number(value: float, like: Figure) -> str:
    """With enough digits: one more than printed, or down to the standard error."""
    if not math.isfinite(value):
        return str(value)
    if like.printed is not None and "e" in like.printed.lower():
        return f"{value:.1e}"
    if like.printed is None and value and abs(value) < 1e-3:
        return f"{value:.1e}"
    digits = 3 if abs(value) < 100.0 else 0
    if like.printed is not None:
        digits = len(like.printed.partition(".")[2]) + 1
    if like.error > 0.0:
        digits = max(digits, min(5, -math.floor(math.log10(like.error))))
    return f"{value:,.{digits}f}"


def cell(figure: Figure | None) -> str:
    """Ours, and in brackets the printed one, with a mark where they differ too much."""
    if figure is None:
        return ""
    text = number(figure.mean, figure)
    if figure.printed is not None:
        text += f" ({figure.printed}){MARK if figure.beyond else ' '}"
    return text


def table_text(table: Table) -> str:
    heads = ["", "", *table.columns]
    lines = [heads]
    group = None
    for row in table.rows:
        shown = row.group if row.group != group else ""
        group = row.group
        lines.append([shown, row.name, *(cell(row.figures.get(c)) for c in table.columns)])
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    rows = [
        "  ".join(
            word.ljust(width) if i < 2 else word.rjust(width)
            for i, (word, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    trials = sorted({f.trials for row in table.rows for f in row.figures.values()})
    counted = f"Trials: {', '.join(map(str, trials))}."
    about = textwrap.fill(f"{table.about} {counted}".strip(), WIDTH)
    return "\n".join([table.title, about, "", *rows])


def in_text(title: str, origin: str, result: Result) -> str:
    """The whole result."""
    parts = [f"{title}\n{origin}"]
    parts += [table_text(t) for t in result.tables]
    if any(f.printed for t in result.tables for r in t.rows for f in r.figures.values()):
        parts.append(
            "In brackets what the paper prints; * where ours differs by more than two standard\n"
            "errors and the rounding of the printed digits explain."
        )
    if result.goals:
        parts.append(
            "\n".join(
                f"[{'reached' if g.met else 'NOT REACHED'}] {g.text}: {g.found}"
                for g in result.goals
            )
        )
    if result.notes:
        parts.append(
            "\n".join(
                textwrap.fill(n, WIDTH, initial_indent="- ", subsequent_indent="  ")
                for n in result.notes
            )
        )
    if result.pictures:
        parts.append("\n".join(f"{p.name}.png: {p.caption}" for p in result.pictures))
    return "\n\n".join(parts) + "\n"
