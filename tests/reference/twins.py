"""Dense twins of the learners, every coordinate moved at every step; no lazy updates, no speed.

Here are the averaging and converting learners; the other families have files of their own. The bias
column and the counting of time are those of common.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor

import numpy as np

from . import batch, dual, forward, losses, mirror
from .common import Array, Path, Twin, descend, l1_weights, pack, soft_threshold

FAMILIES: dict[str, Callable[..., Twin]] = {
    "fobos": forward.fobos,
    "tg": forward.tg,
    "epochgd": forward.epochgd,
    "l1ball": forward.l1ball,
    "rda": dual.rda,
    "adagrad-rda": dual.adagrad_rda,
    "ftrl": dual.ftrl,
    "orda": dual.orda,
    "ssg": dual.ssg,
    "smidas": mirror.smidas,
    "perceptron": mirror.perceptron,
    "scd": batch.scd,
    "detcd": batch.detcd,
    "grades": batch.grades,
}


@dataclass
class Frozen:
    """A point that no longer moves and the sum G of n loss gradients taken at it."""

    w: Array
    G: Array
    n: int = 0


def train(
    algo: str,
    loss: str,
    X: Array,
    y: Array,
    importance: Array | None = None,
    *,
    bias: bool = True,
    **params: object,
) -> Twin:
    """Run one learner once over the rows of X, in order; its function names its parameters."""
    T = len(X)
    Z = np.column_stack([X, np.full(T, float(bias))])
    y = np.asarray(y, dtype=float)
    omega = np.ones(T) if importance is None else np.asarray(importance, dtype=float)
    if algo in FAMILIES:
        return FAMILIES[algo](loss, Z, y, omega, **params)
    return averaging(algo, loss, Z, y, omega, bias, **params)


def averaging(
    algo: str,
    loss: str,
    Z: Array,
    y: Array,
    omega: Array,
    bias: bool,
    *,
    l1: float = 1e-5,
    l2: float = 1e-4,
    t0: str | float = "auto",
    step_cap: str = "auto",
    l1_step: str = "clip",
    weights: str = "linear",
    alpha: float = 0.3,
    phase_one_alpha: float | None = None,
    total: int | None = None,
    smoothness: float | None = None,
    evidence: float = 0.9,
    eta: float | None = None,
    adaptive_l1: float | None = None,
) -> Twin:
    """sgd, asgd and the learners that convert: lastsl, optimalsl, averagesl, adaptivesl."""
    T, columns = Z.shape
    if algo == "adaptivesl":
        s = 10.0 if smoothness is None else smoothness
        return adaptive(loss, Z, y, omega, s, bias, evidence, eta, adaptive_l1)
    if algo not in ("sgd", "asgd", "lastsl", "optimalsl", "averagesl"):
        raise ValueError(f"unknown algo {algo!r}")
    if algo.endswith("sl") and smoothness is None:
        raise ValueError(f"{algo} needs smoothness")

    penalty = l1_weights(l1, columns)
    path = descend(loss, Z, y, omega, penalty, l2, t0, step_cap, l1_step)
    last = path.w[T + 1]

    if algo == "optimalsl":
        inner = alpha if phase_one_alpha is None else phase_one_alpha
        freeze_at = None if total is None else total - suffix_length(alpha, total)

        def average_after(t: int) -> tuple[Array, Array, bool]:
            return average(path, t, l2, weights, inner, freeze_at)

        mean, gradient, known = frozen_point(
            loss, Z, y, omega, l2, alpha, freeze_at, average_after
        )
    else:
        mean, gradient, known = average(path, T, l2, weights, alpha, total)

    point = last if algo in ("sgd", "lastsl") else mean
    convert = algo.endswith("sl") and known
    served = conversion(point, gradient, smoothness, penalty) if convert else point
    return pack(served, last, mean, gradient, T, path.progressive_loss)


def conversion(
    point: Array, gradient: Array, smoothness: Array | float, penalty: Array | float
) -> Array:
    """argmin <gradient, w> + (L/2)|w - point|^2 + penalty |w|_1 = S_{penalty/L}(point - grad/L)."""
    return soft_threshold(point - gradient / smoothness, penalty / smoothness)


def suffix_length(alpha: float, total: int) -> int:
    """How many of `total` examples make up the last fraction alpha: round half up, at least 1."""
    return max(1, floor(alpha * total + 0.5))


def two_bucket_start(T: int, alpha: float) -> int:
    """tau_{e-1}, where tau_e is the last start not after the current time T + 1."""
    taus = [1]
    while taus[-1] <= T + 1:
        taus.append(max(taus[-1] + 1, ceil(taus[-1] / (1 - alpha))))
    e = len(taus) - 2  # taus[-1] is the first start after T + 1
    return taus[max(e - 1, 0)]


def averaging_weights(T: int, t0: float, scheme: str, alpha: float, total: int | None) -> Array:
    """a_1..a_T, the weights of times 1..T in the average after T examples."""
    times = np.arange(1, T + 1)
    if scheme == "linear":
        return times - 1 + t0  # n_t
    if scheme != "suffix":
        raise ValueError(f"unknown weights {scheme!r}")
    exact = total is not None
    start = total - suffix_length(alpha, total) + 1 if exact else two_bucket_start(T, alpha)
    if start > T:  # a known suffix that has not begun: the mean of all so far
        start = 1
    return (times >= start).astype(float)


def average(
    path: Path, T: int, l2: float, scheme: str, alpha: float, total: int | None
) -> tuple[Array, Array, bool]:
    """Mean iterate and mean gradient after T examples, and whether there was anything to average.

    mean = sum a_t w_t / W,  gradient = sum a_t g_t / W + l2 mean,  W = sum a_t.
    """
    a = averaging_weights(T, path.t0, scheme, alpha, total)
    W = a.sum()
    if W == 0:
        return path.w[T + 1], np.zeros_like(path.w[T + 1]), False
    mean = a @ path.w[1 : T + 1] / W
    gradient = a @ path.g[1 : T + 1] / W + l2 * mean
    return mean, gradient, True


def frozen_point(
    loss: str,
    Z: Array,
    y: Array,
    omega: Array,
    l2: float,
    alpha: float,
    freeze_at: int | None,
    average_after: Callable[[int], tuple[Array, Array, bool]],
) -> tuple[Array, Array, bool]:
    """Phase two of optimalsl: the served frozen point, its mean gradient, and whether it has one.

    Freezes after `freeze_at` examples, or after 1, 2, 4, 8, ... when that is None.
    """
    T, columns = Z.shape
    zeros = np.zeros(columns)
    A: Frozen | None = None
    B: Frozen | None = Frozen(zeros, zeros.copy()) if freeze_at == 0 else None
    for t in range(1, T + 1):
        if B is not None:  # the gradient at the frozen point
            x = Z[t - 1]
            B.G += omega[t - 1] * losses.derivative(loss, x @ B.w, y[t - 1]) * x
            B.n += 1
        power_of_two = t & (t - 1) == 0
        if power_of_two if freeze_at is None else t == freeze_at:
            A, B = B, Frozen(average_after(t)[0], zeros.copy())
    if B is None:  # phase one has not ended: what it has averaged is all there is
        return average_after(T)
    chosen = B if A is None or A.n == 0 or B.n >= alpha * T else A
    if chosen.n == 0:
        return chosen.w, zeros, False
    return chosen.w, chosen.G / chosen.n + l2 * chosen.w, True


def adaptive(
    loss: str,
    Z: Array,
    y: Array,
    omega: Array,
    s: float,
    bias: bool,
    z: float,
    eta: float | None,
    beta: float | None,
) -> Twin:
    """Averaged dual averaging in a diagonal metric, converted in that metric; here t counts from 0.

    A coordinate is kept when |S| exceeds z (sqrt(Q) + M), or beta t when beta is given.
    """
    T, columns = Z.shape
    delta = 1.0
    zero = np.zeros(columns)
    if T == 0:
        return pack(zero, zero, zero, zero, 0, 0.0)
    if eta is None:
        eta = 3.0 if loss == "squared" else 8.0
    mu, sd = standardisation(y, omega, bias) if loss == "squared" else (0.0, 1.0)
    y = (y - mu) / sd

    penalised = np.append(np.ones(columns - 1), 0.0)
    S, Q, M, A, G, h = (np.zeros(columns) for _ in range(6))
    seen = np.zeros(columns, dtype=bool)
    W = N = c = progressive = 0.0

    def threshold(t: int) -> Array:
        return penalised * (z * (np.sqrt(Q) + M) if beta is None else beta * t)

    def metric() -> Array:
        return c * M * (delta * M + np.sqrt(Q))

    def iterate(t: int) -> Array:
        """w = -sgn(S) (|S| - threshold)_+ / h, with h as its last touch left it."""
        w = np.zeros(columns)
        w[seen] = (-soft_threshold(S, threshold(t)))[seen] / h[seen]
        return w

    for t in range(T):
        x = Z[t]
        touched = x != 0
        seen |= touched
        M = np.maximum(M, np.abs(x))
        N += np.sum((x[touched] / M[touched]) ** 2)
        c = np.sqrt(N / (t + 1)) / eta
        h[touched] = metric()[touched]
        w = iterate(t)  # every coordinate, touched or not
        A += t * w
        margin = x @ w
        progressive += omega[t] * losses.value(loss, margin, y[t])
        g = omega[t] * losses.derivative(loss, margin, y[t]) * x
        S += g
        Q += g**2
        G += t * g
        h[touched] = metric()[touched]
        W += t

    last = unscale(iterate(T), mu, sd)
    progressive *= sd**2
    if W == 0:  # one example has no weight in the average: its label is all that is known
        start = unscale(zero, mu, sd)
        return pack(start, last, start, zero, T, progressive)
    mean, gradient = A / W, G / W
    L = s * metric()[seen] / T
    b = (threshold(T) / T)[seen]  # z (sqrt(Q) + M) / t, or beta
    served = np.zeros(columns)
    served[seen] = conversion(mean[seen], gradient[seen], L, b)
    # dl/dm = m - y is sd times its standardised value, so gradients scale by sd and do not shift
    return pack(unscale(served, mu, sd), last, unscale(mean, mu, sd), gradient * sd, T, progressive)


def standardisation(y: Array, omega: Array, bias: bool) -> tuple[float, float]:
    """Weighted mean and sd of the first 1000 labels; sd 1 when they are all equal."""
    first, weight = y[:1000], omega[:1000]
    if weight.sum() == 0:
        return 0.0, 1.0
    mean = first[0] if np.ptp(first) == 0 else weight @ first / weight.sum()
    sd = np.sqrt(weight @ (first - mean) ** 2 / weight.sum())
    return (float(mean) if bias else 0.0), float(sd) or 1.0


def unscale(w: Array, mu: float, sd: float) -> Array:
    """The model of y from the model of (y - mu) / sd."""
    w = w * sd
    w[-1] += mu
    return w
