"""What only some algorithms promise: sets, bounds, limits where two are one, first phases.

What every algorithm promises is in test_contract.
"""

from typing import Any

import msgpack
import numpy as np
import pytest

from contract.streams import (
    Stream,
    bias_of,
    column_of,
    dense_weights,
    fresh,
    ids_of,
    learn,
    random_stream,
    settings_for,
    to_block,
    weights_of,
)
from reference.twins import train
from streamlearn.catalogue import LOSSES, PARAMETERS, make_learner, resolve
from streamlearn.catalogue import STREAMING as ALGORITHMS
from streamlearn.engine.learner import Learner
from streamlearn.errors import UsageError

NO_RIDGE = 1e-15  # 1 - eta l2 rounds to 1
every_loss = pytest.mark.parametrize("loss", LOSSES)


def served(learner: Learner) -> tuple[bytes, bytes, float]:
    """What is handed out, to the last bit."""
    snapshot = learner.snapshot()
    return snapshot["ids"], snapshot["weights"], snapshot["bias"]


def paths(learner: Learner, stream: Stream) -> Any:
    """The dense weights after each example."""
    for first in range(len(stream)):
        learner.learn(to_block(stream, first, first + 1))
        yield dense_weights(learner.snapshot(), stream.columns)


# ---- rda stays in its set

SIZES = {
    "box": lambda w: np.abs(w).max(),
    "l2ball": np.linalg.norm,
    "l1ball": lambda w: np.abs(w).sum(),
    "kl": np.sum,
}


@every_loss
@pytest.mark.parametrize("radius", [0.05, 0.3, 100.0])
@pytest.mark.parametrize("kind", SIZES)
def test_rda_stays_in_its_set(kind: str, radius: float, loss: str) -> None:
    stream = random_stream(loss, 150, seed=80)
    learner = fresh("rda", loss, regularizer=kind, radius=radius, gamma=1.0 + 9 * (radius > 1))
    sizes = []
    for t, w in enumerate(paths(learner, stream)):
        sizes.append(SIZES[kind](w))
        slack = 0.0 if kind == "box" else 1e-12
        assert sizes[-1] <= radius * (1 + slack), f"after {t + 1} examples"
        if kind == "kl":
            assert np.all(w >= 0.0)
            assert sizes[-1] >= radius * (1 - slack)
    if radius < 1.0:
        assert max(sizes) >= radius * (1 - 1e-12), "the set is felt"
    elif kind != "kl":
        assert 0.0 < sizes[-1] < radius, "the set is out of reach"


@pytest.mark.parametrize("kind", ["l2ball", "l1ball", "box"])
def test_rda_stays_in_its_set_after_gradients_that_cancel(kind: str) -> None:
    """Sums that were huge and are small again: nothing of their size may be left behind."""
    for seed in range(10):
        rng = np.random.default_rng([81, seed])
        X = rng.normal(size=(30, 4))
        X[:2] = 1e8 * X[0]  # the hinge has slopes of one size: what one adds the other takes back
        y = np.append([1.0, -1.0], rng.choice([-1.0, 1.0], size=28))
        learner = fresh("rda", "hinge", regularizer=kind, radius=0.01, bias=False)
        for t, w in enumerate(paths(learner, Stream(X, y))):
            if t == 0:  # a sum of 1e8 less a threshold of 1e8 has no twelve digits
                continue
            assert SIZES[kind](w) <= 0.01 * (1 + 1e-12), f"{seed}: after {t + 1} examples"
            S = column_of(learner.state(), "S")
            if np.linalg.norm(S) > np.sqrt(t + 1.0):  # beyond every set of this size
                assert SIZES[kind](w) >= 0.01 * (1 - 1e-12), f"{seed}: after {t + 1} examples"


@pytest.mark.parametrize("kind", PARAMETERS["regularizer"].choices)
def test_the_objective_of_rda_holds_the_penalties_of_its_regularizer(kind: str) -> None:
    l1, l2 = {"l1l2": (0.02, 0.5), "l1": (0.02, 0.0), "l2": (0.0, 0.5)}.get(kind, (0.0, 0.0))
    given = {name: value for name, value in (("l1", l1), ("l2", l2)) if value}
    learner = fresh("rda", "logistic", regularizer=kind, **given)
    snapshot = learn(learner, random_stream("logistic", 300, seed=79)).snapshot()
    w, bias = weights_of(snapshot), snapshot["bias"]
    penalty = l1 * np.abs(w).sum() + l2 / 2 * (np.sum(w**2) + bias**2)
    told = snapshot["certificate"]
    assert np.any(w != 0.0)
    assert abs(told["objective"] - told["recent_loss"] - penalty) <= 1e-12


