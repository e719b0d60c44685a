"""What a daemon is doing: counters, loss, non-zeros, rates, memory, lag."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from typing import Any

from streamlearn.cli import calling

FORMS = {
    "memory": ",d", "learner_bytes": ",d", "loss": ".6f", "error": ".4f", "density": ".4f",
    "rate": ",.0f", "uptime": ",.1f", "snapshot_seconds": ".4f",
}  # fmt: skip
COUNTERS = {
    "received", "learned", "skipped", "rejected", "duplicate", "batches", "requests", "predictions",
    "feed_messages", "feed_lost", "bad_frames", "busy", "lost_replies", "refused_keys",
    "published_messages",
}  # fmt: skip


def arguments(parser: argparse.ArgumentParser) -> None:
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object on stdout")
    form.add_argument(
        "--metrics", action="store_true", help="as Prometheus reads it, for a textfile collector"
    )
    parser.add_argument("--live", action="store_true", help="again every second, until Ctrl-C")
    calling.arguments(parser)


def run(args: argparse.Namespace) -> int:
    with calling.client(args) as daemon:
        while True:
            figures = daemon.status()
            if args.live and sys.stdout.isatty() and not (args.json or args.metrics):
                sys.stdout.write("\x1b[H\x1b[2J")
            form = metrics if args.metrics else lines
            print(json.dumps(figures) if args.json else "\n".join(form(figures)), flush=True)
            if not args.live:
                return 0
            time.sleep(1.0)


def lines(figures: Mapping[str, Any]) -> list[str]:
    return [f"{name:<20} {shown(name, value):>20}" for name, value in figures.items()]


def metrics(figures: Mapping[str, Any]) -> list[str]:
    """Every figure that is a number, with its type; what only grows has the ending _total."""
    found = []
    for name, value in figures.items():
        if not isinstance(value, bool | int | float) or name == "pid":
            continue
        kind = "counter" if name in COUNTERS else "gauge"
        metric = f"streamlearn_{name}" + "_total" * (kind == "counter")
        found += [f"# TYPE {metric} {kind}", f"{metric} {float(value)!r}"]
    return found


def shown(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name == "published_at":
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value))
    if isinstance(value, bool | str):
        return str(value).lower() if isinstance(value, bool) else value
    return format(value, FORMS.get(name, ",d" if isinstance(value, int) else "g"))
