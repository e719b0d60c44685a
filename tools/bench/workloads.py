"""Seeded data for the benchmarks: made once in a folder, found there afterwards. No network.

As a command it makes one file, also as Vowpal Wabbit reads it, and prints what is in it, as JSON:
who measures memory must stay small, and numpy is not.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np

BLOCK = 2000  # rows made at a time


def made(path: Path, blocks: Iterator[str]) -> Path:
    """Write a file unless it is there; a broken-off one, or another's, is not taken for it."""
    if not path.exists():
        with NamedTemporaryFile("w", dir=path.parent, suffix=".part", delete=False) as file:
            file.writelines(blocks)
        Path(file.name).replace(path)
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


def repeated(path: Path, times: int) -> Path:
    """A file so many times as long, with the same rows again and again."""

    def blocks() -> Iterator[str]:
        for _ in range(times):
            with path.open() as file:
                while piece := file.read(1 << 24):
                    yield piece

    return made(path.with_name(f"{path.stem}-times-{times}.svm"), blocks())


def unpacked(folder: Path, packed: Path) -> Path:
    """A real file without its compression, which not all peers read."""
    path = folder / f"real-{packed.name.removesuffix('.gz')}"
    if not path.exists():
        with gzip.open(packed) as source, NamedTemporaryFile(dir=folder, delete=False) as file:
            shutil.copyfileobj(source, file)
        Path(file.name).replace(path)
    return path


def contents(path: Path) -> dict[str, int]:
    """Rows, features and the largest id of a file whose ids rise in every row."""
    rows = features = width = 0
    with path.open("rb") as file:
        for line in file:
            rows += 1
            features += line.count(b":")
            _, _, last = line.rstrip().rpartition(b" ")
            if b":" in last:
                width = max(width, int(last.partition(b":")[0]))
    return {"rows": rows, "features": features, "width": width, "bytes": path.stat().st_size}


MAKERS = {"rcv1": rcv1_like, "wide": wide, "dense": dense}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", help=f"{', '.join(MAKERS)}, or a real file, compressed by gzip")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, help="another length than the usual one")
    parser.add_argument("--times", type=int, default=1, help="a file of the same rows repeated too")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    if make := MAKERS.get(args.what):
        path = make(args.folder, args.rows) if args.rows else make(args.folder)
    else:
        path = unpacked(args.folder, Path(args.what))
    long = repeated(path, args.times) if args.times > 1 else path
    found = {"path": str(path), "vw": str(vw_form(path)), "long": str(long)}
    json.dump({**found, **contents(path)}, sys.stdout)


if __name__ == "__main__":
    main()
