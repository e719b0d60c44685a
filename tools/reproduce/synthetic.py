"""The papers' made-up regression, whose optimum is known: the stream, and one run over it.

    x uniform on [-1, 1]^d,  y = x.v + noise,  v = 1 on the first half and 0 on the second
    objective(w) = E (x.w - y)^2 / 2 + 0.05 |w|^2 + 0.1 |w|_1

E x x' = I/3, so the objective of any w has a closed form and nothing is sampled to judge a model;
its minimum is w = 7/13 on the first half.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from reproduce.products import (
    Contender,
    dense_blocks,
    density,
    learn,
    tiny_density,
    training,
    weights,
)
from reproduce.trials import Outcome

L1 = L2 = 0.1
CHUNK = 1 << 19  # numbers made at a time
SUFFIX = ("asgd", "averagesl", "lastsl", "optimalsl", "optimalsl-short")  # need to know the end
OWN = "averagesl, our defaults"
METHODS = {  # the row of the table -> the end of the settings file's name
    "FOBOS": "fobos",
    "FOBOS, c/sqrt(t)": "fobos-sqrt",
    "alpha-SGD": "asgd",
    "ORDA": "orda",
    "RDA": "rda",
    "LastSL": "lastsl",
    "OptimalSL": "optimalsl",
    "OptimalSL, short suffix": "optimalsl-short",
    "AverageSL": "averagesl",
    OWN: "averagesl-own",
    "adaptivesl": "adaptivesl",
}


def truth(width: int) -> np.ndarray:
    return (np.arange(width) < width // 2).astype(float)


def objective(w: np.ndarray, noise: float) -> float:
    """E (x.w - y)^2 / 2 + l2/2 |w|^2 + l1 |w|_1, exactly."""
    off = w - truth(len(w))
    return float(off @ off / 6.0 + noise / 2.0 + L2 / 2.0 * (w @ w) + L1 * np.abs(w).sum())


def support_recovery(w: np.ndarray) -> float:
    found, true = w != 0.0, truth(len(w)) > 0.0
    return 2.0 * float((found & true).sum()) / float(found.sum() + true.sum())


def stream(
    width: int, noise: float, rows: int, seed: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows and labels, a part at a time; more rows begin with the same ones."""
    random = np.random.default_rng([seed, width, int(noise)])
    ones = width // 2
    size = CHUNK // width
    for start in range(0, rows, size):
        X = random.random((size, width))
        X *= 2.0
        X -= 1.0
        y = X[:, :ones].sum(axis=1) + np.sqrt(noise) * random.standard_normal(size)
        left = rows - start
        yield X[:left], y[:left]


def trial(
    table: str, width: int, noise: float, rows: int, seed: int, methods: Sequence[str]
) -> Outcome:
    """Every method once over the same stream: {method: {Obj, ED, TD, SSR, CPU}}."""
    contenders = []
    for method in methods:
        ending = METHODS[method]
        changes: dict[str, Any] = {"total": rows} if ending in SUFFIX else {}
        if method == "adaptivesl":  # its l1 is for labels of unit variance
            changes["l1"] = L1 / float(np.sqrt(width // 2 / 3.0 + noise))
        contenders.append(Contender(method, training(f"{table}-{ending}", changes)))
    for X, y in stream(width, noise, rows, seed):
        learn(contenders, dense_blocks(X, y))
    found: Outcome = {}
    for contender in contenders:
        w = weights(contender.model(), width)
        found[contender.name] = {
            "Obj": objective(w, noise),
            "ED": density(w),
            "TD": tiny_density(w),
            "SSR": support_recovery(w),
            "CPU": contender.seconds,
        }
    return found
