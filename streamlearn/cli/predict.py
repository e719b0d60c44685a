"""One prediction a line on stdout, in the order of the input.

Labels in the input are read as numbers and ignored. The default output is the probability of the
positive class for the logistic loss, the label for hinge losses, and the value for regression. Of a
model with many classes (fit --multiclass) it is the class; --output margin and probability print a
number for each class, by rising class, with spaces between.

With --connect a daemon predicts, from the model it has published, or with --live from what it has
learned up to now. --follow reads the model file anew whenever it changes (see streamlearn follow).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from streamlearn.catalogue import LOSSES
from streamlearn.cli import calling, rows
from streamlearn.cli.stdin import check_stdin
from streamlearn.engine.block import Block
from streamlearn.engine.digits import lines, probabilities
from streamlearn.engine.libsvm import Parser
from streamlearn.errors import UsageError
from streamlearn.model import Model, as_written
from streamlearn.multiclass import MulticlassModel, load_model, shares
from streamlearn.sources import chunks, open_source
from streamlearn.wire import OUTPUT_KEYS

OUTPUTS = ("probability", "margin", "label")
Former = Callable[[Any], str]  # from margins to lines


def arguments(parser: argparse.ArgumentParser) -> None:
    rows.arguments(parser)
    parser.add_argument("--output", choices=OUTPUTS, help="what to print")
    parser.add_argument(
        "--follow", action="store_true", help="read the model file anew whenever it changes"
    )
    calling.arguments(parser)
    parser.add_argument("--live", action="store_true", help="with --connect: the model of now")


def run(args: argparse.Namespace) -> int:
    if calling.asked_for(args):
        return ask_daemon(args)
    if args.live:
        raise UsageError("--live is what a daemon can do; say --connect ENDPOINT too")
    model = Followed(args.model) if args.follow else load_model(args.model)
    for margins, _ in rows.margins(args, model, Parser("any")):
        now = model.model if isinstance(model, Followed) else model
        form: Former
        if isinstance(now, MulticlassModel):
            form, margins = class_former(now, args.output), zip(*margins, strict=True)
        else:
            form = former(now, args.output)
        sys.stdout.write(form(margins))
        sys.stdout.flush()
    return 0


class Followed:
    """A model file that somebody keeps up to date; anything asked of it is asked of the newest."""

    def __init__(self, path: str) -> None:
        if path == "-":
            raise UsageError("--follow needs a model file, not stdin")
        self.path = Path(path)
        self.seen: tuple[int, int] | None = None
        self.refresh()

    def refresh(self) -> None:
        found = self.path.stat() if self.path.exists() else None
        place = (found.st_ino, found.st_mtime_ns) if found else None
        if place != self.seen or self.seen is None:
            self.model = load_model(str(self.path))
            self.seen = place

    def block_margins(self, block: Block) -> Any:
        self.refresh()
        return self.model.block_margins(block)


def ask_daemon(args: argparse.Namespace) -> int:
    """The same lines, from a daemon."""
    from array import array

    files = args.files or ["-"]
    check_stdin(files)
    with calling.client(args) as daemon:
        settings = daemon.config()
        loss, many = settings["loss"], settings["multiclass"]
        output = args.output or ("probability" if loss == "logistic" and not many else "label")
        form = as_written if output == "label" and LOSSES[loss].classifies else repr
        for path in files:
            source, line = open_source(path), 1
            try:
                for buffer, stop in chunks(source, min(1 << 16, daemon.room())):
                    text = bytes(buffer[:stop])
                    reply = daemon.request(
                        "predict",
                        text=text,
                        name=source.name,
                        line=line,
                        output=output,
                        model="live" if args.live else "snapshot",
                    )
                    line += text.count(b"\n")
                    numbers = array("d", reply[OUTPUT_KEYS[output]])
                    wide = len(reply.get("classes", " ")) if output != "label" else 1
                    for first in range(0, len(numbers), wide):
                        print(*map(form, numbers[first : first + wide]))
                    sys.stdout.flush()
            finally:
                source.close()
    return 0


def class_former(model: MulticlassModel, output: str | None) -> Former:
    """From the margins of all classes, row by row, to the lines of predictions."""
    if output == "probability":
        refuse_probability(model)
        return lambda table: joined(" ".join(map(repr, shares(row))) for row in table)
    if output == "margin":
        return lambda table: joined(" ".join(map(repr, row)) for row in table)
    names = [*map(str, model.classes)]
    return lambda table: joined(names[row.index(max(row))] for row in table)  # ties: the first


def joined(words: Iterable[str]) -> str:
    return "".join([word + "\n" for word in words])


def refuse_probability(model: Model | MulticlassModel) -> None:
    if model.loss != "logistic":
        raise UsageError(
            f"--output probability needs the logistic loss; this model has {model.loss}"
        )


def former(model: Model, output: str | None) -> Former:
    """From margins to the lines of predictions."""
    if output is None:
        output = "probability" if model.loss == "logistic" else "label"
    if output == "probability":
        refuse_probability(model)
        return lambda margins: lines(memoryview(probabilities(margins)).cast("d"))
    if output == "label" and model.labels is not None:
        negative, positive = map(as_written, model.labels)
        return lambda margins: joined(positive if m > 0.0 else negative for m in margins)
    return lines
