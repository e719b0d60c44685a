"""The algorithms: a list, or one explained with objective, update, cost and parameters."""

from __future__ import annotations

import argparse
import textwrap

from streamlearn.catalogue import ALGORITHMS, LOSSES, PARAMETERS, Algorithm
from streamlearn.catalogue.algorithms import O_SEEN
from streamlearn.errors import UsageError, nearest


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="the one to explain")


def run(args: argparse.Namespace) -> int:
    if args.name is None:
        for entry in ALGORITHMS.values():
            print(f"{entry.name:<12} {entry.title:<66} {short_cost(entry)}".rstrip())
        print("\n'streamlearn algos NAME' explains one.")
        return 0
    if args.name not in ALGORITHMS:
        raise UsageError(f"no algorithm {args.name!r}; {nearest(args.name, ALGORITHMS)}")
    print(explanation(ALGORITHMS[args.name]))
    return 0


def short_cost(entry: Algorithm) -> str:
    """Where it is more than the non-zeros of an example."""
    if entry.batch:
        return "all data in memory"
    return "O(features seen) an example" if entry.cost == O_SEEN else ""


def explanation(entry: Algorithm) -> str:
    """Everything the catalogue knows of an algorithm."""
    lines = [f"{entry.name}: {entry.title}", ""]
    losses = [
        e.name
        for e in LOSSES.values()
        if e.name in (entry.losses or LOSSES) and (e.classifies or not entry.classifies_only)
    ]
    memory = entry.words if entry.batch else f"{entry.words} words of 8 bytes a feature"
    for name, text in (
        ("minimises", entry.objective),
        ("update", entry.update),
        ("serves", entry.serves),
        ("cost", entry.cost),
        ("memory", memory),
        ("use it", entry.use),
        ("losses", ", ".join(losses)),
        ("source", entry.paper),
    ):
        lines += textwrap.wrap(
            text, 98, initial_indent=f"{name:<12}", subsequent_indent=" " * 12
        )
    lines += ["", "parameters:"]
    for name in entry.parameters:
        parameter = PARAMETERS[name]
        default = entry.defaults.get(name, parameter.default)
        shown = f"auto: {parameter.auto}" if default is None and parameter.auto else default
        lines += textwrap.wrap(
            f"{parameter.help} ({parameter.range}; default {shown})",
            98,
            initial_indent=f"  {parameter.flag:<18}",
            subsequent_indent=" " * 20,
        )
    return "\n".join(lines)
