"""Keys of those who may talk to a daemon that listens beyond the loopback.

  new NAME     make a key pair: its public part goes on the list in --keys DIR, its secret into
               NAME.secret (or -o FILE), to be carried to the client and used there with --key
  list         the names on the list and their roles
  revoke NAME  take one off the list; send the daemon a SIGHUP

Start the daemon with: streamlearn serve --keys DIR --bind tcp://ADDRESS:7311
"""

from __future__ import annotations

import argparse
from pathlib import Path

from streamlearn.cli.stderr import say
from streamlearn.errors import UsageError
from streamlearn.keys import ROLES, KeyFolder


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("new", "list", "revoke"))
    parser.add_argument("name", nargs="?", metavar="NAME")
    parser.add_argument("--keys", default="keys", metavar="DIR", help="default: keys")
    parser.add_argument(
        "--role",
        default="learn,predict",
        metavar="ROLES",
        help="; ".join(f"{name}: {what}" for name, what in ROLES.items())
        + " (default: learn,predict)",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="where the secret goes (default: NAME.secret)"
    )


def run(args: argparse.Namespace) -> int:
    folder = KeyFolder(args.keys)
    if (args.name is None) != (args.action == "list"):
        raise UsageError("new and revoke need a NAME, list takes none")
    if args.action == "list":
        for entry in folder.allowed().values():
            print(entry.name, ",".join(sorted(entry.roles)))
    elif args.action == "new":
        output = Path(args.output or f"{args.name}.secret")
        folder.add(args.name, args.role.split(","), output)
        say(f"{output}: the secret of {args.name}; carry it there, use it with --key {output}")
    else:
        folder.revoke(args.name)
        say(f"{args.name} is off the list; a running daemon reads it again on SIGHUP")
    return 0
