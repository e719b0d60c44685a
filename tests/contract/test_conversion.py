"""The conversion: its limits, its path, its certificate and its choice of L; not the learning.

Everything is recomputed in numpy from the words of state() and the rows of the stream.
"""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from contract.streams import (
    PAIRS,
    Stream,
    bias_of,
    column_of,
    dense_weights,
    fresh,
    ids_of,
    learn,
    random_stream,
    settings_for,
    weights_of,
)
from reference import losses
from reference.common import descend, l1_weights
from reference.twins import average, averaging_weights, conversion, soft_threshold
from streamlearn.catalogue import LOSSES
from streamlearn.catalogue import STREAMING as ALGORITHMS
from streamlearn.engine.learner import Learner
from streamlearn.errors import UsageError

RECENT = 1000  # rows that objective and L are judged on
CONVERTING = [name for name in ALGORITHMS if "smoothness" in ALGORITHMS[name].parameters]
FIXED_METRIC = [name for name in CONVERTING if name != "adaptivesl"]
every_loss = pytest.mark.parametrize("loss", LOSSES)
every_pair = pytest.mark.parametrize(
    ("algo", "loss"), [pytest.param(*pair, id="-".join(pair)) for pair in PAIRS]
)


def trained(algo: str, loss: str, stream: Stream, **given: Any) -> Learner:
    return learn(fresh(algo, loss, **settings_for(algo, loss, given)), stream)


class Sums:
    """Mean, gradient, L and penalty of every column, the bias last; columns never seen are zero."""

    def __init__(self, learner: Learner, columns: int) -> None:
        self.state = learner.state()
        self.scalars = self.state["scalars"]
        self.places = np.append(np.frombuffer(self.state["ids"], dtype=np.int64), columns)
        self.size = columns + 1
        self.penalised = np.append(np.ones(columns), 0.0)
        self.t = learner.t

    def word(self, name: str) -> np.ndarray:
        full = np.zeros(self.size)
        own = bias_of(self.state)[name] if name != "last" else self.t + 1  # touched every time
        full[self.places] = np.append(column_of(self.state, name), own)
        return full


class LinearSums(Sums):
    """averagesl with clip and linear weights: A = sum u_t, G = sum n_t g_t."""

    def __init__(self, learner: Learner, columns: int, smoothness: float) -> None:
        super().__init__(learner, columns)
        step = self.scalars["step"]
        self.W, self.l2 = self.scalars["W"], step["l2"]
        u, gap = self.word("u"), step["t"] + 1 - self.word("last")
        asleep = [
            sum(math.copysign(max(abs(v) - j * step["c"], 0.0), v) for j in range(int(k)))
            for v, k in zip(u, gap * (u != 0.0), strict=True)
        ]
        self.G = self.word("G")
        self.mean = (self.word("A") + asleep) / self.W
        self.gradient = self.G / self.W + self.l2 * self.mean
        self.L = np.full(self.size, smoothness)
        self.penalty = step["c"] * self.l2 * self.penalised


class AdaptiveSums(Sums):
    """adaptivesl: thresholds of evidence, one metric a column."""

    def __init__(self, learner: Learner, columns: int, smoothness: float = 10.0) -> None:
        super().__init__(learner, columns)
        t, z = self.scalars["t"], self.scalars["evidence"]
        S, root, M = self.word("S"), np.sqrt(self.word("Q")), self.word("M")
        threshold = z * (root + M) * self.penalised
        last = np.where(self.word("last") > 0, self.word("last"), t)
        h = np.where(self.word("h") > 0, self.word("h"), 1.0)
        gap = (last + t - 1) * (t - last) / 2 * self.penalised
        self.mean = (self.word("A") - soft_threshold(S, threshold) / h * gap) / self.scalars["W"]
        self.gradient = self.word("G") / self.scalars["W"]
        metric = np.sqrt(self.scalars["N"] / t) / self.scalars["eta"] * M * (M + root)
        self.L = np.where(metric > 0, smoothness * metric / t, 1.0)
        self.penalty = threshold / t


def violation_of(w: np.ndarray, gradient: np.ndarray, penalty: np.ndarray) -> float:
    """Largest distance of 0 from g + b d|w|."""
    at_zero = np.maximum(np.abs(gradient) - penalty, 0.0)
    return float(np.where(w == 0.0, at_zero, np.abs(gradient + penalty * np.sign(w))).max())


def served(snapshot: dict[str, Any], columns: int) -> np.ndarray:
    return np.append(dense_weights(snapshot, columns), snapshot["bias"])


# ---- limits of L


