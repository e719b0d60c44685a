"""Write a model in the format of another tool.

liblinear is a model file for liblinear-predict, vw a binary regressor for vw -t -i; npz is for
numpy, json and text are for anything else. The model file itself is only read. A model with many
classes (fit --multiclass) goes into all of them but vw.
"""

from __future__ import annotations

import argparse
import sys

from streamlearn.cli.fit import check_output
from streamlearn.cli.stderr import warn
from streamlearn.container import write_file
from streamlearn.errors import UsageError
from streamlearn.export import FORMATS
from streamlearn.multiclass import MulticlassModel, load_model


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a model file; - is stdin")
    parser.add_argument("--to", required=True, choices=tuple(FORMATS), help="the format")
    parser.add_argument(
        "-o", "--output", default="-", metavar="FILE", help="default: -, which is stdout"
    )


def run(args: argparse.Namespace) -> int:
    kind = FORMATS[args.to]
    if kind.binary and args.output == "-" and sys.stdout.isatty():
        raise UsageError(f"--to {args.to} is not for a terminal; use -o FILE or a pipe")
    check_output(args.output, [args.model])
    model = load_model(args.model)
    if isinstance(model, MulticlassModel):
        if kind.write_classes is None:
            raise UsageError(
                f"--to {args.to} holds one set of weights; this model has "
                f"{len(model.classes)} classes, each with its own"
            )
        data = kind.write_classes(model)
    else:
        data = kind.write(model)
    if model.normalize == "l2" and not kind.tells_normalize:
        warn(
            f"the model was learned with --normalize l2, which --to {args.to} cannot say: scale "
            "each row to unit length before you use the exported weights"
        )
    write_file(args.output, data)
    return 0
