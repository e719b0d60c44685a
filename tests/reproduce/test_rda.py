"""The rda experiment: its SGD is the paper's, its optimum is one, and it runs on small digits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reproduce import rda
from reproduce.optima import objective, optimum, violation
from reproduce.products import Contender, Rows, learn, training, weights
from reproduce.rda_findings import PENALTIES, claims
from reproduce.trials import MissingData, Run

STEP = np.sqrt(2.0 / 12183) / 5000


def pixels(count: int, width: int, seed: int) -> Rows:
    """Whole numbers from 0 to 255, most of them zero; the first columns tell the label."""
    random = np.random.default_rng(seed)
    X = random.integers(1, 256, (count, width)) * (random.random((count, width)) < 0.2)
    y = np.where(random.random(count) < 0.5, 1.0, -1.0)
    X[:, :3] += 100 * (y > 0)[:, None]
    rows, columns = np.nonzero(X)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))])
    return Rows(offsets, columns + 1, X[rows, columns].astype(float), y)


def papers_sgd(rows: Rows, width: int, l1: float) -> tuple[np.ndarray, np.ndarray]:
    """The last iterate and the mean of the iterates that predicted, step by step."""
    X = rows.matrix(width + 1).toarray()[:, 1:]
    w, bias, total = np.zeros(width), 0.0, np.zeros(width)
    for x, y in zip(X, rows.labels, strict=True):
        total += w
        slope = -y / (1.0 + np.exp(y * (x @ w + bias)))
        w = w - STEP * (slope * x + l1 * np.sign(w))
        bias -= STEP * slope
    return w, total / len(X)


@pytest.mark.parametrize("l1", [0.03, 10.0])
def test_sgd_is_that_of_the_paper(l1: float) -> None:
    rows = pixels(700, 30, 1)
    last = Contender("last", training("rda-sgd", {"l1": l1}))
    mean = Contender("mean", training("rda-sgd-mean", {"l1": l1}))
    learn([last, mean], rows.blocks())
    w, average = papers_sgd(rows, 30, l1)
    # Rounding decides the sign of a weight that l1 takes through zero, hence the width of a step.
    assert weights(last.model(), 30) == pytest.approx(w, abs=3 * STEP * l1)
    assert weights(mean.model(), 30) == pytest.approx(average, abs=3 * STEP * l1)
    assert np.abs(w).max() > 100 * STEP * l1


def test_optimum_satisfies_its_conditions() -> None:
    rows = pixels(300, 20, 2)
    X, l1 = rows.matrix(21) / 255.0, 0.02
    found = optimum(X, rows.labels, l1, bias=True)
    assert 0 < found.nonzeros < 20
    assert found.violation < 1e-2
    assert violation(X, rows.labels, 1.1 * found.weights, found.bias, l1, True) > 1e-2
    assert objective(X, rows.labels, 1.1 * found.weights, found.bias, l1) > found.objective


def test_every_seventh_iterate_is_a_prefix() -> None:
    rows = pixels(30, 10, 3)
    models = list(rda.on_the_way("rda-tg", {}, 0.1, rows))
    assert [model.t for model in models] == [7, 14, 21, 28]
    whole = Contender("whole", training("rda-tg", {"l1": 0.1}))
    learn([whole], rows.take(np.arange(14)).blocks())
    assert models[1].weights == whole.model().weights


def digit_file(path: Path, count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    lines = []
    for digit in [*range(10)] * count:
        values = random.integers(1, 256, 784) * (random.random(784) < 0.05)
        values[50 * digit : 50 * digit + 5] = 200
        cells = " ".join(f"{i}:{v / 255:.6g}" for i, v in enumerate(values, 1) if v)
        lines.append(f"{digit} {cells}\n")
    path.write_text("".join(lines))


def test_runs_on_small_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part, seed in (("train", 1), ("test", 2)):
        digit_file(tmp_path / f"mnist.{part}.svm.gz", 8, seed)
    monkeypatch.setattr(Run, "count", lambda self, full: 2)
    result = rda.rda(Run(data=tmp_path, show=False))
    assert [p.name for p in result.pictures] == [
        "rda-patterns", "rda-nonzeros", "rda-trade", "rda-pairs",
    ]  # fmt: skip
    assert all(p.png.startswith(b"\x89PNG") for p in result.pictures)
    assert len(result.tables[0].rows) == 9 * len(PENALTIES)
    assert len(result.tables[1].rows) == 45
    batch = [result.tables[0].figure(f"l1 {l1:g}", "batch", "objective").mean for l1 in PENALTIES]
    others = [
        row.figures["objective"].mean - batch[PENALTIES.index(float(row.group.split()[1]))]
        for row in result.tables[0].rows
    ]
    assert min(others) > -1e-4


def test_missing_digits_are_told(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=r"has no mnist.train.svm.gz: the MNIST digits as libsvm"):
        rda.rda(Run(data=tmp_path, show=False))


def test_claims_can_fail() -> None:
    names = ("SGD", "TG", "RDA", "RDA enhanced", "RDA, mean", "batch")
    found = {
        (name, l1): [{"nonzeros": 10 * (i + 1)}] for i, name in enumerate(names) for l1 in PENALTIES
    }
    ways = [("TG, K=10", 0.1), ("RDA", 0.1)]
    goals = claims(found, [[5, 5, 5, 5], [1, 9, 1, 9]], ways)
    assert [goal.met for goal in goals] == [False, True, True, False]