@every_loss
def test_l1ball_stays_in_its_ball(loss: str) -> None:
    for radius in (0.05, 0.7):
        learner = fresh("l1ball", loss, radius=radius, eta=0.1)
        sizes = [np.abs(w).sum() for w in paths(learner, random_stream(loss, 150, seed=82))]
        assert radius * (1 - 1e-12) <= max(sizes) <= radius * (1 + 1e-12)


# ---- limits at which two algorithms are one


@every_loss
def test_fobos_with_inverse_steps_is_sgd(loss: str) -> None:
    stream = random_stream(loss, 300, seed=83)
    for given in ({}, {"t0": 3.5, "step_cap": "on"}, {"bias": False}):
        given = {"l1": 0.02, "l2": 0.05, **given}
        one = learn(fresh("fobos", loss, **given), stream)
        two = learn(fresh("sgd", loss, l1_step="clip", **given), stream)
        assert served(one) == served(two)
        assert one.progress == two.progress
        assert one.state()["slots"] == two.state()["slots"]


@every_loss
@pytest.mark.parametrize("schedule", ["sqrt", "constant"])
def test_tg_at_every_example_is_fobos_without_a_ridge(loss: str, schedule: str) -> None:
    stream = random_stream(loss, 300, seed=84)
    given = {"l1": 0.05, "schedule": schedule, "eta": 0.05}
    one = learn(fresh("tg", loss, truncate_every=1, theta="auto", **given), stream)
    two = learn(fresh("fobos", loss, l2=NO_RIDGE, **given), stream)
    assert served(one) == served(two)
    assert one.progress == two.progress
    assert 0 < len(weights_of(one.snapshot())) < stream.columns


@every_loss
def test_smidas_with_a_euclidean_link_is_fobos_with_constant_steps(loss: str) -> None:
    stream = random_stream(loss, 300, seed=85)
    one = learn(fresh("smidas", loss, p=2.0, l1=0.05, eta=0.05), stream)
    two = learn(fresh("fobos", loss, l1=0.05, eta=0.05, l2=NO_RIDGE, schedule="constant"), stream)
    w, v = (dense_weights(x.snapshot(), stream.columns) for x in (one, two))
    assert 0 < np.count_nonzero(v) < stream.columns
    assert np.array_equal(w != 0.0, v != 0.0)
    assert np.abs(w - v).max() <= 1e-12
    assert abs(one.snapshot()["bias"] - two.snapshot()["bias"]) <= 1e-12


@pytest.mark.parametrize("l2", [2.0, 5.0, 18.0, 19.99])
@pytest.mark.parametrize("l1", [0.0, 0.01])
def test_rescaling_changes_nothing(l1: float, l2: float) -> None:
    """Weights of fobos are kept over a running product of 1 - eta l2, which must not run out."""
    usual = random_stream("logistic", 3000, seed=86, columns=9)
    X = usual.X.copy()
    X[500:2500, :3] = 0.0  # asleep over many a rescaling
    stream = Stream(X, usual.y, usual.importance)
    given = {"l1": l1, "l2": l2, "schedule": "constant", "eta": 0.05}
    learner = learn(fresh("fobos", "logistic", **given), stream, 701)
    twin = train("fobos", "logistic", stream.X, stream.y, stream.importance, **given)
    w = dense_weights(learner.snapshot(), stream.columns)
    assert np.abs(w - twin.weights).max() <= 1e-10
    assert abs(learner.snapshot()["bias"] - twin.bias) <= 1e-10
    assert abs(learner.progress["loss"] - twin.progressive_loss) <= 1e-10 * twin.progressive_loss
    assert 3000 * np.log10(1 - 0.05 * l2) < -100
    assert learner.state()["scalars"]["P"] >= 1e-110, "the product was started again"
    assert np.any(w != 0.0) or l1 * l2 > 0.1, "something is compared"


# ---- the perceptron's bound


