"""Inputs made from a seed, judged in a process of their own so that nothing goes unseen.

A part of the hunt makes inputs and judges them. Whatever its judge objects to is a violation, and
so is an exception that nobody expected, the death of the process, an input that takes too long,
and one that makes it ask for far more memory than the input has bytes.

    python -m fuzz.hunt MODULE:PART COUNT SEED START NOTE     is that process
"""

from __future__ import annotations

import importlib
import json
import logging
import mmap
import os
import resource
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Protocol

import streamlearn
from fuzz.mutation import Wrong

NOTE_BYTES = 1 << 22
NOTE = struct.Struct("<qqq")  # number of the input, length of its kind, length of the input
BATCH = 64  # inputs made from one seed, so that any can be made again alone
ROOMY = 1 << 40  # an address space beyond this is that of a sanitizer: nothing to be limited


class Part(Protocol):
    """What is hunted for."""

    units: int  # cases in one input
    seconds: float  # of processor time for one input
    room: int  # bytes of address space beyond those taken at the start

    def make(self, random: Random) -> tuple[str, bytes]:
        """A kind, and an input of that kind."""

    def judge(self, kind: str, data: bytes) -> str:
        """What became of it, in a word; raises Wrong, or anything else, when that must not be."""


@dataclass
class Violation:
    """An input that did what must not be."""

    part: str
    number: int
    kind: str
    what: str
    data: bytes

    def save(self, folder: Path) -> Path:
        """Where the input can be found from now on."""
        path = folder / f"fuzz-{self.part}-{self.number}.{self.kind}"
        path.write_bytes(self.data)
        return path


@dataclass
class Bag:
    """What a hunt brought home."""

    cases: int = 0
    seconds: float = 0.0
    peak: int = 0  # bytes of memory that judging took at most
    fates: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)


def hunt(where: str, count: int, seed: int, most: int = 10) -> Bag:
    """So many cases of a part, named as module:class; ends early when that many went wrong."""
    bag, begin, start = Bag(), time.monotonic(), 0
    with TemporaryDirectory() as folder:
        note = Path(folder) / "note"
        note.write_bytes(bytes(NOTE_BYTES))
        while start >= 0 and len(bag.violations) < most:
            start = send_out(bag, where, (count, seed, start), note, most)
    bag.seconds = time.monotonic() - begin
    return bag


def send_out(bag: Bag, where: str, which: tuple[int, int, int], note: Path, most: int) -> int:
    """One process for (count, seed, start); the number of the input to go on from, or -1."""
    name, start, told = where.split(":")[1].lower(), which[2], 0
    here = Path(__file__).resolve().parents[1]
    package = Path(streamlearn.__file__).resolve().parents[1]
    words = [sys.executable, "-m", "fuzz.hunt", where, *map(str, which), str(note)]
    paths = {"PYTHONPATH": f"{here}{os.pathsep}{package}", "TMPDIR": str(note.parent)}
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, cwd="/", stdin=subprocess.DEVNULL,
        env={**os.environ, **paths},
    ) as process:  # fmt: skip
        assert process.stdout
        for line in process.stdout:
            said = json.loads(line)
            if "what" in said:
                said["data"] = bytes.fromhex(said["data"])
                bag.violations.append(Violation(name, **said))
                if len(bag.violations) >= most:
                    process.kill()
                    return -1
                continue
            told += said["cases"]
            bag.cases += said["cases"]
            bag.peak = max(bag.peak, said["peak"])
            bag.fates.update(said["fates"])
    if process.returncode == 0:
        return -1
    number, kind, data = noted(note.read_bytes())
    if number < start:
        raise RuntimeError(f"{where} did not begin: exit code {process.returncode}")
    bag.cases += (number + 1 - start) * class_named(where).units - told  # what it did not tell of
    bag.violations.append(Violation(name, number, kind, death(process.returncode), data))
    return number + 1


def death(code: int) -> str:
    if code == -signal.SIGPROF:
        return "took longer than it may"
    return f"the process ended with {signal.Signals(-code).name if code < 0 else f'code {code}'}"


def noted(data: bytes) -> tuple[int, str, bytes]:
    number, short, long = NOTE.unpack_from(data)
    kind, rest = data[NOTE.size : NOTE.size + short], data[NOTE.size + short :]
    return number - 1, kind.decode(), rest[:long]


def inputs(part: Part, count: int, seed: int, start: int) -> Iterator[tuple[int, str, bytes]]:
    """(number, kind, input) from `start` on."""
    for batch in range(start // BATCH, -(-count // BATCH)):
        random = Random(f"{seed} {batch}")
        for number in range(batch * BATCH, min(count, (batch + 1) * BATCH)):
            kind, data = part.make(random)
            if number >= start:
                yield number, kind, data


def address_space() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[0]) * mmap.PAGESIZE


def resident() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def judged(part: Part, count: int, seed: int, start: int, note: mmap.mmap) -> None:
    """The life of the process: tells of each violation at once, and of the rest now and then."""
    fates: Counter[str] = Counter()
    before, cases, told = resident(), 0, time.monotonic()
    if part.room and address_space() < ROOMY:
        limit = address_space() + part.room
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    def tell() -> None:
        nonlocal cases, told
        figures = {"cases": cases, "peak": resident() - before, "fates": dict(fates)}
        print(json.dumps(figures), flush=True)
        fates.clear()
        cases, told = 0, time.monotonic()

    for number, kind, data in inputs(part, -(-count // part.units), seed, start):
        head = kind.encode()
        note[: NOTE.size] = NOTE.pack(number + 1, len(head), len(data))
        note[NOTE.size : NOTE.size + len(head)] = head
        note[NOTE.size + len(head) : NOTE.size + len(head) + len(data)] = data
        signal.setitimer(signal.ITIMER_PROF, part.seconds)
        cases += part.units
        try:
            fates[part.judge(kind, data)] += 1
        except Exception as error:
            what = str(error) if isinstance(error, Wrong) else f"{type(error).__name__}: {error}"
            said = {"number": number, "kind": kind, "what": what[:2000], "data": data.hex()}
            print(json.dumps(said), flush=True)
        if time.monotonic() > told + 1.0:
            tell()
    signal.setitimer(signal.ITIMER_PROF, 0)
    tell()


def class_named(where: str) -> type[Part]:
    module, name = where.split(":")
    return getattr(importlib.import_module(module), name)


def part_named(where: str) -> Part:
    return class_named(where)()


def main() -> None:
    where, count, seed, start, path = sys.argv[1:]
    logging.disable(logging.CRITICAL)  # damaged journals by the thousand
    part = part_named(where)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), NOTE_BYTES) as note:
        judged(part, int(count), int(seed), int(start), note)


if __name__ == "__main__":
    main()
