"""The learners that see all examples at once, against their dense twins and against optimality."""

from typing import Any

import msgpack
import numpy as np
import pytest
from scipy.optimize import minimize

from contract.streams import (
    Stream,
    dense_weights,
    ids_of,
    labels_of,
    learn,
    random_stream,
    to_block,
    weights_of,
)
from reference import losses
from reference.twins import Twin, train
from streamlearn.engine.batch import BatchLearner
from streamlearn.engine.block import Block
from streamlearn.errors import Divergence, ModelError, UsageError

TOLERANCE = 1e-10
TOP = 2**63 - 1
L1 = 0.02
SMOOTH = ("logistic", "squared", "squared_hinge")
PAIRS = [(kernel, loss) for kernel in ("scd", "detcd") for loss in SMOOTH] + [("grades", "squared")]
every_pair = pytest.mark.parametrize(
    ("kernel", "loss"), [pytest.param(*pair, id="-".join(pair)) for pair in PAIRS]
)
descents = pytest.mark.parametrize(
    ("kernel", "loss"), [pytest.param(*pair, id="-".join(pair)) for pair in PAIRS[:-1]]
)
TAKES = {"scd": ("l1", "seed"), "detcd": ("l1",), "grades": ("nonzeros", "gamma")}


def spec_of(kernel: str, loss: str, **given: Any) -> dict[str, Any]:
    base = {"kernel": kernel, "loss": loss, "l1": L1, "iterations": 60, "seed": 7, "nonzeros": 5}
    return {**base, "gamma": None, "bias": True, "max_features": 0, **given}


def batch(kernel: str, loss: str, **given: Any) -> BatchLearner:
    return BatchLearner(spec_of(kernel, loss, **given))


def twin_of(stream: Stream, spec: dict[str, Any]) -> Twin:
    chosen = {name: spec[name] for name in (*TAKES[spec["kernel"]], "iterations", "bias")}
    if "gamma" in chosen and chosen["gamma"] is None:
        chosen["gamma"] = "auto"
    return train(spec["kernel"], spec["loss"], stream.X, stream.y, stream.importance, **chosen)


def point_of(snapshot: dict[str, Any], columns: int, ids: Any = None) -> np.ndarray:
    """Weights and bias in one."""
    return np.append(dense_weights(snapshot, columns, ids), snapshot["bias"])


def with_bias(stream: Stream, bias: bool = True) -> np.ndarray:
    return np.column_stack([stream.X, np.full(len(stream), float(bias))])


def mean_loss(loss: str, stream: Stream, w: np.ndarray) -> float:
    return float(np.mean(stream.weights() * losses.value(loss, with_bias(stream) @ w, stream.y)))


def objective(loss: str, stream: Stream, w: np.ndarray, l1: float) -> float:
    return mean_loss(loss, stream, w) + l1 * float(np.sum(np.abs(w[:-1])))


def gradient(loss: str, stream: Stream, w: np.ndarray) -> np.ndarray:
    Z = with_bias(stream)
    return Z.T @ (stream.weights() * losses.derivative(loss, Z @ w, stream.y)) / len(stream)


def bits(learner: BatchLearner) -> bytes:
    return msgpack.packb([learner.snapshot(), learner.state(), learner.progress])


def assert_agrees(learner: BatchLearner, stream: Stream) -> None:
    twin = twin_of(stream, learner.spec)
    found = point_of(learner.snapshot(), stream.columns)
    expected = np.append(twin.weights, twin.bias)
    assert np.array_equal(found != 0.0, expected != 0.0)
    assert np.max(np.abs(found - expected)) <= TOLERANCE * max(1.0, np.max(np.abs(expected)))
    assert learner.t == twin.t == len(stream)
    assert learner.progress["loss"] == pytest.approx(twin.progressive_loss, rel=TOLERANCE)


# ---- the twins


@every_pair
@pytest.mark.parametrize("iterations", [0, 1, 2, 3, 10, 60])
@pytest.mark.parametrize("length", [1, 2, 5, 60, 400])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_agrees_with_its_dense_twin(
    kernel: str, loss: str, iterations: int, length: int, bias: bool
) -> None:
    for seed in range(3):
        stream = random_stream(loss, length, seed=seed, importance=seed > 0)
        learner = batch(kernel, loss, iterations=iterations, bias=bias, seed=seed)
        assert_agrees(learn(learner, stream), stream)


