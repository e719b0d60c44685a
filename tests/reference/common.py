"""What the dense twins share: their result, the gradient of one example, proximal steps, and SGD.

Inside, the bias is one more column, all ones and without l1 (all zeros when there is no bias, so
that nothing ever moves it). Time is t = 1..T: w_t predicts example t, w_{T+1} is the last iterate.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import numpy as np

from . import losses

Array = np.ndarray


@dataclass
class Twin:
    """What a learner holds and serves after t examples; zeros where something does not exist."""

    weights: Array  # (d,) the served model
    bias: float
    last: Array  # (d,) w_{T+1}
    mean: Array  # (d,) averaged iterate (optimalsl: the served frozen point)
    gradient: Array  # (d,) averaged gradient, ridge included
    t: int
    bias_last: float
    bias_mean: float
    bias_gradient: float
    progressive_loss: float  # sum of importance * loss before learning


@dataclass
class Path:
    """The iterates and loss gradients of a whole run; row t belongs to time t, row 0 is unused."""

    w: Array  # (T + 2, d + 1), rows 1..T+1
    g: Array  # (T + 1, d + 1), rows 1..T, never scaled by the cap
    t0: float
    progressive_loss: float


def pack(
    served: Array, last: Array, mean: Array, gradient: Array, t: int, progressive_loss: float
) -> Twin:
    """Split the bias column off again."""
    return Twin(
        weights=served[:-1].copy(),
        bias=float(served[-1]),
        last=last[:-1].copy(),
        mean=mean[:-1].copy(),
        gradient=gradient[:-1].copy(),
        t=t,
        bias_last=float(last[-1]),
        bias_mean=float(mean[-1]),
        bias_gradient=float(gradient[-1]),
        progressive_loss=float(progressive_loss),
    )


def pack_iterate(w: Array, t: int, progressive_loss: float) -> Twin:
    """The twin of a learner that serves its newest iterate and averages nothing."""
    return pack(w, w, w, np.zeros_like(w), t, progressive_loss)


def examples(Z: Array, y: Array, omega: Array) -> Iterator[tuple[int, Array, float, float]]:
    """(t, x, label, importance) for t = 1..T."""
    for t in range(1, len(Z) + 1):
        yield t, Z[t - 1], float(y[t - 1]), float(omega[t - 1])


def observe(loss: str, w: Array, x: Array, label: float, weight: float) -> tuple[Array, float]:
    """g = omega l'(m) x and omega l(m) at the margin m = w.x."""
    margin = x @ w
    value = weight * losses.value(loss, margin, label)
    return weight * losses.derivative(loss, margin, label) * x, float(value)


def l1_weights(l1: float, columns: int) -> Array:
    """The l1 weight of every column: none on the bias."""
    return np.append(np.full(columns - 1, l1), 0.0)


def mean_square(Z: Array) -> float:
    """R^2: the mean of |x|^2, bias included, over the first 100 examples; 0 when there are none."""
    return float(np.mean(np.sum(Z[:100] ** 2, axis=1))) if len(Z) else 0.0


def curvature_bound(loss: str, Z: Array) -> float:
    """kappa R^2."""
    return losses.curvature(loss) * mean_square(Z)


def step_size(schedule: str, eta: float, t: int) -> float:
    """eta_t = eta / t, eta / sqrt(t), or eta."""
    if schedule == "inverse":
        return eta / t
    if schedule == "sqrt":
        return eta / sqrt(t)
    if schedule == "constant":
        return eta
    raise ValueError(f"unknown schedule {schedule!r}")


def soft_threshold(v: Array, k: Array | float) -> Array:
    """S_k(v) = sign(v) max(|v| - k, 0)."""
    return np.sign(v) * np.maximum(np.abs(v) - k, 0.0)


def proximal_step(w: Array, g: Array, step: float, l1: Array, l2: float) -> Array:
    """S_{eta l1}((1 - eta l2) w - eta g)."""
    return soft_threshold((1 - step * l2) * w - step * g, step * l1)


def project_l1(v: Array, radius: float) -> Array:
    """argmin |w - v| over |w|_1 <= radius: S_theta(v), theta found by sorting."""
    if np.sum(np.abs(v)) <= radius:
        return v.copy()
    if radius <= 0:
        return np.zeros_like(v)
    mu = np.sort(np.abs(v))[::-1]
    thetas = (np.cumsum(mu) - radius) / np.arange(1, len(mu) + 1)
    k = np.flatnonzero(mu > thetas)[-1]  # the last j with mu_j > (sum_{i<=j} mu_i - radius) / j
    return soft_threshold(v, thetas[k])


def descend(
    loss: str,
    Z: Array,
    y: Array,
    omega: Array,
    penalty: Array,
    l2: float,
    t0: str | float,
    step_cap: str,
    l1_step: str,
) -> Path:
    """SGD in w itself with steps eta_t = 1/(l2 (t + t0))."""
    T, columns = Z.shape
    kappa = losses.curvature(loss)
    capped = step_cap == "on" or (step_cap == "auto" and t0 == "auto")
    if t0 == "auto":  # t0 = kappa R^2 / l2
        t0 = curvature_bound(loss, Z) / l2 if T else 0.0
    w = np.zeros((T + 2, columns))
    g = np.zeros((T + 1, columns))
    progressive = 0.0
    for t in range(1, T + 1):
        x, label, weight = Z[t - 1], y[t - 1], omega[t - 1]
        step = 1 / (l2 * (t + t0))
        margin = x @ w[t]
        progressive += weight * losses.value(loss, margin, label)
        g[t] = weight * losses.derivative(loss, margin, label) * x
        m = 1.0
        bound = kappa * weight * (x @ x)
        if capped and bound > 0:  # m_t = min(1, l2 (t + t0) / (kappa omega |x|^2))
            m = min(1.0, l2 * (t + t0) / bound)
        if l1_step == "clip":
            # w' = S_{eta l1}((1 - eta l2) w - eta m g)
            w[t + 1] = soft_threshold((1 - step * l2) * w[t] - step * m * g[t], step * penalty)
        elif l1_step == "subgradient":
            # w' = w - eta (m g + l2 w + l1 sign(w)), sign(0) = 0
            w[t + 1] = w[t] - step * (m * g[t] + l2 * w[t] + penalty * np.sign(w[t]))
        else:
            raise ValueError(f"unknown l1_step {l1_step!r}")
    return Path(w, g, float(t0), float(progressive))
