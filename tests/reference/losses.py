"""The four losses l(m, y) of the reference, in plain numpy; it knows no models and no penalties."""

import numpy as np

Real = float | np.ndarray


def value(loss: str, margin: Real, y: Real) -> Real:
    """l(m, y)."""
    if loss == "squared":
        return (margin - y) ** 2 / 2
    z = y * margin
    if loss == "logistic":
        return np.logaddexp(0.0, -z)  # log(1 + exp(-ym))
    if loss == "hinge":
        return np.maximum(0.0, 1 - z)
    if loss == "squared_hinge":
        return np.maximum(0.0, 1 - z) ** 2 / 2
    raise ValueError(f"unknown loss {loss!r}")


def derivative(loss: str, margin: Real, y: Real) -> Real:
    """dl/dm."""
    if loss == "squared":
        return margin - y
    z = y * margin
    if loss == "logistic":
        e = np.exp(-np.abs(z))  # never overflows; -y/(1 + exp(z)) for either sign of z
        return -y * np.where(z > 0, e, 1.0) / (1 + e)
    if loss == "hinge":
        return -y * np.where(z < 1, 1.0, 0.0)  # the kink itself counts as flat
    if loss == "squared_hinge":
        return -y * np.maximum(0.0, 1 - z)
    raise ValueError(f"unknown loss {loss!r}")


def curvature(loss: str) -> float:
    """kappa = sup l''; hinge has none and takes 1 as a heuristic."""
    return {"logistic": 0.25, "squared": 1.0, "hinge": 1.0, "squared_hinge": 1.0}[loss]
