"""Reading labelled or unlabelled rows for a model: shared by predict and score."""

from __future__ import annotations

import argparse
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import cycle
from typing import Any, Protocol

from streamlearn.ahead import Ahead
from streamlearn.cli import settings as table
from streamlearn.cli.stderr import warn
from streamlearn.cli.stdin import check_stdin
from streamlearn.engine.block import Block
from streamlearn.engine.libsvm import Parser
from streamlearn.errors import UsageError
from streamlearn.sources import open_source
from streamlearn.training import AHEAD, BadLines, parse_into


def arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the files, and what to do with bad lines."""
    parser.add_argument(
        "-m", "--model", default="model.sl", metavar="MODEL", help="default: model.sl"
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="data; none or - is stdin")
    table.add_flags(parser, table.READING)


class Margins(Protocol):
    """A model, as far as it is needed here."""

    def block_margins(self, block: Block) -> Any: ...


def margins(
    args: argparse.Namespace, model: Margins, parser: Parser
) -> Iterator[tuple[Any, Block]]:
    """The margins of each block of the input, in order; for many classes a list of them."""
    given = table.collect(args, {s.name: s for s in table.READING})
    policy = given.get("on_error", "stop")
    if policy.startswith("quarantine="):
        raise UsageError("--on-error quarantine=FILE belongs to fit; use stop or skip here")
    bad = BadLines(policy, given.get("max_errors"), None, warn)
    files = args.files or ["-"]
    check_stdin(files)
    if args.model == "-" and "-" in files:
        raise UsageError("the model and the data cannot both come from stdin; name one of them")
    with closing(Ahead(parsed(files, parser, bad), AHEAD)) as blocks:
        for block in blocks:
            yield model.block_margins(block), block


def parsed(files: list[str], parser: Parser, bad: BadLines) -> Generator[Block]:
    """Every block of the files, to be read in a thread ahead of who takes them."""
    ring = cycle([Block() for _ in range(AHEAD + 2)])
    for path in files:
        source = open_source(path)
        try:
            yield from parse_into(ring, source, parser, bad)
        finally:
            source.close()
