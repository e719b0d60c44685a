"""Experiments run what a user runs: the same bits as `fit` on text; and a cheap check or two."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from reproduce import digits, pairs, synthetic, text
from reproduce.products import Contender, Rows, dense_blocks, learn, training, weights
from reproduce.trials import Run
from streamlearn.cli import main
from streamlearn.model import Model
from streamlearn.sources import Source
from streamlearn.training import BadLines


def as_text(X: np.ndarray, y: np.ndarray) -> str:
    return "".join(
        f"{label!r} {' '.join(f'{i}:{v!r}' for i, v in enumerate(row, 1) if v)}\n"
        for label, row in zip(y.tolist(), X.tolist(), strict=True)
    )


@pytest.mark.parametrize("ending", sorted({*synthetic.METHODS.values()}))
def test_arrays_give_the_bits_of_text(ending: str, root: Path, tmp_path: Path) -> None:
    X, y = next(synthetic.stream(100, 4.0, 1500, 3))
    contender = Contender("arrays", training(f"aaai1-{ending}"))
    learn([contender], dense_blocks(X, y))
    data, model = tmp_path / "rows.svm", tmp_path / "model.sl"
    data.write_text(as_text(X, y))
    config = root / "conf" / "paper" / f"aaai1-{ending}.toml"
    words = ["fit", str(data), "--config", str(config), "-o", str(model), "--progress", "none"]
    assert main(words) == 0
    fitted, ours = Model.load(str(model)), contender.model()
    assert ours.weights == fitted.weights
    assert ours.ids == fitted.ids
    assert ours.nonzeros > 0


def digit_file(path: Path, count: int, seed: int) -> Path:
    """Rows in the form of MNIST, whose digit is told by a few pixels."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, count)
    X = np.where(random.random((count, pairs.WIDTH)) < 0.1, random.random((count, 1)), 0.0)
    for digit in range(10):
        X[labels == digit, 20 * digit : 20 * digit + 3] += 0.4
    path.write_text(as_text(X.round(3), labels))
    return path


def test_rows_of_two_digits_give_the_bits_of_text(tmp_path: Path) -> None:
    path = digit_file(tmp_path / "digits.svm", 400, 1)
    rows = Rows.read(path, (2.0, 3.0))
    order = np.random.default_rng(5).permutation(len(rows))
    contender = Contender("rows", training("tpami5-averagesl", {"total": len(rows), "l1": 0.001}))
    learn([contender], rows.take(order).blocks())
    lines = [line for line in path.read_text().splitlines(True) if line[:2] in ("2 ", "3 ")]
    shuffled = "".join(lines[i] for i in order)
    run = training("tpami5-averagesl", {"total": len(rows), "l1": 0.001})
    for _ in run.run([Source("text", io.BytesIO(shuffled.encode()), None)], BadLines()):
        pass
    theirs, ours = run.model(), contender.model()
    assert len(rows) == len(lines)
    assert isinstance(theirs, Model)
    assert (ours.weights, ours.bias) == (theirs.weights, theirs.bias)
    assert ours.nonzeros > 0


def test_objective_has_its_minimum_where_the_page_says() -> None:
    best = np.where(synthetic.truth(100) > 0, 7.0 / 13.0, 0.0)
    least = synthetic.objective(best, 1.0)
    assert least == pytest.approx(5.6923, abs=5e-5)
    random = np.random.default_rng(0)
    for _ in range(200):
        assert synthetic.objective(best + 1e-3 * random.normal(size=100), 1.0) > least


def test_objective_is_that_of_the_stream() -> None:
    random = np.random.default_rng(1)
    w = np.where(random.random(20) < 0.5, random.normal(size=20), 0.0)
    parts = list(synthetic.stream(20, 4.0, 200_000, 0))
    loss = np.concatenate([(X @ w - y) ** 2 / 2.0 for X, y in parts])
    penalty = 0.05 * (w @ w) + 0.1 * np.abs(w).sum()
    error = loss.std() / len(loss) ** 0.5
    assert synthetic.objective(w, 4.0) == pytest.approx(loss.mean() + penalty, abs=5 * error)


def test_longer_streams_begin_alike() -> None:
    (X, y), *_ = synthetic.stream(100, 1.0, 100, 7)
    longer = list(synthetic.stream(100, 1.0, 12_000, 7))
    assert np.array_equal(longer[0][0][:100], X)
    assert np.array_equal(longer[0][1][:100], y)
    assert sum(len(part) for _, part in longer) == 12_000