@every_pair
@pytest.mark.parametrize("l1", [0.0, 0.2, 10.0])
def test_agrees_under_any_penalty(kernel: str, loss: str, l1: float) -> None:
    stream = random_stream(loss, 100, seed=4)
    learner = learn(batch(kernel, loss, l1=l1, nonzeros=int(l1 * 10)), stream)
    assert_agrees(learner, stream)
    if l1 == 10.0 and kernel != "grades":
        assert learner.snapshot()["ids"] == b""


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("seed", [0, 1, 2**63, 2**64 - 1])
def test_scd_draws_as_its_twin_for_long(loss: str, seed: int) -> None:
    stream = random_stream(loss, 80, seed=5)
    assert_agrees(learn(batch("scd", loss, seed=seed, iterations=3000), stream), stream)


@pytest.mark.parametrize("loss", SMOOTH)
def test_detcd_goes_down_as_its_twin_for_long(loss: str) -> None:
    """Late choices hang on the last digit; where they lead does not."""
    stream = random_stream(loss, 80, seed=6)
    for iterations in (300, 1000):
        learner = learn(batch("detcd", loss, iterations=iterations), stream)
        twin = twin_of(stream, learner.spec)
        expected = objective(loss, stream, np.append(twin.weights, twin.bias), L1)
        assert learner.snapshot()["certificate"]["objective"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("nonzeros", [0, 1, 5, 23, 24, 1000])
@pytest.mark.parametrize("gamma", [None, 3.0, 40.0])
def test_grades_keeps_as_many_as_it_may(nonzeros: int, gamma: float | None) -> None:
    stream = random_stream("squared", 150, seed=8)
    learner = learn(batch("grades", "squared", nonzeros=nonzeros, gamma=gamma), stream)
    assert_agrees(learner, stream)
    assert len(ids_of(learner.snapshot())) == min(nonzeros, 24)


@pytest.mark.parametrize("nonzeros", range(7))
def test_grades_lets_the_lower_id_win_a_tie(nonzeros: int) -> None:
    rng = np.random.default_rng(9)
    X = np.repeat(rng.normal(size=(30, 2)), 3, axis=1)
    stream = Stream(X, X[:, 0] - 0.5 * X[:, 5] + rng.normal(size=30))
    learner = learn(batch("grades", "squared", nonzeros=nonzeros, iterations=4, gamma=9.0), stream)
    assert_agrees(learner, stream)
    kept = ids_of(learner.snapshot())
    for low in (0, 3):
        group = [i - low for i in kept.tolist() if low <= i < low + 3]
        assert group == list(range(len(group)))


def test_detcd_lets_the_lower_id_win_a_tie() -> None:
    rng = np.random.default_rng(10)
    X = np.repeat(rng.normal(size=(30, 2)), 3, axis=1)
    stream = Stream(X, X[:, 0] - 0.5 * X[:, 5] + rng.normal(size=30))
    learner = learn(batch("detcd", "squared", iterations=2, bias=False), stream)
    assert_agrees(learner, stream)
    assert set(ids_of(learner.snapshot()).tolist()) <= {0, 3}


@pytest.mark.parametrize("seed", range(5))
def test_grades_finds_the_largest_eigenvalue(seed: int) -> None:
    """One step with room for all is w = g/gamma."""
    rng = np.random.default_rng([11, seed])
    m, n = ((30, 12), (12, 30), (1, 1), (5, 1), (200, 150))[seed]
    X = rng.normal(size=(m, n)) * 10.0 ** rng.uniform(-3, 3, size=n)
    omega = 2 * rng.random(m)
    stream = Stream(X, rng.normal(size=m), omega)
    learner = learn(batch("grades", "squared", iterations=1, nonzeros=n), stream)
    Z = with_bias(stream)
    top = np.linalg.eigvalsh(Z.T @ (omega[:, None] * Z) / m)[-1]
    expected = Z.T @ (omega * stream.y) / m / (1.01 * top)
    found = point_of(learner.snapshot(), n)
    assert np.allclose(found, expected, rtol=1e-11, atol=0.0)


def test_grades_finds_an_eigenvalue_that_others_crowd() -> None:
    size = 400
    top = 1.0 + 1e-6
    scale = np.sqrt(np.append(np.linspace(0.9, 1.0, size - 1), top))
    stream = Stream(np.diag(scale) * np.sqrt(size), np.ones(size))
    learner = learn(batch("grades", "squared", iterations=1, nonzeros=size, bias=False), stream)
    step = point_of(learner.snapshot(), size)[:-1] / (stream.X.T @ stream.y / size)
    assert 1.0 / step[0] == pytest.approx(1.01 * top, rel=1e-9)


# ---- what the cutting of the stream, its order and the names of its features change


@every_pair
def test_chunking_is_irrelevant(kernel: str, loss: str) -> None:
    stream = random_stream(loss, 150, seed=12)
    whole = bits(learn(batch(kernel, loss), stream))
    for size in (1, 7, 149):
        assert bits(learn(batch(kernel, loss), stream, size)) == whole


@every_pair
def test_resume_equals_uninterrupted(kernel: str, loss: str) -> None:
    stream = random_stream(loss, 150, seed=13)
    whole = bits(learn(batch(kernel, loss), stream, 10))
    learner = batch(kernel, loss)
    for first in range(0, 150, 10):
        learner = BatchLearner.from_state(msgpack.unpackb(msgpack.packb(learner.state())))
        learner.learn(to_block(stream, first, first + 10))
    assert bits(learner) == whole


@every_pair
def test_snapshots_change_nothing(kernel: str, loss: str) -> None:
    stream = random_stream(loss, 150, seed=14)
    whole = bits(learn(batch(kernel, loss), stream, 10))
    learner = batch(kernel, loss)
    for first in range(0, 150, 10):
        learner.snapshot(max_nonzeros=2)
        learner.learn(to_block(stream, first, first + 10))
        assert learner.snapshot() == learner.snapshot()
    assert bits(learner) == whole


@every_pair
def test_the_order_of_examples_is_irrelevant(kernel: str, loss: str) -> None:
    stream = random_stream(loss, 150, seed=15)
    order = np.random.default_rng(16).permutation(150)
    shuffled = Stream(stream.X[order], stream.y[order], stream.importance[order])
    first, second = (learn(batch(kernel, loss), s).snapshot() for s in (stream, shuffled))
    assert first["ids"] == second["ids"]
    assert np.allclose(weights_of(first), weights_of(second), rtol=0.0, atol=TOLERANCE)
    assert first["bias"] == pytest.approx(second["bias"], abs=TOLERANCE)


@every_pair
def test_the_order_inside_an_example_is_irrelevant(kernel: str, loss: str) -> None:
    stream = random_stream(loss, 150, seed=17)
    plain = learn(batch(kernel, loss), stream).snapshot()
    mixed = learn(batch(kernel, loss), stream, order=np.random.default_rng(18)).snapshot()
    assert np.allclose(point_of(plain, 24), point_of(mixed, 24), rtol=0.0, atol=TOLERANCE)


@every_pair
@pytest.mark.parametrize("size", [1, None])
@pytest.mark.parametrize(
    "ids",
    [
        np.arange(24) + 5,
        np.append(np.arange(23), 2**20),
        np.append(np.arange(23), TOP),
        TOP - 3 * np.arange(24)[::-1],
        2 ** np.arange(39, 63),
    ],
    ids=["shifted", "beyond small", "one far away", "all far away", "powers of two"],
)
def test_ids_are_only_names(kernel: str, loss: str, ids: np.ndarray, size: int | None) -> None:
    stream = random_stream(loss, 100, seed=19)
    compact = learn(batch(kernel, loss), stream).snapshot()
    named = learn(batch(kernel, loss), stream, size, ids=ids).snapshot()
    assert len(ids_of(compact)) > 0
    assert np.array_equal(ids_of(named), ids[ids_of(compact)])
    assert {**named, "ids": b""} == {**compact, "ids": b""}


def test_a_later_example_is_learned_from() -> None:
    stream = random_stream("logistic", 150, seed=20)
    learner = learn(batch("scd", "logistic"), stream.cut(0, 75))
    before = learner.snapshot()
    assert before["t"] == 75
    learn(learner, stream.cut(75))
    assert_agrees(learner, stream)
    assert learner.snapshot() != before


# ---- optimality


def best_objective(loss: str, stream: Stream, l1: float) -> float:
    """By L-BFGS on w = p - q with p, q >= 0, where the objective is smooth."""
    n = stream.columns

    def split(v: np.ndarray) -> tuple[float, np.ndarray]:
        w = np.append(v[:n] - v[n : 2 * n], v[-1])
        g = gradient(loss, stream, w)
        value = mean_loss(loss, stream, w) + l1 * float(np.sum(v[: 2 * n]))
        return value, np.concatenate([g[:-1] + l1, -g[:-1] + l1, g[-1:]])

    bounds = [(0.0, None)] * (2 * n) + [(None, None)]
    options = {"maxiter": 20000, "maxfun": 100000, "ftol": 1e-15, "gtol": 1e-11}
    found = minimize(
        split, np.zeros(2 * n + 1), jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    return float(found.fun)


@descents
@pytest.mark.parametrize("l1", [0.005, 0.02, 0.1])
def test_many_iterations_are_optimal(kernel: str, loss: str, l1: float) -> None:
    stream = random_stream(loss, 300, seed=21)
    learner = learn(batch(kernel, loss, l1=l1, iterations=100_000), stream)
    snapshot = learner.snapshot()
    assert 0 < len(ids_of(snapshot)) < 24
    assert snapshot["certificate"]["violation"] <= 1e-12
    found = snapshot["certificate"]["objective"]
    assert found == pytest.approx(best_objective(loss, stream, l1), rel=1e-9)


@descents
def test_the_objective_never_rises(kernel: str, loss: str) -> None:
    stream = random_stream(loss, 100, seed=22)
    path = [
        learn(batch(kernel, loss, iterations=i), stream).snapshot()["certificate"]["objective"]
        for i in range(0, 200, 5)
    ]
    assert np.all(np.diff(path) <= 1e-15)
    assert path[-1] < path[0]


@pytest.mark.parametrize("loss", SMOOTH)
def test_columns_of_very_different_units_are_solved(loss: str) -> None:
    """Each step is measured by the curvature of its own column."""
    stream = random_stream(loss, 100, seed=23)
    units = 10.0 ** np.random.default_rng(24).uniform(-8, 8, size=24)
    scaled = Stream(stream.X * units, stream.y, stream.importance)
    plain = learn(batch("scd", loss, l1=0.0, iterations=60_000), stream).snapshot()
    found = learn(batch("scd", loss, l1=0.0, iterations=60_000), scaled).snapshot()
    assert np.allclose(point_of(found, 24)[:-1] * units, point_of(plain, 24)[:-1], rtol=1e-9)


def test_grades_reaches_a_fixed_point() -> None:
    stream = random_stream("squared", 300, seed=25)
    learner = learn(batch("grades", "squared", iterations=5000), stream)
    assert learner.snapshot()["certificate"]["violation"] <= 1e-13
    further = learn(batch("grades", "squared", iterations=5001), stream)
    assert np.allclose(
        point_of(further.snapshot(), 24), point_of(learner.snapshot(), 24), rtol=0.0, atol=1e-13
    )


@pytest.mark.parametrize("nonzeros", [3, 1000])
def test_the_violation_of_grades_is_that_of_its_problem(nonzeros: int) -> None:
    """With all its non-zeros spent only a coordinate that would push one out violates."""
    stream = random_stream("squared", 100, seed=26)
    gamma = 50.0
    learner = learn(
        batch("grades", "squared", nonzeros=nonzeros, gamma=gamma, iterations=4), stream
    )
    snapshot = learner.snapshot()
    w = point_of(snapshot, 24)
    g = np.abs(gradient("squared", stream, w))
    zero = np.append(w[:-1] == 0.0, False)
    slack = gamma * np.min(np.abs(w[:-1][w[:-1] != 0.0])) if nonzeros == 3 else 0.0
    expected = max(np.max(g[~zero]), np.max(g[zero] - slack, initial=0.0))
    assert snapshot["certificate"]["violation"] == pytest.approx(expected, rel=1e-12)


@every_pair
@pytest.mark.parametrize("max_nonzeros", [None, 0, 1, 3, 1000])
def test_the_certificate_is_exact(kernel: str, loss: str, max_nonzeros: int | None) -> None:
    """Over all examples, at the weights that are served."""
    stream = random_stream(loss, 1500, seed=27)
    learner = learn(batch(kernel, loss), stream)
    snapshot = learner.snapshot(max_nonzeros=max_nonzeros)
    w, certificate = point_of(snapshot, 24), snapshot["certificate"]
    assert set(certificate) == {
        "violation", "objective", "recent_loss", "recent_examples", "smoothness",
    }  # fmt: skip
    l1 = 0.0 if kernel == "grades" else L1
    assert certificate["recent_examples"] == 1500
    assert certificate["smoothness"] is None
    assert certificate["recent_loss"] == pytest.approx(mean_loss(loss, stream, w), rel=1e-12)
    assert certificate["objective"] == pytest.approx(objective(loss, stream, w, l1), rel=1e-12)
    if kernel != "grades":
        g = gradient(loss, stream, w)
        off = np.where(w[:-1] == 0.0, np.abs(g[:-1]) - l1, np.abs(g[:-1] + l1 * np.sign(w[:-1])))
        expected = max(0.0, np.max(off), abs(g[-1]))
        assert certificate["violation"] == pytest.approx(expected, rel=1e-9, abs=1e-15)


@every_pair
def test_max_nonzeros_keeps_the_largest(kernel: str, loss: str) -> None:
    learner = learn(batch(kernel, loss, l1=0.005), random_stream(loss, 200, seed=28))
    full = learner.snapshot()
    w = dense_weights(full, 24)
    ranked = np.argsort(-np.abs(w), kind="stable")
    for many in (0, 1, 3, 5, 24, 10**12):
        cut = learner.snapshot(max_nonzeros=many)
        expected = np.zeros(24)
        expected[ranked[:many]] = w[ranked[:many]]
        assert np.array_equal(dense_weights(cut, 24), expected)
        assert (cut["bias"], cut["seen"]) == (full["bias"], full["seen"])
    assert learner.snapshot() == full


# ---- importance


@descents
def test_a_whole_weight_is_that_many_copies(kernel: str, loss: str) -> None:
    """The mean is over examples, however much they weigh: hence the ratio of their numbers."""
    stream = random_stream(loss, 60, seed=29, importance=False)
    counts = np.random.default_rng(30).integers(0, 4, size=60)
    copies = Stream(np.repeat(stream.X, counts, axis=0), np.repeat(stream.y, counts))
    ratio = len(copies) / 60
    weighted = Stream(stream.X, stream.y, counts / ratio)
    solved = [
        learn(batch(kernel, loss, iterations=20_000), s).snapshot() for s in (copies, weighted)
    ]
    assert np.allclose(point_of(solved[0], 24), point_of(solved[1], 24), rtol=0.0, atol=1e-9)


@every_pair
def test_without_importance_nothing_is_learned(kernel: str, loss: str) -> None:
    stream = random_stream(loss, 50, seed=31, importance=False)
    learner = learn(batch(kernel, loss), Stream(stream.X, stream.y, np.zeros(50)))
    snapshot = learner.snapshot()
    assert (snapshot["ids"], snapshot["bias"], snapshot["t"]) == (b"", 0.0, 50)
    assert snapshot["seen"] == np.count_nonzero(stream.X.any(axis=0))
    assert snapshot["certificate"]["violation"] == snapshot["certificate"]["objective"] == 0.0
    assert learner.progress["loss"] == learner.progress["weight"] == 0.0


# ---- little data


@every_pair
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_no_data_is_the_empty_model(kernel: str, loss: str, bias: bool) -> None:
    learner = batch(kernel, loss, bias=bias)
    learner.learn(Block())
    snapshot = learner.snapshot()
    assert (snapshot["ids"], snapshot["weights"], snapshot["bias"]) == (b"", b"", 0.0)
    assert (snapshot["seen"], snapshot["t"], learner.t) == (0, 0, 0)
    assert snapshot["certificate"] == {
        "violation": None,
        "objective": None,
        "recent_loss": None,
        "recent_examples": 0,
        "smoothness": None,
    }
    assert bits(BatchLearner.from_state(learner.state())) == bits(learner)


@every_pair
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_examples_without_features_teach_the_bias(kernel: str, loss: str, bias: bool) -> None:
    stream = Stream(np.zeros((3, 4)), np.array([1.0, 1.0, -1.0]))
    learner = learn(batch(kernel, loss, iterations=500, bias=bias), stream)
    assert_agrees(learner, stream)
    snapshot = learner.snapshot()
    assert snapshot["seen"] == 0
    assert (snapshot["bias"] > 0.1) == bias


@every_pair
def test_one_example_is_enough(kernel: str, loss: str) -> None:
    stream = Stream(np.array([[0.0, 2.0, 0.0, -1.0]]), np.array([1.0]))
    for iterations in (1, 2, 50):
        learner = learn(batch(kernel, loss, iterations=iterations), stream)
        assert_agrees(learner, stream)
        assert learner.snapshot()["seen"] == 2


# ---- progress, memory, states, refusals


@every_pair
def test_progress_is_that_of_the_zero_model(kernel: str, loss: str) -> None:
    stream = random_stream(loss, 90, seed=32)
    learner = learn(batch(kernel, loss), stream, 7)
    omega = stream.weights()
    runs = np.diff(np.flatnonzero(np.append(np.append(True, np.diff(stream.y) != 0), True)))
    assert learner.progress == {
        "examples": 90,
        "weight": pytest.approx(np.sum(omega)),
        "loss": pytest.approx(np.sum(omega * losses.value(loss, np.zeros(90), stream.y))),
        "baseline": learner.progress["loss"],
        "errors": pytest.approx(np.sum(omega * (stream.y > 0))),
        "positive": np.count_nonzero(stream.y > 0),
        "run": runs[-1],
        "longest_run": np.max(runs),
        "last_label": stream.y[-1],
    }
    assert learner.ignored == 0


def test_memory_follows_the_examples() -> None:
    stream = random_stream("logistic", 500, seed=33)
    learner = learn(batch("scd", "logistic"), stream)
    once = learner.memory
    for _ in range(9):
        learn(learner, stream)
    rows = learner.memory
    assert rows > 5 * once
    learner.snapshot()
    assert rows + 24 * 10 * np.count_nonzero(stream.X) < learner.memory < 4 * rows
    learn(learner, stream)
    assert learner.memory < 2 * rows


def test_a_damaged_state_is_refused() -> None:
    state = learn(batch("scd", "logistic"), random_stream("logistic", 20, seed=34)).state()
    rows = state["rows"]
    for damaged, sentence in (
        ({**rows, "ids": rows["ids"][:-8]}, "damaged examples"),
        ({**rows, "labels": np.full(20, np.nan).tobytes()}, "beyond 1e50"),
        ({**rows, "labels": rows["labels"][:8][::-1] + rows["labels"][8:]}, "do not fit"),
    ):
        with pytest.raises(ModelError, match=sentence):
            BatchLearner.from_state({**state, "rows": damaged})


@pytest.mark.parametrize(
    ("kernel", "loss", "given", "sentence"),
    [
        ("scd", "hinge", {}, "scd cannot minimise the loss hinge: .* bounded curvature; accepted: "
         "logistic, squared, squared_hinge"),
        ("detcd", "hinge", {}, "detcd cannot minimise the loss hinge"),
        ("grades", "logistic", {}, "grades cannot minimise the loss logistic: .*: squared$"),
        ("newton", "logistic", {}, "no kernel 'newton'; known: scd, detcd, grades"),
        ("scd", "huber", {}, "unknown loss 'huber'"),
        ("scd", "logistic", {"max_features": 5}, "max_features 5 means nothing to scd"),
    ],
)  # fmt: skip
def test_what_cannot_be_solved_is_refused(
    kernel: str, loss: str, given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        batch(kernel, loss, **given)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"evidence": 1.0}, "evidence is a setting of adaptivesl"),
        ({"smoothness": 0.0}, "smoothness 0.0: expected"),
        ({"smoothness": np.inf}, "smoothness inf: expected"),
        ({"max_nonzeros": -1}, "max_nonzeros -1: expected"),
    ],
)
def test_what_a_snapshot_cannot_do_is_refused(asked: dict[str, Any], sentence: str) -> None:
    learner = learn(batch("scd", "logistic"), random_stream("logistic", 5, seed=35))
    with pytest.raises(UsageError, match=sentence):
        learner.snapshot(**asked)


