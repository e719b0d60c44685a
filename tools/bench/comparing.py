"""Two saved runs side by side: what changed, and whether that is more than noise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from measuring import middle, spread

LEAST = 0.02  # times nearer than this are equal, however calm the runs were
COUNTED = 0.01  # instructions repeat much better


def compare(old: Path, new: Path) -> None:
    a, b = json.loads(old.read_text()), json.loads(new.read_text())
    for name, of in a["works"].items():
        others = b["works"].get(name, {}).get("sides", {})
        for side in of["sides"]:
            if side in others:
                print(f"{name:<12} {side:<28} {change(of['sides'][side], others[side])}")
    for name, of in a["callgrind"].items():
        for what, before in of.items():
            after = b["callgrind"].get(name, {}).get(what)
            if after is not None:
                word = judged(after / before, COUNTED, "fewer", "MORE", "equal")
                print(
                    f"{name:<12} {what:<28} {before:8.1f} -> {after:8.1f} instructions a feature, "
                    f"{after / before:5.3f} times: {word}"
                )


def change(x: dict[str, Any], y: dict[str, Any]) -> str:
    """The noise band is half the spread of both runs together."""
    ratio = middle(y) / middle(x)
    what = f"{middle(x):8.3f} -> {middle(y):8.3f} s, {ratio:5.2f} times"
    spreads = spread(x), spread(y)
    if spreads[0] is None or spreads[1] is None:
        return f"{what} (one run alone: the noise is not known)"
    band = max(LEAST, (spreads[0] + spreads[1]) / 2)
    word = judged(ratio, band, "faster", "SLOWER", "within the noise")
    return f"{what}, noise {100 * band:3.0f} %: {word}"


def judged(ratio: float, band: float, less: str, more: str, equal: str) -> str:
    if ratio > 1.0 + band:
        return more
    return less if ratio < 1.0 / (1.0 + band) else equal
