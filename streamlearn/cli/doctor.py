"""Verify a daemon's state folder: every byte of its checkpoint and of its journal.

Tells what is there, what is damaged and where, and how many examples can be recovered. Exit code 0:
all is well, or only the last frame is not whole, which a start drops by itself: a torn write, which
nobody was told of, or damage to it, which cannot be told from that. Otherwise 65. --repair cuts a
damaged journal off where the damage begins; what is cut off is set aside, not deleted. Nothing that
was learned before that place is lost, all behind it is, though it had been acknowledged.
"""

from __future__ import annotations

import argparse

from streamlearn.cli.stderr import say
from streamlearn.daemon.journal import Reader, cut, segments
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
            for path, offset, aside in cut(folder.path, reader.damage, folder.disk):
                say(f"{path}: what stood from offset {offset:,d} on is in {aside.name} now")
            if not segments(folder.path):
                folder.open_journal(reader.after)
            code = examine(folder, repaired=True)
    return code


def examine(folder: StateFolder, repaired: bool = False) -> int:
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
    print(f"recoverable: {ledger.t:,d} examples{verdict(folder, reader, repaired)}")
    return 0


def verdict(folder: StateFolder, reader: Reader, repaired: bool) -> str:
    """How that compares with what was acknowledged, as far as the files can tell."""
    if repaired:
        return "; what was cut off had been acknowledged"
    if aside := sorted(path.name for path in folder.path.glob("journal-*.damaged*")):
        return f"; what is in {', '.join(aside)} had been acknowledged and is not among them"
    if reader.torn:
        return (
            ", those of all whole frames; what is dropped had been acknowledged only if the file "
            "was damaged after it was written"
        )
    return ", checkpoint and journal are whole"
