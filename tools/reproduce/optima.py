"""Batch optima of mean logistic loss + l1 |w|_1 by LIBLINEAR, through scikit-learn: nothing
of ours.

Certified here: how far a point is from the conditions of an optimum is plain arithmetic.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

BIAS_SCALE = 1e4  # LIBLINEAR penalises the bias; in such units by so much less


@dataclass(frozen=True)
class Optimum:
    """Weights by column, and how good they are."""

    weights: np.ndarray
    bias: float
    objective: float
    violation: float  # the largest of any condition of optimality, over l1

    @property
    def nonzeros(self) -> int:
        return int(np.count_nonzero(self.weights))


def optimum(X: Any, y: np.ndarray, l1: float, bias: bool, rounds: int = 10_000) -> Optimum:
    """The minimum over w (and a bias that l1 spares); columns should be of similar size."""
    import sklearn
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    recent = tuple(int(part) for part in sklearn.__version__.split(".")[:2]) >= (1, 8)
    kind = {"l1_ratio": 1.0} if recent else {"penalty": "l1"}
    solver = LogisticRegression(
        **kind, solver="liblinear", C=1.0 / (len(y) * l1), fit_intercept=bias,
        intercept_scaling=BIAS_SCALE, tol=1e-6, max_iter=rounds, random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        # What was reached is told by the violation.
        warnings.simplefilter("ignore", ConvergenceWarning)
        solver.fit(X, y)
    w = solver.coef_[0].astype(float)
    b = float(solver.intercept_[0]) if bias else 0.0
    return Optimum(w, b, objective(X, y, w, b, l1), violation(X, y, w, b, l1, bias))


def objective(X: Any, y: np.ndarray, w: np.ndarray, b: float, l1: float) -> float:
    """mean log(1 + exp(-y m)) + l1 |w|_1"""
    return float(np.logaddexp(0.0, -y * (X @ w + b)).mean() + l1 * np.abs(w).sum())


def violation(X: Any, y: np.ndarray, w: np.ndarray, b: float, l1: float, bias: bool) -> float:
    """|g_j| <= l1 where w_j = 0, g_j = -l1 sgn(w_j) elsewhere, 0 for the bias; over l1."""
    margins = X @ w + b
    with np.errstate(over="ignore"):
        slopes = -y / (1.0 + np.exp(y * margins))
    g = X.T @ slopes / len(y)
    worst = np.where(w == 0.0, np.abs(g) - l1, np.abs(g + l1 * np.sign(w))).max()
    return float(max(worst, abs(slopes.mean()) if bias else 0.0, 0.0) / l1)
