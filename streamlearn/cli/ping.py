"""Ask a daemon whether it is there: its version, process id and the round trip in milliseconds."""

from __future__ import annotations

import argparse
import time

from streamlearn.cli import calling


def arguments(parser: argparse.ArgumentParser) -> None:
    calling.arguments(parser)


def run(args: argparse.Namespace) -> int:
    with calling.client(args) as daemon:
        hello = daemon.greet()  # the first one connects
        begin = time.perf_counter()
        daemon.ping()
        seconds = time.perf_counter() - begin
    print(
        f"streamlearn {hello['streamlearn']}, process {hello['pid']}, protocol "
        f"{daemon.version}: {1000 * seconds:.2f} ms"
    )
    return 0
