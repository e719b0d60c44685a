"""AAAI Table 2 and TPAMI Table 5: MNIST, 2 against 3, with the weight images."""

from __future__ import annotations

from typing import Any

import numpy as np

from reproduce import elastic
from reproduce.pairs import L2, SIDE, figures, files, pair_of, trial
from reproduce.pictures import images, paths
from reproduce.printed import AAAI2, PENALTIES, TPAMI5, Printed
from reproduce.registry import Experiment
from reproduce.results import Figure, Goal, Picture, Result, Row, Table, figure
from reproduce.trials import Outcome, Run

TRIALS = 100
OWN = "averagesl, our defaults"
BATCH = "batch optimum"
MNIST = "mnist.train.svm.gz, mnist.test.svm.gz"
BASELINES = (("FOBOS", "tpami5-fobos"), ("ORDA", "tpami5-orda"), ("RDA", "tpami5-rda"))
OURS = ((OWN, "tpami5-averagesl-own"), ("adaptivesl", "tpami5-adaptivesl"))
Methods = tuple[tuple[str, str], ...]


def methods_of(table: str) -> Methods:
    """Row of the table, and its settings file."""
    papers = (
        ("alpha-SGD", f"{table}-asgd"),
        ("LastSL", f"{table}-lastsl"),
        ("OptimalSL", f"{table}-optimalsl"),
        ("AverageSL", f"{table}-averagesl"),
    )
    return (*BASELINES, *papers, *OURS)


ABOUT = (
    "One pass over the 12,089 training rows in random order; Error on the 2,042 test rows. Obj: "
    "mean loss over the training rows + 0.005 |w|^2 + l1 |w|_1. ED, TD: share of the 784 weights "
    "that are not exactly zero, that are larger than 1e-6, without the bias. CPU: seconds."
)
COLUMNS = ["Obj", "Error", "ED", "TD", "CPU"]


def batch(data: tuple[str, str], digits: tuple[int, int], l1: float) -> Outcome:
    """The minimum over all training rows, in the form of a trial."""
    pair = pair_of(*data, digits)
    w, bias, violation = elastic.optimum(pair.X.toarray(), pair.train.labels, l1, L2)
    found = {
        **figures(pair, w, bias, l1),
        "Weights": w.tolist(),
        "Violation": violation,
    }
    return {BATCH: found}


def group_of(l1: float) -> str:
    return f"l1 = {l1:g}"


def table_of(
    found: dict[float, list[Outcome]],
    optima: dict[float, Outcome],
    names: list[str],
    printed: Printed,
) -> Table:
    rows = []
    for l1, outcomes in found.items():
        for name in names:
            told = printed.get(name, {}).get(l1, {})
            figures = {c: figure([o[name][c] for o in outcomes], told.get(c)) for c in COLUMNS}
            rows.append(Row(group_of(l1), name, figures))
        best = optima[l1][BATCH]
        rows.append(Row(group_of(l1), BATCH, {c: Figure(best[c]) for c in COLUMNS[:-1]}))
    return Table("MNIST, 2 against 3", COLUMNS, rows, ABOUT)


def ran(
    run: Run, table: str
) -> tuple[dict[float, list[Outcome]], dict[float, Outcome], dict[float, Outcome]]:
    """By l1: the trials, the batch optimum, and one trial with its weights."""
    data = files(run)
    methods = methods_of(table)
    count = run.count(TRIALS)
    jobs: list[tuple[Any, ...]] = [
        (data, (2, 3), l1, seed, methods) for l1 in PENALTIES for seed in range(count)
    ]
    outcomes = run.trials(table, trial, jobs)
    found = {l1: outcomes[i * count : (i + 1) * count] for i, l1 in enumerate(PENALTIES)}
    optima = run.trials(f"{table}, {BATCH}", batch, [(data, (2, 3), l1) for l1 in PENALTIES])
    weighed = [(data, (2, 3), l1, 0, methods, True) for l1 in PENALTIES]
    shown = run.trials(f"{table}, images", trial, weighed)
    return (
        found,
        dict(zip(PENALTIES, optima, strict=True)),
        dict(zip(PENALTIES, shown, strict=True)),
    )


