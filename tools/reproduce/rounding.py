"""TPAMI Table 7: what simple rounding of a dense model to the size of a sparse one costs."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from reproduce.digits import MNIST, OWN, Methods, methods_of
from reproduce.pairs import files, trial
from reproduce.pictures import Panel, curves
from reproduce.registry import Experiment
from reproduce.results import Picture, Result, Row, Table, figure
from reproduce.trials import Outcome, Run

SPARSE = ("AverageSL", OWN)  # whose densities are rounded to
ROUNDED = ("FOBOS", "alpha-SGD", "ORDA")
RIVALS: Methods = tuple((n, f) for n, f in methods_of("tpami5") if n in (*ROUNDED, *SPARSE))
SHOWN = ((0, 1), (1, 7), (2, 3), (2, 7), (3, 5), (3, 8), (4, 9), (5, 6), (5, 8), (7, 9))
ROUNDING_L1 = 0.02
ROUNDING_TRIALS = 10


def tpami7(run: Run) -> Result:
    data = files(run)
    pairs = list(combinations(range(10), 2))
    count = run.count(ROUNDING_TRIALS)
    jobs: list[tuple[Any, ...]] = [
        (data, pair, ROUNDING_L1, seed, RIVALS, False, SPARSE)
        for pair in pairs
        for seed in range(count)
    ]
    outcomes = run.trials("tpami7", trial, jobs)
    by_pair = {p: outcomes[i * count : (i + 1) * count] for i, p in enumerate(pairs)}
    means = [averaged(by_pair[p]) for p in pairs]
    rows = []
    for pair in SHOWN:
        rows += rounding_rows(f"{pair[0]} against {pair[1]}", by_pair[pair])
    rows += rounding_rows("all 45 pairs", means)
    table = Table(
        f"Rounding, l1 = {ROUNDING_L1:g}",
        ["ED", "Error", *(f"as {name}" for name in SPARSE)],
        rows,
        "ED and Error: of the model as it is, on the test rows. The other columns: its error when "
        "all but the largest weights are set to zero, as many kept as that method has of itself "
        "(whose own error stands in its row). The last group is the mean over the pairs.",
    )
    costs = {
        (name, sparse): [o[name][f"as {sparse}"] - o[sparse]["Error"] for o in means]
        for sparse in SPARSE
        for name in ROUNDED
    }
    notes = [
        "How the paper rounds is not told in detail: here the largest weights are kept. Its "
        "figures are not held, and which pairs it has is not certain, so all 45 were run.",
        *(
            f"With as many weights as {sparse}, the rounded model errs more often than it on "
            + ", ".join(
                f"{sum(c > 0.0 for c in costs[name, sparse])} of 45 pairs ({name}, by "
                f"{float(np.mean(costs[name, sparse])):+.4f} on average)"
                for name in ROUNDED
            )
            + "."
            for sparse in SPARSE
        ),
    ]
    picture = Picture(
        "tpami7-rounding",
        "What rounding costs: test error of the rounded model less that of the one that is sparse "
        "of itself, with as many weights; the 45 pairs of digits in rising order.",
        curves(
            [
                Panel(
                    f"as many weights as {sparse}",
                    range(1, 46),
                    {name: sorted(costs[name, sparse]) for name in ROUNDED},
                    "test error, difference",
                    "pairs of digits, sorted",
                    log_x=False,
                )
                for sparse in SPARSE
            ]
        ),
    )
    return Result([table], [picture], [], notes)


def averaged(outcomes: list[Outcome]) -> Outcome:
    """The means over the trials of a pair: of all pairs, the pairs are what differs."""
    return {
        name: {c: float(np.mean([o[name][c] for o in outcomes])) for c in columns}
        for name, columns in outcomes[0].items()
    }


def rounding_rows(group: str, outcomes: list[Outcome]) -> list[Row]:
    rows = []
    for name, _ in RIVALS:
        columns = ["ED", "Error", *(f"as {s}" for s in SPARSE if name in ROUNDED)]
        rows.append(Row(group, name, {c: figure([o[name][c] for o in outcomes]) for c in columns}))
    return rows


EXPERIMENTS = {
    "tpami7": Experiment(
        "tpami7", "TPAMI, Table 7: what rounding costs, pairs of digits", tpami7, MNIST
    )
}
