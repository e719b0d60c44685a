"""Bars of the seconds that every side took, one picture for all files."""

from __future__ import annotations

from typing import Any

from measuring import middle

OURS = ("averagesl", "adaptivesl", "predict")
LIMITS = ("cat", "wc -l", "parse only", "learn only")


def colour(side: str) -> str:
    if side.startswith(OURS):
        return "tab:blue"
    return "tab:green" if side.startswith(LIMITS) else "tab:grey"


def draw(works: dict[str, Any], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(works), figsize=(7 * len(works), 6), squeeze=False)
    for axis, (name, of) in zip(axes[0], works.items(), strict=True):
        named = [(s, middle(f)) for s, f in of["sides"].items() if "longer file" not in s]
        named.sort(key=lambda pair: -pair[1])
        bars = axis.barh(
            [side for side, _ in named],
            [wall for _, wall in named],
            color=[colour(side) for side, _ in named],
        )
        axis.bar_label(bars, [f"{wall:.2f}" for _, wall in named], padding=3, fontsize=8)
        axis.set_xscale("log")
        axis.margins(x=0.15)
        axis.set_xlabel("seconds (blue: ours, green: our limits, grey: peers)")
        axis.set_title(f"{name}, {of['bytes'] / 1e6:.0f} MB, {of['features'] / 1e6:.1f} M features")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
