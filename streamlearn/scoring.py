"""How far margins are from labels: mean loss, and error or rmse. Pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from streamlearn.catalogue import LOSSES
from streamlearn.engine.loss import evaluate
from streamlearn.errors import DataError

if TYPE_CHECKING:
    import numpy as np


def judge(loss: str, margin: np.ndarray, y: np.ndarray, weight: np.ndarray) -> dict[str, float]:
    """{"loss", "error" or, for regression, "rmse"}; means weighted by importance."""
    import numpy as np

    if not len(y):
        raise DataError("no examples to score")
    total = float(weight.sum())
    if total == 0.0:
        raise DataError("the importance weights of the examples add up to 0")
    rows = zip(margin.tolist(), y.tolist(), weight.tolist(), strict=True)
    figures = {"loss": sum(w * evaluate(loss, m, t)[0] for m, t, w in rows) / total}
    if LOSSES[loss].classifies:
        figures["error"] = float(weight[(margin > 0.0) != (y > 0.0)].sum()) / total
    else:
        with np.errstate(over="ignore"):  # a model about to diverge: infinitely bad is the truth
            figures["rmse"] = math.sqrt(float((weight * (margin - y) ** 2).sum()) / total)
    return figures


def judge_classes(
    loss: str, margins: np.ndarray, y: np.ndarray, weight: np.ndarray, classes: Sequence[int]
) -> dict[str, float]:
    """The same for a column of margins a class: the mean over the classes of the loss of each
    against the rest, and how often the largest margin is not that of the label."""
    import numpy as np

    losses = [
        judge(loss, column, np.where(y == label, 1.0, -1.0), weight)["loss"]
        for column, label in zip(margins.T, classes, strict=True)
    ]
    wrong = np.array(classes)[margins.argmax(axis=1)] != y
    return {
        "loss": math.fsum(losses) / len(losses),
        "error": float(weight[wrong].sum()) / float(weight.sum()),
    }
