"""The closed forms of a sleeping coordinate, seen through learners; the algorithms are elsewhere.

One feature is touched once, then only empty examples follow, without a bias. Exact sums of the
rational recursion u <- u - c sgn(u), w = u/n are what the closed forms must give.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from contract.streams import column_of, fresh, ids_of, weights_of
from streamlearn.engine.block import Block

L2 = 0.25
STEPS = (0, 1, 2, 3, 7, 8, 9, 10, 15, 16, 17, 31, 32, 33, 40, 41, 75, 100, 257)


def touch(value: float, label: float, rows: int = 1) -> Block:
    """One example with feature 0, then empty ones."""
    return Block.from_arrays(
        np.array([0] + rows * [1], dtype=np.int64),
        np.array([0], dtype=np.int64),
        np.array([value]),
        np.array([label] + (rows - 1) * [0.0]),
    )


def sleep(rows: int) -> Block:
    return Block.from_arrays(
        np.zeros(rows + 1, dtype=np.int64),
        np.zeros(0, dtype=np.int64),
        np.zeros(0),
        np.zeros(rows),
    )


def served(learner: Any) -> float:
    snapshot = learner.snapshot()
    assert list(ids_of(snapshot)) in ([], [0])
    return float(weights_of(snapshot)[0]) if len(ids_of(snapshot)) else 0.0


def path(u: Fraction, c: Fraction, steps: int, subgradient: bool) -> list[Fraction]:
    """u after 0, 1, .. untouched steps, one after the other."""
    seen = [u]
    for _ in range(steps):
        size = abs(u) - c
        if u != 0:
            u = (1 if u > 0 else -1) * (size if subgradient else max(size, Fraction(0)))
        seen.append(u)
    return seen


def awake(start: float, t0: float, c: float, l1_step: str, **given: Any) -> tuple[str, dict]:
    return "squared", {
        "l1": c * L2, "l2": L2, "t0": t0, "step_cap": "off", "l1_step": l1_step, "bias": False,
        **given,
    }  # fmt: skip


# u after the touch is y/l2 of a label y (x = 1, weight 0 before), less c when clipped.
CASES = [
    pytest.param(start, t0, c, l1_step, id=f"u{start:g}-t0={t0:g}-c{c:g}-{l1_step}")
    for start in (40.0, -40.0, 1000.0, 2.7)
    for t0 in (0.0, 3.5, 1000.0)
    for c in (0.0, 0.8125, 3.0, 5000.0)
    for l1_step in ("clip", "subgradient")
]


def after_touch(start: float, c: float, l1_step: str) -> Fraction:
    u, step = Fraction(start), Fraction(c)
    if l1_step == "subgradient":
        return u  # the weight before was 0, and sgn(0) = 0
    return max(abs(u) - step, Fraction(0)) * (1 if start > 0 else -1)


@pytest.mark.parametrize(("start", "t0", "c", "l1_step"), CASES)
def test_a_sleeping_iterate_follows_the_recursion(
    start: float, t0: float, c: float, l1_step: str
) -> None:
    loss, given = awake(start, t0, c, l1_step)
    steps = path(after_touch(start, c, l1_step), Fraction(c), max(STEPS), l1_step == "subgradient")
    for many in STEPS:
        learner = fresh("sgd", loss, **given)
        learner.learn(touch(1.0, start * L2, 1 + many))
        expected = float(steps[many] / (1 + many + Fraction(t0)))
        assert served(learner) == pytest.approx(expected, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize(("start", "t0", "c", "l1_step"), CASES)
def test_a_sleeping_sum_of_u_follows_the_recursion(
    start: float, t0: float, c: float, l1_step: str
) -> None:
    loss, given = awake(start, t0, c, l1_step, weights="linear")
    steps = path(after_touch(start, c, l1_step), Fraction(c), max(STEPS), l1_step == "subgradient")
    for many in STEPS[1:]:
        learner = fresh("asgd", loss, **given)
        learner.learn(touch(1.0, start * L2, 1 + many))
        times = [Fraction(t0) + t for t in range(1 + many)]  # n_1 .. n_T; w_1 = 0
        expected = float(sum(steps[:many]) / sum(times))
        assert served(learner) == pytest.approx(expected, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize(("start", "t0", "c", "l1_step"), CASES)
def test_a_sleeping_sum_of_w_follows_the_recursion(
    start: float, t0: float, c: float, l1_step: str
) -> None:
    loss, given = awake(start, t0, c, l1_step, weights="suffix", alpha=0.4)
    steps = path(after_touch(start, c, l1_step), Fraction(c), max(STEPS), l1_step == "subgradient")
    for many in STEPS[1:]:
        total = 1 + many
        learner = fresh("asgd", loss, **given, total=total)
        learner.learn(touch(1.0, start * L2, total))
        tail = max(1, math.floor(0.4 * total + 0.5))
        # w_t = u_t / (t - 1 + t0); u_2 is what the touch left
        sums = sum(
            steps[t - 2] / (t - 1 + Fraction(t0)) for t in range(total - tail + 1, total + 1)
            if t >= 2
        )  # fmt: skip
        # (U + nc) dH - cK cancels in a short gap at large n: an epsilon of c a step is lost
        rounding = 1e-13 + 2.0**-52 * c
        assert served(learner) == pytest.approx(float(sums / tail), rel=1e-11, abs=rounding)


@pytest.mark.parametrize("l1_step", ["clip", "subgradient"])
@pytest.mark.parametrize("weights", ["linear", "suffix"])
def test_one_long_sleep_equals_many_short_ones(l1_step: str, weights: str) -> None:
    """A slot is settled only when touched: value 0 importance wakes it without moving it."""
    window = {"alpha": 0.5} if weights == "suffix" else {}
    loss, given = awake(1000.0, 3.5, 0.3, l1_step, weights=weights, total=200_000, **window)
    learners = [fresh("asgd", loss, **given) for _ in range(2)]
    for learner in learners:
        learner.learn(touch(1.0, 250.0))
    rest = 199_999
    learners[0].learn(sleep(rest))
    # wake up at odd distances; the loss step of an importance of 0 is 0
    while rest:
        many = min(rest, 1237)
        learners[1].learn(sleep(many - 1))
        learners[1].learn(
            Block.from_arrays(
                np.array([0, 1], dtype=np.int64),
                np.array([0], dtype=np.int64),
                np.array([1.0]),
                np.array([0.0]),
                np.array([0.0]),
            )
        )
        rest -= many
    one, two = (served(learner) for learner in learners)
    assert one == pytest.approx(two, rel=1e-10, abs=1e-14)
    assert learners[0].t == learners[1].t == 200_000


@pytest.mark.parametrize("weights", ["linear", "suffix"])
def test_a_sleep_of_a_million_steps_is_summed_exactly(weights: str) -> None:
    loss, given = awake(4e5, 1000.0, 0.5, "clip", weights=weights, total=1_000_000)
    learner = fresh("asgd", loss, **given)
    learner.learn(touch(1.0, 1e5, 1_000_000))
    t = np.arange(1.0, 1_000_001.0)
    n = t - 1 + 1000.0
    u = np.maximum(4e5 - 0.5 - 0.5 * (t - 2), 0.0) * (t >= 2)
    if weights == "linear":
        expected = math.fsum(u) / math.fsum(n)
    else:
        expected = math.fsum((u / n)[700_000:]) / 300_000
    assert expected > 0.0
    assert served(learner) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("algo", ["sgd", "asgd"])
def test_the_subgradient_rests_at_an_exact_zero(algo: str) -> None:
    """u = 40 and c = 5: eight steps to 0, where sgn(0) = 0 holds it."""
    loss, given = awake(40.0, 0.0, 5.0, "subgradient")
    for many in (7, 8, 9, 10, 500):
        learner = fresh(algo, loss, **given)
        learner.learn(touch(1.0, 40.0 * L2, 1 + many))
        assert (served(learner) == 0.0) == (many >= 8 if algo == "sgd" else many >= 500)


@pytest.mark.parametrize("penalty", [{"evidence": 0.4}, {"l1": 0.03}], ids=str)
def test_adaptivesl_sleeps_in_closed_form(penalty: dict[str, float]) -> None:
    """A sum over the gap, against waking the coordinate at every step with importance 0."""
    for many in STEPS[1:]:
        asleep, woken = (fresh("adaptivesl", "logistic", **penalty, bias=False) for _ in range(2))
        for learner in (asleep, woken):
            for _ in range(5):
                learner.learn(touch(1.5, 1.0))
        asleep.learn(sleep(many))
        state, after = asleep.state(), woken.state()
        assert state["slots"] == after["slots"], "a sleep touches no slot"
        t, W = state["scalars"]["t"], state["scalars"]["W"]
        assert (t, W) == (5 + many, sum(range(5 + many)))
        word = {k: np.frombuffer(v, dtype=np.float64)[0] for k, v in state["slots"].items()}
        z, l1 = state["scalars"]["evidence"], state["scalars"]["l1"]
        A = word["A"]
        for i in range(5, t):
            threshold = l1 * i if l1 else z * (math.sqrt(word["Q"]) + word["M"])
            A -= math.copysign(max(abs(word["S"]) - threshold, 0.0), word["S"]) / word["h"] * i
        # infinite smoothness serves the mean itself
        w = weights_of(asleep.snapshot(smoothness=1e15))
        assert w[0] == pytest.approx(A / W, rel=1e-11)


# ---- orda: x and z of a sleeping coordinate, which meet 0 or cross it at times of their own


def orda_path(x: float, G: float, first: int, stop: int, **given: float) -> list[float]:
    """x at the times first .. stop, step by step as the paper has them, in longer numbers."""

    def shrink(v: np.longdouble, k: np.longdouble) -> np.longdouble:
        return np.sign(v) * max(abs(v) - k, 0)

    x, G = np.longdouble(x), np.longdouble(G)
    l1, l2, Gamma = (np.longdouble(given[name]) for name in ("l1", "l2", "stiffness"))
    seen = [float(x)]
    for k in map(np.longdouble, range(first, stop)):
        theta, kappa = 2 / (k + 2), 4 / (k * (k + 1))
        M = l2 / theta**2 + Gamma
        z = -shrink(kappa * G, l1) / (l2 + kappa * Gamma)
        y = (1 - theta) * (l2 + theta**2 * Gamma) * x
        y += (theta * (1 - theta) * l2 + theta**3 * Gamma) * z
        y /= theta**2 * Gamma + (1 - theta**2) * l2
        x = shrink((1 - l2 / M) * y, l1 / M)
        seen.append(float(x))
    return seen


ORDA_CASES = [
    (l2, stiffness, l1, second)
    for l2, stiffness in ((0.5, 100.0), (1e-3, 0.3), (0.1, 1e-6), (1e-3, 20.0), (1e-12, 1e4))
    for l1 in (0.0, 1e-3, 0.05)
    for second in (None, -0.5, -3.0, -300.0)
]
ORDA_CASES.append((0.5, 20.0, 0.00253, -0.2258))  # x rests at 0 for a step before it crosses


@pytest.mark.parametrize(("l2", "stiffness", "l1", "second"), ORDA_CASES)
def test_a_sleeping_pair_of_orda_follows_the_recursion(
    l2: float, stiffness: float, l1: float, second: float | None
) -> None:
    """Touched once or twice; the second time with a label that may turn z against x."""
    given = {"l1": l1, "l2": l2, "stiffness": stiffness}
    learner = fresh("orda", "squared", bias=False, **given)
    learner.learn(touch(1.0, 2.0))
    if second is not None:
        learner.learn(sleep(70))
        learner.learn(touch(1.0, second))
    first = learner.t
    x, G = (float(column_of(learner.state(), name)[0]) for name in ("x", "G"))
    steps = orda_path(x, G, first, first + 5000, **given)
    size = max(map(abs, steps))
    for many in (*STEPS, 1000, 5000):
        learner.learn(sleep(first + many - learner.t))
        assert served(learner) == pytest.approx(steps[many], rel=1e-12, abs=1e-14 * size)


# ---- rda: the mean of the iterates of a sleeping coordinate

RDA_CASES = [
    *({"regularizer": "l1", "l1": l1, "enhanced": enhanced, "gamma": 3.0}
      for l1 in (0.0, 1e-4, 0.03, 100.0) for enhanced in (0.0, 0.01)),
    *({"l1": l1, "l2": l2, "damping": damping}
      for l1 in (0.0, 1e-4, 0.03, 100.0)
      for l2, damping in ((0.3, 0.0), (0.1, 7.0), (0.01, 50.0), (1e-300, 2.0), (0.0, 2.0))),
]  # fmt: skip


@pytest.mark.parametrize("given", RDA_CASES, ids=str)
def test_a_sleeping_mean_of_rda_is_the_sum_of_its_iterates(given: dict[str, Any]) -> None:
    """Touched once by the example `at`: S = -y from then on."""
    for at in (1, 64, 300):
        learner = fresh("rda", "squared", point="mean", bias=False, **given)
        learner.learn(sleep(at - 1))
        learner.learn(touch(1.0, 9.0))
        t = np.arange(at, 20_000, dtype=np.longdouble)
        root = np.sqrt(t)
        if "l2" in given:
            w = (9 - given["l1"] * t) / (given["l2"] * t + given["damping"])
        else:
            w = (9 - given["l1"] * t) / (given["gamma"] * root) - given["enhanced"]
        sums = np.cumsum(np.maximum(w, 0))
        for many in (*STEPS[1:], 1000, 20_000 - at):
            learner.learn(sleep(at + many - learner.t))
            mean = float(sums[many - 1] / (at + many))  # w_{T+1} is not in it
            assert served(learner) == pytest.approx(mean, rel=5e-14, abs=1e-17), f"{at}, {many}"