@every_loss
@pytest.mark.parametrize("weights", ["linear", "suffix"])
def test_infinite_smoothness_serves_the_point_itself(loss: str, weights: str) -> None:
    stream = random_stream(loss, 150, seed=30)
    for algo, plain in (("averagesl", "asgd"), ("lastsl", "sgd")):
        given = {"weights": weights} if plain == "asgd" else {}
        limit = trained(algo, loss, stream, weights=weights).snapshot(smoothness=1e12)
        point = trained(plain, loss, stream, **given).snapshot()
        off = served(limit, stream.columns) - served(point, stream.columns)
        assert np.abs(off).max() <= 1e-9


@every_loss
def test_smoothness_of_l2_is_the_rule_of_dual_averaging(loss: str) -> None:
    stream = random_stream(loss, 150, seed=31)
    learner = trained("averagesl", loss, stream)
    sums = LinearSums(learner, stream.columns, 1.0)
    rule = -soft_threshold(sums.G / sums.W, sums.penalty) / sums.l2
    w = served(learner.snapshot(smoothness=sums.l2), stream.columns)
    assert 0 < np.count_nonzero(w) < len(w)
    assert np.array_equal(w != 0.0, rule != 0.0)
    assert np.abs(w - rule).max() <= 1e-10 * max(1.0, np.abs(rule).max())


@every_loss
@pytest.mark.parametrize("smoothness", [0.2, 2.5, 40.0])
def test_one_state_serves_every_smoothness(loss: str, smoothness: float) -> None:
    stream = random_stream(loss, 150, seed=32)
    learner = trained("averagesl", loss, stream, smoothness=3.0)
    sums = LinearSums(learner, stream.columns, smoothness)
    rule = conversion(sums.mean, sums.gradient, sums.L, sums.penalty)
    snapshot = learner.snapshot(smoothness=smoothness)
    assert np.abs(served(snapshot, stream.columns) - rule).max() <= 1e-10
    assert snapshot["certificate"]["smoothness"] == smoothness
    assert learner.snapshot()["certificate"]["smoothness"] == 3.0


# ---- the path: sparser models of one state


def assert_nested(sparser: dict[str, Any], denser: dict[str, Any], columns: int) -> None:
    """Fewer weights, the rest unchanged to the last bit; the bias too."""
    small, large = dense_weights(sparser, columns), dense_weights(denser, columns)
    kept = small != 0.0
    assert np.array_equal(small[kept], large[kept])
    assert sparser["bias"] == denser["bias"]


@every_loss
def test_more_evidence_keeps_a_subset_unchanged(loss: str) -> None:
    stream = random_stream(loss, 400, seed=33)
    learner = trained("adaptivesl", loss, stream, evidence=0.3)
    path = [learner.snapshot(evidence=z) for z in (0.3, 0.5, 0.9, 2.0, 4.0, 1e6)]
    sizes = [len(ids_of(snapshot)) for snapshot in path]
    assert path[0] == learner.snapshot()
    assert sizes[-1] == 0
    assert len(set(sizes)) >= 4
    for denser, sparser in pairwise(path):
        assert_nested(sparser, denser, stream.columns)


def test_evidence_selects_by_the_rule_of_the_larger_evidence() -> None:
    stream = random_stream("logistic", 400, seed=34)
    learner = trained("adaptivesl", "logistic", stream, evidence=0.3)
    sums = AdaptiveSums(learner, stream.columns)
    for z in (0.5, 1.0, 2.5):
        rule = conversion(sums.mean, sums.gradient, sums.L, sums.penalty * z / 0.3)
        w = served(learner.snapshot(evidence=z), stream.columns)
        assert np.array_equal(w != 0.0, rule != 0.0)


@every_pair
def test_max_nonzeros_keeps_the_strongest_unchanged(algo: str, loss: str) -> None:
    stream = random_stream(loss, 150, seed=35)
    learner = trained(algo, loss, stream)
    full = learner.snapshot()
    assert len(ids_of(full)) > 5
    denser = full
    for most in (24, len(ids_of(full)), 5, 2, 1, 0):
        sparser = learner.snapshot(max_nonzeros=most)
        assert len(ids_of(sparser)) == min(most, len(ids_of(full)))  # no ties in random data
        assert_nested(sparser, denser, stream.columns)
        denser = sparser


