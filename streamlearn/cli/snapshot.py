"""Make a model from a saved state (fit --save-state) or, with --connect, from a running daemon.

Again and again, as sparse as you like; learning goes on undisturbed. --evidence Z (adaptivesl)
keeps what this much evidence supports; --max-nonzeros K keeps the K strongest weights;
--smoothness L converts with another L.
"""

from __future__ import annotations

import argparse

from streamlearn.cli import calling, learning
from streamlearn.cli import settings as table
from streamlearn.cli.fit import check_output, summary
from streamlearn.cli.stderr import say
from streamlearn.errors import UsageError
from streamlearn.training import Training

OPTIONS = ("evidence", "smoothness", "max_nonzeros")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "state", nargs="?", metavar="STATE", help="a file written by fit --save-state"
    )
    parser.add_argument(
        "-o", "--output", default="model.sl", metavar="MODEL", help="default: model.sl; - is stdout"
    )
    table.add_flags(parser, tuple(learning.FIT[name] for name in OPTIONS))
    calling.arguments(parser)


def run(args: argparse.Namespace) -> int:
    given = table.collect(args, {name: learning.FIT[name] for name in OPTIONS})
    if (args.state is None) != calling.asked_for(args):
        raise UsageError("name either a saved state or, with --connect ENDPOINT, a daemon")
    if args.state is None:
        check_output(args.output)
        with calling.client(args) as daemon:
            model = daemon.snapshot(**given)
    else:
        check_output(args.output, [args.state])
        model = Training.load(args.state).model(**given)
    model.save(args.output)
    say(summary(model, args.output))
    return 0
