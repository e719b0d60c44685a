"""A disk that can lose power: what survives of files and names that were not synced is random.

The real folder is what the system shows while it runs (its cache). Beside it, `Platter` keeps what
is safe, and every change that is not yet. When the power goes, each unsynced sector is old, new,
torn, zero or garbage, each unsynced length is one that the file ever had, and each unsynced create,
rename and removal has happened or not. A failed sync leaves a mixture behind that no later sync
mends.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from streamlearn.daemon.disk import Disk

SECTOR = 512


class Killed(BaseException):
    """By a signal, or the lights went out. Not an Exception: nothing may catch it and go on."""


@dataclass
class File:
    """What is safe of a file, and the changes that are not: (offset, bytes), or (size, None)."""

    safe: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def settle(self) -> None:
        content = bytearray(self.safe)
        for change in self.pending:
            apply(content, change)
        self.safe, self.pending = bytes(content), []

    def survive(self, random: Random) -> bytes:
        """What a reader finds after the cut."""
        versions = [bytearray(self.safe)]
        for change in self.pending:
            versions.append(bytearray(versions[-1]))
            apply(versions[-1], change)
        length = len(random.choice(versions))
        sectors = []
        for start in range(0, length, SECTOR):
            span = min(SECTOR, length - start)
            held = {bytes(v[start : start + span]).ljust(span, b"\0") for v in versions}
            if len(held) > 1:
                fate = random.random()
                if fate < 0.2 and len(self.safe) <= start:  # never written before
                    held = {bytes(span) if fate < 0.1 else random.randbytes(span)}
                elif fate < 0.4:  # torn inside
                    first, second = random.choices(sorted(held), k=2)
                    cut = random.randrange(span + 1)
                    held = {first[:cut] + second[cut:]}
            sectors.append(random.choice(sorted(held)))
        return b"".join(sectors)


def apply(content: bytearray, change: tuple[int, bytes | None]) -> None:
    place, data = change
    size = place if data is None else max(len(content), place + len(data))
    content.extend(bytes(max(size - len(content), 0)))
    if data is None:
        del content[place:]
    else:
        content[place : place + len(data)] = data


class Platter:
    """Files and names of one folder."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.safe: dict[Path, File] = {}
        self.names: dict[Path, File] = {}
        self.pending: list[tuple[Path | None, Path | None, File | None]] = []  # from, to, what

    def change(self, old: Path | None, new: Path | None, file: File | None) -> None:
        self.pending.append((old, new, file))
        rebind(self.names, old, new, file)

    def settle(self) -> None:
        for change in self.pending:
            rebind(self.safe, *change)
        self.pending = []

    def mix(self) -> None:
        """Each unsynced change of a name has happened, or never will."""
        for change in self.pending:
            if self.random.random() < 0.5:
                rebind(self.safe, *change)
        self.pending = []

    def lose_power(self, folder: Path) -> None:
        """Make the folder what a reader finds afterwards; all of that is safe now."""
        self.mix()
        for path in folder.iterdir():
            if path.name != "lock":
                path.unlink()
        self.names = {path: File(file.survive(self.random)) for path, file in self.safe.items()}
        for path, file in self.names.items():
            path.write_bytes(file.safe)
        self.safe = dict(self.names)


def rebind(
    names: dict[Path, File], old: Path | None, new: Path | None, file: File | None
) -> None:
    if old is not None:
        names.pop(old, None)
    if new is not None and file is not None:
        names[new] = file


class FragileDisk(Disk):
    """The daemon's disk over a platter. `end`: the call at which the process dies. `faults`: the
    calls that fail, and how."""

    def __init__(
        self, platter: Platter, end: int | None = None, faults: dict[int, int] | None = None
    ) -> None:
        super().__init__()
        self.platter, self.end, self.faults = platter, end, faults or {}
        self.calls = self.efforts = 0
        self.failed = False
        self.files: dict[int, File] = {}

    def call(self) -> None:
        self.calls += 1
        if self.calls == self.end:
            raise Killed

    def fault(self) -> OSError | None:
        """The error of this call, if it is to fail."""
        self.efforts += 1
        number = self.faults.get(self.efforts)
        self.failed |= number is not None
        return OSError(number, os.strerror(number)) if number else None

    def open(self, path: Path) -> int:
        self.call()
        if error := self.fault():
            raise error
        descriptor = super().open(path)
        if path not in self.platter.names:
            self.platter.change(None, path, File())
        self.files[descriptor] = self.platter.names[path]
        return descriptor

    def write(self, file: int, data: bytes | memoryview, offset: int) -> None:
        error, held = self.fault(), bytes(data)
        if error:
            held = held[: self.platter.random.randrange(len(held) + 1)]
        super().write(file, held, offset)
        self.files[file].pending.append((offset, held))
        self.call()
        if error:
            raise error

    def truncate(self, file: int, size: int) -> None:
        if error := self.fault():
            raise error
        super().truncate(file, size)
        self.files[file].pending.append((size, None))
        self.call()

    def sync(self, file: int) -> None:
        self.call()
        held = self.files[file]
        if error := self.fault():
            held.safe, held.pending = held.survive(self.platter.random), []
            raise error
        held.settle()

    def close(self, file: int) -> None:
        self.files.pop(file)
        super().close(file)

    def rename(self, old: Path, new: Path) -> None:
        self.call()
        if error := self.fault():
            raise error
        super().rename(old, new)
        self.platter.change(old, new, self.platter.names[old])

    def remove(self, path: Path) -> None:
        self.call()
        if error := self.fault():
            raise error
        super().remove(path)
        self.platter.change(path, None, None)

    def sync_folder(self, path: Path) -> None:
        self.call()
        if error := self.fault():
            self.platter.mix()
            raise error
        self.platter.settle()


FAULTS = (errno.ENOSPC, errno.EIO)
