"""Keep a model file up to date with a daemon: each model it publishes is written whole.

`streamlearn predict --follow -m model.sl` reads the file anew when it changes. Only what changed is
sent; a checksum proves that the file is the daemon's model bit for bit.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from streamlearn import wire
from streamlearn.cli import calling
from streamlearn.cli import settings as table
from streamlearn.cli.fit import check_output
from streamlearn.cli.stderr import say, warn
from streamlearn.engine.checksum import crc32
from streamlearn.errors import ModelError, UsageError
from streamlearn.model import Model
from streamlearn.multiclass import AnyModel, model_from_bytes

# A Ctrl-C that comes just before libzmq begins to wait does not wake it: look up now and then.
SIGNAL_MILLISECONDS = 500


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", default="model.sl", metavar="MODEL", help="default: model.sl"
    )
    parser.add_argument("--count", metavar="N", help="end after N models (default: never)")
    parser.add_argument("--quiet", action="store_true", help="do not tell of each model")
    calling.arguments(parser)


def run(args: argparse.Namespace) -> int:
    check_output(args.output)
    if args.output == "-":
        raise UsageError("follow keeps a file up to date; name one with -o")
    try:
        count = table.read_positive(args.count) if args.count else None
    except ValueError as error:
        raise UsageError(f"--count {args.count}: {error}") from None
    for number, model in enumerate(models(args), 1):
        model.save(args.output)
        if not args.quiet:
            say(f"{args.output}: {model.nonzeros:,d} features from {model.t:,d} examples")
        if number == count:
            break
    return 0


def models(args: argparse.Namespace) -> Iterator[AnyModel]:
    """Every model that the daemon publishes, from the present one on."""
    import zmq

    from streamlearn.delta import apply

    daemon = calling.client(args)
    socket = daemon.opened(zmq.SUB)
    try:
        socket.connect(daemon.place("publish"))
        socket.subscribe(wire.DELTA_TOPIC)
        model: AnyModel | None = None
        seen: int | None = None  # checksum of the last: two daemons may have equal t
        while True:
            while not socket.poll(SIGNAL_MILLISECONDS):
                pass
            message = wire.unpack(socket.recv_multipart()[1], keys=-1, items=-1)
            try:
                if message["kind"] == "snapshot":
                    fresh = model_from_bytes(message["model"])
                    checksum = crc32(message["model"])
                elif not isinstance(model, Model):
                    continue
                else:
                    fresh, checksum = apply(model, message), message["checksum"]
            except ModelError as error:  # one was missed: ask for a whole one
                warn(f"{error}; asking for the whole model")
                socket.unsubscribe(wire.DELTA_TOPIC)
                socket.subscribe(wire.DELTA_TOPIC)
                model = None
                continue
            if checksum != seen:
                yield fresh
            model, seen = fresh, checksum
    finally:
        socket.close()
        daemon.close()