def test_sparse_methods_find_the_support_and_the_mean_does_not() -> None:
    methods = ("alpha-SGD", "OptimalSL", "AverageSL", "averagesl, our defaults", "RDA")
    found = synthetic.trial("aaai1", 100, 1.0, 20_000, 0, methods)
    assert found["alpha-SGD"]["ED"] == 1.0
    assert found["alpha-SGD"]["SSR"] == pytest.approx(2 / 3)
    for method in methods[1:]:
        assert 0.5 <= found[method]["ED"] <= 0.52, method
        assert found[method]["SSR"] >= 0.98, method
        assert found[method]["Obj"] < found["alpha-SGD"]["Obj"], method


def test_rounding_keeps_the_largest() -> None:
    w = np.array([0.1, -3.0, 0.0, 2.0, -0.5])
    assert pairs.largest(w, 2).tolist() == [0.0, -3.0, 0.0, 2.0, 0.0]
    assert pairs.largest(w, 0).tolist() == [0.0] * 5
    assert pairs.largest(w, 9).tolist() == w.tolist()


def test_pair_of_digits_is_learned(tmp_path: Path) -> None:
    data = (
        str(digit_file(tmp_path / "train.svm", 2000, 1)),
        str(digit_file(tmp_path / "test.svm", 500, 2)),
    )
    methods = digits.methods_of("tpami5")
    found = pairs.trial(data, (2, 3), 0.02, 0, methods, True, ("AverageSL",))
    assert {*found} == {name for name, _ in methods}
    for name, of in found.items():
        assert of["Error"] < 0.1, name
        assert of["Nonzeros"] == np.count_nonzero(of["Weights"])
        assert of["ED"] == of["Nonzeros"] / 784
    assert found["AverageSL"]["as AverageSL"] == found["AverageSL"]["Error"]
    assert found["AverageSL"]["ED"] < found["alpha-SGD"]["ED"]
    assert found == pairs.trial(data, (2, 3), 0.02, 0, methods, True, ("AverageSL",)) | {
        name: of | {"CPU": found[name]["CPU"]} for name, of in found.items()
    }


def test_batch_optimum_is_below_every_trial(tmp_path: Path) -> None:
    data = (
        str(digit_file(tmp_path / "train.svm", 1500, 3)),
        str(digit_file(tmp_path / "test.svm", 300, 4)),
    )
    best = digits.batch(data, (2, 3), 0.01)[digits.BATCH]
    assert best["Violation"] < 1e-3
    found = pairs.trial(data, (2, 3), 0.01, 0, digits.methods_of("tpami5"))
    for name, of in found.items():
        # The solver's bias is in neither penalty.
        assert of["Obj"] > best["Obj"] - 1e-4, name


def test_text_takes_the_papers_data_before_what_stands_in(tmp_path: Path) -> None:
    for _, train, test in text.STAND_INS:
        (tmp_path / train).touch()
        (tmp_path / test).touch()
    run = Run(data=tmp_path)
    assert [name for name, *_ in text.available(run)] == [n for n, *_ in text.STAND_INS]
    (tmp_path / "rcv1_train.binary").touch()
    (tmp_path / "rcv1_test.binary").touch()
    assert [name for name, *_ in text.available(run)] == ["rcv1.binary"]


def test_text_trial_scores_as_the_product_does(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    paths = []
    for part, count in (("train", 600), ("test", 200)):
        X = np.where(random.random((count, 60)) < 0.2, random.integers(1, 5, (count, 60)), 0.0)
        y = np.where(X[:, :5].sum(axis=1) > X[:, 5:10].sum(axis=1), 1, -1)
        paths.append(tmp_path / f"{part}.svm")
        paths[-1].write_text(as_text(X, y))
    found = text.trial(str(paths[0]), str(paths[1]), 1e-3, 0)
    rows = Rows.read(paths[0])
    order = np.random.default_rng([0, len(rows)]).permutation(len(rows))
    contender = Contender("again", training("tpami6-adaptivesl", {"l1": 1e-3}))
    learn([contender], rows.take(order).blocks())
    model, test = contender.model(), Rows.read(paths[1])
    margins = np.concatenate([np.array(model.block_margins(b)) for b in test.blocks()])
    assert found["adaptivesl"]["Error"] == np.mean((margins > 0) != (test.labels > 0))
    assert found["adaptivesl"]["Nonzeros"] == np.count_nonzero(weights(model, 60))
    assert found["adaptivesl"]["Error"] < 0.25