@every_pair
@pytest.mark.parametrize("size", [1, 7, None])
def test_values_too_large_to_square_are_refused(kernel: str, loss: str, size: int | None) -> None:
    usual = random_stream(loss, 30, seed=36)
    X = usual.X.copy()
    X[20, 5] = 1e50
    learner = batch(kernel, loss)
    with pytest.raises(Divergence) as refusal:
        learn(learner, Stream(X, usual.y, usual.importance), size, lines=100 + np.arange(30))
    assert (refusal.value.example, refusal.value.line) == (21, 120)
    assert bits(learner) == bits(learn(batch(kernel, loss), usual.cut(0, 20)))


# ---- divergence


@pytest.mark.parametrize("size", [1, None])
def test_grades_says_that_gamma_is_too_small(size: int | None) -> None:
    stream = random_stream("squared", 200, seed=37)
    Z = with_bias(stream)
    top = np.linalg.eigvalsh(Z.T @ (stream.weights()[:, None] * Z) / 200)[-1]
    learner = batch("grades", "squared", gamma=top / 8, iterations=1000, nonzeros=24)
    learn(learner, stream, size, lines=50 + np.arange(200))
    for _ in range(2):
        with pytest.raises(Divergence) as caught:
            learner.snapshot()
        assert (caught.value.example, caught.value.line) == (200, 249)
        said = str(caught.value)
        for words in ("grades diverged", f"stiffness {top / 8:g}", f"{top:g}", "--stiffness above"):
            assert words in said
    # the examples are all there still: a state of them can be solved with another gamma
    state = learner.state()
    calm = BatchLearner.from_state({**state, "spec": {**state["spec"], "gamma": None}})
    assert_agrees(calm, stream)


