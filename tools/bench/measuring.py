"""What a command takes: seconds by the clock and of processor, and memory at its peak.

The system counts a child's peak memory from the size of the process that started it, so this one
imports nothing large; `floor` tells what is too small to be seen.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Side:
    """One command on one file."""

    name: str
    words: list[str]
    before: list[list[str]] = field(default_factory=list)  # commands that prepare it, not timed
    scale: float = 1.0  # to the whole file, for one that sees a part of it
    tells: bool = False  # prints its own seconds, which are those of a part of its work
    says: str = ""  # must be found in what it says, else it has not done the work


@dataclass(frozen=True)
class Run:
    """What one run took: seconds, seconds, bytes."""

    wall: float
    cpu: float
    memory: int
    ended: bool = True  # false: it was stopped, and would have taken longer


def floor() -> int:
    """Bytes; no process that we start can be seen to take less."""
    # Our own peak in kB; what getrusage tells of us began with the size of who started us.
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024


def timed(side: Side, limit: float | None = None) -> Run:
    """One run; one that is not done after so many seconds is stopped."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        side.words,
        stdout=subprocess.PIPE if side.tells else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    stopped = threading.Event()

    def stop() -> None:
        stopped.set()
        process.kill()

    timer = threading.Timer(limit or threading.TIMEOUT_MAX, stop)
    timer.start()
    said = process.stderr.read().decode()  # what is told on stdout is short and waits there
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    cpu, memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
    if stopped.is_set():
        return Run(side.scale * wall, side.scale * cpu, memory, ended=False)
    if process.returncode or not re.search(side.says, said):
        why = "" if process.returncode else f"does not say {side.says!r}: "
        raise SystemExit(f"{' '.join(side.words)[:300]}: {why}{said[-500:]}")
    if side.tells:
        with process.stdout:
            own = json.load(process.stdout)
        wall, cpu = own["wall"], own["cpu"]
    return Run(side.scale * wall, side.scale * cpu, memory)


# On a virtual machine memory that the host took back meanwhile costs up to five times as much at
# its first touch as other fresh memory (1 against 5 GB/s), and who got more of it was chance.
SETTLE = """
import mmap
size = 1 << 30
memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_HUGEPAGE)
for place in range(0, size, mmap.PAGESIZE):
    memory[place] = 1
"""


def settle() -> None:
    """Touch a gigabyte and give it back: the next process gets memory that is there."""
    subprocess.run([sys.executable, "-c", SETTLE], check=True)


def take_turns(sides: list[Side], repeats: int, patience: float, limit: float) -> dict[str, Any]:
    """Every side `repeats` times, one after the other; who took longer than patience, once."""
    figures: dict[str, Any] = {
        side.name: {"wall": [], "cpu": [], "memory": [], "ended": True} for side in sides
    }
    for number in range(repeats):
        for side in sides:
            of = figures[side.name]
            if number and of["wall"][0] > patience * side.scale:
                continue
            if not number:
                for words in side.before:
                    timed(Side(f"before {side.name}", words))
            settle()
            run = timed(side, limit)
            of["ended"] &= run.ended
            of["wall"].append(run.wall)
            of["cpu"].append(run.cpu)
            of["memory"].append(run.memory)
    return figures


def middle(of: dict[str, Any], what: str = "wall") -> float:
    """The median of the runs of a side."""
    return statistics.median(of[what])


def spread(of: dict[str, Any]) -> float | None:
    """From the fastest run to the slowest, as a share of the median; one run alone has none."""
    if len(of["wall"]) < 2:
        return None
    return (max(of["wall"]) - min(of["wall"])) / middle(of)
