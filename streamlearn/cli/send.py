"""Feed a daemon with libsvm text from files or a pipe, every batch acknowledged.

Each batch is learned exactly once and in order, also when the daemon is restarted meanwhile. The
daemon's pace is ours: when it is busy, we wait. A bad line stops us (its batch teaches nothing), or
is left out with --on-error skip. --no-ack uses the feed socket instead: nothing is acknowledged.
"""

from __future__ import annotations

import argparse
import time
from contextlib import suppress
from typing import Any

from streamlearn.cli import calling
from streamlearn.cli import settings as table
from streamlearn.cli.stderr import say, say_json, warn, write
from streamlearn.cli.stdin import check_stdin
from streamlearn.client import Client
from streamlearn.engine.libsvm import count_lines
from streamlearn.errors import DataError, StreamlearnError, Unavailable, UsageError
from streamlearn.record import replace
from streamlearn.sources import Source, chunks, open_source

SETTINGS = {s.name: s for s in (*table.READING, *table.PROGRESS)}
SETTINGS["on_error"] = replace(
    SETTINGS["on_error"], help="a bad line: stop, or skip it", metavar="stop|skip"
)
HEAD = f"{'sent':>12} {'learned':>12} {'skipped':>9} {'ex/s':>9} {'MB/s':>7} {'seconds':>8}"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="data; none or - is stdin")
    parser.add_argument(
        "--batch", metavar="BYTES", default="64k", help="text in a batch (default: 64k)"
    )
    parser.add_argument("--no-ack", action="store_true", help="use the feed; nothing is confirmed")
    calling.arguments(parser)
    table.add_flags(parser.add_argument_group("reading"), tuple(SETTINGS.values()))


def run(args: argparse.Namespace) -> int:
    given = table.collect(args, SETTINGS)
    files = args.files or ["-"]
    check_stdin(files)
    policy = given.get("on_error", "stop")
    if policy.startswith("quarantine="):
        raise UsageError("--on-error quarantine=FILE belongs to fit; use stop or skip here")
    try:
        batch = table.read_bytes(args.batch)
    except ValueError as error:
        raise UsageError(f"--batch {args.batch}: {error}") from None
    with calling.client(args) as daemon:
        sender = Sender(daemon, policy, given.get("max_errors"), given.get("progress", "table"))
        try:
            for path in files:
                source = open_source(path)
                try:
                    sender.send(source, min(batch, daemon.room()), args.no_ack)
                finally:
                    source.close()
            daemon.flush()
        except (KeyboardInterrupt, Unavailable):
            sender.break_off()
            raise
        sender.finish()
    return 0


class Sender:
    """Sends sources batch by batch and shows how it goes."""

    def __init__(self, daemon: Client, policy: str, limit: int | None, kind: str) -> None:
        self.daemon, self.kind, self.limit = daemon, kind, limit
        self.on_error = "skip" if policy == "skip" else "reject"
        self.learned = self.skipped = self.sent = self.bytes = 0
        self.acked = ""  # the last line that was answered for
        self.begin = time.perf_counter()
        self.next_row = 1000
        daemon.heard = self.heard
        if kind == "table":
            write(HEAD + "\n")

    def send(self, source: Source, size: int, no_ack: bool) -> None:
        line = 1
        for buffer, stop in chunks(source, size):
            with memoryview(buffer) as view, view[:stop] as text:
                lines = count_lines(text)
                if no_ack:
                    self.daemon.feed(text)
                else:
                    place = {"name": source.name, "line": line, "on_error": self.on_error}
                    self.daemon.send({**place, "text": text}, f"{source.name}:{line + lines - 1}")
            line += lines
            self.sent += lines
            self.bytes += stop
            if self.sent >= self.next_row:
                self.next_row = 2 * self.sent
                self.show()

    def heard(self, tag: Any, ack: dict[str, Any]) -> None:
        self.learned += ack.get("learned", 0)
        self.acked = tag
        if ack.get("skipped"):
            first = self.skipped == 0
            self.skipped += ack["skipped"]
            if first:
                warn(f"{ack['errors'][0]['message']}; skipped. Use --on-error stop to fail")
            if self.limit is not None and self.skipped > self.limit:
                raise DataError(f"{self.skipped} bad lines; --max-errors is {self.limit}")

    def show(self) -> None:
        seconds = time.perf_counter() - self.begin
        figures = {
            "sent": self.sent,
            "learned": self.learned,
            "skipped": self.skipped,
            "rate": self.sent / seconds,
            "megabytes": self.bytes / seconds / 1e6,
            "elapsed": seconds,
        }
        if self.kind == "jsonl":
            say_json(**figures)
        elif self.kind == "table":
            write(
                f"{self.sent:>12,d} {self.learned:>12,d} {self.skipped:>9,d} "
                f"{figures['rate']:>9,.0f} {figures['megabytes']:>7.1f} {seconds:>8.2f}\n"
            )
        elif self.kind == "bar":
            write(f"\r{self.sent:,d} lines sent, {self.learned:,d} learned, {seconds:.1f} s   ")

    def break_off(self) -> None:
        """What is certain, for whoever wants to go on from here."""
        with suppress(StreamlearnError):
            self.daemon.look()
        if self.kind == "bar":
            write("\n")
        if self.acked:
            done = f"{self.learned:,d} learned, {self.skipped:,d} skipped"
            say(
                f"acked up to {self.acked}: {done}; of {self.sent:,d} lines sent those behind that "
                "may be learned or not"
            )
        elif self.sent:
            say(f"{self.sent:,d} lines were sent and none acked; they may be learned or not")

    def finish(self) -> None:
        self.show()
        if self.kind == "bar":
            write("\n")
        if self.daemon.resent and self.kind != "none":
            say(f"{self.daemon.resent} batches were sent again; each was learned once")
