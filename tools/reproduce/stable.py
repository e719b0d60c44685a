"""Xie and others, ECML PKDD 2010: error at given densities, SMIDAS' exponents, GraDes' divergence.

The paper's tables are not at hand; printed is its abstract's claim on 10 % of the features.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.newsgroups import RCV1, TASKS, Task, task
from reproduce.products import Rows, training, weights
from reproduce.registry import Experiment
from reproduce.results import Result
from reproduce.stable_findings import (
    claims,
    density_picture,
    density_table,
    exponent_picture,
    exponent_table,
    grades_picture,
    grades_table,
)
from reproduce.trials import Outcome, Run
from streamlearn.engine.block import Block
from streamlearn.errors import Divergence
from streamlearn.model import Model

BOUNDS = (0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
PENALTIES = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
ROUNDS = 20  # of SCD: steps over the number of features
GAMMAS = (3.0, 100.0, None)  # None: 1.01 times the largest eigenvalue
STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20)
SHARE = 0.1  # of the features that GraDes keeps


def grid(**values: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [dict(zip(values, choice, strict=True)) for choice in product(*values.values())]


# Settings file, passes, and the flags that are tried.
# Only the ratios of eta, threshold and margin matter to the perceptron: eta stays 0.1.
PERCEPTRON = [
    *grid(density=BOUNDS, threshold=(1e-4, 1e-3, 3e-3), margin=(0.01, 0.1)),
    *grid(density=(1.0,), threshold=(0.01, 0.02, 0.03), margin=(0.01, 0.1)),
]
MIRROR = grid(l1=(1e-3, 3e-3, 1e-2), eta=(10.0, 100.0))
METHODS: dict[str, tuple[str, int, list[dict[str, Any]]]] = {
    "perceptron, stops": ("stable-perceptron", 5, PERCEPTRON),
    "perceptron, refuses": (
        "stable-perceptron",
        5,
        [{**flags, "at_bound": "refuse"} for flags in PERCEPTRON],
    ),
    "SMIDAS, 2 ln d": ("stable-smidas", 2, MIRROR),
    "SMIDAS, 0.5 ln d": ("stable-smidas", 2, [{**flags, "p_factor": 0.5} for flags in MIRROR]),
    "SCD": ("stable-scd", 1, grid(l1=PENALTIES)),
    "TG": ("stable-tg", 5, grid(l1=PENALTIES, eta=(0.1, 1.0, 10.0))),
}
# Ended when the bound is reached, in the first pass: a small l1, so that the density grows.
GROWING = grid(l1=(1e-5, 1e-4, 1e-3), eta=(0.1, 1.0, 10.0))
STOPPED: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "SMIDAS, 2 ln d, stops": ("stable-smidas", GROWING),
    "SMIDAS, 0.5 ln d, stops": ("stable-smidas", [{**f, "p_factor": 0.5} for f in GROWING]),
    "TG, stops": ("stable-tg", GROWING),
}
PIECE = 4  # rows between two looks at the density


# ---- trials --------------------------------------------------------------------------------------


def candidates(train: Path, test: Path, name: str, method: str, seed: int) -> Outcome:
    """Density, error on the rows held out, and test error of every setting of a method."""
    found = task(name, train, test)
    rows, held_out = found.split(seed)
    judges = [(part.matrix(found.d), part.labels) for part in (held_out, found.test)]
    models: list[Model] = []
    if method in STOPPED:
        file, tried = STOPPED[method]
        for flags in tried:
            models += stopped(file, {**flags, **of_size(file, found)}, rows, found.d)
    else:
        file, passes, tried = METHODS[method]
        for flags in tried:
            models.append(learned(file, {**flags, **of_size(file, found)}, rows, passes))
    table = []
    for model in models:
        w = weights(model, found.d, 0)
        errors = [float(((X @ w + model.bias > 0.0) != (y > 0.0)).mean()) for X, y in judges]
        table.append([model.nonzeros / found.d, *errors])
    return {"candidates": table}


def stopped(file: str, flags: dict[str, Any], rows: Rows, d: int) -> list[Model]:
    """For each bound the last model on the way that keeps to it."""
    run = training(file, flags)
    found: dict[float, Model] = {}
    for start in range(0, len(rows) - PIECE + 1, PIECE):
        for block in rows.take(np.arange(start, start + PIECE)).blocks():
            run.learn(block, file)
        model = run.model()
        assert isinstance(model, Model)
        if model.nonzeros > BOUNDS[-1] * d:
            break
        for bound in BOUNDS:
            if model.nonzeros <= bound * d:
                found[bound] = model
    return list(found.values())


def of_size(file: str, found: Task) -> dict[str, Any]:
    """The flags that depend on the number of features."""
    if file == "stable-smidas":
        return {"dimension": found.d}
    return {"iterations": ROUNDS * found.d} if file == "stable-scd" else {}


def learned(file: str, flags: dict[str, Any], rows: Rows, passes: int) -> Model:
    run = training(file, flags)
    if file == "stable-perceptron":
        for block in unimportant(rows):
            run.learn(block, file)
    for _ in range(passes):
        for block in rows.blocks():
            run.learn(block, file)
    model = run.model()
    assert isinstance(model, Model)
    return model


def unimportant(rows: Rows) -> Iterator[Block]:
    """All rows with the importance 0: they teach nothing but which features there are."""
    yield Block.from_arrays(rows.offsets, rows.ids, rows.values, rows.labels, np.zeros(len(rows)))


def exponents(train: Path, test: Path, name: str, factor: float) -> Outcome:
    """How many weights of SMIDAS have which power of ten, after two passes."""
    found = task(name, train, test)
    rows, _ = found.split(0)
    flags = {"l1": 1e-3, "eta": 10.0, "p_factor": factor, "dimension": found.d}
    model = learned("stable-smidas", flags, rows, 2)
    sizes = np.log10(np.abs(model.weight_array))
    powers, counts = np.unique(np.floor(sizes).astype(int), return_counts=True)
    return {
        "powers": powers.tolist(),
        "counts": counts.tolist(),
        "median": float(np.median(sizes.max() - sizes)),
        "small": float((sizes < sizes.max() - 6.0).mean()),
        "p": max(2.0, factor * math.log(found.d)),
    }


def potentials(train: Path, test: Path, name: str) -> Outcome:
    """|y - Xw|^2 over |y|^2 on the way of GraDes, and the largest eigenvalue of X'X by ARPACK."""
    from scipy.sparse.linalg import svds

    found = task(name, train, test)
    X, y = found.train.matrix(found.d), found.train.labels
    start = np.random.default_rng(0).standard_normal(min(X.shape))
    radius = float(svds(X, k=1, return_singular_vectors=False, v0=start)[0]) ** 2
    ways: dict[str, list[list[float]]] = {}
    for gamma in GAMMAS:
        way = [[0.0, 1.0]]
        stiffness = (1.01 * radius if gamma is None else gamma) / len(y)
        for steps in STEPS:
            flags = {"iterations": steps, "stiffness": stiffness, "nonzeros": int(SHARE * found.d)}
            try:
                model = learned("stable-grades", flags, found.train, 1)
            except Divergence:  # a million times the squared error of the zero model
                break
            residual = y - X @ weights(model, found.d, 0)
            way.append([float(steps), float(residual @ residual) / len(y)])
        ways["safe" if gamma is None else f"{gamma:g}"] = way
    return {"radius": radius, "ways": ways}


