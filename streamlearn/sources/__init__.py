"""Where bytes come from: files, several of them, standard input, plain or compressed.

Nothing here is parsed, and nothing here knows a learner.
"""

from __future__ import annotations

import fcntl
import io
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO

from streamlearn.errors import IoFailure, NoInput, UsageError

MAGIC = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}


class Front(io.RawIOBase):
    """A raw stream whose first bytes were looked at already; counts what is taken from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self.under = stream
        self.taken = 0
        self.witness: Callable[[memoryview], object] | None = None
        self.head = b""
        # A pipe may give its first bytes one by one; read on only while they could be magic.
        while not self.head or any(m.startswith(self.head) and m != self.head for m in MAGIC):
            piece = bytearray(1 if self.head else 6)
            count = self.fill(memoryview(piece))
            if not count:
                break
            self.head += piece[:count]
        self.kind = next((k for m, k in MAGIC.items() if self.head.startswith(m)), None)

    def fill(self, buffer: memoryview) -> int:
        """Read what there is; a descriptor that does not block is waited for."""
        while (count := self.under.readinto(buffer)) is None:  # type: ignore[attr-defined]
            select.select([self.under], [], [])
        return count

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self.head:
            count = min(len(buffer), len(self.head))
            buffer[:count] = self.head[:count]
            self.head = self.head[count:]
        else:
            count = self.fill(buffer)
        self.taken += count
        if self.witness is not None:
            self.witness(buffer[:count])
        return count


class Source:
    """One open input: its name for messages, and bytes on demand."""

    def __init__(self, name: str, stream: BinaryIO, size: int | None) -> None:
        self.name, self.size, self.under = name, size, stream
        try:
            self.front = Front(stream)
        except OSError as error:
            raise IoFailure(f"{name}: cannot be read: {error.strerror or error}") from error
        self.compressed = self.front.kind
        self.stream = decompressed(self.front)

    @property
    def taken(self) -> int:
        """Bytes taken from the file so far."""
        return self.front.taken

    def watch(self, witness: Callable[[memoryview], object]) -> None:
        """Show every byte of the file, as it is there, to the witness when it is taken."""
        self.front.witness = witness

    def readinto(self, buffer: memoryview) -> int:
        """Bytes as they come: blocks only while there are none. 0 is the end."""
        try:
            if self.compressed is None:
                return self.front.readinto(buffer)
            return self.stream.readinto1(buffer)
        except (OSError, EOFError, ValueError) as error:
            raise self.failure(error) from error
        except Exception as error:  # those of zlib, lzma and zstd share no public base class
            if type(error).__name__ not in ("error", "LZMAError", "ZstdError"):
                raise
            raise self.failure(error) from error

    def failure(self, error: Exception) -> IoFailure:
        what = f"broken {self.compressed} data" if self.compressed else "cannot be read"
        return IoFailure(f"{self.name}: {what}: {error}")

    def close(self) -> None:
        self.stream.close()
        if self.name != "<stdin>":
            self.under.close()


def decompressed(front: Front) -> Any:
    """The stream behind its compression, told by its first bytes and not by its name."""
    if front.kind is None:
        return front
    buffered = io.BufferedReader(front, 1 << 17)
    if front.kind == "gzip":
        from gzip import GzipFile  # what is plain needs none of these

        return GzipFile(fileobj=buffered)
    if front.kind == "bzip2":
        from bz2 import BZ2File

        return BZ2File(buffered)
    if front.kind == "xz":
        from lzma import LZMAFile

        return LZMAFile(buffered)
    return zstd_file(buffered)


def zstd_file(raw: Any) -> Any:
    try:
        if sys.version_info >= (3, 14):
            from compression.zstd import ZstdFile
        else:
            from backports.zstd import ZstdFile
    except ImportError as error:
        raise UsageError(
            "this input is zstd-compressed; install the extra: pip install 'streamlearn[zstd]', "
            "or pipe it through zstd -dc"
        ) from error
    return ZstdFile(raw)


def open_source(path: str) -> Source:
    """Open a file, or standard input for '-'."""
    if path == "-":
        raw: Any = sys.stdin.buffer.raw  # type: ignore[union-attr]
        widen_pipe(raw)
        return Source("<stdin>", raw, None)
    try:
        stream = open(path, "rb", buffering=0)  # noqa: SIM115 - the Source closes it
        size = os.stat(path).st_size if os.path.isfile(path) else None
    except FileNotFoundError as error:
        raise NoInput(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise NoInput(f"{path}: is a folder; name the files in it") from error
    except OSError as error:
        raise NoInput(f"{path}: cannot be opened: {error.strerror}") from error
    return Source(path, stream, size)


def widen_pipe(stream: BinaryIO) -> None:
    """Let a pipe hold 1 MB instead of 64 kB: fewer turns between the writer and us."""
    with suppress(OSError, AttributeError, ValueError):  # a file, or not Linux: no matter
        fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, 1 << 20)


def skip(source: Source, count: int) -> None:
    """Leave out so many bytes."""
    buffer = bytearray(min(count, 1 << 18))
    with memoryview(buffer) as view:
        while count and (taken := source.readinto(view[:count])):
            count -= taken


def chunks(source: Source, size: int = 1 << 18) -> Iterator[tuple[bytearray, int]]:
    """Yield (buffer, stop): buffer[:stop] is whole lines, valid until the next turn.

    A line longer than the buffer makes it grow; a last line without newline gets one.
    """
    buffer = bytearray(size + 1)
    have = 0  # bytes in the buffer, all without newline when a turn begins
    while True:
        if have == len(buffer) - 1:
            buffer.extend(bytes(len(buffer) - 1))
        with memoryview(buffer) as view:
            count = source.readinto(view[have:-1])
        if not count:
            break
        stop = buffer.rfind(b"\n", have, have + count) + 1
        have += count
        if stop:
            yield buffer, stop
            buffer[: have - stop] = buffer[stop:have]
            have -= stop
    if have:
        buffer[have] = 10
        yield buffer, have + 1