@pytest.mark.parametrize("at_bound", ["refuse", "stop"])
@pytest.mark.parametrize("density", [0.0, 0.1, 0.3])
def test_the_perceptron_keeps_its_density(density: float, at_bound: str) -> None:
    """One feature an example, so that an example that is let in brings in one."""
    rng = np.random.default_rng(87)
    X = np.zeros((600, 40))
    X[np.arange(600), rng.integers(40, size=600)] = 1.0
    stream = Stream(X, rng.choice([-1.0, 1.0], size=600))
    learner = fresh("perceptron", "logistic", density=density, at_bound=at_bound, eta=1.0)
    most = 0
    for t, w in enumerate(paths(learner, stream)):
        seen = np.count_nonzero(np.any(X[: t + 1] != 0.0, axis=0))
        kept = np.count_nonzero(w)
        most = max(most, kept)
        assert kept < density * seen + 1, f"{kept} of {seen} after {t + 1} examples"
    assert (most == 0) == (density == 0.0)


def test_the_perceptron_oversteps_its_density_by_one_example_at_most() -> None:
    stream = random_stream("logistic", 300, seed=88)
    for at_bound in ("refuse", "stop"):
        learner = fresh("perceptron", "logistic", density=0.2, at_bound=at_bound)
        before = 0
        for t, w in enumerate(paths(learner, stream)):
            seen = np.count_nonzero(np.any(stream.X[: t + 1] != 0.0, axis=0))
            kept = np.count_nonzero(w)
            if before >= 0.2 * seen:
                assert kept <= before, f"after {t + 1} examples"
            before = kept


def test_the_perceptron_that_stopped_stays_as_it_is() -> None:
    stream = random_stream("logistic", 300, seed=89)
    learner = fresh("perceptron", "logistic", density=0.1, at_bound="stop")
    stopped = None
    for first in range(len(stream)):
        learner.learn(to_block(stream, first, first + 1))
        if stopped is not None:
            assert served(learner) == stopped
        elif learner.state()["scalars"]["stopped"]:
            stopped = served(learner)
    assert stopped is not None


# ---- optimalsl: any first phase

FIRST = PARAMETERS["phase_one"].choices
every_first = pytest.mark.parametrize("first", FIRST)
SHARED = {"l1": 0.02, "l2": 0.05}
STEADY = {
    "tg": {"eta": 0.1}, "smidas": {"eta": 0.02, "p": 3.0}, "l1ball": {"eta": 0.1},
    "orda": {"stiffness": 100.0}, "ssg": {"stiffness": 100.0}, "perceptron": {"threshold": 0.02},
}  # fmt: skip


def first_pairs() -> list[Any]:
    return [
        pytest.param(first, loss, id=f"{first}-{loss}")
        for first in FIRST
        for loss in LOSSES
        if LOSSES[loss].classifies or not ALGORITHMS[first].classifies_only
    ]


every_first_pair = pytest.mark.parametrize(("first", "loss"), first_pairs())


def two_phases(first: str, loss: str, **given: Any) -> Learner:
    given = {**SHARED, **STEADY.get(first, {}), "phase_one": first, **given}
    return fresh("optimalsl", loss, **settings_for("optimalsl", loss, given))


def length_of(first: str, loss: str) -> int:
    """Beyond the warm-up, and between two freezes."""
    return 1100 if (first, loss) == ("adaptivesl", "squared") else 200


@every_first_pair
def test_any_first_phase_is_cut_and_resumed_unnoticed(first: str, loss: str) -> None:
    stream = random_stream(loss, length_of(first, loss), seed=90)
    for given in ({}, {"total": len(stream)}):
        whole = learn(two_phases(first, loss, **given), stream)
        again = learn(two_phases(first, loss, **given), stream)
        cut = learn(two_phases(first, loss, **given), stream, 1)
        resumed = two_phases(first, loss, **given)
        for start in range(0, len(stream), 31):
            resumed = Learner.from_state(msgpack.unpackb(msgpack.packb(resumed.state())))
            resumed.learn(to_block(stream, start, start + 31))
            resumed.snapshot()
        expected = msgpack.packb([whole.state(), whole.snapshot()])
        for other in (again, cut, resumed):
            assert msgpack.packb([other.state(), other.snapshot()]) == expected


