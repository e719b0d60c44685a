"""Batch optima of mean logistic loss + l1 |w|_1 + l2/2 |w|^2 by scikit-learn; nothing of ours."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse


def optimum(X: Any, y: np.ndarray, l1: float, l2: float) -> tuple[np.ndarray, float, float]:
    """Weights, bias (in neither penalty), and the largest violation of optimality over l1."""
    import sklearn
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    recent = tuple(int(part) for part in sklearn.__version__.split(".")[:2]) >= (1, 8)
    kind = {} if recent else {"penalty": "elasticnet"}
    if scipy.sparse.issparse(X):  # it takes no other indices
        X = scipy.sparse.csr_matrix(
            (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape
        )
    solver = LogisticRegression(
        **kind,
        solver="saga",
        C=1.0 / (len(y) * (l1 + l2)),
        l1_ratio=l1 / (l1 + l2),
        tol=1e-6,
        max_iter=1000,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the violation tells what was reached
        solver.fit(X, y)
    w, bias = solver.coef_[0].astype(float), float(solver.intercept_[0])
    slopes = -y / (1.0 + np.exp(np.clip(y * (X @ w + bias), -700.0, 700.0)))
    g = X.T @ slopes / len(y) + l2 * w
    worst = np.where(w == 0.0, np.abs(g) - l1, np.abs(g + l1 * np.sign(w))).max()
    return w, bias, float(max(worst, abs(slopes.mean())) / l1)
