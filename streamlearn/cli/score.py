"""How good a model is on labelled data: examples, loss, error, AUC, non-zeros.

Of a model with many classes (fit --multiclass) the loss is the mean over the classes of the loss
of each against the rest; a row for each class and the most frequent confusions follow, and --json
has the whole confusion matrix. All but the numbers of examples is weighted by importance.
"""

from __future__ import annotations

import argparse
import json
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

from streamlearn.cli import rows
from streamlearn.engine.libsvm import Parser
from streamlearn.errors import DataError
from streamlearn.model import Model
from streamlearn.multiclass import MulticlassModel, load_model
from streamlearn.scoring import judge, judge_classes
from streamlearn.training import MAX_CLASSES, label_parser

if TYPE_CHECKING:
    import numpy as np

SHOWN_CONFUSIONS = 10


def arguments(parser: argparse.ArgumentParser) -> None:
    rows.arguments(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace) -> int:
    model = load_model(args.model)
    if isinstance(model, MulticlassModel):
        figures = score_classes(args, model)
    else:
        figures = score(args, model)
    if args.json:
        print(json.dumps(figures))
        return 0
    for name, value in figures.items():
        if not isinstance(value, list):
            form = ",d" if isinstance(value, int) else ".6f"
            print(f"{name:<10} {'-' if value is None else format(value, form):>14}")
    if "classes" in figures:
        print("\n".join(class_lines(figures)))
    return 0


def score(args: argparse.Namespace, model: Model) -> dict[str, Any]:
    """All figures; sums are weighted by importance."""
    import numpy as np

    margin, y, weight = read(args, model, label_parser(model.loss, given_labels(model)))
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


def read(
    args: argparse.Namespace, model: Model | MulticlassModel, parser: Parser
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Margins (for many classes a row of them an example), labels and importance."""
    import numpy as np

    parts = []
    for margins, block in rows.margins(args, model, parser):
        arrays = block.arrays()
        columns = (np.frombuffer(arrays[name]) for name in ("labels", "weights"))
        parts.append([np.array(margins).T, *columns])
    if not parts:
        raise DataError("no examples to score")
    margin, y, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    return margin, y, weight


def score_classes(args: argparse.Namespace, model: MulticlassModel) -> dict[str, Any]:
    """All figures of many classes, those that the model does not know among them."""
    import numpy as np

    parser = label_parser(model.loss, multiclass=True)
    margins, y, weight = read(args, model, parser)
    figures: dict[str, Any] = {
        "examples": len(y),
        **judge_classes(model.loss, margins, y, weight, model.classes),
        "nonzeros": model.nonzeros,
        "density": model.density,
    }
    classes = sorted({*model.classes, *y.astype(int).tolist()})
    if len(classes) > len(model.classes) + MAX_CLASSES:  # a table of them would fill the memory
        raise DataError(
            f"{len(classes):,d} different labels, but the model has {len(model.classes):,d} "
            "classes; are these the right files?"
        )
    truth = np.searchsorted(classes, y)
    told = np.searchsorted(classes, np.array(model.classes)[margins.argmax(axis=1)])
    confusion = np.zeros((len(classes), len(classes)))
    np.add.at(confusion, (truth, told), weight)
    hits, of_class, as_class = confusion.diagonal(), confusion.sum(axis=1), confusion.sum(axis=0)
    nonzeros = {c: p.nonzeros for c, p in zip(model.classes, model.parts, strict=True)}
    figures["classes"] = [
        {
            "class": label,
            "examples": int((truth == i).sum()),
            "recall": float(hits[i] / of_class[i]) if of_class[i] else None,
            "precision": float(hits[i] / as_class[i]) if as_class[i] else None,
            "nonzeros": nonzeros.get(label),  # None: the model does not know the class
        }
        for i, label in enumerate(classes)
    ]
    figures["confusion"] = confusion.tolist()  # row: the label, column: the prediction
    return figures


def class_lines(figures: dict[str, Any]) -> list[str]:
    """A table of the classes, and the most frequent confusions."""
    lines = ["", f"{'class':>12} {'examples':>10} {'recall':>8} {'precision':>9} {'nonzeros':>9}"]
    for row in figures["classes"]:
        cells = [
            "-" if row[name] is None else format(row[name], form)
            for name, form in (("recall", ".4f"), ("precision", ".4f"), ("nonzeros", ",d"))
        ]
        lines.append(
            f"{row['class']:>12} {row['examples']:>10,d} {cells[0]:>8} {cells[1]:>9} {cells[2]:>9}"
        )
    names = [row["class"] for row in figures["classes"]]
    confused = [
        (count, truth, told)
        for truth, row in zip(names, figures["confusion"], strict=True)
        for told, count in zip(names, row, strict=True)
        if truth != told and count
    ]
    if confused:
        lines += ["", f"{'label':>12} -> {'prediction':<12} {'count':>8}"]
        worst = nsmallest(SHOWN_CONFUSIONS, confused, key=lambda c: (-c[0], c[1:]))
        lines += [f"{truth:>12} -> {told:<12} {count:>8g}" for count, truth, told in worst]
    return lines


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
