"""Draws curves, images and clouds of points as PNG, the same colour for a method everywhere."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

DPI = 90
PALETTE = 64
COLOURS = {
    "FOBOS": "#9a9a9a",
    "alpha-SGD": "#d1a000",
    "ORDA": "#8c564b",
    "RDA": "#7b5ea7",
    "LastSL": "#4aa3c7",
    "OptimalSL": "#2f7d32",
    "AverageSL": "#c0392b",
    "averagesl, our defaults": "#e67e73",
    "adaptivesl": "#1f3a93",
}
MARKS = "os^Dv<>Phx"


@dataclass
class Panel:
    """One pair of axes with a curve for each name."""

    title: str
    x: Sequence[float]
    curves: dict[str, Sequence[float]]
    y_label: str = ""
    x_label: str = "examples"
    log_x: bool = True
    log_y: bool = False
    limits: tuple[float, float] | None = field(default=None)


def axes(rows: int, columns: int, width: float, height: float) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, grid = pyplot.subplots(
        rows, columns, figsize=(width * columns, height * rows), squeeze=False
    )
    return figure, grid


def png(figure: Any) -> bytes:
    """The figure's bytes: few colours are enough for lines, and make small files."""
    from matplotlib import pyplot
    from PIL import Image

    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, dpi=DPI, format="png")
    pyplot.close(figure)
    # No date or version in the file: the same figures give the same bytes.
    Image.open(drawn).convert("RGB").quantize(PALETTE).save(small, "png", optimize=True)
    return small.getvalue()


def colour(name: str, number: int) -> str:
    spare = ("#17a589", "#b9770e", "#5d6d7e", "#a04000", "#6c3483", "#117a65")
    return COLOURS.get(name, spare[number % len(spare)])


def curves(panels: Sequence[Panel], columns: int = 2) -> bytes:
    """Panels side by side with one legend below."""
    rows = -(-len(panels) // columns)
    figure, grid = axes(rows, columns, 4.4, 3.1)
    handles: dict[str, Any] = {}
    for axis in grid.flat[len(panels) :]:
        axis.set_visible(False)
    for axis, panel in zip(grid.flat, panels, strict=False):
        for number, (name, values) in enumerate(panel.curves.items()):
            (line,) = axis.plot(
                panel.x,
                values,
                label=name,
                color=colour(name, number),
                marker=MARKS[number % len(MARKS)],
                markersize=3.5,
                linewidth=1.3,
            )
            handles.setdefault(name, line)
        if panel.log_x:
            axis.set_xscale("log")
        if panel.log_y:
            axis.set_yscale("log")
        if panel.limits:
            axis.set_ylim(*panel.limits)
        axis.set_title(panel.title, fontsize=10)
        axis.set_xlabel(panel.x_label, fontsize=9)
        axis.set_ylabel(panel.y_label, fontsize=9)
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.25)
    # room for the legend: a line of it for every five names
    lines = -(-len(handles) // 5)
    figure.tight_layout(rect=(0, 0.09 * lines / rows, 1, 1))
    figure.legend(
        handles.values(), handles.keys(), loc="lower center", ncols=5, fontsize=8, frameon=False
    )
    return png(figure)


def paths(
    lines: dict[str, tuple[Sequence[float], Sequence[float]]],
    x_label: str,
    y_label: str,
    title: str = "",
    log_x: bool = True,
) -> bytes:
    """One pair of axes; every name has its own points, joined in their order."""
    figure, grid = axes(1, 1, 6.4, 4.6)
    axis = grid[0, 0]
    for number, (name, (x, y)) in enumerate(lines.items()):
        axis.plot(
            x,
            y,
            label=name,
            color=colour(name, number),
            marker=MARKS[number % len(MARKS)],
            markersize=4.5,
            linewidth=1.3,
        )
    if log_x:
        axis.set_xscale("log")
    axis.set_xlabel(x_label, fontsize=9)
    axis.set_ylabel(y_label, fontsize=9)
    axis.set_title(title, fontsize=10)
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.25)
    figure.tight_layout(rect=(0, 0.14, 1, 1))
    figure.legend(loc="lower center", ncols=4, fontsize=8, frameon=False)
    return png(figure)


def images(
    grid: Sequence[Sequence[np.ndarray]], rows: Sequence[str], columns: Sequence[str]
) -> bytes:
    """Weights as pictures: negative grey, positive white, zero black."""
    figure, cells = axes(len(grid), len(grid[0]), 1.05, 1.1)
    for i, line in enumerate(grid):
        for j, weight in enumerate(line):
            shade = np.where(weight > 0.0, 255, np.where(weight < 0.0, 128, 0)).astype(np.uint8)
            cell = cells[i, j]
            cell.imshow(shade, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            cell.set_xticks([])
            cell.set_yticks([])
            if i == 0:
                cell.set_title(columns[j], fontsize=7)
            if j == 0:
                cell.set_ylabel(rows[i], fontsize=7)
    figure.tight_layout(pad=0.4)
    return png(figure)