@every_first_pair
def test_any_first_phase_is_made_exactly_sparse(first: str, loss: str) -> None:
    """Many noisy features of little use: the conversion says no to most of them."""
    length = length_of(first, loss)
    rng = np.random.default_rng(91)
    X = rng.normal(size=(length, 30))
    margins = 2 * X[:, 0] - 2 * X[:, 1] + 0.3 * rng.normal(size=length)
    y = np.where(margins > 0, 1.0, -1.0) if LOSSES[loss].classifies else margins
    learner = learn(two_phases(first, loss, l1=0.1, smoothness=2.5), Stream(X, y))
    w = dense_weights(learner.snapshot(), 30)
    assert np.all(np.isfinite(w))
    assert np.count_nonzero(w) < 30
    assert w[0] > 0.0 > w[1]
    frozen = column_of(learner.state(), "frozen_w")
    gradient = column_of(learner.state(), "frozen_G") / learner.state()["second"]["count"]
    l2 = learner.spec["l2"]
    inside = np.abs(2.5 * frozen - gradient - l2 * frozen) <= 0.1
    assert np.array_equal(w == 0.0, inside), "zeros are those of the conversion"


@every_first_pair
def test_the_frozen_point_is_what_the_first_phase_serves(first: str, loss: str) -> None:
    """Frozen after 64, 128 .. examples: the weights that it would serve by itself, unconverted."""
    at = 1024 if (first, loss) == ("adaptivesl", "squared") else 128
    stream = random_stream(loss, at, seed=92)
    both = learn(two_phases(first, loss), stream)
    state = both.state()
    assert state["second"]["count"] == 0
    found = dict(
        zip(
            np.frombuffer(state["ids"], dtype=np.int64).tolist(),
            column_of(state, "frozen_w").tolist(),
            strict=True,
        )
    )
    given = {**SHARED, **STEADY.get(first, {})}
    taken = {k: v for k, v in given.items() if k in ALGORITHMS[first].parameters}
    plain = {"averagesl": "asgd", "lastsl": "asgd"}.get(first, first)
    if plain == "asgd":  # the others convert: their mean is that of the plain average
        taken["weights"] = "linear"
    if first == "ftrl":
        taken["growing"] = True
    alone = learn(fresh(plain, loss, **taken), stream)
    converts = {"smoothness": 1e15} if first == "adaptivesl" else {}
    snapshot = alone.snapshot(**converts)
    # a learner of scaled labels keeps scaled weights
    scale, shift = state["label_scale"], state["label_shift"]
    expected = dict(
        zip(ids_of(snapshot).tolist(), (weights_of(snapshot) * scale).tolist(), strict=True)
    )
    assert expected
    close = 1e-9 if first == "adaptivesl" else 0.0
    for j, w in found.items():
        assert w == pytest.approx(expected.get(j, 0.0), rel=close, abs=close), f"feature {j}"
    bias = bias_of(state)["frozen_w"]
    assert bias == pytest.approx((snapshot["bias"] - shift) * scale, rel=close, abs=close)


# ---- what may be asked for


@every_first
def test_a_first_phase_brings_its_parameters(first: str) -> None:
    chosen = resolve("optimalsl", "logistic", {"phase_one": first})
    assert set(ALGORITHMS[first].parameters) <= set(chosen)
    assert chosen["phase_one"] == first
    learner = learn(make_learner(chosen), random_stream("logistic", 150, seed=93))
    assert np.all(np.isfinite(weights_of(learner.snapshot())))


@pytest.mark.parametrize("first", [f for f in FIRST if ALGORITHMS[f].classifies_only])
def test_a_first_phase_that_classifies_takes_no_regression(first: str) -> None:
    with pytest.raises(UsageError, match=r"two classes"):
        resolve("optimalsl", "squared", {"phase_one": first})


def test_optimalsl_is_no_first_phase_of_its_own() -> None:
    with pytest.raises(UsageError, match="--phase-one optimalsl: expected"):
        resolve("optimalsl", "logistic", {"phase_one": "optimalsl"})


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_the_defaults_may_be_given(algo: str) -> None:
    """Settings that were written down are read back."""
    chosen = resolve(algo, "logistic", {})
    given = {k: v for k, v in chosen.items() if k not in ("algo", "loss")}
    assert resolve(algo, "logistic", given) == chosen


@pytest.mark.parametrize(
    ("algo", "name"),
    [(a.name, n) for a in ALGORITHMS.values() for n in a.parameters if PARAMETERS[n].auto],
)
def test_auto_means_something_wherever_it_is_accepted(algo: str, name: str) -> None:
    try:
        chosen = resolve(algo, "logistic", {name: "auto"})
    except UsageError:
        return
    snapshot = learn(make_learner(chosen), random_stream("logistic", 150, seed=94)).snapshot()
    assert np.all(np.isfinite(weights_of(snapshot)))
