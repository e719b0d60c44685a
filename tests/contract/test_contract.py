"""The contract of an algorithm, for every entry of the catalogue with every loss.

A new algorithm or loss is covered by its entry and its dense twin; nothing is listed here by name
but what only one algorithm promises. Conversion, slots and losses have files of their own.
"""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from contract.streams import (
    PAIRS,
    Stream,
    bias_of,
    column_of,
    dense_weights,
    fresh,
    ids_of,
    labels_of,
    learn,
    random_stream,
    settings_for,
    to_block,
    weights_of,
)
from reference.twins import Twin, train
from streamlearn.catalogue import ALGORITHMS as CATALOGUE
from streamlearn.catalogue import HAVE_A_MEAN, LOSSES, PARAMETERS, engine_spec, resolve
from streamlearn.catalogue import STREAMING as ALGORITHMS
from streamlearn.engine.block import Block
from streamlearn.engine.learner import Learner
from streamlearn.errors import Divergence, UsageError

TOLERANCE = 1e-10
LENGTHS = (1, 2, 5, 60, 150, 400)

# Settings beyond the plain ones, each tried with every algorithm that takes all of them. A function
# makes its value from the length of the stream.
VARIATIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no_bias": {"bias": False},
    "no_l1": {"l1": 0.0},
    "strong_l1": {"l1": 0.2},
    "papers_schedule": {"t0": 0.0},
    "papers_schedule_capped": {"t0": 0.0, "step_cap": "on"},
    "offset": {"t0": 3.5},
    "uncapped": {"step_cap": "off"},
    "subgradient": {"l1_step": "subgradient"},
    "subgradient_capped": {"l1_step": "subgradient", "t0": 0.0, "step_cap": "on"},
    "linear": {"weights": "linear"},
    "suffix": {"weights": "suffix"},
    "suffix_long": {"weights": "suffix", "alpha": 0.7},
    "suffix_subgradient": {"weights": "suffix", "l1_step": "subgradient"},
    "total_exact": {"weights": "suffix", "total": lambda T: T},
    "total_passed": {"weights": "suffix", "total": lambda T: T // 2 + 1},
    "total_ahead": {"weights": "suffix", "total": lambda T: 3 * T},
    "total_at_the_border": {"weights": "suffix", "alpha": 0.001, "total": lambda T: T + 1},
    "total_linear": {"weights": "linear", "total": lambda T: T, "t0": 0.0, "step_cap": "on"},
    "two_alphas": {
        "weights": "suffix", "total": lambda T: T, "alpha": 0.4, "phase_one_alpha": 0.1,
    },
    "two_alphas_anytime": {"weights": "suffix", "alpha": 0.2, "phase_one_alpha": 0.6},
    "low_evidence": {"evidence": 0.3},
    "no_evidence": {"evidence": 0.0},
    "small_eta": {"eta": 2.0, "evidence": 0.9},
    "sqrt_steps": {"schedule": "sqrt", "eta": 0.3},
    "constant_steps": {"schedule": "constant", "eta": 0.05},
    "no_ridge": {"schedule": "sqrt", "eta": 0.3, "l2": 1e-12},
    "every_step": {"truncate_every": 1},
    "every_third": {"truncate_every": 3, "theta": 0.2},
    **{f"rda_{name}": {"regularizer": name} for name in PARAMETERS["regularizer"].choices},
    "rda_enhanced": {"regularizer": "l1", "enhanced": 0.05, "gamma": 2.0},
    "rda_damped": {"damping": 3.0},
    "rda_small_box": {"regularizer": "box", "radius": 0.1},
    "rda_small_ball": {"regularizer": "l2ball", "radius": 0.3},
    "rda_small_l1_ball": {"regularizer": "l1ball", "radius": 0.5},
    "rda_warm_simplex": {"regularizer": "kl", "gamma": 1.0, "radius": 3.0},
    "rda_mean": {"point": "mean"},
    "rda_mean_strong": {"point": "mean", "l1": 0.2, "damping": 0.5},
    "rda_mean_l1": {"point": "mean", "regularizer": "l1"},
    "rda_mean_l2": {"point": "mean", "regularizer": "l2"},
    "rda_mean_enhanced": {
        "point": "mean", "regularizer": "l1", "enhanced": 0.05, "gamma": 2.0,
    },
    "growing": {"growing": True, "l1": 0.02, "l2": 0.05},
    "offset_step": {"delta": 0.1},
    "offset_root": {"beta": 0.1},
    "stiff_dual": {"stiffness": 300.0, "l2": 1.0},
    "touched_only": {"shrinks": "touched"},
    "inverse_steps": {"schedule": "inverse", "eta": 0.4},
    "theorys_link": {"p": "auto", "dimension": 40},
    "kind_link": {"p": "auto", "dimension": 4000, "p_factor": 0.5},
    "steep_link": {"p": 12.0},
    "euclidean_link": {"p": 2.0},
    "no_threshold": {"threshold": 0.0},
    "wide_margin": {"margin": 1.0},
    "dense_bound": {"density": 0.3},
    "dense_bound_stops": {"density": 0.3, "at_bound": "stop"},
    "tight_ball": {"radius": 0.3},
    "roomy_ball": {"radius": 1000.0, "schedule": "constant", "eta": 0.01},
    "soft": {"smoothness": 0.3},
    "stiff": {"smoothness": 40.0},
}  # fmt: skip

