"""Reaching a daemon: the flags --connect and --timeout, shared by the commands that need one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from streamlearn.cli import settings as table

if TYPE_CHECKING:
    from streamlearn.client import Client


def arguments(parser: argparse.ArgumentParser) -> None:
    table.add_flags(parser.add_argument_group("the daemon"), table.CALLING)


def asked_for(args: argparse.Namespace) -> bool:
    """Whether --connect was given, where a file would do otherwise."""
    return hasattr(args, "connect")


def client(args: argparse.Namespace) -> Client:
    from streamlearn.client import Client

    given = table.collect(args, table.CALL)
    defaults = {s.name: s.default and s.read(s.default) for s in table.CALLING}
    chosen = {**defaults, **given}
    return Client(chosen["connect"], chosen["timeout"], chosen["key"])
