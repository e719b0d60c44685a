"""Shalev-Shwartz and Tewari, ICML 2009: objective against data accesses for SCD, DETCD, SMIDAS, TG.

The paper prints curves, whose numbers are not known here: what is repeated are their shapes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.optima import objective, optimum
from reproduce.products import Rows, training
from reproduce.registry import Experiment
from reproduce.results import Result
from reproduce.smidas_findings import (
    Curves,
    Traces,
    claims,
    density_picture,
    objective_picture,
    table,
)
from reproduce.trials import Outcome, Run
from streamlearn.errors import Divergence
from streamlearn.training import Training

PENALTIES = (1e-3, 1e-6)
STEPS = tuple(float(f"{a}e{b}") for b in range(-6, 2) for a in (1, 3))
WIDER = (1e2, 3e2, 1e3, 3e3)  # where the largest of them is the best
NOISE = 1000  # features without meaning that MAGIC gets
SHARE = 0.05  # of them that are not zero in a row of MAGIC04S
NOISE_SEED = 4
SCAN = 4  # steps are compared after a quarter of the passes


@dataclass(frozen=True)
class Set:
    """A training set and how far its curves go."""

    file: str
    form: str
    passes: int


SETS = {
    "MAGIC04S": Set("magic04.std.svm.gz", "MAGIC gamma telescope, 10 standardised features", 16),
    "MAGIC04D": Set("magic04.std.svm.gz", "MAGIC gamma telescope, 10 standardised features", 16),
    "ARCENE": Set("arcene.train.svm.gz", "the 100 training rows of ARCENE, values 0 to 999", 256),
    "Reuters": Set("reuters_moneyfx.train.svm.gz", "Reuters-21578, money-fx, rows of length 1", 16),
}
STREAMED = ("SMIDAS", "TG")
DESCENDED = ("SCD", "DETCD")


# ---- data ----------------------------------------------------------------------------------------


@cache
def problem(path: Path, name: str) -> tuple[Rows, Any]:
    """The rows, and the same as a matrix."""
    rows = Rows.read(path)
    if name == "ARCENE":
        rows.values = rows.values / 1000.0
    if name.startswith("MAGIC"):
        rows = noisy(rows, 1.0 if name == "MAGIC04D" else SHARE)
    return rows, rows.matrix(int(rows.ids.max()) + 1)


def noisy(rows: Rows, share: float) -> Rows:
    """With 1,000 more features: -1 or +1 in this share of the rows, by chance; else 0."""
    import scipy.sparse

    rng = np.random.default_rng(NOISE_SEED)
    width = int(rows.ids.max()) + 1
    shape = (len(rows), NOISE)
    signs = rng.integers(0, 2, shape, dtype=np.int8) * 2.0 - 1.0
    if share < 1.0:
        signs *= rng.random(shape) < share
    wide = scipy.sparse.hstack([rows.matrix(width), scipy.sparse.csr_matrix(signs)], "csr")
    return Rows(wide.indptr.astype(np.int64), wide.indices.astype(np.int64), wide.data, rows.labels)


def budgets(passes: int) -> list[float]:
    """Passes over the data after which a curve has a point."""
    return [2.0**k for k in range(-6, int(math.log2(passes)) + 1)]


# ---- trials --------------------------------------------------------------------------------------


class Trace:
    """Objective and non-zeros after so many passes."""

    def __init__(self, X: Any, y: np.ndarray, l1: float) -> None:
        self.X, self.y, self.l1 = X, y, l1
        self.points: Outcome = {"passes": [], "objective": [], "nonzeros": []}

    def add(self, passes: float, run: Training) -> None:
        model = run.model()
        w = np.zeros(self.X.shape[1])
        w[model.id_array] = model.weight_array
        self.points["passes"].append(passes)
        self.points["objective"].append(objective(self.X, self.y, w, model.bias, self.l1))
        self.points["nonzeros"].append(model.nonzeros)


def descended(path: Path, name: str, l1: float, method: str, seed: int) -> Outcome:
    """SCD or DETCD, solved anew for each point of the curve: a snapshot starts at zero.

    An access is a non-zero that is read. A step of SCD reads a column; as many steps as there are
    columns are a pass, on the average. A step of DETCD looks along every column, as in the paper:
    a pass (ours keeps its gradient up to date and reads less).
    """
    rows, X = problem(path, name)
    columns = len(np.unique(rows.ids))
    trace = Trace(X, rows.labels, l1)
    for passes in budgets(SETS[name].passes):
        flags: dict[str, Any] = {"l1": l1, "iterations": round(passes * columns), "seed": seed}
        if method == "DETCD":
            if passes < 1.0:
                continue
            flags = {"l1": l1, "iterations": round(passes)}
        run = training(f"smidas-{method.lower()}", flags)
        for block in rows.blocks():
            run.learn(block, name)
        trace.add(passes, run)
    return trace.points


def streamed(
    path: Path, name: str, l1: float, method: str, eta: float, seed: int, share: int
) -> Outcome:
    """SMIDAS or TG on rows drawn with return, over a share of the passes."""
    rows, X = problem(path, name)
    flags: dict[str, Any] = {"l1": l1, "eta": eta}
    if method == "SMIDAS":
        flags["dimension"] = len(np.unique(rows.ids))
    run = training(f"smidas-{method.lower()}", flags)
    rng = np.random.default_rng(seed)
    trace = Trace(X, rows.labels, l1)
    learned = 0
    try:
        for passes in budgets(SETS[name].passes // share):
            while (left := round(passes * len(rows)) - learned) > 0:
                drawn = rng.integers(0, len(rows), min(left, len(rows)))
                for block in rows.take(drawn).blocks():
                    run.learn(block, name)
                learned += len(drawn)
            trace.add(passes, run)
    except Divergence:
        return {"passes": [], "objective": [math.inf], "nonzeros": []}
    return trace.points


def best(path: Path, name: str, l1: float) -> Outcome:
    rows, X = problem(path, name)
    found = optimum(X, rows.labels, l1, bias=False)
    return {
        "objective": found.objective,
        "nonzeros": found.nonzeros,
        "violation": found.violation,
    }


# ---- the experiment ------------------------------------------------------------------------------


def smidas(run: Run) -> Result:
    files = {
        n: run.file(s.file, f"{s.form}; libsvm text, labels -1 and +1") for n, s in SETS.items()
    }
    cases = [(files[name], name, l1) for name in SETS for l1 in PENALTIES]
    optima = {
        case[1:]: found
        for case, found in zip(cases, run.trials("smidas: optima", best, cases), strict=True)
    }
    kinds = [(*case, method) for case in cases for method in STREAMED]
    scans = [(*kind, eta, 0, SCAN) for kind in kinds for eta in STEPS]
    scanned = run.trials("smidas: steps", streamed, scans)
    steps = chosen(scans, scanned)
    edge = [(*k, eta, 0, SCAN) for k in kinds if steps[k[1:]] == STEPS[-1] for eta in WIDER]
    steps = chosen(scans + edge, scanned + run.trials("smidas: larger steps", streamed, edge))
    seeds = range(run.count(3))
    falling = [
        (*case, method, seed)
        for case in cases
        for method in DESCENDED
        for seed in (seeds if method == "SCD" else range(1))
    ]
    flowing = [
        (*case, method, steps[(*case[1:], method)], seed, 1)
        for case in cases
        for method in STREAMED
        for seed in seeds
    ]
    traces: Traces = {}
    for job, found in [
        *zip(falling, run.trials("smidas: SCD, DETCD", descended, falling), strict=True),
        *zip(flowing, run.trials("smidas: SMIDAS, TG", streamed, flowing), strict=True),
    ]:
        traces.setdefault(job[1:4], []).append(found)
    curves = {key: Curves.of(found) for key, found in traces.items()}
    return Result(
        tables=[table(curves, traces, optima, steps)],
        pictures=[objective_picture(curves, optima), density_picture(curves, optima)],
        goals=claims(curves, optima),
        notes=[
            "The paper prints curves; no printed number is set beside ours. Its penalties, and "
            "how its noise was drawn, are not known here: l1 is 0.001 and 0.000001, and MAGIC has "
            "1,000 more features that are -1 or +1 by chance, in every row (MAGIC04D) or in "
            f"{100 * SHARE:g} % of the rows (MAGIC04S).",
            "Reuters stands in for the paper's Reuters set, which was not to be had: "
            "Reuters-21578, money-fx against the rest, 7,770 rows. ARCENE is divided by 1,000.",
            f"The step of SMIDAS and TG is the best of {len(STEPS)} from {STEPS[0]:g} to "
            f"{STEPS[-1]:g}, by the objective after a quarter of the passes; where {STEPS[-1]:g} "
            f"was the best, of larger ones up to {WIDER[-1]:g} too.",
            "The goals are what the paper's analysis leads one to expect, not its words. The two "
            "that are not reached fail with l1 = 0.000001, hardly a penalty: on MAGIC04D SMIDAS "
            "leads at first and TG, with a thirtieth of its step, draws level; on ARCENE and "
            "Reuters, which can be fitted almost without loss, a method that takes rows ends below "
            "SCD. Its step was tuned on the objective itself; SCD has none. Why was not looked "
            "into further.",
            "The optimum is LIBLINEAR's; its largest violation of the conditions of an optimum is "
            f"{max(o['violation'] for o in optima.values()):.1e} of l1.",
        ],
    )


def chosen(jobs: Sequence[tuple[Any, ...]], found: Sequence[Outcome]) -> dict[tuple, float]:
    """The step with the lowest last objective for each set, penalty and method."""
    lowest: dict[tuple, tuple[float, float]] = {}
    for (_, name, l1, method, eta, *_), outcome in zip(jobs, found, strict=True):
        key, last = (name, l1, method), outcome["objective"][-1]
        if key not in lowest or last < lowest[key][0]:
            lowest[key] = (last, eta)
    return {key: eta for key, (_, eta) in lowest.items()}


EXPERIMENTS = {
    "smidas": Experiment(
        "smidas",
        "Shalev-Shwartz and Tewari, ICML 2009: objective and density against data accesses",
        smidas,
        ", ".join(sorted({s.file for s in SETS.values()})),
    )
}
