"""The journal: parsed rows on disk before they are learned, so that nothing acked is lost.

A state folder holds segments `journal-NUMBER.slj`, NUMBER being that of their first frame. A
segment is a header and frames; a frame is one group of batches, written and synced at once:

    header  "SLJOURNL" version:u32 first:u64 crc:u32
    frame   "SLJF" length:u32 number:u64 synced:u64 crc:u32 payload

All little-endian; crc is the crc32 of what it belongs to (of a frame: the fields before it but the
mark, and the payload), `synced` the last frame known to be on disk when this one was written. That
tells a torn tail, which is dropped, from damage to what was acked; but not in the very last frame,
behind which there is none to tell.
"""

from __future__ import annotations

import errno
import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from streamlearn.daemon.disk import Disk
from streamlearn.engine.checksum import crc32
from streamlearn.errors import Damaged, ModelError, NoInput

MAGIC, VERSION, MARK = b"SLJOURNL", 1, b"SLJF"
HEADER = struct.Struct("<8sIQ")
FRAME = struct.Struct("<4sIQQ")
CRC = struct.Struct("<I")
HEADER_SIZE, FRAME_SIZE = HEADER.size + CRC.size, FRAME.size + CRC.size
LARGEST = 1 << 30  # bytes of a payload
PIECE = 1 << 20  # bytes read at a time
NAME = re.compile(r"journal-(\d{20})\.slj")


@dataclass(frozen=True)
class Frame:
    """One group of batches, as found on disk."""

    number: int
    synced: int
    payload: bytes
    end: int  # offset behind it


@dataclass(frozen=True)
class Torn:
    """Where a file stops making sense: a tail to be dropped, or what damage has left of it."""

    path: Path
    offset: int
    size: int

    def __str__(self) -> str:
        return (
            f"{self.path}: the {self.size - self.offset:,d} bytes from offset {self.offset:,d} on "
            "are no whole frame: the last write was torn, or spoilt since. They are dropped"
        )


def segments(folder: Path) -> list[Path]:
    """In the order of their frames."""
    return sorted(path for path in folder.iterdir() if NAME.fullmatch(path.name))


def first_of(path: Path) -> int:
    match = NAME.fullmatch(path.name)
    assert match
    return int(match[1])


def damaged(path: Path, offset: int, what: str) -> Damaged:
    return Damaged(
        f"{path}: damaged at offset {offset:,d}: {what}. What stood there was acknowledged, so the "
        "daemon does not go on without it. Restore the file from a backup, or see what can be "
        f"saved with: streamlearn doctor {path.parent}"
    )


def packed_header(first: int) -> bytes:
    head = HEADER.pack(MAGIC, VERSION, first)
    return head + CRC.pack(crc32(head))


def packed_frame(number: int, synced: int, payload: bytes) -> bytes:
    head = FRAME.pack(MARK, len(payload), number, synced)
    return head + CRC.pack(crc32(payload, crc32(head[4:]))) + payload


def frame_at(file: BinaryIO, offset: int, size: int) -> Frame | None:
    """The frame that starts there in a file of that size, or None if there is no whole one."""
    file.seek(offset)
    head = file.read(FRAME_SIZE)
    if len(head) < FRAME_SIZE:
        return None
    mark, length, number, synced = FRAME.unpack_from(head)
    end = offset + FRAME_SIZE + length
    if mark != MARK or length > LARGEST or end > size:
        return None
    payload = file.read(length)
    (crc,) = CRC.unpack_from(head, FRAME.size)
    if crc != crc32(payload, crc32(head[len(MARK) : FRAME.size])):
        return None
    return Frame(number, synced, payload, end)


def frames_after(file: BinaryIO, offset: int, size: int) -> Iterator[Frame]:
    """Every whole frame behind a place where there is none."""
    start = offset + 1
    while start < size:
        file.seek(start)
        piece = file.read(PIECE)
        place = -1
        while (place := piece.find(MARK, place + 1)) >= 0:
            if frame := frame_at(file, start + place, size):
                yield frame
        start += max(len(piece) - len(MARK) + 1, 1)  # a mark may lie across two pieces


