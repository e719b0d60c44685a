"""Have a daemon write its state folder now; returns when it is on disk."""

from __future__ import annotations

import argparse

from streamlearn.cli import calling


def arguments(parser: argparse.ArgumentParser) -> None:
    calling.arguments(parser)


def run(args: argparse.Namespace) -> int:
    with calling.client(args) as daemon:
        done = daemon.checkpoint()
    print(f"{done['path']}: {done['t']:,d} examples")
    return 0