# ---- the experiment ------------------------------------------------------------------------------


def stable(run: Run) -> Result:
    text = "20newsgroups by date, tf-idf, labels 1 to 20 by the alphabet; libsvm text, gzip is fine"
    news = tuple(run.file(f"20news.{part}.svm.gz", text) for part in ("train", "test"))
    text = "rows of rcv1.binary, labels -1 and +1; libsvm text, gzip is fine"
    rcv1 = tuple(run.file(f"rcv1_sample.{part}.svm.gz", text) for part in ("train", "test"))
    cases = [(*(rcv1 if name == RCV1 else news), name) for name in TASKS]

    ways = run.trials("stable: GraDes", potentials, cases)
    spreads = [(*c, factor) for c in (cases[4], cases[-1]) for factor in (2.0, 0.5)]
    powers = run.trials("stable: exponents", exponents, spreads)
    # The slow ones first, so that the cores end together.
    methods = [*METHODS, *STOPPED]
    order = sorted(methods, key=lambda method: not method.startswith("SMIDAS"))
    jobs = [(*c, m, s) for m in order for c in cases for s in range(run.count(2))]
    found = run.trials("stable: error at densities", candidates, jobs)
    trials: dict[tuple[str, str], list[list[list[float]]]] = {}
    for (_, _, name, method, _), outcome in zip(jobs, found, strict=True):
        trials.setdefault((name, method), []).append(outcome["candidates"])

    radii = dict(zip(TASKS, ways, strict=True))
    shares = {job[2:]: outcome for job, outcome in zip(spreads, powers, strict=True)}
    return Result(
        tables=[
            density_table(trials, methods),
            exponent_table(shares),
            grades_table(radii),
        ],
        pictures=[
            density_picture(trials, methods),
            exponent_picture(shares),
            grades_picture(radii),
        ],
        goals=claims(trials, shares, radii),
        notes=[
            "Of the paper only the abstract's numbers are known here, so ours stand alone. Which "
            "six tasks of 20newsgroups it has is not known either: ours are the six pairs of the "
            "groups comp, rec, sci and talk, words of at least three training rows.",
            "Settings are chosen for each density on a fifth of the training rows that was held "
            "out; trials differ in that fifth and in the order of the rows.",
            "The perceptron does not beat SCD, whatever of threshold (0.0001 to 0.03, at eta 0.1), "
            "margin (0.01, 0.1), bound and rule was tried; SCD goes over the rows many times more. "
            "It beats SMIDAS and TG, which were tuned over few settings: these goals, and the rows "
            "that stop at the bound, were added after a first look at the errors, and TG truncates "
            "at every example since with K = 10 no model of rcv1 was below 10 %.",
            "SMIDAS and TG reach a density in two ways: by l1 at the end of their passes, or "
            "(`stops`) by ending when the bound is reached, as the perceptron does.",
            "The perceptron's bound is a share of all features, as in the paper; a first reading "
            "with the importance 0 makes them known. `stops` is the paper's rule.",
            "SMIDAS costs O(features) an example, so it makes two passes and tries six settings; "
            "TG and the perceptron make five passes.",
            "The paper shows GraDes diverging with gamma = 100 as well as with 3. Our rows have "
            "the length 1, which puts the largest eigenvalue between 30 and 96: with 100 it must "
            "fall, and does.",
        ],
    )


EXPERIMENTS = {
    "stable": Experiment(
        "stable",
        "Xie and others, ECML PKDD 2010: error at given densities, and numerical stability",
        stable,
        "20news.train.svm.gz, 20news.test.svm.gz, rcv1_sample.train.svm.gz, "
        "rcv1_sample.test.svm.gz",
    )
}
