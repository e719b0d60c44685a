"""Dense twins of the learners with a link or a mistake rule: smidas, perceptron."""

import numpy as np

from .common import Array, Twin, examples, l1_weights, observe, pack_iterate, soft_threshold


def smidas(
    loss: str,
    Z: Array,
    y: Array,
    omega: Array,
    *,
    p: float,
    l1: float = 1e-5,
    eta: float = 0.01,
    mode: str = "exact",
) -> Twin:
    """Mirror descent: theta' = S_{eta l1}(theta - eta g), w the p-norm link of theta.

    "touched" moves only the features of the example; the bias is outside the link, w_b = theta_b.
    """
    if mode not in ("exact", "touched"):
        raise ValueError(f"unknown mode {mode!r}")
    T, columns = Z.shape
    penalty = l1_weights(l1, columns)
    theta, progressive = np.zeros(columns), 0.0

    def primal() -> Array:
        return np.append(link(theta[:-1], p), theta[-1])

    for _, x, label, weight in examples(Z, y, omega):
        g, value = observe(loss, primal(), x, label, weight)
        progressive += value
        moved = soft_threshold(theta - eta * g, eta * penalty)
        theta = moved if mode == "exact" else np.where(x != 0, moved, theta)
    return pack_iterate(primal(), T, progressive)


def link(theta: Array, p: float) -> Array:
    """w_j = sgn(theta_j) |theta_j|^(p-1) / |theta|_p^(p-2), in units of M = max |theta|."""
    M = np.max(np.abs(theta), initial=0.0)
    if M == 0:
        return np.zeros_like(theta)
    r = np.abs(theta) / M
    return np.sign(theta) * M * r ** (p - 1) / np.sum(r**p) ** ((p - 2) / p)


def perceptron(
    loss: str,
    Z: Array,
    y: Array,
    omega: Array,
    *,
    eta: float = 0.1,
    threshold: float = 1e-3,
    margin: float = 0.01,
    density: float = 1.0,
    at_bound: str = "refuse",
) -> Twin:
    """If y m <= margin: w_j' = S_threshold(w_j + eta omega y x_j) where x_j != 0.

    With nnz(w) >= density * features seen, "stop" ends learning and "refuse" keeps the zeros zero.
    """
    if at_bound not in ("refuse", "stop"):
        raise ValueError(f"unknown at_bound {at_bound!r}")
    T, columns = Z.shape
    cut = l1_weights(threshold, columns)
    is_bias = np.arange(columns) == columns - 1
    w, seen, progressive = np.zeros(columns), np.zeros(columns - 1, dtype=bool), 0.0
    stopped = False
    for _, x, label, weight in examples(Z, y, omega):
        seen |= x[:-1] != 0
        progressive += observe(loss, w, x, label, weight)[1]
        if stopped or label * (x @ w) > margin:
            continue
        moves = x != 0
        if np.count_nonzero(w[:-1]) >= density * np.count_nonzero(seen):
            if at_bound == "stop":
                stopped = True
                continue
            moves &= (w != 0) | is_bias
        w = np.where(moves, soft_threshold(w + eta * weight * label * x, cut), w)
    return pack_iterate(w, T, progressive)
