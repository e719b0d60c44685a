"""One prediction a line on stdout, in the order of the input.

Labels in the input are read as numbers and ignored. The default output is the probability of the
positive class for the logistic loss, the label for hinge losses, and the value for regression.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from streamlearn.cli import rows
from streamlearn.engine.libsvm import Parser
from streamlearn.errors import UsageError
from streamlearn.model import Model, as_written, probability

OUTPUTS = ("probability", "margin", "label")


def arguments(parser: argparse.ArgumentParser) -> None:
    rows.arguments(parser)
    parser.add_argument("--output", choices=OUTPUTS, help="what to print")


def run(args: argparse.Namespace) -> int:
    model = Model.load(args.model)
    form = former(model, args.output)
    for margins, _ in rows.margins(args, model, Parser("any")):
        sys.stdout.write("".join([form(m) + "\n" for m in margins]))
    return 0


def former(model: Model, output: str | None) -> Callable[[float], str]:
    """From a margin to the text of a prediction."""
    if output is None:
        output = "probability" if model.loss == "logistic" else "label"
    if output == "probability":
        if model.loss != "logistic":
            raise UsageError(
                f"--output probability needs the logistic loss; this model has {model.loss}"
            )
        return lambda margin: repr(probability(margin))
    if output == "label" and model.labels is not None:
        negative, positive = map(as_written, model.labels)
        return lambda margin: positive if margin > 0.0 else negative
    return repr