def test_evidence_and_max_nonzeros_hold_together() -> None:
    stream = random_stream("logistic", 400, seed=36)
    learner = trained("adaptivesl", "logistic", stream, evidence=0.3)
    by_evidence = learner.snapshot(evidence=0.9)
    both = learner.snapshot(evidence=0.9, max_nonzeros=2)
    assert len(ids_of(by_evidence)) > 2 == len(ids_of(both))
    assert_nested(both, by_evidence, stream.columns)
    assert learner.snapshot(evidence=0.9, max_nonzeros=1000) == by_evidence


def test_equal_strengths_fall_together() -> None:
    X = np.tile([1.0, 1.0, 0.0, 1.0], (50, 1))
    learner = trained("averagesl", "logistic", Stream(X, np.ones(50)))
    assert len(ids_of(learner.snapshot())) == 3
    assert len(ids_of(learner.snapshot(max_nonzeros=2))) == 0


@pytest.mark.parametrize(
    ("algo", "given", "asked", "sentence"),
    [
        ("adaptivesl", {}, {"evidence": 0.5}, "evidence 0.5 is below 0.9"),
        ("adaptivesl", {"evidence": 0.0}, {"evidence": 1.0}, "evidence 0 has no path"),
        ("adaptivesl", {"l1": 0.01}, {"evidence": 1.0}, "adaptivesl without l1"),
        ("averagesl", {}, {"evidence": 1.0}, "adaptivesl"),
        ("adaptivesl", {}, {"evidence": math.nan}, "evidence"),
        ("averagesl", {}, {"max_nonzeros": -1}, "nonzeros"),
        ("averagesl", {}, {"smoothness": 0.0}, "smoothness"),
        ("averagesl", {}, {"smoothness": -1.0}, "smoothness"),
        ("averagesl", {}, {"smoothness": math.nan}, "smoothness"),
    ],
    ids=str,
)
def test_a_snapshot_without_meaning_is_refused(
    algo: str, given: dict[str, Any], asked: dict[str, Any], sentence: str
) -> None:
    learner = trained(algo, "logistic", random_stream("logistic", 150, seed=37), **given)
    with pytest.raises(UsageError, match=sentence):
        learner.snapshot(**asked)


# ---- the certificate


@every_loss
@pytest.mark.parametrize("request_", [{}, {"max_nonzeros": 3}, {"smoothness": 0.4}], ids=str)
def test_violation_of_averagesl_is_that_of_its_sums(loss: str, request_: dict[str, Any]) -> None:
    stream = random_stream(loss, 150, seed=38)
    learner = trained("averagesl", loss, stream)
    snapshot = learner.snapshot(**request_)
    sums = LinearSums(learner, stream.columns, 2.5)
    expected = violation_of(served(snapshot, stream.columns), sums.gradient, sums.penalty)
    assert snapshot["certificate"]["violation"] == pytest.approx(expected, rel=1e-9)


@every_loss
@pytest.mark.parametrize("request_", [{}, {"max_nonzeros": 3}, {"evidence": 2.0}], ids=str)
def test_violation_of_adaptivesl_is_that_of_its_sums(loss: str, request_: dict[str, Any]) -> None:
    stream = random_stream(loss, 1100, seed=39, columns=9)
    stream = Stream(stream.X, 5 * stream.y if loss == "squared" else stream.y, stream.importance)
    learner = trained("adaptivesl", loss, stream)
    snapshot = learner.snapshot(**request_)
    sums = AdaptiveSums(learner, stream.columns)
    shift, unit = sums.state["label_shift"], 1.0 / sums.state["label_scale"]
    w = served(snapshot, stream.columns)
    w[-1] -= shift
    if not request_:
        rule = conversion(sums.mean, sums.gradient, sums.L, sums.penalty)
        assert np.abs(w / unit - rule).max() <= 1e-10
    # the slope m - y of the labels as given is `unit` times the one that was learned with
    expected = unit * violation_of(w, sums.gradient, sums.penalty)
    assert snapshot["certificate"]["violation"] == pytest.approx(expected, rel=1e-9)


def is_recent(length: int) -> np.ndarray:
    """Which rows are: the last thousand, or of a long stream one in 2, 4, 8 or 16 of the last."""
    number = np.arange(1, length + 1)
    stride = 2 ** np.clip(np.floor(np.log2(number)).astype(int) - 13, 0, 4)
    kept = np.flatnonzero(number % stride == 0)[-RECENT:]
    return np.isin(np.arange(length), kept)


def recent(stream: Stream) -> Stream:
    return stream.rows(is_recent(len(stream)))


def mean_loss(loss: str, stream: Stream, w: np.ndarray) -> float:
    """Over the recent rows, each with its importance."""
    rows = recent(stream)
    values = losses.value(loss, rows.X @ w[:-1] + w[-1], rows.y)
    return float(rows.weights() @ values / len(rows))


