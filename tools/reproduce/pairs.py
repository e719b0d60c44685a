"""Two digits of MNIST: the rows, one pass of every method over them, how good its model is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.products import Contender, Rows, density, learn, tiny_density, training, weights
from reproduce.trials import Outcome, Run

L2 = 0.01
SIDE = 28
WIDTH = SIDE * SIDE
FORM = (
    "the MNIST digits as libsvm text, label 0 to 9, id 1 to 784 for the pixels row by row, values "
    "pixel/255; gzip is fine"
)
SUFFIX = ("asgd", "averagesl", "lastsl", "optimalsl")  # need to know the end


@dataclass(frozen=True)
class Pair:
    """Rows of two digits, the first of them as -1."""

    train: Rows
    test: Rows
    X: Any  # the training rows again, for arithmetic

    def objective(self, w: np.ndarray, bias: float, l1: float, l2: float = L2) -> float:
        """mean loss over the training rows + l2/2 (|w|^2 + bias^2) + l1 |w|_1"""
        margins = self.X @ w + bias
        loss = np.logaddexp(0.0, -self.train.labels * margins).mean()
        return float(loss + l2 / 2.0 * (w @ w + bias * bias) + l1 * np.abs(w).sum())

    def error(self, w: np.ndarray, bias: float) -> float:
        """Share of the test rows on the wrong side; a margin of 0 is a negative, as in predict."""
        margins = self.test.matrix(WIDTH + 1)[:, 1:] @ w + bias
        return float(np.mean((margins > 0.0) != (self.test.labels > 0.0)))


def files(run: Run) -> tuple[str, str]:
    return (
        str(run.file("mnist.train.svm.gz", FORM)),
        str(run.file("mnist.test.svm.gz", FORM)),
    )


@cache
def all_digits(path: str) -> Rows:
    """Read once in every process."""
    return Rows.read(Path(path), "any")


@cache
def pair_of(train: str, test: str, digits: tuple[int, int]) -> Pair:
    rows = all_digits(train).of_classes(*digits)
    return Pair(rows, all_digits(test).of_classes(*digits), rows.matrix(WIDTH + 1)[:, 1:])


def contender(name: str, settings: str, digits: tuple[int, int], rows: int, l1: float) -> Contender:
    """A method of the table with these settings, for these digits and this l1."""
    changes: dict[str, Any] = {"l1": l1, "labels": f"{digits[0]},{digits[1]}"}
    if settings.partition("-")[2] in SUFFIX:
        changes["total"] = rows
    return Contender(name, training(settings, changes))


def figures(pair: Pair, w: np.ndarray, bias: float, l1: float) -> Outcome:
    """What is told of any model, learned or optimal."""
    return {
        "Obj": pair.objective(w, bias, l1),
        "Own": pair.objective(w, bias, l1, 0.0),
        "Error": pair.error(w, bias),
        "ED": density(w),
        "TD": tiny_density(w),
        "Nonzeros": float(np.count_nonzero(w)),
    }


def trial(
    data: tuple[str, str],
    digits: tuple[int, int],
    l1: float,
    seed: int,
    methods: Sequence[tuple[str, str]],
    weighed: bool = False,
    dense_as: Sequence[str] = (),
) -> Outcome:
    """One pass of every method (row of the table, settings) over the rows in one random order.

    `weighed` gives the weights too; `dense_as` the errors of each model after rounding: only as
    many of its weights are kept, the largest, as the model of each of those methods has.
    """
    pair = pair_of(*data, digits)
    order = np.random.default_rng([seed, *digits]).permutation(len(pair.train))
    contenders = [contender(name, file, digits, len(order), l1) for name, file in methods]
    learn(contenders, pair.train.take(order).blocks())
    models = {c.name: c.model() for c in contenders}
    dense = {name: weights(model, WIDTH) for name, model in models.items()}
    found: Outcome = {}
    for c in contenders:
        w, bias = dense[c.name], models[c.name].bias
        of = found[c.name] = {
            **figures(pair, w, bias, l1),
            "CPU": c.seconds,
        }
        if weighed:
            of["Weights"] = w.tolist()
        for sparse in dense_as:
            kept = largest(w, np.count_nonzero(dense[sparse]))
            of[f"as {sparse}"] = pair.error(kept, bias)
    return found


def largest(w: np.ndarray, count: int) -> np.ndarray:
    """All but the `count` largest weights set to zero."""
    kept = np.zeros_like(w)
    chosen = np.argsort(-np.abs(w), kind="stable")[:count]
    kept[chosen] = w[chosen]
    return kept