# For combinations that nobody thought of; drawn from at random.
OPTIONS: dict[str, tuple[Any, ...]] = {
    "l1": (0.0, 0.005, 0.05),
    "l2": (0.02, 0.3),
    "t0": ("auto", 0.0, 3.5),
    "step_cap": ("auto", "on"),
    "l1_step": ("clip", "subgradient"),
    "weights": ("linear", "suffix"),
    "alpha": (0.1, 0.3, 0.5, 0.8),
    "phase_one_alpha": ("auto", 0.25),
    "total": (0, lambda T: T, lambda T: T // 2 + 1, lambda T: 3 * T),
    "smoothness": (0.5, 2.5, 20.0),
    "bias": (True, False),
    "evidence": (0.2, 0.9, 1.5),
    "schedule": ("sqrt", "constant"),
    "truncate_every": (1, 2, 7),
    "theta": ("auto", 0.1, 1.0),
    "regularizer": PARAMETERS["regularizer"].choices,
    "gamma": (2.0, 20.0),
    "enhanced": (0.0, 0.05),
    "damping": ("auto", 30.0),
    "radius": (0.3, 2.0),
    "point": ("last", "mean"),
    "delta": (0.1, 1.0),
    "beta": (0.1, 1.0),
    "growing": (True, False),
    "stiffness": (100.0, 300.0),
    "threshold": (0.0, 0.02),
    "margin": (0.01, 1.0),
    "density": (0.3, 1.0),
    "at_bound": ("refuse", "stop"),
    "p": ("auto", 2.0, 3.0, 8.0),
    "p_factor": (0.5, 2.0),
    "dimension": (0, 20),
    "shrinks": ("all", "touched"),
}
# Some algorithms allow more, some losses less.
SCALE_FREE = {"eta": (1.0, 8.0)}
SMALL_STEPS, SMALLER_STEPS = {"eta": (0.02, 0.2)}, {"eta": (0.005, 0.05)}


def options_of(algo: str, loss: str) -> dict[str, tuple[Any, ...]]:
    """What may be drawn for an algorithm; the steps are such that nothing diverges."""
    steps = SMALLER_STEPS if loss.startswith("squared") else SMALL_STEPS
    options = {**OPTIONS, **(SCALE_FREE if algo == "adaptivesl" else steps)}
    if algo == "fobos":
        options["schedule"] = PARAMETERS["schedule"].choices
    return {name: values for name, values in options.items() if takes(algo, {name: values})}


LOGISTIC_ONLY = {"papers_schedule"}  # uncapped steps of 1/l2 make the other losses diverge


def takes(algo: str, variation: dict[str, Any]) -> bool:
    return all(name in ALGORITHMS[algo].parameters for name in variation)


CASES = [
    pytest.param(algo, loss, variation, id=f"{algo}-{loss}-{name}")
    for (algo, loss), (name, variation) in itertools.product(PAIRS, VARIATIONS.items())
    if takes(algo, variation) and (loss == "logistic" or name not in LOGISTIC_ONLY)
]
every_case = pytest.mark.parametrize(("algo", "loss", "variation"), CASES)
every_pair = pytest.mark.parametrize(
    ("algo", "loss"), [pytest.param(*pair, id="-".join(pair)) for pair in PAIRS]
)
sgd_family = pytest.mark.parametrize(
    "algo", [a.name for a in ALGORITHMS.values() if "t0" in a.parameters]
)


def concrete(algo: str, loss: str, variation: dict[str, Any], length: int) -> dict[str, Any]:
    """Parameters of a variation for a stream of this length."""
    chosen = {k: v(length) if isinstance(v, Callable) else v for k, v in variation.items()}
    return settings_for(algo, loss, chosen)


def long_enough(algo: str, loss: str) -> int:
    """A length at which any warm-up is over for a while."""
    return 1050 if engine_spec(resolve(algo, loss, {}))["warmup"] == "labels" else 150


def twin_of(algo: str, loss: str, stream: Stream, given: dict[str, Any]) -> Twin:
    """The twin under the settings in force; it knows "auto" and "unknown" by other names."""
    chosen = resolve(algo, loss, given)
    for name in ("algo", "loss", "max_features", "phase_one"):
        chosen.pop(name, None)
    if algo == "adaptivesl":
        chosen["adaptive_l1"] = chosen.pop("l1") or None
    if algo == "smidas":
        factor, dimension = chosen.pop("p_factor"), chosen.pop("dimension")
        if chosen["p"] is None:
            chosen["p"] = max(2.0, factor * np.log(dimension)) if dimension else 10.0
        chosen["mode"] = {"all": "exact", "touched": "touched"}[chosen.pop("shrinks")]
    if "stiffness" in chosen:
        chosen["Gamma"] = chosen.pop("stiffness")
    for name in ("t0", "damping", "Gamma"):
        if name in chosen and chosen[name] is None:
            chosen[name] = "auto"
    if "total" in chosen:
        chosen["total"] = chosen["total"] or None
    return train(algo, loss, stream.X, stream.y, stream.importance, **chosen)


def deviation(learner: Learner, twin: Twin) -> float:
    """Largest difference in weights, bias or progressive loss, relative to the sizes at hand."""
    snapshot = learner.snapshot()
    w = dense_weights(snapshot, len(twin.weights))
    size = max(1.0, np.abs(twin.weights).max(initial=0.0))
    loss = twin.progressive_loss
    return max(
        np.abs(w - twin.weights).max(initial=0.0) / size,
        abs(snapshot["bias"] - twin.bias) / size,
        abs(learner.progress["loss"] - loss) / max(1.0, abs(loss)),
    )


def assert_agrees(algo: str, loss: str, stream: Stream, given: dict[str, Any]) -> None:
    learner = learn(fresh(algo, loss, **given), stream)
    off = deviation(learner, twin_of(algo, loss, stream, given))
    assert off <= TOLERANCE, f"T={len(stream)} {given}: off by {off:g}"


def bits(learner: Learner) -> tuple[bytes, bytes]:
    """The whole state and the whole snapshot, to the last bit (an equal dict may hide a -0)."""
    return msgpack.packb(learner.state()), msgpack.packb(learner.snapshot())


def carried_over(learner: Learner) -> Learner:
    """The learner that goes on from a stored state."""
    return Learner.from_state(msgpack.unpackb(msgpack.packb(learner.state())))


# ---- 1 the dense twin


@every_case
def test_agrees_with_the_dense_twin(algo: str, loss: str, variation: dict[str, Any]) -> None:
    for length in LENGTHS:
        stream = random_stream(loss, length, seed=1, importance=length != 60)
        assert_agrees(algo, loss, stream, concrete(algo, loss, variation, length))


def test_the_options_cover_every_parameter() -> None:
    """Of every algorithm; the twins have one first phase, and no bound on the features."""
    drawn = {name for algo, loss in PAIRS for name in options_of(algo, loss)}
    taken = {name for entry in ALGORITHMS.values() for name in entry.parameters}
    assert drawn == taken - {"phase_one", "max_features"}


@every_pair
def test_agrees_with_the_dense_twin_in_any_combination(algo: str, loss: str) -> None:
    rng = np.random.default_rng([2, PAIRS.index((algo, loss))])
    for trial in range(25):
        drawn = {
            name: values[rng.integers(len(values))]
            for name, values in options_of(algo, loss).items()
            if rng.random() < 0.8
        }
        # Uncapped first steps blow up, or saturate the logistic loss: its slope of 1e-20 leaves u
        # so near to 0, where the subgradient jumps, that rounding decides.
        saturates = loss != "logistic" or drawn.get("l1_step") == "subgradient"
        if drawn.get("t0", "auto") != "auto" and saturates:
            drawn["step_cap"] = "on"
        if "evidence" in drawn:
            drawn.pop("l1", None)
        if drawn.get("regularizer") not in (None, *HAVE_A_MEAN):
            drawn.pop("point", None)
        length = int(rng.integers(1, 250))
        stream = random_stream(loss, length, seed=trial, columns=12, importance=trial % 2 == 0)
        assert_agrees(algo, loss, stream, concrete(algo, loss, drawn, length))


@every_pair
def test_agrees_with_the_dense_twin_beyond_the_warmup(algo: str, loss: str) -> None:
    stream = random_stream(loss, long_enough(algo, loss) + 100, seed=3, columns=6)
    assert_agrees(algo, loss, stream, concrete(algo, loss, {}, len(stream)))


@pytest.mark.parametrize("length", [1, 2, 40, 1100])
def test_adaptivesl_serves_equal_labels_as_they_are(length: int) -> None:
    """Their mean is the label to the last bit: a rest of rounding would grow, scale-free, to 1."""
    usual = random_stream("squared", length, seed=21, columns=6, importance=False)
    repeated = np.repeat(usual.X[:1], length, axis=0)
    for X in (usual.X, repeated):
        learner = learn(fresh("adaptivesl", "squared"), Stream(X, np.full(length, 0.1)))
        snapshot = learner.snapshot()
        assert (snapshot["bias"], snapshot["ids"]) == (0.1, b"")
        assert learner.progress["loss"] == 0.0


# ---- 2, 3 cutting a stream


@every_case
def test_chunking_is_irrelevant(algo: str, loss: str, variation: dict[str, Any]) -> None:
    stream = random_stream(loss, long_enough(algo, loss), seed=4)
    given = concrete(algo, loss, variation, len(stream))
    whole = bits(learn(fresh(algo, loss, **given), stream))
    for size in (1, 7):
        assert bits(learn(fresh(algo, loss, **given), stream, size)) == whole


@every_case
def test_resume_equals_uninterrupted(algo: str, loss: str, variation: dict[str, Any]) -> None:
    length = long_enough(algo, loss)
    stream = random_stream(loss, length, seed=5)
    given = concrete(algo, loss, variation, length)
    whole = bits(learn(fresh(algo, loss, **given), stream))
    rng = np.random.default_rng(6)
    in_warmup, later = rng.integers(0, 2 * length // 3), rng.integers(2 * length // 3, length)
    learner = fresh(algo, loss, **given)
    for first, stop in itertools.pairwise((0, in_warmup, in_warmup + 1, later, length)):
        before = bits(learner)
        learner = carried_over(learner)
        assert bits(learner) == before
        learner.learn(to_block(stream, int(first), int(stop)))
    assert bits(learner) == whole


@every_pair
def test_the_defaults_do_not_see_how_a_stream_is_cut(algo: str, loss: str) -> None:
    """Nothing given, so that L is chosen at the snapshot where the algorithm chooses it."""
    stream = random_stream(loss, long_enough(algo, loss), seed=22)
    whole = bits(learn(fresh(algo, loss), stream))
    learner = fresh(algo, loss)
    for first in range(0, len(stream), 13):
        learner = carried_over(learner)
        learner.learn(to_block(stream, first, first + 13))
        learner.snapshot()
    assert bits(learner) == whole


@pytest.mark.parametrize(("algo", "loss"), [("averagesl", "logistic"), ("adaptivesl", "squared")])
def test_a_warmup_of_very_long_rows_ends_early(algo: str, loss: str) -> None:
    """2^20 features waiting are enough, wherever a block ends; the recent rows are fewer too."""
    rng = np.random.default_rng(23)
    X = rng.normal(size=(10, 2**17))
    stream = Stream(X, labels_of(loss, X[:, 0], rng))
    whole = learn(fresh(algo, loss), stream)
    assert bits(learn(fresh(algo, loss), stream, 1)) == bits(whole)
    assert whole.state()["pending"] is None
    assert learn(fresh(algo, loss), stream.cut(0, 7)).state()["pending"] is not None
    assert 2 <= whole.snapshot()["certificate"]["recent_examples"] <= 8


# ---- 4 looking changes nothing


@every_case
def test_snapshot_changes_nothing(algo: str, loss: str, variation: dict[str, Any]) -> None:
    stream = random_stream(loss, long_enough(algo, loss), seed=7)
    given = concrete(algo, loss, variation, len(stream))
    whole = bits(learn(fresh(algo, loss, **given), stream))
    learner = fresh(algo, loss, **given)
    for first in range(0, len(stream), 70):
        learner.learn(to_block(stream, first, first + 70))
        before = msgpack.packb(learner.state())
        one, two = learner.snapshot(), learner.snapshot(max_nonzeros=3)
        assert learner.progress["examples"] == learner.t == one["t"] == two["t"]
        assert msgpack.packb(learner.state()) == before
    assert bits(learner) == whole


# ---- 5 exact zeros


ABSENT = {"orda": 25_000, "ssg": 25_000}  # x falls as slowly as 1/k^2 before l1 takes the rest
TIGHT = {"l1ball": {"radius": 0.5}}  # no room for a feature beside a better one


def once_useful(algo: str, loss: str, **given: Any) -> Learner:
    """A learner whose feature 0 was useful for 40 examples, useless for 200, then absent."""
    absent = ABSENT.get(algo, 6000)
    rng = np.random.default_rng(8)
    X = rng.choice([-1.0, 1.0], size=(240 + absent, 3))
    X[240:, 0] = 0.0
    y = labels_of(loss, 3 * X[:, 1], rng)
    y[:40] = X[:40, 0]
    X[:40, 1:] = 0.0
    settings = {**TIGHT.get(algo, {}), **given}
    learner = fresh(algo, loss, **settings_for(algo, loss, settings))
    learner.learn(to_block(Stream(X, y), 0, 40))
    assert dense_weights(learner.snapshot(), 3)[0] != 0.0
    learner.learn(to_block(Stream(X, y), 40))
    return learner


# These take nothing from a weight that sleeps: its feature must come back and fail.
KEEPS_THE_SLEEPING = {"ftrl", "perceptron"}
# Each of its epochs starts at the mean of the one before, which therefore never leaves the mean.
NEVER_FORGETS = {"epochgd"}


@every_pair
def test_a_weight_returns_to_exactly_zero(algo: str, loss: str) -> None:
    """One feature is useful for a while, then useless, then absent or contradicted."""
    if algo in NEVER_FORGETS:
        learner = once_useful("optimalsl", loss, phase_one=algo)
    else:
        learner = once_useful(algo, loss)
    if algo in KEEPS_THE_SLEEPING:
        contradict(learner)
    end = learner.snapshot()
    assert 0 not in ids_of(end)
    assert dense_weights(end, 3)[1] != 0.0
    assert np.all(weights_of(end) != 0.0)


def contradict(learner: Learner) -> None:
    """Feature 0 alone, small and with the labels its weight denies, until the weight is gone."""
    before = dense_weights(learner.snapshot(), 3)[0]
    assert before != 0.0, "a weight that sleeps is kept"
    x = 0.1 * np.resize([1.0, -1.0], 4000)[:, None] * [1.0, 0.0, 0.0]
    stream = Stream(x, -np.sign(before * x[:, 0]))
    sizes = [before]
    for first in range(len(stream)):
        learner.learn(to_block(stream, first, first + 1))
        sizes.append(dense_weights(learner.snapshot(), 3)[0])
        if sizes[-1] == 0.0:
            return
    raise AssertionError(f"never zero: {sizes[::100]}")


@pytest.mark.parametrize("loss", LOSSES)
def test_epochgd_leaves_hardly_anything_of_a_weight(loss: str) -> None:
    """What an epoch of length n starts with is 1/n of its mean, though the iterate soon is zero."""
    learner = once_useful("epochgd", loss)
    before = abs(dense_weights(learner.snapshot(), 3)[0])
    length = learner.state()["scalars"]["length"]
    others = np.resize([[0.0, 1.0, 1.0], [0.0, -1.0, 1.0]], (4 * length, 3))
    learn(learner, Stream(others, others[:, 1]))  # two more epochs
    after = abs(dense_weights(learner.snapshot(), 3)[0])
    assert 0.0 < after < before * 4 / length**2 < 1e-8


@pytest.mark.parametrize(
    ("algo", "loss", "penalty"),
    [
        pytest.param(algo, loss, penalty, id=f"{algo}-{loss}-{penalty}")
        for algo, loss in PAIRS
        for penalty in ("l1", "evidence")
        if penalty in ALGORITHMS[algo].parameters
    ],
)
def test_a_huge_penalty_gives_the_empty_model(algo: str, loss: str, penalty: str) -> None:
    stream = random_stream(loss, 150, seed=9)
    given = settings_for(algo, loss, {penalty: 1e3})
    snapshot = learn(fresh(algo, loss, **given), stream).snapshot()
    assert (snapshot["ids"], snapshot["weights"]) == (b"", b"")
    assert snapshot["bias"] != 0.0
    assert snapshot["seen"] == np.count_nonzero(np.any(stream.X != 0, axis=0))


# ---- 6 odd examples


@every_pair
def test_order_inside_an_example_is_irrelevant(algo: str, loss: str) -> None:
    stream = random_stream(loss, 150, seed=10)
    given = settings_for(algo, loss, {})
    one = learn(fresh(algo, loss, **given), stream).snapshot()
    order = np.random.default_rng(11)
    two = learn(fresh(algo, loss, **given), stream, 7, order=order).snapshot()
    assert one["ids"] == two["ids"]
    size = max(1.0, np.abs(weights_of(one)).max())
    assert np.abs(weights_of(one) - weights_of(two)).max() <= 1e-12 * size
    assert abs(one["bias"] - two["bias"]) <= 1e-12 * size


@every_case
def test_odd_streams_agree_with_the_twin(algo: str, loss: str, variation: dict[str, Any]) -> None:
    usual = random_stream(loss, 40, seed=12, columns=8)
    X, y = usual.X, usual.y
    empty_rows, late, with_zeros = X.copy(), X.copy(), np.ones(40)
    empty_rows[[0, 1, 7, 8, 9, 39]] = 0.0
    late[:35, :4] = 0.0
    late[35:, 4:] = 0.0
    with_zeros[[0, 5, 6, 38, 39]] = 0.0
    # Labels in eighths have an exact mean. Two others come before the example that repeats, because
    # the first capped step goes exactly to margin 1, the kink of the hinge, where rounding decides.
    again = Stream(X[[0, 1] + 38 * [2]], np.round(8 * y[[0, 1] + 38 * [2]]) / 8)
    odd = {
        "empty rows": Stream(empty_rows, y),
        "only empty rows": Stream(np.zeros_like(X), y),
        "features unseen until late": Stream(late, y),
        "one example again and again": again,
        "weights of zero": Stream(X, y, with_zeros),
        "weights of zero only": Stream(X, y, np.zeros(40)),
    }
    if loss == "hinge" and variation.get("step_cap") == "on":
        del odd["only empty rows"]  # the bias alone goes from kink to kink
    for stream in odd.values():
        assert_agrees(algo, loss, stream, concrete(algo, loss, variation, 40))


@every_pair
def test_a_fresh_learner_serves_nothing(algo: str, loss: str) -> None:
    learner = carried_over(fresh(algo, loss))
    learner.learn(to_block(random_stream(loss, 3, seed=13), 0, 0))
    snapshot = learner.snapshot()
    assert (snapshot["ids"], snapshot["weights"], snapshot["bias"]) == (b"", b"", 0.0)
    assert (snapshot["t"], snapshot["seen"], learner.t) == (0, 0, 0)


# ---- 7 importance weights


@every_pair
def test_an_example_of_weight_zero_still_advances_time(algo: str, loss: str) -> None:
    stream = random_stream(loss, 120, seed=14, importance=False)
    weights = np.ones(120)
    weights[60:] = 0.0
    given = settings_for(algo, loss, {})
    learner = learn(fresh(algo, loss, **given), Stream(stream.X, stream.y, weights))
    assert learner.t == learner.progress["examples"] == 120
    assert learner.progress["weight"] == 60.0
    half = learn(fresh(algo, loss, **given), stream.cut(0, 60))
    if algo in ("ftrl", "l1ball"):  # their weights do not depend on how many examples there were
        return
    assert learner.snapshot()["weights"] != half.snapshot()["weights"]


@every_pair
def test_weights_of_one_are_no_weights(algo: str, loss: str) -> None:
    stream = random_stream(loss, 150, seed=15, importance=False)
    ones = Stream(stream.X, stream.y, np.ones(150))
    assert bits(learn(fresh(algo, loss), stream)) == bits(learn(fresh(algo, loss), ones))


# ---- 8 nothing that is not finite is ever served


def refusal_of(action: Callable[[], Any]) -> Divergence | None:
    try:
        action()
    except Divergence as refusal:
        return refusal
    return None


def assert_broken(learner: Learner, example: int) -> None:
    for ask in (learner.snapshot, lambda: learner.learn(to_block(random_stream("squared", 1, 1)))):
        with pytest.raises(Divergence) as again:
            ask()
        assert again.value.example == example


@sgd_family
@pytest.mark.parametrize("size", [1, 7, None])
def test_divergence_is_an_error_with_a_place(algo: str, size: int | None) -> None:
    usual = random_stream("squared", 60, seed=16, importance=False)
    stream = Stream(usual.X * 1e3, usual.y)
    lines = 100 + 3 * np.arange(60)
    learner = fresh(algo, "squared", t0=0.0, step_cap="off", l2=1e-4)
    with pytest.raises(Divergence, match=r"example \d+ \(line \d+\): .*diverged") as caught:
        learn(learner, stream, size, lines=lines)
    example = caught.value.example
    assert caught.value.line == lines[example - 1]
    # learning stops at the same example however the stream is cut: the one before it was fine
    before = learn(
        fresh(algo, "squared", t0=0.0, step_cap="off", l2=1e-4), stream.cut(0, example - 1)
    )
    assert np.all(np.isfinite(weights_of(before.snapshot(smoothness=1.0))))
    assert_broken(learner, example)


@pytest.mark.parametrize("size", [1, 2, None])
def test_divergence_at_the_frozen_point_has_the_same_place(size: int | None) -> None:
    """optimalsl freezes a weight of 4e11 that phase one forgets at once; then x = 9e49 comes."""
    X = np.array([[2e8], [0.0], [9e49], [0.0], [0.0]])
    learner = fresh(
        "optimalsl", "logistic", l1=6e7, l2=1e-4, t0=0.0, total=4, alpha=0.75, bias=False,
        weights="linear",
    )  # fmt: skip
    with pytest.raises(Divergence) as caught:
        learn(learner, Stream(X, np.ones(5)), size)
    assert (caught.value.example, caught.value.line) == (3, 3)
    assert_broken(learner, 3)


# Their steps know nothing of the example in hand: one that is huge throws them far away.
OVERSHOOTS = {"tg", "rda", "orda", "ssg", "epochgd", "smidas"}


@every_pair
@pytest.mark.parametrize("settled", [True, False], ids=["learning", "warming up"])
def test_values_too_large_to_square_are_refused(algo: str, loss: str, settled: bool) -> None:
    usual = random_stream(loss, long_enough(algo, loss), seed=17, importance=False)
    bad = len(usual) - 3 if settled else 20
    for value, refused in ((1e50, True), (9e49, False), (1e200, True)):
        X = usual.X.copy()
        X[bad] = 0.0
        X[bad, 5] = value
        stream = Stream(X if settled else X[:40], usual.y if settled else usual.y[:40])
        learner = fresh(algo, loss, **settings_for(algo, loss, {}))
        if not refused and algo not in OVERSHOOTS:
            assert_finite(learn(learner, stream, 7))
            continue
        # while warming up, only a snapshot learns anything
        feed = partial(learn, learner, stream, 7)
        refusal = refusal_of(feed) or refusal_of(learner.snapshot)
        if refused:
            assert refusal is not None
            assert (refusal.example, refusal.line) == (bad + 1, bad + 1)
        elif refusal is None:
            assert_finite(learner)
        else:  # that example was learned; the next could not be
            assert refusal.example == refusal.line > bad + 1


@pytest.mark.parametrize("label", [1e49, 1e52, 1e160, 1e300])
@pytest.mark.parametrize("algo", [algo for algo, loss in PAIRS if loss == "squared"])
def test_huge_labels_are_learned_or_refused(algo: str, label: float) -> None:
    stream = Stream(np.ones((4, 1)), np.array([1.0, 2.0, label, 1.0]))
    learner = fresh(algo, "squared", **settings_for(algo, "squared", {}))
    refusal = refusal_of(lambda: learn(learner, stream)) or refusal_of(learner.snapshot)
    if refusal is None:
        assert_finite(learner)
    else:
        assert refusal.example == refusal.line == 3


def assert_finite(learner: Learner) -> None:
    """All that is served and all that is kept."""
    state, snapshot = learner.state(), learner.snapshot()
    served = [*weights_of(snapshot), snapshot["bias"]]
    served += [v for v in snapshot["certificate"].values() if v is not None]
    assert np.all(np.isfinite(served)), f"served {served}"
    for name in state["slots"]:
        assert np.all(np.isfinite(column_of(state, name))), f"{name} in a slot"
    if state["bias"] is not None:
        assert np.all(np.isfinite(list(bias_of(state).values()))), "in the bias"
    numbers = [state["label_shift"], state["label_scale"], *state["progress"].values()]
    scalars = dict(state["scalars"])
    numbers += [*scalars.pop("step", {}).values(), *scalars.values()]
    assert np.all(np.isfinite(numbers)), f"scalars {state['scalars']}, progress {state['progress']}"


def extremes(top: int) -> st.SearchStrategy[float]:
    """Numbers of either sign, tiny, usual or up to 10^top in size."""
    exponents = st.sampled_from([-60, -51, -49, -30, 0, top // 2, top - 5, top])
    return st.builds(
        lambda sign, digits, exponent: float(f"{sign}{digits}e{exponent}"),
        st.sampled_from(["", "-"]), st.sampled_from(["1", "3.7"]),
        exponents | st.integers(-60, top),
    )  # fmt: skip


rows = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from([0, 1, 2, 2**40]), extremes(48), max_size=3),
        st.sampled_from([-1.0, 1.0]) | extremes(49),
        st.sampled_from([0.0, 1.0]) | extremes(49).map(abs),
    ),
    min_size=1,
    max_size=8,
)
schedules = st.sampled_from([{}, {"t0": 0.0}, {"t0": 0.0, "step_cap": "on"}, {"total": 4}])


@every_pair
@pytest.mark.parametrize("calm", [0, 1000], ids=["from the start", "after a calm time"])
@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(examples=rows, schedule=schedules)
# one step out of the finite world, seen only when its effect on recent examples is asked for
@example(examples=[({0: 1e42}, -1.0, 1e45)], schedule={"t0": 0.0})
# a gradient whose square overflows
@example(examples=[({0: 1e48}, 1e49, 1e49)] * 2, schedule={"t0": 0.0})
def test_extreme_values_end_finite_or_refused(
    algo: str, loss: str, calm: int, examples: list[Any], schedule: dict[str, Any]
) -> None:
    examples = calm // 2 * [({0: 1.0}, 1.0, 1.0), ({1: -1.0}, -1.0, 1.0)] + examples
    features, labels, weights = zip(*examples, strict=True)
    if LOSSES[loss].classifies:
        labels = [math.copysign(1.0, y) for y in labels]
    block = Block.from_arrays(
        np.cumsum([0, *map(len, features)]),
        np.array([i for row in features for i in row], dtype=np.int64),
        np.array([v for row in features for v in row.values()], dtype=np.float64),
        np.array(labels),
        np.array(weights),
    )
    learner = fresh(algo, loss, **(schedule if takes(algo, schedule) else {}))
    learning = refusal_of(lambda: learner.learn(block))
    if learning is not None:
        assert_broken(learner, learning.example)
    refusal = learning or refusal_of(learner.snapshot)
    if refusal is None:
        assert_finite(learner)
    else:
        assert refusal.example == refusal.line


# ---- 9 memory


@every_pair
def test_memory_follows_features_not_examples(algo: str, loss: str) -> None:
    length = long_enough(algo, loss)
    stream = random_stream(loss, length, seed=18)
    scattered = np.array([2**50 + 7 * i for i in range(stream.columns)])
    for ids in (None, scattered):
        learner = learn(fresh(algo, loss), stream, ids=ids)
        memory, words = learner.memory, len(msgpack.packb(learner.state()["slots"]))
        for _ in range(20):
            learn(learner, stream, ids=ids)
        assert learner.t == 21 * length
        assert learner.memory == memory
        assert len(msgpack.packb(learner.state()["slots"])) == words


# ---- 10 what only adaptivesl promises


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("given", [{}, {"evidence": 0.3}, {"bias": False}], ids=str)
def test_adaptivesl_does_not_see_the_unit_of_a_column(loss: str, given: dict[str, Any]) -> None:
    for length in (60, long_enough("adaptivesl", loss)):
        stream = random_stream(loss, length, seed=19)
        rng = np.random.default_rng(20)
        twos = 2.0 ** rng.integers(-20, 21, size=stream.columns)
        plain = learn(fresh("adaptivesl", loss, **given), stream)
        by_twos = learn(
            fresh("adaptivesl", loss, **given), Stream(stream.X * twos, stream.y, stream.importance)
        )
        w = dense_weights(plain.snapshot(), stream.columns)
        assert np.count_nonzero(w) > 0
        assert np.array_equal(dense_weights(by_twos.snapshot(), stream.columns) * twos, w)
        assert by_twos.snapshot()["bias"] == plain.snapshot()["bias"]
        assert by_twos.progress == plain.progress

        units = 10.0 ** rng.uniform(-6, 6, size=stream.columns)
        by_units = learn(
            fresh("adaptivesl", loss, **given),
            Stream(stream.X * units, stream.y, stream.importance),
        )
        rescaled = dense_weights(by_units.snapshot(), stream.columns) * units
        assert np.array_equal(rescaled != 0.0, w != 0.0)
        assert np.abs(stream.X @ (rescaled - w)).max() <= TOLERANCE


# ---- the door: what resolve() lets through


@pytest.mark.parametrize(
    ("algo", "loss", "given", "sentence"),
    [
        ("averagsl", "logistic", {}, "--algo averagsl: no such algorithm; did you mean 'averagesl"),
        ("neurons", "logistic", {}, "--algo neurons: .* known: .*adaptivesl.*perceptron"),
        ("perceptron", "squared", {}, "--algo perceptron learns two classes; .*logistic, hinge"),
        ("rda", "logistic", {"regularizer": "kl", "l1": 0.1}, "--l1 0.1 has no effect with "
         "--regularizer kl, whose weights are non-negative and add up to the radius"),
        ("rda", "logistic", {"regularizer": "box", "l2": 5.0}, "no effect with --regularizer box"),
        ("rda", "logistic", {"radius": 9.0}, "--radius 9.0 has no effect with --regularizer l1l2"),
        ("fobos", "logistic", {"eta": 3.0}, "--eta 3.0 has no effect with --schedule inverse"),
        ("fobos", "logistic", {"schedule": "sqrt", "t0": 3.0}, "no effect with --schedule sqrt"),
        ("averagesl", "logistic", {"alpha": 0.1}, "no effect with --weights linear"),
        ("smidas", "logistic", {"p": 3.0, "dimension": 9}, "--dimension 9 has no effect with --p"),
        ("optimalsl", "logistic", {"phase_one": "ftrl", "weights": "suffix"},
         r"means nothing to --algo optimalsl with --phase-one ftrl \(it is a parameter of aver"),
        ("optimalsl", "logistic", {"phase_one": "orda", "l2": 0.0}, "since orda has steps in"),
        ("fobos", "logistic", {"schedule": "sqrt", "eta": 2.0, "l2": 0.5}, r"eta \* l2 must stay"),
        ("rda", "squared", {"point": "mean", "regularizer": "box"}, "kept for l1l2, l1, l2 only"),
        ("sgd", "logistik", {}, "--loss logistik: no such loss; did you mean 'logistic'"),
        ("sgd", "logistic", {"l1_stp": 1}, "l1_stp: no such parameter; did you mean 'l1_step'"),
        ("adaptivesl", "squared", {"l1": 0.1, "evidence": 1.0}, "--l1 and --evidence"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(
    algo: str, loss: str, given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        resolve(algo, loss, given)


@every_pair
def test_a_parameter_without_meaning_is_refused(algo: str, loss: str) -> None:
    entry = ALGORITHMS[algo]
    assert set(resolve(algo, loss, {})) == {"algo", "loss", *entry.parameters}
    for name, parameter in PARAMETERS.items():
        if name in entry.parameters:
            continue
        users = [a.name for a in CATALOGUE.values() if name in a.parameters]
        assert users, f"no algorithm takes {name}"
        with pytest.raises(UsageError) as refusal:
            resolve(algo, loss, {name: parameter.default})
        for word in (parameter.flag, f"--algo {algo}", *users):
            assert word in str(refusal.value)


def outside(name: str) -> list[Any]:
    """Values that a parameter does not accept, from what it declares."""
    p = PARAMETERS[name]
    if p.choices:
        return ["", "none", 1, None]
    if p.kind is bool:
        return [0, 1, "yes", None]
    bad: list[Any] = [math.nan, math.inf, -math.inf, "1", "often", True, [1]]
    if not p.auto:
        bad += [None, "auto"]
    if p.kind is int:
        bad.append(1.5)
    if p.low > -math.inf:
        bad += [p.low] if p.open_low else [math.nextafter(p.low, -math.inf), p.low - 1]
    if p.high < math.inf:
        bad += [p.high] if p.open_high else [math.nextafter(p.high, math.inf), 2 * p.high + 1]
    return bad


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_value_out_of_bounds_is_refused_with_the_bounds(name: str) -> None:
    entry = next(a for a in CATALOGUE.values() if name in a.parameters)
    for value in outside(name):
        with pytest.raises(UsageError) as refusal:
            resolve(entry.name, (entry.losses or ("logistic",))[0], {name: value})
        assert PARAMETERS[name].flag in str(refusal.value), f"{name}={value!r}"
        assert PARAMETERS[name].range in str(refusal.value), f"{name}={value!r}"


# Parameters that have an effect only beside another one.
BESIDE = {
    "alpha": {"weights": "suffix"},
    "phase_one_alpha": {"weights": "suffix"},
    "gamma": {"regularizer": "l1"},
    "enhanced": {"regularizer": "l1"},
    "radius": {"algo": "rda", "regularizer": "box"},
    "p_factor": {"dimension": 1000},
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_value_on_the_edge_is_accepted(name: str) -> None:
    p = PARAMETERS[name]
    # the steps of most are in units of 1/l2, which must then be more than 0
    users = [a for a in CATALOGUE.values() if name in a.parameters]
    entry = CATALOGUE["adagrad-rda"] if name == "l2" else users[0]
    loss = (entry.losses or ("logistic",))[0]
    accepted = list(p.choices) or ([True, False] if p.kind is bool else [])
    if not accepted:
        accepted = [math.nextafter(p.low, math.inf) if p.open_low else p.low, 0.5, 1]
        accepted = [v for v in accepted if p.kind is float or v == int(v)]
        accepted = [v for v in accepted if p.low <= v and (v < p.high or not p.open_high)]
    beside: dict[str, Any] = BESIDE.get(name, {})
    entry = CATALOGUE[beside.get("algo", entry.name)]
    for value in accepted:
        given = {name: p.kind(value), **{k: v for k, v in beside.items() if k != "algo"}}
        assert resolve(entry.name, loss, given)[name] == value
    if p.auto:
        assert resolve(entry.name, loss, {name: "auto"})[name] is None
