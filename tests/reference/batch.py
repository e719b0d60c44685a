"""Dense twins of the learners that see all examples at once: scd, detcd, grades.

They start at w = 0, so their progressive loss is the loss of the zero model.
"""

from collections.abc import Callable

import numpy as np

from . import losses
from .common import Array, Twin, l1_weights, pack_iterate, soft_threshold

WORD = 2**64


def scd(
    loss: str,
    Z: Array,
    y: Array,
    omega: Array,
    *,
    iterations: int,
    l1: float = 1e-5,
    seed: int = 0,
) -> Twin:
    """Coordinate descent on (1/m) sum omega l + l1 |w|_1, coordinates drawn with splitmix64."""
    # the features touched at least once, by id, then the bias if there is one
    coordinates = np.flatnonzero((Z != 0).any(axis=0))

    def choose(i: int, decrease: Array) -> int:
        return int(coordinates[splitmix64(seed, i) * len(coordinates) >> 64])

    count = iterations if len(coordinates) else 0
    return coordinate_descent(loss, Z, y, omega, l1, count, choose)


def detcd(
    loss: str, Z: Array, y: Array, omega: Array, *, iterations: int, l1: float = 1e-5
) -> Twin:
    """Coordinate descent, always on the coordinate with the largest guaranteed decrease."""
    count = iterations if len(Z) else 0
    return coordinate_descent(loss, Z, y, omega, l1, count, lambda _, gain: int(np.argmax(gain)))


def splitmix64(seed: int, i: int) -> int:
    """Number i = 0, 1, ... of the splitmix64 stream that starts at `seed`."""
    z = (seed + (i + 1) * 0x9E3779B97F4A7C15) % WORD
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
    return z ^ (z >> 31)


def coordinate_descent(
    loss: str,
    Z: Array,
    y: Array,
    omega: Array,
    l1: float,
    iterations: int,
    choose: Callable[[int, Array], int],
) -> Twin:
    """w_j' = S_{l1/kappa_j}(w_j - g_j/kappa_j) at the coordinate chosen; kappa_j = 0 stays."""
    m, columns = Z.shape
    penalty = l1_weights(l1, columns)
    # kappa_j = kappa mean(omega x_ij^2)
    kappa = losses.curvature(loss) * np.sum(omega[:, None] * Z**2, axis=0) / max(m, 1)
    curved = kappa > 0
    w = np.zeros(columns)
    for i in range(iterations):
        slope = omega * losses.derivative(loss, Z @ w, y)
        g = np.sum(slope[:, None] * Z, axis=0) / m
        target = w.copy()
        target[curved] = soft_threshold(
            w[curved] - g[curved] / kappa[curved], penalty[curved] / kappa[curved]
        )
        # -(g_j e + kappa_j e^2/2 + l1 (|w_j + e| - |w_j|))
        e = target - w
        decrease = -(g * e + kappa * e**2 / 2 + penalty * (np.abs(target) - np.abs(w)))
        j = choose(i, decrease)
        w[j] = target[j]
    return pack_iterate(w, m, initial_loss(loss, y, omega))


def grades(
    loss: str,
    Z: Array,
    y: Array,
    omega: Array,
    *,
    nonzeros: int,
    iterations: int,
    gamma: str | float = "auto",
) -> Twin:
    """Gradient descent with sparsification: w' = H_s(w + (1/gamma) X^T Omega (y - Xw)/m)."""
    if loss != "squared":
        raise ValueError("grades needs the squared loss")
    m, columns = Z.shape
    weighted = omega[:, None] * Z / max(m, 1)
    if gamma == "auto":  # 1.01 times the largest eigenvalue of X^T Omega X / m
        gamma = 1.01 * float(np.linalg.eigvalsh(weighted.T @ Z)[-1])
    w = np.zeros(columns)
    for _ in range(iterations if weighted.any() else 0):
        w = w + weighted.T @ (y - Z @ w) / gamma
        # H_s: the s largest |w_j| of the features, ties to the lower id; the bias always stays
        dropped = np.argsort(-np.abs(w[:-1]), kind="stable")[nonzeros:]
        w[dropped] = 0.0
    return pack_iterate(w, m, initial_loss(loss, y, omega))


def initial_loss(loss: str, y: Array, omega: Array) -> float:
    """sum omega l(0, y)."""
    return float(np.sum(omega * losses.value(loss, np.zeros(len(y)), y)))
