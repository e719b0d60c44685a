"""Where bytes come from: files, several of them, standard input, plain or compressed.

Nothing here is parsed, and nothing here knows a learner.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from streamlearn.errors import IoFailure, NoInput, UsageError

MAGIC = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}


class Source:
    """One open input: its name for messages, and bytes on demand."""

    def __init__(self, name: str, stream: BinaryIO, size: int | None) -> None:
        self.name, self.size = name, size
        buffered = isinstance(stream, io.BufferedReader)
        self.raw = stream if buffered else io.BufferedReader(stream)
        try:
            self.stream, self.compressed = decompressed(self.raw)
        except OSError as error:
            raise IoFailure(f"{name}: cannot be read: {error.strerror or error}") from error

    def readinto(self, buffer: memoryview) -> int:
        """Bytes as they come: blocks only while there are none. 0 is the end."""
        try:
            return self.stream.readinto1(buffer)
        except (OSError, EOFError, lzma.LZMAError, ValueError) as error:
            raise self.failure(error) from error
        except Exception as error:  # zlib.error and ZstdError share no public base class
            if type(error).__name__ not in ("error", "ZstdError"):
                raise
            raise self.failure(error) from error

    def failure(self, error: Exception) -> IoFailure:
        what = f"broken {self.compressed} data" if self.compressed else "cannot be read"
        return IoFailure(f"{self.name}: {what}: {error}")

    def position(self) -> int | None:
        """Bytes taken from the file so far, where that can be told."""
        return self.raw.tell() if self.size is not None else None

    def close(self) -> None:
        self.stream.close()
        if self.raw is not self.stream and self.name != "<stdin>":
            self.raw.close()


def decompressed(raw: io.BufferedReader) -> tuple[BinaryIO, str | None]:
    """The stream behind its compression, told by its first bytes and not by its name."""
    head = raw.peek(6)[:6]
    kind = next((k for magic, k in MAGIC.items() if head.startswith(magic)), None)
    if kind == "gzip":
        return gzip.GzipFile(fileobj=raw), kind
    if kind == "bzip2":
        return bz2.BZ2File(raw), kind
    if kind == "xz":
        return lzma.LZMAFile(raw), kind
    if kind == "zstd":
        return zstd_file(raw), kind
    return raw, None


def zstd_file(raw: io.BufferedReader) -> BinaryIO:
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
        return Source("<stdin>", sys.stdin.buffer, None)
    try:
        stream = open(path, "rb", buffering=0)  # noqa: SIM115 - the Source closes it
        size = Path(path).stat().st_size if Path(path).is_file() else None
    except FileNotFoundError as error:
        raise NoInput(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise NoInput(f"{path}: is a folder; name the files in it") from error
    except OSError as error:
        raise NoInput(f"{path}: cannot be opened: {error.strerror}") from error
    return Source(path, stream, size)


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
