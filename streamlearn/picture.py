"""The picture of a comparison: test loss against non-zeros, a curve for each learner.

Needs matplotlib (extra `plot`), which is imported only here and only when a picture is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from streamlearn.errors import UsageError

INCHES, DPI = (12, 8), 100  # 1200 x 800
MARKERS = "osD^vP*X<>"  # one for each choice of settings; the colour tells the algorithm
# A learner that is off by more than this factor leaves the picture at the top; nothing could be
# told from it else.
WORST = 10.0


@dataclass(frozen=True)
class Curve:
    """Snapshots of one learner, in the order in which they were taken."""

    algo: str
    name: str
    points: Sequence[tuple[int, int, float]]  # examples, non-zeros, test loss


def check(path: str) -> None:
    """Refuse before anything is learned: matplotlib is missing, or cannot write such a file."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(
            "--plot needs matplotlib; install the extra: pip install 'streamlearn[plot]'"
        ) from error
    known = Figure().canvas.get_supported_filetypes()
    if kind_of(path) not in known:
        raise UsageError(f"--plot {path}: cannot draw a .{kind_of(path)}; known: "
                         f"{', '.join(sorted(known))}")


def kind_of(path: str) -> str:
    """The kind of picture that a name asks for; png when it does not say."""
    return Path(path).suffix.lower().removeprefix(".") or "png"


def draw(curves: Sequence[Curve], kind: str = "png", measure: str = "test loss") -> bytes:
    """The bytes of the picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=INCHES, dpi=DPI, layout="tight")
    axes = figure.add_subplot()
    for place, (curve, style) in enumerate(zip(curves, styles(curves), strict=True)):
        xs = [nonzeros for _, nonzeros, _ in curve.points]
        ys = [loss for _, _, loss in curve.points]
        # Later ones are thinner: a learner that does the same as one before does not hide it.
        size = 1.0 - 0.5 * place / len(curves)
        axes.plot(xs, ys, linewidth=3.0 * size, alpha=0.75, markersize=6.0 * size, **style)
        axes.plot(xs[-1:], ys[-1:], markersize=15.0 * size, markeredgecolor="black",
                  label=curve.name, zorder=3, **style)
    scale_nonzeros(axes, curves)
    scale_losses(axes, curves)
    axes.grid(True, which="major", alpha=0.4)
    axes.grid(True, which="minor", alpha=0.12)
    axes.set_xlabel("non-zeros", fontsize=14)
    axes.set_ylabel(measure, fontsize=14)
    axes.tick_params(which="both", labelsize=12)
    axes.set_title(heading(curves), fontsize=13)
    if curves:
        axes.legend(fontsize=12 if len(curves) <= 16 else 9, loc="upper left",
                    bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)
    out = BytesIO()
    figure.savefig(out, format=kind)
    return out.getvalue()


def styles(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    """A colour for each algorithm, a marker and a kind of line for each of its settings."""
    import matplotlib

    algos = list(dict.fromkeys(curve.algo for curve in curves))
    colours = 10 if len(algos) <= 10 else 20
    palette = matplotlib.colormaps[f"tab{colours}"]
    met = dict.fromkeys(algos, 0)
    found = []
    for curve in curves:
        place, sibling = algos.index(curve.algo), met[curve.algo]
        met[curve.algo] += 1
        found.append({
            "color": palette(place % colours),
            "marker": MARKERS[(sibling + place // colours) % len(MARKERS)],
            "linestyle": ("-", "--", "-.", ":")[sibling % 4],
        })
    return found


def scale_nonzeros(axes: Any, curves: Sequence[Curve]) -> None:
    """A logarithm, with a place for 0 where there is one."""
    counts = [nonzeros for curve in curves for _, nonzeros, _ in curve.points]
    low, high = min(counts, default=1), max(counts, default=1)
    room = max((high / max(low, 1)) ** 0.04, 1.02)
    if low == 0:
        axes.set_xscale("symlog", linthresh=1)
        plain_ticks(axes.xaxis, [0.0, *ticks(1.0, high * room)], ",.0f")
    else:
        axes.set_xscale("log")
        axes.set_xlim(low / room, high * room)
        plain_ticks(axes.xaxis, ticks(low / room, high * room), ",.0f")


def scale_losses(axes: Any, curves: Sequence[Curve]) -> None:
    """The losses worth showing; a logarithm where they are far apart."""
    losses = [loss for curve in curves for _, _, loss in curve.points if math.isfinite(loss)]
    low, high = min(losses, default=0.0), max(losses, default=0.0)
    if low > 0.0:
        high = min(high, WORST * low)
    room = 0.05 * (high - low)
    if high > 3.0 * low > 0.0:
        axes.set_yscale("log")
        axes.set_ylim(low / 1.05, high * 1.05)
        plain_ticks(axes.yaxis, ticks(low / 1.05, high * 1.05), "g")
    elif room > 0.0:
        axes.set_ylim(low - room, high + room)


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from low to high on a logarithm: the fewer decades, the more in each."""
    if not 0.0 < low <= high < math.inf:
        return []
    span = math.log10(high / low)
    steps = (1, 2, 3, 4, 5, 6, 8) if span < 1.0 else (1, 2, 5) if span < 3.0 else (1,)
    decades = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    return [n * 10.0**k for k in decades for n in steps if low <= n * 10.0**k <= high]


def plain_ticks(axis: Any, places: Sequence[float], form: str) -> None:
    """1,000 and 0.3 instead of powers of ten."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

    axis.set_major_locator(FixedLocator(places))
    axis.set_major_formatter(FuncFormatter(lambda value, _: format(value, form)))
    axis.set_minor_formatter(NullFormatter())


def heading(curves: Sequence[Curve]) -> str:
    """What the points are."""
    counts = sorted({examples for curve in curves for examples, _, _ in curve.points})
    if len(counts) < 3:
        return f"after {counts[-1]:,d} examples" if counts else "no examples"
    return (f"snapshots after {counts[0]:,d}, {counts[1]:,d}, ... {counts[-1]:,d} examples; "
            "the large marker is the end")