class Reader:
    """Reads a folder's segments in order; `torn` is set when the last one ends in a torn tail."""

    def __init__(self, folder: Path, after: int) -> None:
        self.folder, self.after = folder, after
        self.torn: Torn | None = None
        self.damage: Torn | None = None  # where reading stopped because of damage
        self.last = after  # number of the last frame read or known
        self.paths: list[Path] = []  # read, the last of them perhaps in part
        self.bytes = 0  # in them

    def frames(self) -> Iterator[Frame]:
        """Frames with numbers beyond `after`; raises Damaged where an acked one is missing."""
        paths = segments(self.folder)
        if self.after and not paths:  # there is always one, but for the moments of a first start
            self.damage = Torn(self.folder / "journal-*.slj", 0, 0)
            raise damaged(self.damage.path, 0, "the journal is missing")
        for index, path in enumerate(paths):
            following = paths[index + 1 :]
            if following and first_of(following[0]) <= self.after + 1:
                continue  # the checkpoint has all of it
            yield from self.frames_of(path, following)

    def frames_of(self, path: Path, following: list[Path]) -> Iterator[Frame]:
        """One frame at a time is in memory, not the segment."""
        try:
            with path.open("rb", PIECE) as file:
                yield from self.frames_in(file, path, following)
        except OSError as error:
            raise NoInput(f"{path}: cannot be read: {error.strerror}") from error

    def frames_in(self, file: BinaryIO, path: Path, following: list[Path]) -> Iterator[Frame]:
        first, size = first_of(path), path.stat().st_size
        self.paths.append(path)
        self.bytes += size
        if first > self.last + 1:
            self.damage = Torn(path, 0, size)
            raise damaged(path, 0, f"frames {self.last + 1} to {first - 1} are missing before it")
        head = file.read(HEADER_SIZE)
        if head != packed_header(first):
            if newer(head):
                raise ModelError(f"{path}: written by a newer streamlearn; upgrade to read it")
            what = "not the header of a journal"
            self.tear(file, Torn(path, 0, size), first - 1, following, what)
            return
        offset, number = HEADER_SIZE, first - 1
        while offset < size:
            frame = frame_at(file, offset, size)
            if frame is None or frame.number != number + 1:
                if following and first_of(following[0]) == number + 1:
                    return  # nothing is missing: a torn tail that a later start left behind
                what = "no whole frame is there"
                self.tear(file, Torn(path, offset, size), number, following, what)
                return
            number, offset = frame.number, frame.end
            if number > self.last:
                self.last = number
                yield frame

    def spoilt(self, frame: Frame, what: str) -> Damaged:
        """A frame that is whole but makes no sense."""
        path, offset = self.paths[-1], frame.end - len(frame.payload) - FRAME_SIZE
        self.damage = Torn(path, offset, path.stat().st_size)
        return damaged(path, offset, what)

    def tear(
        self, file: BinaryIO, place: Torn, number: int, following: list[Path], what: str
    ) -> None:
        """No frame number + 1 at a place: the torn tail of the last write, or damage?"""
        # A header is synced before the first frame, a segment before the next one begins.
        if following or any(
            frame.synced > number or place.offset == 0
            for frame in frames_after(file, place.offset, place.size)
        ):
            self.damage = place
            raise damaged(place.path, place.offset, what)
        self.torn = place


def newer(head: bytes) -> bool:
    """Whether these are the first bytes of a segment of a later version."""
    if len(head) < HEADER_SIZE or head[: len(MAGIC)] != MAGIC:
        return False
    (crc,) = CRC.unpack_from(head, HEADER.size)
    return HEADER.unpack_from(head)[1] > VERSION and crc == crc32(head[: HEADER.size])


def cut(folder: Path, damage: Torn, disk: Disk) -> Iterator[tuple[Path, int, Path]]:
    """Set aside everything from a damaged place on; yields each file, the offset, and where to.

    A power cut at any moment leaves every byte in the one file or in the other.
    """
    for path in segments(folder):
        if path < damage.path:
            continue
        offset = damage.offset if path == damage.path else 0
        aside, number = path.with_suffix(".damaged"), 1
        while aside.exists():
            aside, number = path.with_suffix(f".damaged.{number}"), number + 1
        copied(path, offset, aside, disk)
        disk.sync_folder(folder)
        if offset > HEADER_SIZE:
            file = disk.open(path)
            try:
                disk.truncate(file, offset)
                disk.sync(file)
            finally:
                disk.close(file)
        else:
            disk.remove(path)
        disk.sync_folder(folder)
        yield path, offset, aside


