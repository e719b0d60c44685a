"""Meter: progressive validation turned into the rows of a progress table. Pure arithmetic.

Every loss here was suffered before its example was learned: an honest estimate, for free.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from streamlearn.record import Record


class Row(Record, frozen=True):
    """One line of the progress table."""

    examples: int
    loss: float  # mean since the beginning
    since: float  # mean since the row before
    error: float | None  # share of wrong signs since the beginning; None for regression
    nonzeros: int | None
    density: float | None
    rate: float  # examples a second since the row before
    elapsed: float


class Meter:
    """Turns sums of progressive validation into rows."""

    def __init__(self, classifies: bool, before: Mapping[str, Any]) -> None:
        self.classifies = classifies
        self.last = dict(before)
        self.last_elapsed = 0.0

    def row(
        self,
        sums: Mapping[str, Any],
        elapsed: float,
        nonzeros: int | None = None,
        density: float | None = None,
    ) -> Row:
        """The row for the sums of now; the next one counts from here."""
        weight = sums["weight"]
        fresh = weight - self.last["weight"]
        seconds = elapsed - self.last_elapsed
        row = Row(
            examples=sums["examples"],
            loss=sums["loss"] / weight if weight else 0.0,
            since=(sums["loss"] - self.last["loss"]) / fresh if fresh else 0.0,
            error=(sums["errors"] / weight if weight else 0.0) if self.classifies else None,
            nonzeros=nonzeros,
            density=density,
            rate=(sums["examples"] - self.last["examples"]) / seconds if seconds > 0 else 0.0,
            elapsed=elapsed,
        )
        self.last, self.last_elapsed = dict(sums), elapsed
        return row


def unstable(sums: Mapping[str, Any]) -> bool:
    """Whether learning did far worse than no learning, which no honest start explains."""
    return sums["examples"] >= 100 and sums["loss"] > 10.0 * sums["baseline"] > 0.0


def sorted_by_class(sums: Mapping[str, Any]) -> bool:
    """Whether the labels come in runs far longer than a shuffled stream could show.

    In n shuffled examples with a majority share p the longest run is about ln(n (1-p)) / -ln(p);
    four times that, and at least 50, does not happen by chance.
    """
    n = sums["examples"]
    majority = sums["majority"] if "majority" in sums else max(
        sums["positive"], n - sums["positive"]
    )
    p = majority / n if n else 1.0
    if p >= 1.0:
        return False
    chance = math.log(max(n * (1.0 - p), 2.0)) / -math.log(p)
    return sums["longest_run"] > max(50.0, 4.0 * chance)
