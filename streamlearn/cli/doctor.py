"""Verify a daemon's state folder: every byte of its checkpoint and of its journal.

Tells what is there, what is damaged and where, and how many examples can be recovered. Exit code 0:
all is well, or only a torn tail, which a start repairs by itself. Otherwise 65. --repair cuts a
damaged journal off where the damage begins; what is cut off is set aside, not deleted. Nothing that
was learned before that place is lost, all behind it is.
"""

from __future__ import annotations

import argparse

from streamlearn.cli.stderr import say
from streamlearn.daemon.journal import cut, segments
from streamlearn.daemon.state import StateFolder
from streamlearn.errors import Damaged, StreamlearnError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="the state folder of a daemon")
    parser.add_argument(
        "--repair", action="store_true", help="cut the journal off where it is damaged"
    )


def run(args: argparse.Namespace) -> int:
    with StateFolder(args.folder, reading=True) as folder:
        code = examine(folder)
        if code and args.repair:
            reader = folder.reader
            if reader is None or reader.damage is None:
                say("only a damaged journal can be repaired; restore the checkpoint from a backup")
                return code
            for path, offset, aside in cut(folder.path, reader.damage):
                say(f"{path}: what stood from offset {offset:,d} on is in {aside.name} now")
            if not segments(folder.path):
                folder.open_journal(reader.after)
            code = examine(folder)
    return code


def examine(folder: StateFolder) -> int:
    """Print what is there; the exit code."""
    try:
        kept = folder.load()
    except StreamlearnError as error:
        print(f"checkpoint: {error}")
        return Damaged.exit_code
    if kept is None:
        print(f"{folder.path}: new: no checkpoint yet")
        return 0
    ledger, frame = kept
    settings = ledger.training.settings
    print(f"checkpoint: {ledger.t:,d} examples, {settings['algo']}, after journal frame {frame}")
    for path in segments(folder.path):
        print(f"journal: {path.name}, {path.stat().st_size:,d} bytes")
    try:
        reader = folder.replay(ledger, frame)
    except Damaged as error:
        print(f"damaged: {error}")
        print(f"recoverable: {ledger.t:,d} examples, by --repair")
        return error.exit_code
    if reader.torn:
        print(f"torn tail: {reader.torn} when the daemon starts")
    print(f"recoverable: {ledger.t:,d} examples, all that was acknowledged")
    return 0