@pytest.mark.parametrize("gamma", [1e-300, 1e-12])
def test_grades_diverges_at_once_and_says_so(gamma: float) -> None:
    learner = batch("grades", "squared", gamma=gamma)
    with pytest.raises(Divergence, match=r"after [12] of 60 steps"):
        learn(learner, random_stream("squared", 50, seed=38)).snapshot()


@pytest.mark.parametrize("factor", [1.0, 1.01, 3.0, 1e6])
def test_grades_goes_down_with_gamma_above_the_largest_eigenvalue(factor: float) -> None:
    stream = random_stream("squared", 60, seed=39)
    Z = with_bias(stream)
    top = np.linalg.eigvalsh(Z.T @ (stream.weights()[:, None] * Z) / 60)[-1]
    path = [
        learn(batch("grades", "squared", gamma=factor * top, iterations=i, nonzeros=4), stream)
        .snapshot()["certificate"]["objective"]
        for i in range(30)
    ]  # fmt: skip
    assert np.all(np.diff(path) <= 1e-12)


@every_pair
@pytest.mark.parametrize("seed", range(30))
def test_extreme_values_end_finite_or_refused(kernel: str, loss: str, seed: int) -> None:
    rng = np.random.default_rng([40, seed])
    sizes = 10.0 ** rng.integers(-49, 49, size=(6, 4))
    X = rng.choice([-1.0, 0.0, 1.0], size=(6, 4)) * sizes
    y = labels_of(loss, rng.normal(size=6), rng)
    if loss == "squared":
        y = y * 10.0 ** rng.integers(-49, 49, size=6)
    stream = Stream(X, y, 10.0 ** rng.integers(-49, 49, size=6))
    learner = learn(batch(kernel, loss, nonzeros=2), stream)
    try:
        snapshot = learner.snapshot()
    except Divergence:
        return
    served = [*weights_of(snapshot), snapshot["bias"]]
    served += [v for v in snapshot["certificate"].values() if v is not None]
    assert np.all(np.isfinite(served))
