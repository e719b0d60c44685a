"""The few calls that durability rests on, in one place: tests replace them to cut the power.

A failpoint ends the process at a named place as kill -9 would; they are for the crash tests.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

FAILPOINTS = (
    "before-write", "mid-write", "after-write", "after-sync", "after-apply", "checkpoint-begin",
    "checkpoint-mid", "checkpoint-before-sync", "checkpoint-before-rename",
    "checkpoint-before-folder", "before-drop", "mid-rotate", "first-start",
)  # fmt: skip


class Disk:
    """Files as the journal and the checkpoints use them."""

    def __init__(self, failpoint: str | None = None) -> None:
        name, _, count = (failpoint or "").partition(":")
        if name and name not in FAILPOINTS:
            raise ValueError(f"no failpoint {name!r}; there are {', '.join(FAILPOINTS)}")
        self.failpoint, self.left = name, int(count or 1)

    def reach(self, place: str) -> None:
        """Die here if told to, on the n-th time."""
        if self.failpoint == place:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def open(self, path: Path) -> int:
        """For reading and writing, made if it is not there."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, file: int, data: bytes | memoryview, offset: int) -> None:
        """All of it, or an OSError."""
        view = memoryview(data)
        while view:
            count = os.pwrite(file, view, offset)
            view, offset = view[count:], offset + count

    def sync(self, file: int) -> None:
        os.fdatasync(file)

    def truncate(self, file: int, size: int) -> None:
        os.ftruncate(file, size)

    def close(self, file: int) -> None:
        os.close(file)

    def rename(self, old: Path, new: Path) -> None:
        os.replace(old, new)

    def remove(self, path: Path) -> None:
        os.unlink(path)

    def sync_folder(self, path: Path) -> None:
        """Make names last: new files, renames, removals."""
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