@every_pair
@pytest.mark.parametrize("length", [40, 150, 1003, 2500, 17_001])
def test_objective_is_that_of_the_recent_rows(algo: str, loss: str, length: int) -> None:
    stream = random_stream(loss, length, seed=40, columns=9)
    learner = trained(algo, loss, stream)
    for request_ in ({}, {"max_nonzeros": 2}):
        snapshot = learner.snapshot(**request_)
        w = served(snapshot, stream.columns)
        certificate = snapshot["certificate"]
        assert certificate["recent_examples"] == min(RECENT, length)
        assert certificate["recent_loss"] == pytest.approx(mean_loss(loss, stream, w), rel=1e-9)
        if algo != "adaptivesl":
            spec = learner.spec
            penalty = spec["l1"] * np.abs(w[:-1]).sum() + spec["l2"] / 2 * w @ w
            if spec["shared"]:  # l1 and l2 are for the whole run
                penalty /= length
        elif learner.state()["pending"] is None:
            sums = AdaptiveSums(learner, stream.columns)
            penalty = sums.penalty @ np.abs(w) / sums.state["label_scale"]
        else:
            continue
        expected = mean_loss(loss, stream, w) + penalty
        assert certificate["objective"] == pytest.approx(expected, rel=1e-9)


def test_there_is_no_certificate_without_a_gradient() -> None:
    stream = random_stream("logistic", 150, seed=41)
    assert trained("sgd", "logistic", stream).snapshot()["certificate"]["violation"] is None
    certificate = fresh("averagesl", "logistic").snapshot()["certificate"]
    assert {certificate[k] for k in ("violation", "objective", "recent_loss")} == {None}
    assert certificate["recent_examples"] == 0


def test_the_violation_falls_with_the_stream() -> None:
    stream = random_stream("logistic", 4000, seed=42, columns=9, importance=False)
    early = trained("averagesl", "logistic", stream.cut(0, 100)).snapshot()
    late = trained("averagesl", "logistic", stream).snapshot()
    assert late["certificate"]["violation"] < early["certificate"]["violation"] / 3


# ---- the choice of L


def top_curvature(loss: str, stream: Stream, l2: float, bias: bool) -> float:
    """Largest eigenvalue of the curvature bound on the recent rows, ridge included."""
    rows = recent(stream)
    Z = np.column_stack([rows.X, np.full(len(rows), float(bias))])
    bound = losses.curvature(loss) * (Z.T * rows.weights()) @ Z / len(rows)
    return float(np.linalg.eigvalsh(bound)[-1]) + l2


def positive(loss: str, length: int) -> Stream:
    """Values of one sign, as data mostly has: the largest eigenvalue stands apart."""
    usual = random_stream(loss, length, seed=43, columns=9)
    return Stream(np.abs(usual.X), usual.y, usual.importance)


@every_loss
@pytest.mark.parametrize("algo", FIXED_METRIC)
@pytest.mark.parametrize(
    ("length", "given"),
    [(30, {}), (300, {"bias": False, "l1": 0.1}), (1000, {"weights": "suffix"}), (1900, {})],
    ids=str,
)
def test_smoothness_is_the_curvature_while_most_rows_are_recent(
    algo: str, loss: str, length: int, given: dict[str, Any]
) -> None:
    stream = positive(loss, length)
    learner = learn(fresh(algo, loss, **{"l1": 0.02, "l2": 0.001, **given}), stream)
    top = top_curvature(loss, stream, 0.001, given.get("bias", True))
    chosen = learner.snapshot()["certificate"]["smoothness"]
    assert 0.999 <= chosen / top <= 1.0 + 1e-12


def without_the_recent(
    algo: str, loss: str, stream: Stream, weights: str, alpha: float
) -> tuple[np.ndarray, np.ndarray]:
    """The point, and the averaged gradient less the part of the recent rows; bias last."""
    T, l2, penalty = len(stream), 0.001, l1_weights(0.02, stream.columns + 1)
    Z = np.column_stack([stream.X, np.ones(T)])
    path = descend(loss, Z, stream.y, stream.weights(), penalty, l2, "auto", "auto", "clip")
    old = ~is_recent(T)
    if algo == "optimalsl":  # frozen at the last power of two
        start = 2 ** int(math.log2(T))
        mean = average(path, start, l2, weights, alpha, None)[0]
        slopes = stream.weights() * losses.derivative(loss, Z @ mean, stream.y)
        a, g = 1.0 * (np.arange(T) >= start), slopes[:, None] * Z
    else:
        mean = average(path, T, l2, weights, alpha, None)[0]
        a, g = averaging_weights(T, path.t0, weights, alpha, None), path.g[1:]
    assert a[~old].sum() < 0.5 * a.sum(), "the recent rows are less than half"
    gradient = (a * old) @ g / (a * old).sum() + l2 * mean
    return path.w[T + 1] if algo == "lastsl" else mean, gradient


