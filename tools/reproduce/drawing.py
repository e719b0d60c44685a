"""Pictures for rda, smidas and stable: each curve has its own x; bars show spreads. No learner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reproduce.pictures import axes, png

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777", "#222222")


@dataclass(frozen=True)
class Curve:
    """Points in the order they are joined; spreads are half the lengths of error bars."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    x_spread: Sequence[float] | None = None
    y_spread: Sequence[float] | None = None
    style: str = "-"
    colour: int | None = None  # None: by its place among the curves
    wide: float = 1.4


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    curves: Sequence[Curve]
    x: str
    y: str
    log_x: bool = False
    log_y: bool = False
    level: float | None = None  # a line across, such as an optimum
    y_range: tuple[float, float] | None = None


def panels(rows: Sequence[Sequence[Panel]], size: tuple[float, float] = (4.2, 3.0)) -> bytes:
    """Panels in rows, one legend for all of them."""
    height, width = len(rows), max(map(len, rows))
    figure, grid = axes(height, width, *size)
    named: dict[str, Any] = {}
    for row, found in zip(rows, grid, strict=True):
        for axis in found[len(row) :]:
            axis.set_axis_off()
        for panel, axis in zip(row, found, strict=False):
            for name, handle in draw(panel, axis).items():
                named.setdefault(name, handle)
    if named:
        figure.legend(
            list(named.values()), list(named), loc="lower center", ncols=min(len(named), 5),
            fontsize=8, frameon=False,
        )  # fmt: skip
    below = 0.32 * -(-len(named) // 5) / (size[1] * height)
    figure.tight_layout(rect=(0.0, below, 1.0, 1.0))
    return png(figure)


def draw(panel: Panel, axis: Any) -> dict[str, Any]:
    """The curves of a panel; returns what the legend shows."""
    shown = {}
    for number, curve in enumerate(panel.curves):
        colour = COLOURS[(number if curve.colour is None else curve.colour) % len(COLOURS)]
        if curve.x_spread is None and curve.y_spread is None:
            (handle,) = axis.plot(curve.x, curve.y, curve.style, color=colour, lw=curve.wide, ms=3)
        else:
            handle = axis.errorbar(
                curve.x, curve.y, xerr=curve.x_spread, yerr=curve.y_spread, fmt=curve.style,
                color=colour, lw=curve.wide, ms=3, elinewidth=0.8, capsize=2,
            )  # fmt: skip
        shown[curve.name] = handle
    if panel.level is not None:
        axis.axhline(panel.level, color="black", lw=0.8, ls=":")
    if panel.log_x:
        axis.set_xscale("log")
    if panel.log_y and any(value > 0.0 for curve in panel.curves for value in curve.y):
        axis.set_yscale("log")
    if panel.y_range is not None:
        axis.set_ylim(*panel.y_range)
    axis.set_title(panel.title, fontsize=9)
    axis.set_xlabel(panel.x, fontsize=8)
    axis.set_ylabel(panel.y, fontsize=8)
    axis.tick_params(labelsize=7)
    return shown


def patterns(
    images: Mapping[tuple[str, str], np.ndarray], rows: Sequence[str], columns: Sequence[str]
) -> bytes:
    """Signs of weights, 28 by 28 pixels each: black is negative, white positive, grey zero."""
    figure, grid = axes(len(rows), len(columns), 1.1, 0.9)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            axis = grid[i][j]
            axis.set_xticks([])
            axis.set_yticks([])
            axis.imshow(images[row, column], cmap="gray", vmin=-1, vmax=1, interpolation="nearest")
            if i == 0:
                axis.set_title(column, fontsize=8)
            if j == 0:
                axis.set_ylabel(row, fontsize=8, rotation=0, ha="right", va="center")
    figure.subplots_adjust(0.24, 0.01, 0.995, 0.95, 0.04, 0.04)
    return png(figure)


def triangle(images: Mapping[tuple[int, int], np.ndarray], texts: Mapping[tuple[int, int], str],
             count: int) -> bytes:  # fmt: skip
    """Pairs below the diagonal as images, above it as text; the numbers stand on the diagonal."""
    figure, grid = axes(count, count, 0.8, 0.8)
    for i in range(count):
        for j in range(count):
            axis = grid[i][j]
            axis.set_xticks([])
            axis.set_yticks([])
            if i > j:
                axis.imshow(images[j, i], cmap="gray", vmin=-1, vmax=1, interpolation="nearest")
                continue
            text, size = (str(i), 24) if i == j else (texts[i, j], 6.5)
            axis.text(0.5, 0.5, text, fontsize=size, ha="center", va="center")
    figure.subplots_adjust(0.005, 0.005, 0.995, 0.995, 0.04, 0.04)
    return png(figure)
