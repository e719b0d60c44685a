"""Seeded data for the benchmarks: made once in a folder, found there afterwards. No network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

BLOCK = 2000  # rows made at a time


def made(path: Path, blocks: Iterator[str]) -> Path:
    """Write a file unless it is there; a broken-off one is not taken for it."""
    if not path.exists():
        draft = path.with_suffix(".part")
        with draft.open("w") as file:
            file.writelines(blocks)
        draft.replace(path)
    return path


def rcv1_like(folder: Path, rows: int = 200_000) -> Path:
    """47,236 ids with Zipf frequencies, about 73 non-zeros a row of unit length: 225 MB."""
    return made(folder / f"rcv1-like-{rows}.svm", rcv1_blocks(rows))


def rcv1_blocks(rows: int) -> Iterator[str]:
    random = np.random.default_rng(1)
    width = 47_236
    share = np.cumsum(1.0 / np.arange(1, width + 1))
    share /= share[-1]
    names = random.permutation(width) + 1
    truth = np.zeros(width + 1)
    truth[random.choice(width, 2000, replace=False) + 1] = 3.0 * random.normal(size=2000)
    for _ in range(0, rows, BLOCK):
        lines = []
        for _ in range(BLOCK):
            drawn = max(3, int(random.gamma(4, 73 / 4) * 1.32))
            ids = np.unique(names[np.searchsorted(share, random.random(drawn))])
            values = random.gamma(2, 1, len(ids))
            values /= np.sqrt(values @ values)
            label = 1 if truth[ids] @ values + 0.3 * random.normal() > 0 else -1
            items = " ".join(f"{i}:{v:.6f}" for i, v in zip(ids, values, strict=True))
            lines.append(f"{label:+d} {items}\n")
        yield "".join(lines)


def short_rows(folder: Path, rows: int = 400_000) -> tuple[Path, int]:
    """Rows like those of the Adult data: 14 of 123 binary features, about 80 bytes."""
    return made(folder / f"short-{rows}.svm", short_blocks(rows)), rows


def short_blocks(rows: int) -> Iterator[str]:
    random = np.random.default_rng(2)
    truth = random.normal(size=124)
    for _ in range(0, rows, BLOCK):
        lines = []
        for _ in range(BLOCK):
            ids = np.sort(random.choice(123, 14, replace=False)) + 1
            label = 1 if truth[ids].sum() + random.normal() > 0 else -1
            lines.append(f"{label:+d} {' '.join(f'{i}:1' for i in ids)}\n")
        yield "".join(lines)


def vw_form(path: Path) -> Path:
    """The same rows as Vowpal Wabbit reads them: a bar behind the label."""

    def lines() -> Iterator[str]:
        with path.open() as file:
            for line in file:
                label, _, rest = line.partition(" ")
                yield f"{label} | {rest}"

    return made(path.with_suffix(".vw"), lines())


def wide(folder: Path, rows: int = 100_000) -> Path:
    """16.6 million ids, about 100 non-zeros a row, heavy-tailed: most ids are rare."""
    return made(folder / f"wide-{rows}.svm", wide_blocks(rows))


def wide_blocks(rows: int) -> Iterator[str]:
    random = np.random.default_rng(3)
    width = 16_600_000
    for _ in range(0, rows, BLOCK):
        lines = []
        for _ in range(BLOCK):
            drawn = max(5, int(random.gamma(2, 50)))
            # The fourth power of a uniform number: half of them in the first 6 % of the range.
            ids = np.unique((width * random.random(drawn) ** 4.0).astype(np.int64)) + 1
            label = 1 if (ids % 7 == 0).mean() + 0.05 * random.normal() > 0.14 else -1
            lines.append(f"{label:+d} {' '.join(f'{i}:1' for i in ids)}\n")
        yield "".join(lines)


def dense(folder: Path, rows: int = 50_000) -> Path:
    """1,000 uniform values in every row, regression."""
    return made(folder / f"dense-{rows}.svm", dense_blocks(rows))


def dense_blocks(rows: int) -> Iterator[str]:
    random = np.random.default_rng(4)
    truth = np.where(random.random(1000) < 0.1, random.normal(size=1000), 0.0)
    for _ in range(0, rows, BLOCK):
        X = random.random((BLOCK, 1000))
        y = X @ truth + random.normal(size=BLOCK)
        yield "".join(
            f"{label:.4f} {' '.join(f'{i}:{v:.4f}' for i, v in enumerate(row, 1))}\n"
            for label, row in zip(y.tolist(), X.tolist(), strict=True)
        )
