"""Dense twins of the gradient-then-shrink learners: fobos, tg, epochgd, l1ball."""

from math import ceil, inf

import numpy as np

from .common import (
    Array,
    Twin,
    curvature_bound,
    descend,
    examples,
    l1_weights,
    observe,
    pack,
    pack_iterate,
    project_l1,
    proximal_step,
    soft_threshold,
    step_size,
)


def fobos(
    loss: str,
    Z: Array,
    y: Array,
    omega: Array,
    *,
    l1: float = 1e-5,
    l2: float = 1e-5,
    schedule: str = "inverse",
    eta: float = 0.5,
    t0: str | float = "auto",
    step_cap: str = "auto",
) -> Twin:
    """Gradient step, then the proximal map of l1; eta_t = 1/(l2 (t + t0)), eta/sqrt(t) or eta."""
    T, columns = Z.shape
    penalty = l1_weights(l1, columns)
    if schedule == "inverse":
        path = descend(loss, Z, y, omega, penalty, l2, t0, step_cap, "clip")
        return pack_iterate(path.w[T + 1], T, path.progressive_loss)
    w, progressive = np.zeros(columns), 0.0
    for t, x, label, weight in examples(Z, y, omega):
        g, value = observe(loss, w, x, label, weight)
        progressive += value
        w = proximal_step(w, g, step_size(schedule, eta, t), penalty, l2)
    return pack_iterate(w, T, progressive)


def tg(
    loss: str,
    Z: Array,
    y: Array,
    omega: Array,
    *,
    l1: float = 1e-5,
    schedule: str = "sqrt",
    eta: float = 0.5,
    truncate_every: int = 10,
    theta: float | None = None,
) -> Twin:
    """Truncated gradient: every K steps S_{eta_t l1 K}(w_j) where |w_j| <= theta, no ridge."""
    T, columns = Z.shape
    penalty = l1_weights(l1, columns)
    limit = inf if theta is None else theta
    w, progressive = np.zeros(columns), 0.0
    for t, x, label, weight in examples(Z, y, omega):
        g, value = observe(loss, w, x, label, weight)
        progressive += value
        step = step_size(schedule, eta, t)
        w = w - step * g
        if t % truncate_every == 0:
            truncated = soft_threshold(w, step * penalty * truncate_every)
            w = np.where(np.abs(w) <= limit, truncated, w)
    return pack_iterate(w, T, progressive)


def epochgd(
    loss: str, Z: Array, y: Array, omega: Array, *, l1: float = 1e-5, l2: float = 1e-5
) -> Twin:
    """Constant steps within an epoch; the next one starts at its mean, twice as long, eta halved.

    eta_1 = min(1/l2, 1/(kappa R^2)), T_1 = ceil(4/(l2 eta_1)).
    """
    T, columns = Z.shape
    penalty = l1_weights(l1, columns)
    bound = curvature_bound(loss, Z)
    eta = min(1 / l2, 1 / bound) if bound > 0 else 1 / l2
    length = ceil(4 / (l2 * eta))
    w, progressive = np.zeros(columns), 0.0
    total, n = np.zeros(columns), 0  # the predicting iterates of this epoch
    finished: Array | None = None
    for _, x, label, weight in examples(Z, y, omega):
        g, value = observe(loss, w, x, label, weight)
        progressive += value
        total = total + w
        n += 1
        w = proximal_step(w, g, eta, penalty, l2)
        if n == length:
            w = finished = total / n
            total, n = np.zeros(columns), 0
            length, eta = 2 * length, eta / 2
    mean = finished if finished is not None else total / max(n, 1)
    return pack(mean, w, mean, np.zeros(columns), T, progressive)


def l1ball(
    loss: str,
    Z: Array,
    y: Array,
    omega: Array,
    *,
    radius: float = 10.0,
    schedule: str = "sqrt",
    eta: float = 0.5,
) -> Twin:
    """w' = projection of w - eta_t g on |w|_1 <= radius; the bias is free."""
    T, columns = Z.shape
    w, progressive = np.zeros(columns), 0.0
    for t, x, label, weight in examples(Z, y, omega):
        g, value = observe(loss, w, x, label, weight)
        progressive += value
        w = w - step_size(schedule, eta, t) * g
        w[:-1] = project_l1(w[:-1], radius)
    return pack_iterate(w, T, progressive)
