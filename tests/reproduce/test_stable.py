"""The stable experiment: tasks as described, settings chosen by rows held out, GraDes' bound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reproduce import newsgroups, stable
from reproduce.products import Rows
from reproduce.stable_findings import average, chosen, diverged
from reproduce.trials import MissingData, Run

SMALL = {  # a setting or two of each method
    name: (file, 1, tried[:1] + tried[-1:]) for name, (file, _, tried) in stable.METHODS.items()
}


def write_news(path: Path, labels: list[int], count: int, seed: int) -> None:
    """Rows of length 1; every label has words of its own among those that all share."""
    random = np.random.default_rng(seed)
    lines = []
    for label in random.permutation(np.repeat(labels, count)):
        own = 10 * abs(int(label)) + (5 if label < 0 else 0)
        words = sorted({*random.integers(1, 10, 5).tolist(), own, own + 1})
        value = 1.0 / len(words) ** 0.5
        lines.append(f"{label} {' '.join(f'{word}:{value:.6g}' for word in words)}\n")
    path.write_text("".join(lines))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for seed, part in enumerate(("train", "test")):
        write_news(tmp_path / f"20news.{part}.svm.gz", [*range(1, 21)], 5, seed)
        write_news(tmp_path / f"rcv1_sample.{part}.svm.gz", [-1, 1], 40, seed)
    return tmp_path


def rows_of(lists: list[list[int]], labels: list[float]) -> Rows:
    ids = np.array([i for row in lists for i in row])
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in lists])])
    return Rows(offsets, ids, ids / 10.0, np.array(labels))


def test_rare_words_are_left_out() -> None:
    train = rows_of([[3, 7], [3, 9], [3, 7, 8], [7]], [1.0, -1.0, 1.0, -1.0])
    found = newsgroups.frequent(train, rows_of([[1, 7, 99], [9], [3, 7]], [1.0, 1.0, -1.0]))
    assert found.d == 2
    assert found.train.matrix(2).toarray().tolist() == [[0.3, 0.7], [0.3, 0], [0.3, 0.7], [0, 0.7]]
    assert found.test.matrix(2).toarray().tolist() == [[0, 0.7], [0, 0], [0.3, 0.7]]


def test_groups_become_two_classes() -> None:
    rows = rows_of([[i] for i in range(1, 6)], [2.0, 9.0, 1.0, 6.0, 11.0])
    found = newsgroups.grouped(rows, newsgroups.GROUPS["comp"], newsgroups.GROUPS["rec"])
    assert found.ids.tolist() == [1, 2, 4, 5]
    assert found.labels.tolist() == [-1.0, 1.0, -1.0, 1.0]


def test_split_keeps_every_row_once() -> None:
    rows = rows_of([[i] for i in range(10)], [1.0] * 10)
    learned, held_out = newsgroups.Task(rows, rows, 10).split(3)
    assert len(held_out) == 2
    assert sorted([*learned.ids, *held_out.ids]) == list(range(10))


def test_rows_held_out_choose_within_the_bound() -> None:
    tried = [[0.5, 0.1, 0.1], [0.09, 0.3, 0.7], [0.05, 0.4, 0.2], [0.0, 0.0, 0.0]]
    assert chosen(tried, 0.1) == 0.7
    assert chosen(tried, 0.06) == 0.2
    assert chosen(tried, 0.01) is None
    assert average({("a", "m"): [tried], ("b", "m"): [tried]}, "m", 0.06) == pytest.approx(20.0)


def test_bound_is_a_share_of_all_features(data: Path) -> None:
    found = newsgroups.task(
        newsgroups.RCV1, data / "rcv1_sample.train.svm.gz", data / "rcv1_sample.test.svm.gz"
    )
    rows, _ = found.split(0)
    flags = {"density": 0.7, "threshold": 1e-4, "at_bound": "stop"}
    model = stable.learned("stable-perceptron", flags, rows, 1)
    # A share of the features of the first row alone would end all at the second mistake.
    assert model.nonzeros > np.diff(rows.offsets)[0]
    first = stable.learned("stable-perceptron", {"density": 1e-9, **flags}, rows, 0)
    assert (first.nonzeros, first.seen, first.bias) == (0, found.d, 0.0)


def test_stopped_models_keep_to_their_bounds(data: Path) -> None:
    found = newsgroups.task(
        newsgroups.RCV1, data / "rcv1_sample.train.svm.gz", data / "rcv1_sample.test.svm.gz"
    )
    wide = found.d * 10  # as if most words had not occurred yet
    models = stable.stopped("stable-tg", {"l1": 1e-5}, found.train, wide)
    assert models
    assert all(model.nonzeros <= stable.BOUNDS[-1] * wide for model in models)
    assert models == sorted(models, key=lambda model: model.nonzeros)


def test_grades_falls_above_the_largest_eigenvalue_only(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stable, "SHARE", 1.0)  # the bound is that of all columns
    found = stable.potentials(data / "20news.train.svm.gz", data / "20news.test.svm.gz",
                              "rec v talk")  # fmt: skip
    assert found["radius"] > 6.0
    assert diverged(found["ways"]["3"])
    safe = [potential for _, potential in found["ways"]["safe"]]
    assert not diverged(found["ways"]["safe"])
    assert (np.diff(safe) <= 1e-12).all()
    assert safe[-1] < 0.9


def test_weights_spread_wider_with_a_larger_p(data: Path) -> None:
    files = (data / "rcv1_sample.train.svm.gz", data / "rcv1_sample.test.svm.gz")
    wide, narrow = (stable.exponents(*files, newsgroups.RCV1, f) for f in (4.0, 0.5))
    assert wide["p"] > narrow["p"] == 2.0
    assert wide["median"] > narrow["median"]


def test_runs_on_small_rows(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stable, "METHODS", SMALL)
    result = stable.stable(Run(quick=True, data=data, show=False))
    assert [p.name for p in result.pictures] == [
        "stable-densities", "stable-exponents", "stable-grades",
    ]  # fmt: skip
    assert len(result.tables[0].rows) == (7 + 1) * 9
    assert len(result.tables[2].rows) == 7 * 3
    assert len(result.goals) == 6


def test_missing_text_is_told(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=r"20news.train.svm.gz: 20newsgroups by date, tf-idf"):
        stable.stable(Run(data=tmp_path, show=False))
