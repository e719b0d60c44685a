"""What is asked of our speed and memory, and whether a run meets it. All is relative.

A figure is a median of seconds, or a peak of memory, of one side on one file; a goal whose sides
were not measured says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from measuring import middle
from sides import ALGORITHMS

MEMORY = 80e6  # bytes
TOGETHER = 0.05  # peaks of memory that are equal


@dataclass(frozen=True)
class Race:
    """Two sides on one file: seconds of the other over ours."""

    work: str
    ours: str
    other: str
    asked: float
    aim: float | None = None
    share: bool = False  # of the other's throughput, in per cent


@dataclass(frozen=True)
class Verdict:
    """One line of the table."""

    what: str
    ours: str = ""
    other: str = ""
    ratio: str = ""
    asked: str = ""
    word: str = "not measured"

    def __str__(self) -> str:
        return (
            f"{self.what:<66} {self.ours:>10} {self.other:>10} {self.ratio:>8}  "
            f"{self.asked:<24} {self.word}"
        )


def races() -> Iterator[Race]:
    for algo in ALGORITHMS:
        yield Race("rcv1", algo, "VW --ftrl", 2.0, 3.0)
        yield Race("rcv1", algo, "scikit-learn, load and fit", 15.0)
        yield Race("rcv1", algo, "parse only", 0.60, 0.85, share=True)
        for peer in ("VW --ftrl", "VW --ftrl, with a model", "VW", "VW, with a model"):
            yield Race("wide", algo, peer, 1.5, 2.5)
            yield Race("dense", algo, peer, 1.5)
        for peer in ("VW --ftrl", "VW"):
            yield Race("rcv1", f"{algo}, from its cache", f"{peer}, from its cache", 2.0)
    # As fast as parsing; a twentieth less cannot be told from it.
    yield Race("rcv1", "predict", "parse only", 0.95, share=True)


def run_race(race: Race, works: dict[str, Any]) -> Verdict:
    what = f"{race.work}: {race.ours} against {race.other}"
    sides = works.get(race.work, {}).get("sides", {})
    if race.ours not in sides or race.other not in sides:
        return Verdict(what)
    ours, other = middle(sides[race.ours]), middle(sides[race.other])
    ratio = other / ours
    form = (lambda x: f"{100 * x:.0f} %") if race.share else (lambda x: f"{x:.2f}x")
    aim = f", aim {form(race.aim)}" if race.aim else ""
    word = "met" if ratio >= race.asked else "MISSED"
    if race.aim and ratio >= race.aim:
        word = "met, and the aim"
    asked = f">= {form(race.asked)}{aim}"
    return Verdict(what, f"{ours:.2f} s", f"{other:.2f} s", form(ratio), asked, word)


def widths(algo: str, works: dict[str, Any]) -> Verdict:
    """Does a feature cost more when there are very many of them?"""
    what = f"ns a feature, {algo}: wide against rcv1"
    if any(algo not in works.get(name, {}).get("sides", {}) for name in ("wide", "rcv1")):
        return Verdict(what)
    wide, narrow = (
        1e9 * middle(works[name]["sides"][algo]) / works[name]["features"]
        for name in ("wide", "rcv1")
    )
    ratio, word = wide / narrow, "met" if wide <= 2.0 * narrow else "MISSED"
    return Verdict(what, f"{wide:.1f} ns", f"{narrow:.1f} ns", f"{ratio:.2f}x", "<= 2.00x", word)


def memory(algo: str, works: dict[str, Any]) -> Iterator[Verdict]:
    """Does memory stay, however long the stream?"""
    what = f"peak memory, {algo}: rcv1 repeated against rcv1"
    sides = works.get("rcv1", {}).get("sides", {})
    if algo not in sides or f"{algo}, longer file" not in sides:
        yield Verdict(what)
        return
    short, long = (middle(sides[name], "memory") for name in (algo, f"{algo}, longer file"))
    ours, other = f"{long / 1e6:.1f} MB", f"{short / 1e6:.1f} MB"
    met = abs(long / short - 1.0) <= TOGETHER
    ratio = f"{100 * long / short:.1f} %"
    yield Verdict(what, ours, other, ratio, "within 5 %", "met" if met else "MISSED")
    most = f"<= {MEMORY / 1e6:.0f} MB"
    met = max(long, short) <= MEMORY
    yield Verdict(f"peak memory, {algo}: rcv1", ours, other, "", most, "met" if met else "MISSED")


def verdicts(works: dict[str, Any]) -> Iterator[Verdict]:
    for race in races():
        yield run_race(race, works)
    for algo in ALGORITHMS:
        yield widths(algo, works)
        yield from memory(algo, works)


def show_goals(works: dict[str, Any]) -> None:
    head = Verdict("goals", "ours", "other", "ratio", "asked", "")
    print(f"\n{str(head).rstrip()}")
    for verdict in verdicts(works):
        print(verdict)
