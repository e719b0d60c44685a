"""How an experiment uses streamlearn: the settings files and the path of `fit`, fed from arrays.

Rows that are already arrays go to the learner as blocks, without being written and read as text:
the same bits (tests/reproduce compares the two).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from streamlearn.cli.fit import fresh
from streamlearn.cli.learning import FIT
from streamlearn.cli.settings import from_file
from streamlearn.engine.block import Block
from streamlearn.engine.libsvm import Parser
from streamlearn.model import Model
from streamlearn.sources import open_source
from streamlearn.training import BadLines, Training, parse

CONF = Path(__file__).resolve().parents[2] / "conf" / "paper"
BLOCK = 1 << 15  # features: a block should stay in the cache of the core
TINY = 1e-6  # what the papers call nearly zero


def training(name: str, changes: Mapping[str, Any] | None = None) -> Training:
    """What `fit --config conf/paper/NAME.toml` begins with; changes are flags, by their names."""
    given = from_file(str(CONF / f"{name}.toml"), FIT)
    for key, value in (changes or {}).items():
        given[key] = FIT[key].read(str(value).lower() if isinstance(value, bool) else str(value))
    return fresh(given)


class Contender:
    """A run of `fit` under a name, with the processor time that its learning took."""

    def __init__(self, name: str, run: Training) -> None:
        self.name, self.run, self.seconds = name, run, 0.0

    def learn(self, block: Block) -> None:
        """The labels of the block are those that `run` was told of, already as -1 and +1."""
        begin = time.process_time()
        self.run.learn_rows(block, self.name)
        self.seconds += time.process_time() - begin

    def model(self) -> Model:
        begin = time.process_time()
        model = self.run.model()
        self.seconds += time.process_time() - begin
        assert isinstance(model, Model)
        return model


def dense_blocks(X: np.ndarray, y: np.ndarray, first: int = 1) -> Iterator[Block]:
    """Rows without zeros, all of the same length; the first column has the id `first`."""
    width = X.shape[1]
    size = max(1, BLOCK // width)
    ids = np.tile(np.arange(first, first + width, dtype=np.int64), min(size, len(y)))
    for start in range(0, len(y), size):
        rows = X[start : start + size]
        count = len(rows)
        yield Block.from_arrays(
            np.arange(0, count * width + 1, width, dtype=np.int64),
            ids[: count * width],
            np.ascontiguousarray(rows, dtype=np.float64).ravel(),
            np.ascontiguousarray(y[start : start + size], dtype=np.float64),
        )


class Rows:
    """Sparse rows in memory: offsets, ids, values and labels as -1 and +1."""

    def __init__(
        self, offsets: np.ndarray, ids: np.ndarray, values: np.ndarray, labels: np.ndarray
    ) -> None:
        self.offsets, self.ids, self.values, self.labels = offsets, ids, values, labels

    def __len__(self) -> int:
        return len(self.labels)

    @classmethod
    def read(cls, path: Path, labels: tuple[float, float] | str = "binary") -> Rows:
        """A libsvm file; with two labels only their rows, with "any" labels as they are written."""
        if not isinstance(labels, str):
            return cls.read(path, "any").of_classes(*labels)
        parts: list[dict[str, np.ndarray]] = []
        kinds = {"offsets": "<i8", "ids": "<i8", "values": "<f8", "labels": "<f8"}
        with closing(open_source(str(path))) as source:
            for block in parse(source, Parser(labels), BadLines(), Block()):
                raw = block.arrays()
                parts.append({k: np.frombuffer(raw[k], kind) for k, kind in kinds.items()})
        lengths = np.concatenate([np.diff(p["offsets"]) for p in parts])
        return cls(
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            *(np.concatenate([p[k] for p in parts]) for k in ("ids", "values", "labels")),
        )

    def of_classes(self, negative: float, positive: float) -> Rows:
        """The rows of two classes, as -1 and +1."""
        chosen = self.take(np.flatnonzero(np.isin(self.labels, (negative, positive))))
        chosen.labels = np.where(chosen.labels == positive, 1.0, -1.0)
        return chosen

    def take(self, order: np.ndarray) -> Rows:
        """These rows in this order."""
        lengths = np.diff(self.offsets)[order]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        place = np.arange(offsets[-1]) + np.repeat(self.offsets[order] - offsets[:-1], lengths)
        return Rows(offsets, self.ids[place], self.values[place], self.labels[order])

    def blocks(self) -> Iterator[Block]:
        size = max(1, BLOCK * len(self) // max(1, len(self.ids)))
        for start in range(0, len(self), size):
            stop = min(start + size, len(self))
            a, b = self.offsets[start], self.offsets[stop]
            yield Block.from_arrays(
                np.ascontiguousarray(self.offsets[start : stop + 1] - a),
                np.ascontiguousarray(self.ids[a:b]),
                np.ascontiguousarray(self.values[a:b]),
                np.ascontiguousarray(self.labels[start:stop]),
            )

    def matrix(self, width: int) -> Any:
        """For scikit-learn: columns are ids."""
        import scipy.sparse

        return scipy.sparse.csr_matrix(
            (self.values, self.ids, self.offsets), shape=(len(self), width)
        )


def learn(contenders: Iterable[Contender], blocks: Iterable[Block]) -> None:
    """One stream, seen by all."""
    contenders = list(contenders)
    for block in blocks:
        for contender in contenders:
            contender.learn(block)


def weights(model: Model, width: int, first: int = 1) -> np.ndarray:
    """The served weights as a dense vector, without the bias; `first` is the id of its begin."""
    dense = np.zeros(width)
    dense[model.id_array - first] = model.weight_array
    return dense


def density(w: np.ndarray) -> float:
    """ED of the papers: the share of weights that are not exactly zero."""
    return float(np.count_nonzero(w)) / len(w)


def tiny_density(w: np.ndarray) -> float:
    """TD of the papers: the share of weights that are not nearly zero."""
    return float(np.count_nonzero(np.abs(w) > TINY)) / len(w)
