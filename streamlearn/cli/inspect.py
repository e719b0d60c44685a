"""What a model file holds: settings, counters, size, certificate."""

from __future__ import annotations

import argparse
import json
from typing import Any

from streamlearn.model import Model
from streamlearn.multiclass import MulticlassModel, load_model


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a model file; - is stdin")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace) -> int:
    facts = describe(load_model(args.model))
    if args.json:
        print(json.dumps(facts))
        return 0
    for name, value in facts.items():
        if isinstance(value, dict):
            print(f"{name}:")
            for key, inner in value.items():
                print(f"  {key:<18} {in_words(inner)}")
        else:
            print(f"{name:<20} {'-' if value is None else value}")
    return 0


def in_words(value: Any) -> Any:
    """A fact of a fact; one that has facts of its own takes one line."""
    if isinstance(value, dict):
        return "  ".join(f"{name} {inner}" for name, inner in value.items())
    return "-" if value is None else value


def describe(model: Model | MulticlassModel) -> dict[str, Any]:
    """The facts in the order a reader wants them."""
    if isinstance(model, MulticlassModel):
        return describe_classes(model)
    ids = memoryview(model.ids).cast("q")
    return {
        "streamlearn": model.version,
        "examples": model.t,
        "nonzeros": model.nonzeros,
        "features_seen": model.seen,
        "density": model.density,
        "bias": model.bias,
        "smallest_id": ids[0] if len(ids) else None,
        "largest_id": ids[-1] if len(ids) else None,
        "labels": list(model.labels) if model.labels else None,
        **describe_run(model, model.classifies),
    }


def describe_classes(model: MulticlassModel) -> dict[str, Any]:
    return {
        "streamlearn": model.version,
        "examples": model.t,
        "nonzeros": model.nonzeros,
        "features_seen": model.seen,
        "density": model.density,
        "classes": {
            str(label): {
                "examples": part.progress["positive"],
                "nonzeros": part.nonzeros,
                "bias": part.bias,
            }
            for label, part in zip(model.classes, model.parts, strict=True)
        },
        **describe_run(model, True),
    }


def describe_run(model: Model | MulticlassModel, classifies: bool) -> dict[str, Any]:
    """How it was learned."""
    sums = model.progress
    weight = sums["weight"]
    return {
        "normalize": model.normalize,
        "progressive_loss": sums["loss"] / weight if weight else None,
        "progressive_error": sums["errors"] / weight if weight and classifies else None,
        "settings": {k: "auto" if v is None else v for k, v in model.settings.items()},
        "certificate": model.certificate,
        "counters": model.counters,
    }