@every_loss
@pytest.mark.parametrize("algo", FIXED_METRIC)
@pytest.mark.parametrize(
    ("weights", "alpha", "length"),
    [("linear", 0.3, 4094), ("suffix", 0.6, 4094), ("linear", 0.3, 60_000)],
)
def test_smoothness_is_the_best_of_its_grid(
    algo: str, loss: str, weights: str, alpha: float, length: int
) -> None:
    """Judged on the recent rows, with a gradient that they are no part of."""
    stream = positive(loss, length)
    alpha = 0.4 if algo == "optimalsl" else alpha
    given = {"l1": 0.02, "l2": 0.001, "weights": weights, "alpha": alpha}
    chosen = learn(fresh(algo, loss, **given), stream).snapshot()["certificate"]["smoothness"]
    top = top_curvature(loss, stream, 0.001, bias=True)
    power = round(math.log2(chosen / top))
    assert 0.999 <= chosen / (top * 2.0**power) <= 1.0 + 1e-12
    point, gradient = without_the_recent(algo, loss, stream, weights, alpha)
    penalty = l1_weights(0.02, len(point))
    objectives = []
    for k in range(-6, 4):
        L = chosen * 2.0 ** (k - power)
        assert L >= 2 * 0.001, "the grid of this test stays above its floor"
        w = conversion(point, gradient, L, penalty)
        value = mean_loss(loss, stream, w) + penalty @ np.abs(w) + 0.001 / 2 * w @ w
        objectives.append(value)
    assert objectives[power + 6] <= min(objectives) * (1 + 1e-9)


@every_loss
def test_a_flat_spectrum_is_found_within_a_fifth(loss: str) -> None:
    """Twelve power steps come from below and may stop short when all eigenvalues are alike."""
    stream = random_stream(loss, 1000, seed=43, columns=9)
    learner = learn(fresh("averagesl", loss, l1=0.02, l2=0.001), stream)
    chosen = learner.snapshot()["certificate"]["smoothness"]
    top = top_curvature(loss, stream, 0.001, bias=True)
    assert 0.8 <= chosen / (top * 2.0 ** math.ceil(math.log2(chosen / top))) <= 1.0


def test_smoothness_never_falls_below_twice_the_ridge() -> None:
    stream = random_stream("logistic", 300, seed=44, columns=9, importance=False)
    weak = Stream(1e-3 * stream.X, stream.y)
    learner = learn(fresh("averagesl", "logistic", l1=0.0, l2=0.5, bias=False), weak)
    chosen = learner.snapshot()["certificate"]["smoothness"]
    top = top_curvature("logistic", weak, 0.5, bias=False)
    allowed = {max(top * 2.0**k, 1.0) for k in range(-6, 4)}
    assert min(abs(chosen - L) / L for L in allowed) <= 0.05
    assert chosen >= 1.0


@pytest.mark.parametrize("length", [4000, 3500, 3001])
def test_the_choice_of_smoothness_looks_at_recent_rows_only(length: int) -> None:
    """A past that was a hundred times larger has no say in L, wherever the window stands."""
    stream = random_stream("logistic", length, seed=45, columns=9, importance=False)
    X = stream.X.copy()
    X[:-RECENT] *= 100.0
    shifted = Stream(X, stream.y)
    learner = learn(fresh("averagesl", "logistic", l1=0.02, l2=0.05), shifted)
    top = top_curvature("logistic", shifted, 0.05, bias=True)
    ratio = learner.snapshot()["certificate"]["smoothness"] / top
    assert 2.0**-6 * 0.9 <= ratio <= 2.0**3 * 1.1


def test_weights_are_sorted_by_id_and_never_zero() -> None:
    stream = random_stream("logistic", 150, seed=46)
    for algo in ALGORITHMS:
        ids = np.random.default_rng(47).permutation(10**12 + np.arange(24))
        learner = fresh(algo, "logistic", **settings_for(algo, "logistic", {}))
        snapshot = learn(learner, stream, ids=ids).snapshot()
        assert np.all(np.diff(ids_of(snapshot)) > 0)
        assert np.all(weights_of(snapshot) != 0.0)
