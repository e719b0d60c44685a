"""A realistic sample: rows of words by Zipf's law, a sparse truth behind the labels.

sample.py FOLDER          writes train.svm, test.svm, names.txt and truth.txt
sample.py --compare TRUTH reads `id<TAB>weight` lines and says how much of the truth was found
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

TRAIN, TEST, FEATURES, TRUE, A_ROW = 40_000, 10_000, 100_000, 200, 40


def write(folder: Path) -> None:
    rng = np.random.default_rng(20)
    share = 1.0 / np.arange(1, FEATURES + 1)
    upto = np.cumsum(share / share.sum())
    # Words that matter are neither the most common nor the rarest.
    truth = np.zeros(FEATURES + 1)
    chosen = np.unique(np.exp(rng.uniform(np.log(5), np.log(4_000), 4 * TRUE)).astype(int))
    chosen = rng.choice(chosen, TRUE, replace=False)
    truth[chosen] = rng.choice([-1.0, 1.0], TRUE) * rng.uniform(1.0, 3.0, TRUE)
    for name, rows in (("train.svm", TRAIN), ("test.svm", TEST)):
        with (folder / name).open("w", encoding="ascii") as out:
            lengths = rng.poisson(A_ROW, rows) + 1
            words = np.searchsorted(upto, rng.random(int(lengths.sum()))) + 1
            start = 0
            for length in lengths:
                ids, counts = np.unique(words[start : start + length], return_counts=True)
                start += length
                values = 1.0 + np.log(counts)
                chance = 1.0 / (1.0 + np.exp(-float(truth[ids] @ values)))
                label = "+1" if rng.random() < chance else "-1"
                pairs = " ".join(f"{i}:{v:.6g}" for i, v in zip(ids, values, strict=True))
                out.write(f"{label} {pairs}\n")
    names = [f"word{i}" for i in range(FEATURES + 1)]
    for i in chosen:
        names[i] += "*"  # a star marks the truth
    (folder / "names.txt").write_text("\n".join(names) + "\n", encoding="ascii")
    lines = (f"{i}\t{float(truth[i])!r}" for i in np.sort(chosen))
    (folder / "truth.txt").write_text("\n".join(lines) + "\n", encoding="ascii")


def compare(path: Path) -> None:
    def read(lines: list[str]) -> dict[int, float]:
        pairs = (line.split("\t") for line in lines)
        return {int(key): float(value) for key, value in pairs if key != "bias"}

    truth = read(path.read_text(encoding="ascii").splitlines())
    model = read(sys.stdin.read().splitlines())
    found = [i for i in truth if i in model]
    signs = sum(truth[i] * model[i] > 0 for i in found)
    print(
        f"== of {len(truth)} true features {len(found)} were found, {signs} with the right sign;\n"
        f"   {len(model) - len(found)} of the other {FEATURES - len(truth):,d} were kept too"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--compare"]:
        compare(Path(sys.argv[2]))
    else:
        write(Path(sys.argv[1]))
