"""The text tasks of the stable experiment: pairs of groups of 20newsgroups, and the rcv1 sample."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np

from reproduce.products import Rows

# By the alphabet: 1 is alt.atheism, 7 misc.forsale, 16 soc.religion.christian.
GROUPS = {
    "comp": range(2, 7),
    "rec": range(8, 12),
    "sci": range(12, 16),
    "talk": range(17, 21),
}
RCV1 = "rcv1 sample"
TASKS = (*(f"{a} v {b}" for a, b in combinations(GROUPS, 2)), RCV1)
DOCUMENTS = 3  # a word must be in so many of the training rows
HELD_OUT = 0.2


@dataclass(frozen=True)
class Task:
    """Rows over the same columns 0 .. d-1: words of the training rows that are not rare."""

    train: Rows
    test: Rows
    d: int

    def split(self, seed: int) -> tuple[Rows, Rows]:
        """The training rows in a random order, and those held out to choose settings by."""
        order = np.random.default_rng(seed).permutation(len(self.train))
        cut = int(HELD_OUT * len(order))
        return self.train.take(order[cut:]), self.train.take(order[:cut])


@cache
def task(name: str, train: Path, test: Path) -> Task:
    """Of the files of 20newsgroups (labels 1 to 20) or of rcv1 (labels -1 and +1)."""
    if name == RCV1:
        return frequent(Rows.read(train), Rows.read(test))
    negative, positive = name.split(" v ")
    return frequent(
        *(grouped(Rows.read(path, "any"), GROUPS[negative], GROUPS[positive])
          for path in (train, test))
    )  # fmt: skip


def grouped(rows: Rows, negative: range, positive: range) -> Rows:
    """The rows of two groups of labels, as -1 and +1."""
    chosen = rows.take(np.flatnonzero(np.isin(rows.labels, [*negative, *positive])))
    chosen.labels = np.where(np.isin(chosen.labels, positive), 1.0, -1.0)
    return chosen


def frequent(train: Rows, test: Rows) -> Task:
    """Without the words of fewer than three training rows."""
    ids, counts = np.unique(train.ids, return_counts=True)
    kept = ids[counts >= DOCUMENTS]
    return Task(of_columns(train, kept), of_columns(test, kept), len(kept))


def of_columns(rows: Rows, kept: np.ndarray) -> Rows:
    """The same rows with these ids only, numbered from 0 in their order."""
    place = np.minimum(np.searchsorted(kept, rows.ids), len(kept) - 1)
    stays = kept[place] == rows.ids
    before = np.concatenate([[0], np.cumsum(stays)])
    return Rows(
        before[rows.offsets].astype(np.int64),
        place[stays].astype(np.int64),
        rows.values[stays],
        rows.labels,
    )
