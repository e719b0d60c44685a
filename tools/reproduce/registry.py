"""The experiments by name. Each module of experiments has an EXPERIMENTS of its own."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from reproduce.results import Result
from reproduce.trials import Run

MODULES = ("regression", "digits", "text", "rounding", "rda", "smidas", "stable")


@dataclass(frozen=True)
class Experiment:
    """One table or picture of a paper."""

    name: str  # of the command
    title: str  # a sentence for the report: which table of which paper
    run: Callable[[Run], Result]
    data: str = ""  # what it needs of --data, in words


def experiments() -> dict[str, Experiment]:
    """All there are, in the order of the modules."""
    found: dict[str, Experiment] = {}
    for name in MODULES:
        found |= importlib.import_module(f"reproduce.{name}").EXPERIMENTS
    return found
