"""How good a model is on labelled data: examples, loss, error, AUC, non-zeros."""

from __future__ import annotations

import argparse
import json
from typing import Any

from streamlearn.cli import rows
from streamlearn.engine.libsvm import Parser
from streamlearn.errors import DataError
from streamlearn.model import Model
from streamlearn.scoring import judge
from streamlearn.training import label_rule


def arguments(parser: argparse.ArgumentParser) -> None:
    rows.arguments(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace) -> int:
    model = Model.load(args.model)
    figures = score(args, model)
    if args.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            form = ",d" if isinstance(value, int) else ".6f"
            print(f"{name:<10} {'-' if value is None else format(value, form):>14}")
    return 0


def score(args: argparse.Namespace, model: Model) -> dict[str, Any]:
    """All figures; sums are weighted by importance."""
    import numpy as np

    parser = Parser(label_rule(model.loss, given_labels(model)))
    parts = []
    for margins, block in rows.margins(args, model, parser):
        arrays = block.arrays()
        columns = (np.frombuffer(arrays[name]) for name in ("labels", "weights"))
        parts.append([np.array(margins), *columns])
    if not parts:
        raise DataError("no examples to score")
    margin, y, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    figures: dict[str, Any] = {"examples": len(y), **judge(model.loss, margin, y, weight)}
    if model.classifies:
        figures["auc"] = auc(margin, y > 0.0, weight)
    else:
        mean = float(np.average(y, weights=weight))
        spread = float(np.sum(weight * (y - mean) ** 2))
        residual = float(np.sum(weight * (margin - y) ** 2))
        figures["r2"] = 1.0 - residual / spread if spread else None
    figures["nonzeros"] = model.nonzeros
    figures["density"] = model.density
    return figures


def given_labels(model: Model) -> tuple[float, float] | None:
    """None where -1,+1 and 0,1 are read alike."""
    if model.labels is None or (model.labels[1] == 1.0 and model.labels[0] in (0.0, -1.0)):
        return None
    return model.labels


def auc(margin: Any, positive: Any, weight: Any) -> float | None:
    """Weighted chance that a positive outranks a negative, ties counting half."""
    import numpy as np

    _, rank = np.unique(margin, return_inverse=True)
    up = np.bincount(rank, weights=weight * positive)
    down = np.bincount(rank, weights=weight * ~positive)
    pairs = float(up.sum() * down.sum())
    if pairs == 0.0:
        return None
    below = np.cumsum(down) - down
    return float(np.sum(up * (below + 0.5 * down))) / pairs