def weight_images(
    table: str, names: list[str], shown: dict[float, Outcome], optima: dict[float, Outcome]
) -> Picture:
    def image(name: str, l1: float) -> np.ndarray:
        found = optima[l1] if name == BATCH else shown[l1]
        return np.array(found[name]["Weights"]).reshape(SIDE, SIDE)

    return Picture(
        f"{table}-weights",
        "The weights learned for 2 against 3, pixel by pixel: negative grey, positive white, zero "
        "black. A model is sparse where its image is black. Ours, one pass each.",
        images(
            [[image(name, l1) for name in names] for l1 in PENALTIES],
            [group_of(l1) for l1 in PENALTIES],
            [name.replace("averagesl, our defaults", "averagesl") for name in names],
        ),
    )


def aaai2(run: Run) -> Result:
    found, optima, shown = ran(run, "aaai2")
    names = [name for name, _ in methods_of("aaai2")]
    table = table_of(found, optima, names, AAAI2)
    order = ["FOBOS", "alpha-SGD", "ORDA", "LastSL", "OptimalSL", "AverageSL", "RDA",
             OWN, "adaptivesl", BATCH]  # fmt: skip
    notes = [
        "Of this table we hold the printed densities of alpha-SGD, LastSL and OptimalSL.",
        "alpha-SGD keeps every pixel that is ever white in a 2 or 3: 652 of 784, 0.832; printed is "
        "0.825, 5 pixels fewer.",
        "L is not told; 11 fits the densities of LastSL and OptimalSL. AverageSL is not in this "
        "paper. FOBOS, ORDA, RDA and the last two are those of TPAMI Table 5.",
        "Table 3 of this paper (ORDA before and after rounding) is no target: its two columns are "
        "the test errors of ORDA and FOBOS of Table 2 again. See tpami7 for rounding.",
    ]
    return Result([table], [weight_images("aaai2", order, shown, optima)], [], notes)


# ---- TPAMI Table 5 -------------------------------------------------------------------------------

PATH = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1)  # of l1, for the picture
PATH_TRIALS = 10


def tpami5(run: Run) -> Result:
    found, optima, shown = ran(run, "tpami5")
    names = [name for name, _ in methods_of("tpami5")]
    table = table_of(found, optima, names, TPAMI5)
    pictures = [
        weight_images(
            "tpami5", ["alpha-SGD", "ORDA", "LastSL", "OptimalSL", "AverageSL", OWN, "adaptivesl",
                       BATCH], shown, optima,
        ),
        error_picture(run),
    ]  # fmt: skip
    notes = [
        "L = 12.25 is the largest eigenvalue of the mean Hessian bound plus l2; LastSL has 24.5, "
        "since this paper writes L|w - w_T|^2 without the half. Its density varies much from one "
        "order of the rows to the next: after ten trials 24.5 seemed too large, and 21 was run in "
        "full (0.319 0.265 0.225 0.197, too sparse) before 24.5 was.",
        "OptimalSL: suffixes of 0.1, 0.6 and 0.9 and linear weights in phase one were tried at "
        "l1 = 0.02 and 0.05, 12 trials each; 0.3, that of the whole, was kept.",
        "alpha-SGD is printed with ED 1.00, ours is 0.83: 16.8 % of the pixels are black in every "
        "2 and 3, and our weight of a feature that never occurred is exactly 0. The paper's seems "
        "to take sgn(0) = 1, which moves even those; AAAI Table 2 prints 0.825, nearly as ours.",
        "ORDA's TD does not repeat: its small weights decay faster with us. No setting of its "
        "constants that was tried changes that.",
        "The objectives of alpha-SGD and OptimalSL are 0.001 to 0.003 below the printed; weights "
        "that sgn(0) = 1 keeps off zero would cost a part of that.",
        "FOBOS and LastSL, both last iterates, come out a little better than printed (Obj by 0.003 "
        "to 0.009). A second pass is excluded: it would halve the densities.",
        "adaptivesl has no l2, so Obj is not quite what it minimises; the goal is judged on both, "
        "with and without the l2 term.",
        "The batch optimum is scikit-learn's (saga, elastic net); its bias is in neither penalty, "
        "which changes Obj by less than 0.0002. Largest violation of optimality, over l1: "
        f"{max(o[BATCH]['Violation'] for o in optima.values()):.1e}.",
    ]
    return Result([table], pictures, goals(table, found), notes)


