"""Kill the daemon, cut its power, spoil its files: what was acknowledged must be there, once.

    kill    a real daemon under load by three clients, SIGKILL at random moments and at every
            failpoint, restarted on the same ports and folder; checked after every cycle
    power   random histories over a disk that loses, tears and reorders what was not synced,
            some of them with failing writes and syncs (--faulty)
    start   100 daemons started at once on one folder: exactly one of them runs
    bits    every bit of a 16 KiB journal and of a checkpoint flipped, a journal cut at every byte

The tests run the same in short. Ends with 1 if anything was lost, learned twice, or unnoticed.
"""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parent.parent
sys.path[:] = [str(ROOT / "tests"), *sys.path[1:], str(ROOT)]  # what is installed comes first

from daemon.damage import cut_everywhere, flip_checkpoint, flip_journal, made  # noqa: E402
from daemon.history import World  # noqa: E402
from daemon.siege import Siege  # noqa: E402

import streamlearn  # noqa: E402
from streamlearn.daemon.disk import FAILPOINTS  # noqa: E402


def kill(args: argparse.Namespace, folder: Path) -> int:
    """Every fourth life ends at a failpoint, in turn, the others by a signal."""
    random = Random(args.seed)
    siege = Siege(folder / "state", args.seed, durability=args.durability, algo=args.algo)
    siege.start("first-start")
    points = [name for name in FAILPOINTS if name != "first-start"]
    try:
        for cycle in range(1, args.cycles + 1):
            point = ""
            if cycle % 4 == 0:
                point = f"{points[cycle // 4 % len(points)]}:{random.randint(1, 12)}"
            siege.cycle(point)
            if cycle % 20 == 0 or siege.violations:
                print(f"kill: cycle {cycle}: {siege.summary()}", flush=True)
            if siege.violations:
                break
    finally:
        siege.close()
    for violation in siege.violations:
        print(f"VIOLATION: {violation}", file=sys.stderr)
    print(
        f"kill: {args.cycles} cycles, {args.algo}, {args.durability}: {siege.summary()}", flush=True
    )
    return len(siege.violations)


def power(args: argparse.Namespace, folder: Path) -> int:
    begin, bad = time.monotonic(), 0
    lives = cuts = learned = 0
    for seed in range(args.seed, args.seed + args.cases):
        with tempfile.TemporaryDirectory(dir=folder) as place:
            world = World(Path(place), seed, "always", faulty=seed % 100 < args.faulty)
            try:
                for _ in range(5):
                    world.live()
            except Exception as error:
                bad += 1
                print(f"VIOLATION: history {seed}: {type(error).__name__}: {error}",
                      file=sys.stderr)  # fmt: skip
        lives, cuts, learned = lives + world.lives, cuts + world.cuts, learned + len(world.order)
    print(
        f"power: {args.cases:,d} histories, {lives:,d} lives, {cuts:,d} power cuts, {learned:,d} "
        f"batches: {bad} violations in {time.monotonic() - begin:.0f} s",
        flush=True,
    )
    return bad


def serving(folder: Path) -> list[str]:
    """The command of a daemon on a folder, at ports of its own."""
    words = [sys.executable, "-m", "streamlearn", "serve", "--state", str(folder)]
    for name in ("bind", "bind-feed", "bind-publish"):
        words += [f"--{name}", "tcp://127.0.0.1:*"]
    return words


def start(args: argparse.Namespace, folder: Path) -> int:
    words = serving(folder / "start")
    environment = {**os.environ, "PYTHONPATH": str(Path(streamlearn.__file__).parent.parent)}
    logs = [(folder / f"start-{n}.log").open("w+b") for n in range(args.starts)]
    begin = time.monotonic()
    daemons = [
        subprocess.Popen(words, stderr=log, env=environment, cwd=folder) for log in logs
    ]
    while sum(daemon.poll() is None for daemon in daemons) > 1:
        if time.monotonic() > begin + args.patience:
            break
        time.sleep(0.05)
    seconds = time.monotonic() - begin
    running = [daemon for daemon in daemons if daemon.poll() is None]
    wrong = 0
    if len(running) != 1:
        wrong += 1
        print(f"VIOLATION: {len(running)} daemons run on one folder", file=sys.stderr)
    for daemon, log in zip(daemons, logs, strict=True):
        log.seek(0)
        if daemon not in running:
            said = log.read().decode("utf-8", "replace")
            if daemon.returncode != 75 or not any(
                f"process id {other.pid};" in said for other in running
            ):
                wrong += 1
                print(f"VIOLATION: ended with {daemon.returncode}: {said.strip()}",
                      file=sys.stderr)  # fmt: skip
        log.close()
    for daemon in running:
        daemon.kill()
        daemon.wait()
    print(
        f"start: {args.starts} at once: {len(running)} runs, {args.starts - len(running)} ended: "
        f"{wrong} violations in {seconds:.0f} s",
        flush=True,
    )
    return wrong


def bits(args: argparse.Namespace, folder: Path) -> int:
    """Each of its three parts ends at the first thing that goes unnoticed."""
    begin, bad = time.monotonic(), 0
    kept = made(folder / "bits", frames=5, rows=53)
    done = []
    for part in (
        lambda: flip_journal(kept, lambda place: range(8)),
        lambda: flip_checkpoint(kept, lambda place: range(8)),
        lambda: cut_everywhere(kept),
    ):
        try:
            done.append(part())
        except Exception as error:
            done.append(0)
            bad += 1
            print(f"VIOLATION: {type(error).__name__}: {error}", file=sys.stderr)
        kept.segment.write_bytes(kept.data)  # what broke off may have left it spoilt
    print(
        f"bits: {done[0]:,d} flipped in a journal of {len(kept.data):,d} bytes, {done[1]:,d} in "
        f"its checkpoint, {done[2]:,d} cuts: {bad} violations in {time.monotonic() - begin:.0f} s",
        flush=True,
    )
    return bad


PARTS = {"kill": kill, "power": power, "start": start, "bits": bits}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=f"{', '.join(PARTS)} (default: all)")
    parser.add_argument("--cycles", type=int, default=2000, help="of kill (default: 2,000)")
    parser.add_argument("--cases", type=int, default=10_000, help="of power (default: 10,000)")
    parser.add_argument(
        "--faulty", type=int, default=10, metavar="PERCENT",
        help="of the histories have failing disks (default: 10)",
    )  # fmt: skip
    parser.add_argument("--starts", type=int, default=100, help="of start (default: 100)")
    parser.add_argument(
        "--patience", type=float, default=120.0, metavar="SECONDS",
        help="until all but one of start have ended (default: 120)",
    )  # fmt: skip
    parser.add_argument("--algo", default="averagesl", help="of kill (default: averagesl)")
    parser.add_argument("--durability", default="always", help="of kill (default: always)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="keeps what is left (default: a new one)")
    args = parser.parse_args()
    if unknown := set(args.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    logging.disable(logging.CRITICAL)  # torn tails by the thousand
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        bad = sum(PARTS[part](args, folder) for part in args.parts or PARTS)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
