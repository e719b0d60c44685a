"""Dense twins of the learners that keep sums of gradients: rda, adagrad-rda, ftrl, orda, ssg."""

from math import sqrt

import numpy as np

from .common import (
    Array,
    Twin,
    curvature_bound,
    examples,
    l1_weights,
    observe,
    pack,
    pack_iterate,
    project_l1,
    soft_threshold,
)

REGULARIZERS = ("l1l2", "l1", "l2", "box", "l2ball", "l1ball", "kl")


def rda(
    loss: str,
    Z: Array,
    y: Array,
    omega: Array,
    *,
    regularizer: str = "l1l2",
    l1: float = 1e-5,
    l2: float = 1e-5,
    gamma: float = 1.0,
    enhanced: float = 0.0,
    damping: str | float = "auto",
    radius: float = 1.0,
    point: str = "last",
) -> Twin:
    """Regularised dual averaging: w from S = sum g and the number t of examples processed.

    Served is w_{T+1}, or the mean of w_1 .. w_T.
    """
    if regularizer not in REGULARIZERS:
        raise ValueError(f"unknown regularizer {regularizer!r}")
    T, columns = Z.shape
    B = curvature_bound(loss, Z) if damping == "auto" else float(damping)
    S, seen, progressive = np.zeros(columns), np.zeros(columns - 1, dtype=bool), 0.0
    A = np.zeros(columns)

    def primal(t: int) -> Array:
        if regularizer == "l1":  # -(sqrt(t)/gamma) S_lambda(S/t), lambda = l1 + gamma e/sqrt(t)
            if t == 0:
                return np.zeros(columns)
            threshold = l1_weights(l1 + gamma * enhanced / sqrt(t), columns)
            return -(sqrt(t) / gamma) * soft_threshold(S / t, threshold)
        if regularizer in ("l1l2", "l2"):  # -S_{l1 t}(S) / (l2 t + B)
            threshold = l1_weights(l1 * t if regularizer == "l1l2" else 0.0, columns)
            return -ratio(soft_threshold(S, threshold), l2 * t + B)
        w = -ratio(S, gamma * sqrt(t))
        if regularizer == "box":
            w[:-1] = np.clip(w[:-1], -radius, radius)
        elif regularizer == "l2ball":  # -S min(1/(gamma sqrt(t)), radius/|S|)
            norm = np.linalg.norm(S[:-1])
            if norm > 0:
                w[:-1] = -S[:-1] * min(1 / (gamma * sqrt(t)), radius / norm)
        elif regularizer == "l1ball":
            w[:-1] = project_l1(w[:-1], radius)
        else:
            w[:-1] = radius * simplex_weights(-ratio(S[:-1], gamma * t), seen)
        return w

    for t, x, label, weight in examples(Z, y, omega):
        seen |= x[:-1] != 0
        w = primal(t - 1)
        A += w
        g, value = observe(loss, w, x, label, weight)
        progressive += value
        S += g
    if point == "mean":
        mean = A / max(T, 1)
        return pack(mean, primal(T), mean, np.zeros(columns), T, progressive)
    return pack_iterate(primal(T), T, progressive)


def ratio(a: Array, b: Array | float) -> Array:
    """a / b, and 0 wherever a is 0, whatever b is."""
    b = np.broadcast_to(b, a.shape)
    return np.divide(a, b, out=np.zeros_like(a), where=a != 0)


def simplex_weights(exponent: Array, seen: Array) -> Array:
    """exp(e_i) / sum_j exp(e_j) over the features seen, 0 for the others."""
    p = np.zeros_like(exponent)
    if seen.any():
        e = np.exp(exponent[seen] - np.max(exponent[seen]))
        p[seen] = e / np.sum(e)
    return p


def adagrad_rda(
    loss: str,
    Z: Array,
    y: Array,
    omega: Array,
    *,
    l1: float = 1e-5,
    l2: float = 0.0,
    eta: float = 1.0,
    delta: float = 1.0,
) -> Twin:
    """w = -S_{l1 t}(S) / (l2 t + (delta + sqrt(Q))/eta), S = sum g, Q = sum g^2."""
    T, columns = Z.shape
    penalty = l1_weights(l1, columns)
    S, Q, progressive = np.zeros(columns), np.zeros(columns), 0.0

    def primal(t: int) -> Array:
        return -ratio(soft_threshold(S, penalty * t), l2 * t + (delta + np.sqrt(Q)) / eta)

    for t, x, label, weight in examples(Z, y, omega):
        g, value = observe(loss, primal(t - 1), x, label, weight)
        progressive += value
        S += g
        Q += g**2
    return pack_iterate(primal(T), T, progressive)


