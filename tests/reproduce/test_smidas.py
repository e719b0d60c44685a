"""The smidas experiment: noise as described, curves that fall, steps chosen by the objective."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from reproduce import smidas
from reproduce.products import Rows
from reproduce.smidas_findings import Curves
from reproduce.trials import MissingData, Run


def write_rows(path: Path, count: int, seed: int) -> Path:
    random = np.random.default_rng(seed)
    X = random.standard_normal((count, 10))
    y = np.sign(X[:, 0] - X[:, 1] + 0.5 * random.standard_normal(count))
    path.write_text("".join(
        f"{int(label):+d} {' '.join(f'{i}:{v:.6g}' for i, v in enumerate(row, 1))}\n"
        for label, row in zip(y, X, strict=True)
    ))  # fmt: skip
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for number, name in enumerate(sorted({s.file for s in smidas.SETS.values()})):
        write_rows(tmp_path / name, 60, number)
    return tmp_path


@pytest.mark.parametrize(("share", "low", "high"), [(1.0, 1.0, 1.0), (0.05, 0.04, 0.06)])
def test_noise_is_beside_the_features(data: Path, share: float, low: float, high: float) -> None:
    rows = Rows.read(data / "magic04.std.svm.gz")
    wide = smidas.noisy(rows, share)
    noise = wide.matrix(1011)[:, 11:]
    assert (wide.matrix(1011)[:, :11] != rows.matrix(11)).nnz == 0
    assert low <= noise.nnz / (60 * 1000) <= high
    assert set(noise.data) == {-1.0, 1.0}
    assert abs(noise.data.mean()) < 0.1


@pytest.mark.parametrize("method", ["SCD", "DETCD"])
def test_descent_never_rises(data: Path, method: str) -> None:
    path = data / "reuters_moneyfx.train.svm.gz"
    found = smidas.descended(path, "Reuters", 1e-3, method, 0)
    best = smidas.best(path, "Reuters", 1e-3)
    fall = np.diff(found["objective"])
    assert (fall <= 1e-12).all()
    assert fall.min() < -1e-3
    assert best["objective"] - 1e-6 <= found["objective"][-1] < math.log(2.0)
    assert found["passes"][-1] == 16


def test_stream_depends_on_its_seed_alone(data: Path) -> None:
    job = (data / "arcene.train.svm.gz", "ARCENE", 1e-3, "SMIDAS", 0.1)
    first = smidas.streamed(*job, 0, 4)
    assert first == smidas.streamed(*job, 0, 4)
    assert first != smidas.streamed(*job, 1, 4)
    assert first["passes"][-1] == 64


def test_step_is_chosen_by_the_objective() -> None:
    jobs = [("path", "A", 0.1, "TG", eta, 0, 4) for eta in (1.0, 2.0, 3.0)]
    found = [{"objective": [9.0, last]} for last in (0.5, 0.3, math.inf)]
    assert smidas.chosen(jobs, found) == {("A", 0.1, "TG"): 2.0}


def test_diverged_run_is_no_part_of_a_curve() -> None:
    whole = {"passes": [1.0], "objective": [0.4], "nonzeros": [3]}
    gone = {"passes": [], "objective": [math.inf], "nonzeros": []}
    assert Curves.of([gone, whole]).at(1.0) == 0.4


def test_runs_on_small_rows(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smidas, "NOISE", 5)
    monkeypatch.setattr(smidas, "STEPS", (0.01, 0.1))
    result = smidas.smidas(Run(quick=True, data=data, show=False))
    assert [p.name for p in result.pictures] == ["smidas-objective", "smidas-density"]
    (table,) = result.tables
    assert len(table.rows) == 4 * 2 * 5
    group = "MAGIC04D, l1 0.001"
    best = table.figure(group, "optimum", "at the end").mean
    assert best < table.figure(group, "SCD", "at the end").mean < 0.5 * math.log(2.0)
    assert table.figure(group, "TG", "step").mean in (0.01, 0.1)


def test_missing_rows_are_told(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=r"magic04.std.svm.gz: MAGIC gamma telescope"):
        smidas.smidas(Run(data=tmp_path, show=False))
