"""What a model file holds: settings, counters, size, certificate."""

from __future__ import annotations

import argparse
import json
from typing import Any

from streamlearn.model import Model


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a model file; - is stdin")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace) -> int:
    facts = describe(Model.load(args.model))
    if args.json:
        print(json.dumps(facts))
        return 0
    for name, value in facts.items():
        if isinstance(value, dict):
            print(f"{name}:")
            for key, inner in value.items():
                print(f"  {key:<18} {'-' if inner is None else inner}")
        else:
            print(f"{name:<20} {'-' if value is None else value}")
    return 0


def describe(model: Model) -> dict[str, Any]:
    """The facts in the order a reader wants them."""
    sums = model.progress
    weight = sums["weight"]
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
        "normalize": model.normalize,
        "progressive_loss": sums["loss"] / weight if weight else None,
        "progressive_error": sums["errors"] / weight if weight and model.classifies else None,
        "settings": {k: "auto" if v is None else v for k, v in model.settings.items()},
        "certificate": model.certificate,
        "counters": model.counters,
    }
