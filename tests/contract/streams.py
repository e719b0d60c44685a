"""Seeded random sparse streams, the way into a learner, and the way back; it tests nothing.

A stream is dense here, one column a feature, because the twins are; zeros never reach a learner.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamlearn.catalogue import LOSSES, engine_spec, make_learner, resolve
from streamlearn.catalogue import STREAMING as ALGORITHMS
from streamlearn.comparison import meant
from streamlearn.engine.block import Block
from streamlearn.engine.learner import Learner

DENSITIES = (0.02, 0.3, 1.0)  # of the columns, in turn: rare, common, always there
PENALTY = {"l1": 0.02, "l2": 0.05}  # strong enough that weights come and go within 100 examples
# What lets weights come and go for those whose l1 means something else; stable l2 for the optimal.
BASE: dict[str, dict[str, Any]] = {
    "fobos": dict(PENALTY),
    "tg": {"l1": 0.02, "eta": 0.2},
    "adagrad-rda": {"l1": 0.02, "l2": 0.05},
    "ftrl": {"l1": 0.5, "l2": 0.5},
    "orda": {"l1": 0.02, "l2": 0.5, "stiffness": 100.0},
    "ssg": {"l1": 0.02, "l2": 0.5, "stiffness": 100.0},
    "smidas": {"l1": 0.02, "eta": 0.02, "p": 3.0},
    "perceptron": {"threshold": 0.02},
    "l1ball": {"radius": 2.0, "eta": 0.1},
}
# Every algorithm with every loss that it takes.
PAIRS = [
    (algo, loss)
    for algo, entry in ALGORITHMS.items()
    for loss in LOSSES
    if LOSSES[loss].classifies or not entry.classifies_only
]
SMOOTHNESS = 2.5  # where L would be chosen on recent rows, which the twins do not do


@dataclass(frozen=True)
class Stream:
    """T examples in order."""

    X: np.ndarray  # (T, columns)
    y: np.ndarray
    importance: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def columns(self) -> int:
        return self.X.shape[1]

    def weights(self) -> np.ndarray:
        return np.ones(len(self)) if self.importance is None else self.importance

    def cut(self, first: int, stop: int | None = None) -> "Stream":
        return self.rows(slice(first, stop))

    def rows(self, rows: slice | np.ndarray) -> "Stream":
        importance = None if self.importance is None else self.importance[rows]
        return Stream(self.X[rows], self.y[rows], importance)


def labels_of(loss: str, margins: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Noisy labels that the margins explain in part, of the kind that the loss takes."""
    noisy = margins + rng.normal(size=len(margins))
    return np.where(noisy > 0, 1.0, -1.0) if LOSSES[loss].classifies else noisy


def random_stream(
    loss: str, length: int, seed: int, columns: int = 24, importance: bool = True
) -> Stream:
    """Columns of all densities, a few of them with signal; some importance weights are zero."""
    rng = np.random.default_rng([seed, length])
    density = np.resize(DENSITIES, columns)
    X = rng.normal(size=(length, columns)) * (rng.random((length, columns)) < density)
    truth = np.where(np.arange(columns) < 6, rng.choice([-1.0, 1.0], size=columns), 0.0)
    weights = None
    if importance:
        weights = 2 * rng.random(length) * (rng.random(length) > 0.05)
    return Stream(X, labels_of(loss, X @ truth, rng), weights)


def to_block(
    stream: Stream,
    first: int = 0,
    stop: int | None = None,
    *,
    ids: np.ndarray | None = None,
    lines: np.ndarray | None = None,
    order: np.random.Generator | None = None,
) -> Block:
    """Rows first .. stop-1; `ids` renames the columns, `order` shuffles inside each row."""
    stop = len(stream) if stop is None else min(stop, len(stream))
    X = stream.X[first:stop]
    rows, columns = np.nonzero(X)
    if order is not None:
        shuffled = np.lexsort((order.random(len(rows)), rows))
        columns = columns[shuffled]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(X)))])
    named = columns if ids is None else ids[columns]
    if lines is None:
        lines = np.arange(len(stream)) + 1
    return Block.from_arrays(
        offsets.astype(np.int64),
        named.astype(np.int64),
        X[rows, columns],
        np.ascontiguousarray(stream.y[first:stop]),
        None if stream.importance is None else np.ascontiguousarray(stream.importance[first:stop]),
        np.ascontiguousarray(lines[first:stop], dtype=np.int64),
    )


def learn(learner: Learner, stream: Stream, size: int | None = None, **how: Any) -> Learner:
    """Feed a whole stream in blocks of `size` rows (None: one block)."""
    size = size or max(len(stream), 1)
    for first in range(0, len(stream), size):
        learner.learn(to_block(stream, first, first + size, **how))
    return learner


def fresh(algo: str, loss: str, **given: Any) -> Learner:
    """A learner with the given parameters, the rest by default."""
    return make_learner(resolve(algo, loss, given))


def settings_for(algo: str, loss: str, given: dict[str, Any]) -> dict[str, Any]:
    """The given parameters over penalties that show within a short stream, and a fixed L."""
    taken = ALGORITHMS[algo].parameters
    base = {name: value for name, value in PENALTY.items() if name in taken and "eta" not in taken}
    base.update(BASE.get(algo, {}))
    settings = meant(algo, loss, {**base, **given}, {})
    spec = engine_spec(resolve(algo, loss, settings))
    if spec["converts"] and spec["smoothness"] is None:
        settings["smoothness"] = SMOOTHNESS
    return settings


def ids_of(snapshot: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(snapshot["ids"], dtype=np.int64)


def weights_of(snapshot: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(snapshot["weights"], dtype=np.float64)


def dense_weights(
    snapshot: dict[str, Any], columns: int, ids: Sequence[int] | None = None
) -> np.ndarray:
    """The weight of every column; `ids` is the renaming that the stream was fed with."""
    weights = dict(zip(ids_of(snapshot).tolist(), weights_of(snapshot).tolist(), strict=True))
    w = np.array([weights.pop(int(name), 0.0) for name in (range(columns) if ids is None else ids)])
    assert not weights, f"weights of unknown ids: {weights}"
    return w


def column_of(state: dict[str, Any], name: str) -> np.ndarray:
    """One word of every slot, in the order of state["ids"]; the time stamp is whole."""
    return np.frombuffer(state["slots"][name], dtype=np.int64 if name == "last" else np.float64)


def bias_of(state: dict[str, Any]) -> dict[str, float]:
    """The words of the bias slot, by name."""
    words = np.frombuffer(state["bias"], dtype=np.float64)
    return dict(zip(state["slots"], words.tolist(), strict=True))
