"""Have a daemon learn what is queued, write its checkpoint and end; returns when that is done."""

from __future__ import annotations

import argparse

from streamlearn.cli import calling


def arguments(parser: argparse.ArgumentParser) -> None:
    calling.arguments(parser)


def run(args: argparse.Namespace) -> int:
    with calling.client(args) as daemon:
        done = daemon.shutdown()
    print(f"ended at {done['t']:,d} examples")
    return 0