def ftrl(
    loss: str,
    Z: Array,
    y: Array,
    omega: Array,
    *,
    l1: float = 1.0,
    l2: float = 1.0,
    eta: float = 0.1,
    beta: float = 1.0,
    growing: bool = False,
) -> Twin:
    """FTRL-Proximal: w = -S_{lam1}(z) / ((beta + sqrt(n))/eta + lam2).

    lam1, lam2 are l1, l2 (no lam1 on the bias), times the examples processed when growing.
    """
    T, columns = Z.shape
    penalty = l1_weights(l1, columns)
    z, n, progressive = np.zeros(columns), np.zeros(columns), 0.0

    def primal(t: int) -> Array:
        growth = t if growing else 1
        metric = (beta + np.sqrt(n)) / eta + l2 * growth
        return -ratio(soft_threshold(z, penalty * growth), metric)

    for t, x, label, weight in examples(Z, y, omega):
        w = primal(t - 1)
        g, value = observe(loss, w, x, label, weight)
        progressive += value
        sigma = (np.sqrt(n + g**2) - np.sqrt(n)) / eta
        z += g - sigma * w
        n += g**2
    return pack_iterate(primal(T), T, progressive)


def orda(
    loss: str,
    Z: Array,
    y: Array,
    omega: Array,
    *,
    l1: float = 1e-5,
    l2: float = 1e-5,
    Gamma: str | float = "auto",
) -> Twin:
    """Optimal dual averaging with strong convexity mu = l2: predicts at y_k, serves x_T.

    z_{k+1} = -S_l1(theta nu G_k) / (l2 + theta nu Gamma),  G_k = sum_{i<=k} g_i / nu_i.
    """
    T, columns = Z.shape
    penalty = l1_weights(l1, columns)
    Gamma = curvature_bound(loss, Z) if Gamma == "auto" else float(Gamma)
    x_k, z_k, G, progressive = np.zeros(columns), np.zeros(columns), np.zeros(columns), 0.0
    for t, x, label, weight in examples(Z, y, omega):
        k = t - 1
        theta, nu = 2 / (k + 2), 2 / (k + 1)
        y_k = extrapolate(x_k, z_k, theta, l2, Gamma)
        g, value = observe(loss, y_k, x, label, weight)
        progressive += value
        G += g / nu
        x_k = accelerated_step(y_k, g, theta, penalty, l2, Gamma)
        z_k = -soft_threshold(theta * nu * G, penalty) / (l2 + theta * nu * Gamma)
    return pack_iterate(x_k, T, progressive)


def ssg(
    loss: str,
    Z: Array,
    y: Array,
    omega: Array,
    *,
    l1: float = 1e-5,
    l2: float = 1e-5,
    Gamma: str | float = "auto",
) -> Twin:
    """Sparsity-preserving stochastic gradient: orda, but z from the gradient mapping.

    z_{k+1} = (1 - s) z_k + s y_k - (y_k - x_{k+1})/theta,  s = theta l2 / (l2 + theta^2 Gamma).
    """
    T, columns = Z.shape
    penalty = l1_weights(l1, columns)
    Gamma = curvature_bound(loss, Z) if Gamma == "auto" else float(Gamma)
    x_k, z_k, progressive = np.zeros(columns), np.zeros(columns), 0.0
    for t, x, label, weight in examples(Z, y, omega):
        theta = 2 / (t + 1)  # 2/(k + 2), k = t - 1
        y_k = extrapolate(x_k, z_k, theta, l2, Gamma)
        g, value = observe(loss, y_k, x, label, weight)
        progressive += value
        x_k = accelerated_step(y_k, g, theta, penalty, l2, Gamma)
        share = theta * l2 / (l2 + theta**2 * Gamma)
        z_k = (1 - share) * z_k + share * y_k - (y_k - x_k) / theta
    return pack_iterate(x_k, T, progressive)


def extrapolate(x: Array, z: Array, theta: float, mu: float, Gamma: float) -> Array:
    """y = [(1-h)(mu + h^2 Gamma) x + (h(1-h) mu + h^3 Gamma) z] / [h^2 Gamma + (1-h^2) mu]."""
    if theta == 1:  # k = 0: y_0 = z_0, also where Gamma = 0 makes this 0/0
        return z.copy()
    a = (1 - theta) * (mu + theta**2 * Gamma)
    b = theta * (1 - theta) * mu + theta**3 * Gamma
    return (a * x + b * z) / (theta**2 * Gamma + (1 - theta**2) * mu)


def accelerated_step(
    y: Array, g: Array, theta: float, penalty: Array, l2: float, Gamma: float
) -> Array:
    """x' = S_{l1/M}((1 - l2/M) y - g/M), M = l2/theta^2 + Gamma."""
    M = l2 / theta**2 + Gamma
    return soft_threshold((1 - l2 / M) * y - g / M, penalty / M)