def goals(table: Table, found: dict[float, list[Outcome]]) -> list[Goal]:
    def worst(names: tuple[str, ...], column: str) -> float:
        figures = [table.figure(group_of(l1), n, column) for l1 in PENALTIES for n in names]
        return max(abs(f.difference or 0.0) for f in figures)

    def means(name: str, column: str) -> list[float]:
        return [float(np.mean([o[name][column] for o in found[l1]])) for l1 in PENALTIES]

    def listed(values: list[float]) -> str:
        return " ".join(f"{v:.4f}" for v in values)

    ed = worst(("LastSL", "OptimalSL", "AverageSL"), "ED")
    error = worst(("OptimalSL", "AverageSL"), "Error")
    reached = [
        Goal(
            "ED of LastSL, OptimalSL and AverageSL within 0.02 of the printed",
            f"largest difference {ed:.4f}",
            ed <= 0.02,
        ),
        Goal(
            "test error of OptimalSL and AverageSL within 0.003 of the printed",
            f"largest difference {error:.4f}",
            error <= 0.003,
        ),
    ]
    halves = [d / 2.0 for d in means("AverageSL", "ED")]
    for name, column, which in (
        (OWN, "Obj", "the objective of the table"),
        ("adaptivesl", "Own", "the objective without l2, which is its own"),
        ("adaptivesl", "Obj", "the objective of the table, with l2"),
    ):
        own, theirs, sparse = means(name, column), means("AverageSL", column), means(name, "ED")
        reached.append(
            Goal(
                f"{name} at the same l1: at most half the density of AverageSL at no worse "
                f"objective; {which}",
                f"ED {listed(sparse)} against {listed([2 * h for h in halves])}; objective "
                f"{listed(own)} against {listed(theirs)}",
                all(s <= h for s, h in zip(sparse, halves, strict=True))
                and all(o <= t for o, t in zip(own, theirs, strict=True)),
            )
        )
    return reached


def error_picture(run: Run) -> Picture:
    """Test error against non-zeros, along l1."""
    data = files(run)
    methods = methods_of("tpami5")
    count = run.count(PATH_TRIALS)
    jobs: list[tuple[Any, ...]] = [
        (data, (2, 3), l1, seed, methods) for l1 in PATH for seed in range(count)
    ]
    outcomes = run.trials("tpami5, path", trial, jobs)
    optima = run.trials(f"tpami5, path, {BATCH}", batch, [(data, (2, 3), l1) for l1 in PATH])
    lines: dict[str, tuple[list[float], list[float]]] = {}
    for name, _ in methods:
        parts = [outcomes[i * count : (i + 1) * count] for i in range(len(PATH))]
        lines[name] = (
            [float(np.mean([o[name]["Nonzeros"] for o in part])) for part in parts],
            [float(np.mean([o[name]["Error"] for o in part])) for part in parts],
        )
    lines[BATCH] = (
        [o[BATCH]["Nonzeros"] for o in optima],
        [o[BATCH]["Error"] for o in optima],
    )
    return Picture(
        "tpami5-error",
        "MNIST 2 against 3: test error against non-zero weights (of 784), for l1 from 0.001 to "
        f"0.1; mean of {count} passes in random order.",
        paths(lines, "non-zero weights", "test error", "MNIST, 2 against 3, one pass"),
    )


EXPERIMENTS = {
    e.name: e
    for e in (
        Experiment("aaai2", "AAAI 2014, Table 2: MNIST, 2 against 3", aaai2, MNIST),
        Experiment("tpami5", "TPAMI, Table 5: MNIST, 2 against 3", tpami5, MNIST),
    )
}
