"""Rebuild a model offline from a daemon's state folder: its checkpoint, then its journal.

The folder is only read. The model is the one that the daemon would serve, bit for bit, if it runs
without --max-nonzeros: the folder does not know that setting, so give it here, too. --evidence and
--smoothness make the model as sparse as you like. While a daemon runs, ask that one instead:
streamlearn snapshot --connect.
"""

from __future__ import annotations

import argparse

from streamlearn.cli import learning
from streamlearn.cli import settings as table
from streamlearn.cli.fit import check_output, summary
from streamlearn.cli.snapshot import OPTIONS
from streamlearn.cli.stderr import say, warn
from streamlearn.container import write_file
from streamlearn.daemon.state import StateFolder
from streamlearn.errors import NoInput


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="the state folder of a daemon")
    parser.add_argument(
        "-o", "--output", default="model.sl", metavar="MODEL", help="default: model.sl; - is stdout"
    )
    parser.add_argument("--save-state", metavar="STATE", help="for fit --resume and snapshot")
    table.add_flags(parser, tuple(learning.FIT[name] for name in OPTIONS))


def run(args: argparse.Namespace) -> int:
    given = table.collect(args, {name: learning.FIT[name] for name in OPTIONS})
    check_output(args.output)
    if args.save_state:
        check_output(args.save_state, [args.output])
    with StateFolder(args.folder, reading=True) as folder:
        kept = folder.load()
        if kept is None:
            raise NoInput(f"{args.folder}: no checkpoint in this folder")
        ledger, reader = folder.rebuild(*kept)
    if reader.torn:
        warn(str(reader.torn).replace("They are dropped", "They are left out"))
    if ledger.stopped:
        warn(f"learning stopped behind this: {ledger.stopped}")
    model = ledger.training.model(**given)
    if args.save_state:
        write_file(args.save_state, ledger.training.to_bytes())
    model.save(args.output)
    say(summary(model, args.output))
    return 0
