"""What an experiment hands back: tables, pictures, goals and notes. Computes and draws nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

BEYOND = 2.0  # standard errors


@dataclass(frozen=True)
class Figure:
    """One number of ours, from so many trials, and what the paper prints in its place."""

    mean: float
    error: float = 0.0  # standard error of the mean
    trials: int = 1
    printed: str | None = None  # as the paper writes it: its digits say how far it was rounded
    printed_trials: int | None = None  # behind the printed figure, where that is known

    @property
    def rounding(self) -> float:
        """Half a unit of the last printed digit."""
        if self.printed is None:
            return 0.0
        exponent = Decimal(self.printed).as_tuple().exponent
        assert isinstance(exponent, int), f"{self.printed} is no number"
        return 0.5 * 10.0**exponent

    @property
    def uncertainty(self) -> float:
        """Standard error of the difference: the printed mean has one too, where we know how many
        trials it has. Their spread is taken to be that of ours."""
        if self.printed_trials is None:
            return self.error
        return self.error * math.sqrt(1.0 + self.trials / self.printed_trials)

    @property
    def difference(self) -> float | None:
        return None if self.printed is None else self.mean - float(self.printed)

    @property
    def beyond(self) -> bool:
        """Whether it differs by more than two standard errors and the rounding explain."""
        if self.difference is None:
            return False
        slack = 1e-9 * abs(self.mean)  # 0.505 against 0.50 is a tie, not a difference
        return not abs(self.difference) <= BEYOND * self.uncertainty + self.rounding + slack


def figure(
    values: Iterable[float], printed: str | None = None, printed_trials: int | None = None
) -> Figure:
    """The mean over trials and its standard error."""
    taken = [float(v) for v in values]
    mean = math.fsum(taken) / len(taken)
    if len(taken) == 1:
        return Figure(mean, 0.0, 1, printed, printed_trials)
    variance = math.fsum((v - mean) ** 2 for v in taken) / (len(taken) - 1)
    return Figure(mean, math.sqrt(variance / len(taken)), len(taken), printed, printed_trials)


@dataclass(frozen=True)
class Row:
    """One method under one condition."""

    group: str  # the condition, such as "noise 25"; rows of a group stand together
    name: str
    figures: dict[str, Figure]  # by column; a missing one is left blank


@dataclass(frozen=True)
class Table:
    """Rows by columns."""

    title: str
    columns: list[str]
    rows: list[Row]
    about: str = ""  # what the columns mean, and what was printed

    def figure(self, group: str, name: str, column: str) -> Figure:
        for row in self.rows:
            if (row.group, row.name) == (group, name):
                return row.figures[column]
        raise KeyError((group, name, column))


@dataclass(frozen=True)
class Picture:
    """A PNG with its caption."""

    name: str  # of the file, without folder and ending; must differ over all experiments
    caption: str
    png: bytes


@dataclass(frozen=True)
class Goal:
    """Something that has to be reached, and whether it was."""

    text: str
    found: str
    met: bool


@dataclass(frozen=True)
class Result:
    """All that one experiment found."""

    tables: list[Table] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what does not repeat, and what was tried
