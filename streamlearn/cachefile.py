"""The file of a cache: a header, then records of one block each. Knows no source and no learner.

Every byte is under a checksum, that of the header or that of its record. A cache that is written
has no name before it is whole; it is not synced, since a torn one is found by its checksums.
"""

from __future__ import annotations

import io
import os
import struct
from contextlib import suppress
from typing import NamedTuple

from streamlearn._version import __version__
from streamlearn.engine.block import Block
from streamlearn.engine.checksum import Checksum
from streamlearn.engine.packed import HEAD_BYTES, pack, unpack
from streamlearn.errors import DataError
from streamlearn.record import Record, values_of

MAGIC = b"SLCACHE\x01"  # the last byte is the version of the format
# In the byte order of this machine; the checksum does not fit on one with another order.
HEADER = struct.Struct("=8s24s4QQ")
SIZE = struct.Struct("=8xQ")  # of what follows the head of a record


class Header(Record, frozen=True):
    """What a cache was made from, and by whom: another version may read text in another way."""

    size: int
    mtime: int  # in nanoseconds; 0: not to be relied on
    checksum: int  # of the bytes of the source, compressed ones as they are
    rows: int
    program: bytes = __version__.encode()

    def to_bytes(self) -> bytes:
        *numbers, program = values_of(self)
        packed = HEADER.pack(MAGIC, program, *numbers, 0)[:-8]
        return packed + struct.pack("=Q", checksum_of(packed))

    @classmethod
    def from_bytes(cls, data: bytes) -> Header:
        if len(data) != HEADER.size or not data.startswith(MAGIC):
            raise DataError("it does not start as a cache does")
        _, program, *numbers, checksum = HEADER.unpack(data)
        if checksum != checksum_of(data[:-8]):
            raise DataError("the checksum of its header does not fit")
        return cls(*numbers, program.rstrip(b"\0"))


def checksum_of(data: bytes) -> int:
    checksum = Checksum()
    checksum.update(data)
    return checksum.value


class Step(NamedTuple):
    """What a block stands for in the text: bytes, lines, and those without a row."""

    text: int
    lines: int
    blank: int


class Kept:
    """Blocks from a cache. Whatever it hands out was verified before."""

    def __init__(self, stream: io.FileIO) -> None:
        self.stream = stream
        self.header = Header.from_bytes(stream.read(HEADER.size))
        self.bytes = os.fstat(stream.fileno()).st_size
        self.at = HEADER.size
        self.position = self.rows = 0
        self.buffer = bytearray(HEAD_BYTES)

    @property
    def size(self) -> int:
        """Bytes of the source."""
        return self.header.size

    @property
    def taken(self) -> int:
        """As many bytes of the source as were taken from the cache, in proportion."""
        return self.header.size * self.at // self.bytes

    def fill(self, block: Block) -> Step | None:
        """The next record; None behind the last one. Raises DataError for a damaged one."""
        self.read(0, HEAD_BYTES)
        end = HEAD_BYTES + SIZE.unpack_from(self.buffer)[0]
        if end - HEAD_BYTES > self.bytes - self.at:
            raise DataError("a record is cut short")
        if end > len(self.buffer):
            self.buffer.extend(bytes(end - len(self.buffer)))
        self.read(HEAD_BYTES, end)
        with memoryview(self.buffer) as view, view[:end] as record:
            position, *step = unpack(record, block)
        self.rows += len(block)
        if position != self.position:
            raise DataError("a record is missing")
        self.position += step[0]
        if self.at < self.bytes:
            return Step(*step)
        if len(block) or any(step) or self.rows != self.header.rows:
            raise DataError("its last records are missing")
        return None

    def read(self, start: int, stop: int) -> None:
        """Fill that part of the buffer."""
        with memoryview(self.buffer) as view:
            while start < stop:
                try:
                    count = self.stream.readinto(view[start:stop])
                except OSError as error:
                    raise DataError(f"it cannot be read: {error.strerror}") from error
                if not count:
                    raise DataError("it is cut short")
                start += count
                self.at += count

    def close(self) -> None:
        self.stream.close()


class Draft:
    """A cache in the making. All but close may raise OSError."""

    def __init__(self, place: str, mode: int) -> None:
        self.place = place
        folder, name = os.path.split(place)
        self.name = os.path.join(folder, f".{name}.{os.urandom(4).hex()}.tmp")
        self.named = False
        self.position = self.rows = 0
        # A file without a name is gone with its process, whatever ends that.
        try:
            self.file = os.open(folder or ".", os.O_TMPFILE | os.O_WRONLY, 0o600)
        except (AttributeError, OSError):  # not Linux, or a file system that has none
            self.file = os.open(self.name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            self.named = True
        try:
            os.fchmod(self.file, mode)
            self.write(bytes(HEADER.size))
        except OSError:
            self.close()
            raise

    def add(self, block: Block, step: Step) -> None:
        """The next block, with labels as they were written."""
        self.write(pack(block, self.position, *step))
        self.position += step.text
        self.rows += len(block)

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.file, view) :]

    def publish(self, size: int, mtime: int, checksum: int) -> None:
        """Put it in its place, of a source with this size, time and checksum."""
        self.add(Block(), Step(0, 0, 0))  # ends the file
        os.pwrite(self.file, Header(size, mtime, checksum, self.rows).to_bytes(), 0)
        if not self.named:
            # With a folder given, even if it has no say in it, Python lets the link be followed.
            os.link(f"/proc/self/fd/{self.file}", self.name, src_dir_fd=self.file)
            self.named = True
        os.replace(self.name, self.place)
        self.named = False

    def close(self) -> None:
        """Give it up, unless it was published."""
        with suppress(OSError):
            os.close(self.file)
        if self.named:
            with suppress(OSError):
                os.unlink(self.name)