def copied(path: Path, offset: int, aside: Path, disk: Disk) -> None:
    """What stands in a file from an offset on, in another one, on disk."""
    copy, size = disk.open(aside), 0
    try:
        with path.open("rb") as file:
            file.seek(offset)
            while piece := file.read(PIECE):
                disk.write(copy, piece, size)
                size += len(piece)
        disk.sync(copy)
    finally:
        disk.close(copy)


class Journal:
    """The segment that is being written."""

    def __init__(self, folder: Path, disk: Disk, last: int) -> None:
        self.folder, self.disk = folder, disk
        self.last = self.synced = last  # numbers of frames
        self.size = self.before = 0  # bytes: all, and without the last frame
        self.file = -1
        self.broken: str | None = None  # after a failed sync nothing can be promised any more

    def begin(self) -> None:
        """A new segment, whole from the moment it has its name; the old one stays until `drop`."""
        if self.size == HEADER_SIZE:
            return  # nothing came since the last one began
        path, disk = self.folder / f"journal-{self.last + 1:020d}.slj", self.disk
        draft = self.folder / "journal.tmp"
        file = disk.open(draft)
        try:
            disk.truncate(file, 0)
            disk.write(file, packed_header(self.last + 1), 0)
            disk.sync(file)
            disk.reach("mid-rotate")
            disk.rename(draft, path)
            disk.sync_folder(self.folder)
        except OSError:
            disk.close(file)
            if self.file >= 0:
                self.stay(path)
            raise
        self.close()
        self.file, self.size = file, HEADER_SIZE

    def stay(self, path: Path) -> None:
        """With the old segment. The new one must not come again after a power cut: what the old one
        holds by then would not be looked for there."""
        try:
            if path.exists():
                self.disk.remove(path)
                self.disk.sync_folder(self.folder)
        except OSError as error:
            self.broken = f"{path}: cannot be taken back: {error.strerror}"

    def drop(self, upto: int) -> None:
        """Remove the segments whose frames are all in a checkpoint."""
        paths = segments(self.folder)
        for path, following in pairwise(paths):
            if first_of(following) <= upto + 1:
                self.disk.remove(path)
        self.disk.sync_folder(self.folder)

    def append(self, payload: bytes) -> None:
        """Write a frame; an OSError means that nothing of it is there."""
        if len(payload) > LARGEST:
            raise OSError(errno.EFBIG, "a group of batches beyond 1 GiB; send smaller ones")
        frame = packed_frame(self.last + 1, self.synced, payload)
        self.disk.reach("before-write")
        try:
            if self.disk.failpoint == "mid-write":
                self.disk.write(self.file, frame[: len(frame) // 2], self.size)
                self.disk.reach("mid-write")
            self.disk.write(self.file, frame, self.size)
        except OSError:
            try:
                self.disk.truncate(self.file, self.size)
            except OSError as error:
                self.broken = f"the journal cannot be cut back: {error.strerror}"
            raise
        self.disk.reach("after-write")
        self.before, self.size = self.size, self.size + len(frame)
        self.last += 1

    def sync(self) -> None:
        """All frames are on disk when this returns. A failure is final: what a second try says
        of pages that the system has dropped means nothing."""
        if self.synced == self.last:
            return
        try:
            self.disk.sync(self.file)
        except OSError as error:
            self.broken = f"the journal cannot be synced: {error.strerror}"
            raise
        self.disk.reach("after-sync")
        self.synced = self.last

    def take_back(self) -> None:
        """Cut off the last frame, which could not be synced: a restart shall not learn it either.
        That is likely, not certain; a client that sends it again under its number is safe."""
        with suppress(OSError):
            self.disk.truncate(self.file, self.before)

    def close(self) -> None:
        if self.file >= 0:
            self.disk.close(self.file)
            self.file = -1
