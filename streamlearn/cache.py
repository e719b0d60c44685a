"""Caches: the parsed blocks of a file on disk, for all readings after the first. Learns nothing.

A cache serves as long as its source has the size and time that it tells, or else the same
checksum. Where it cannot go on, because it is damaged or because a line is bad in the eyes of this
run, the text is read from there on: what is learned never depends on a cache.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress

from streamlearn._version import __version__
from streamlearn.cachefile import Draft, Header, Kept, Step
from streamlearn.engine.block import Block
from streamlearn.engine.checksum import Checksum
from streamlearn.engine.libsvm import Parser
from streamlearn.errors import DataError
from streamlearn.record import replace
from streamlearn.sources import Source, chunks, open_source, skip

SUFFIX = ".slcache"
# A file that was written so short a time ago may be written again without getting another time.
SETTLED_NS = 2_000_000_000


class Caches:
    """The caches of a run: where they are, and the files that it has given up to cache."""

    def __init__(self, folder: str | None, warn: Callable[[str], None]) -> None:
        self.folder, self.warn = folder, warn
        self.given_up: set[str] = set()

    def place(self, path: str) -> str:
        """The cache of a file: beside it; in a folder for all, its name tells the whole path."""
        if self.folder is None:
            return path + SUFFIX
        whole = zlib.crc32(os.fsencode(os.path.realpath(path)))
        return os.path.join(self.folder, f"{os.path.basename(path)}-{whole:08x}{SUFFIX}")

    def open(self, path: str) -> Source | CachedFile:
        return open_source(path) if path in self.given_up else CachedFile(path, self)

    def give_up(self, path: str, reason: str | None = None) -> None:
        """No more attempts in this run."""
        self.given_up.add(path)
        if reason is not None:
            self.warn(f"{path}: not cached: {reason}")


class BadRow(Exception):
    """A row that this run has to refuse; the text tells where and why."""


class CachedFile:
    """A file that is read as text once and from its cache then; a source like any other."""

    def __init__(self, name: str, caches: Caches) -> None:
        self.name, self.caches = name, caches
        self.place = caches.place(name)
        self.size: int | None = None
        self.position = 0  # in the text: all before it was handed out
        self.whole = False  # everything was
        self.bad = False  # this run has to refuse a line
        self.part: Kept | Made | Source | None = None

    @property
    def taken(self) -> int:
        """Bytes taken from the file so far."""
        return self.part.taken if self.part is not None else 0

    def blocks(
        self, block: Block, ring: Iterator[Block], parser: Parser
    ) -> Generator[Block, None, Block]:
        """Blocks as the parser would make them; returns the one that was not handed out.

        Unless `whole` is true in the end, the rest must be read from `text`.
        """
        self.part = part = self.kept() or Made(self.name, self.place, self.caches)
        self.size = part.size
        try:
            while step := part.fill(block):
                if parser.read_labels(block) >= 0:
                    raise BadRow
                parser.count(step.lines, step.blank)
                self.position += step.text
                if len(block):
                    yield block
                    block = next(ring)
            self.whole = True
        except BadRow:  # the parser will tell the column
            self.bad = True
            self.caches.give_up(self.name)
        except DataError as error:
            self.discard(error)
        finally:
            part.close()
        return block

    def text(self) -> Source:
        """The source, behind all that was handed out."""
        self.part = source = open_source(self.name)
        skip(source, self.position)
        return source

    def close(self) -> None:
        if self.part is not None:
            self.part.close()

    def kept(self) -> Kept | None:
        """The cache, if there is one that fits the source."""
        try:
            stream = open(self.place, "rb", buffering=0)  # noqa: SIM115 - closed below, or by Kept
        except OSError:
            return None
        try:
            kept = Kept(stream)
            if self.fits(kept.header):
                return kept
        except DataError as error:
            self.discard(error)
        except OSError:
            pass  # of the source: opening it will tell
        stream.close()
        return None

    def fits(self, header: Header) -> bool:
        """Whether the source is still the one that the cache was made from."""
        found = os.stat(self.name)
        if header.program != __version__.encode() or header.size != found.st_size:
            return False
        if header.mtime == found.st_mtime_ns:
            return True
        if header.checksum != checksum_of_file(self.name):
            return False
        # Touched only. Where the cache cannot be written to, it is compared again the next time.
        with suppress(OSError), open(self.place, "r+b", buffering=0) as stream:
            stream.write(replace(header, mtime=settled(found)).to_bytes())
        return True

    def discard(self, error: DataError) -> None:
        """A damaged cache teaches nothing, and is made anew in the next reading."""
        self.caches.warn(f"{self.place}: damaged: {error}; {self.name} is read instead")
        with suppress(OSError):
            os.unlink(self.place)


class Made:
    """Blocks from the text, with a cache in the making; it is in its place when all was read."""

    def __init__(self, name: str, place: str, caches: Caches) -> None:
        self.name, self.caches = name, caches
        self.source = open_source(name)
        self.size = self.source.size
        self.before = os.fstat(self.source.under.fileno())
        self.checksum = Checksum()
        self.source.watch(self.checksum.update)
        self.pieces = chunks(self.source)
        self.parser = Parser("any")  # keeps labels as they are written
        self.draft: Draft | None = None
        try:
            # whoever may not read the source may not read its cache
            self.draft = Draft(place, self.before.st_mode & 0o666 | 0o600)
        except OSError as error:
            self.give_up(error)

    @property
    def taken(self) -> int:
        return self.source.taken

    def fill(self, block: Block) -> Step | None:
        """The next rows; None behind the last ones. Raises BadRow where there is a bad line."""
        piece = next(self.pieces, None)
        if piece is None:
            self.finish()
            return None
        lines, blank = self.parser.line, self.parser.blank
        self.parser.parse(piece[0], 0, piece[1], block)
        if self.parser.fault:
            raise BadRow
        step = Step(piece[1], self.parser.line - lines, self.parser.blank - blank)
        if self.draft is not None:
            try:
                self.draft.add(block, step)
            except OSError as error:
                self.give_up(error)
        return step

    def finish(self) -> None:
        after = os.fstat(self.source.under.fileno())
        size, mtime = self.before.st_size, self.before.st_mtime_ns
        if self.draft is None:
            return
        if (after.st_size, after.st_mtime_ns, self.taken) != (size, mtime, size):
            self.caches.give_up(self.name, "it changed while it was read")
            return
        try:
            self.draft.publish(size, settled(after), self.checksum.value)
        except OSError as error:
            self.give_up(error)

    def give_up(self, error: OSError) -> None:
        """Learning goes on without."""
        self.caches.give_up(self.name, f"the cache cannot be written: {error.strerror}")
        self.close_draft()

    def close_draft(self) -> None:
        if self.draft is not None:
            self.draft.close()
            self.draft = None

    def close(self) -> None:
        self.close_draft()
        self.source.close()


def settled(found: os.stat_result) -> int:
    """The time of a file, or 0 if it is too recent to be relied on."""
    return found.st_mtime_ns if found.st_mtime_ns < time.time_ns() - SETTLED_NS else 0


def checksum_of_file(path: str) -> int:
    checksum = Checksum()
    buffer = bytearray(1 << 18)
    with open(path, "rb", buffering=0) as stream, memoryview(buffer) as view:
        while count := stream.readinto(buffer):
            checksum.update(view[:count])
    return checksum.value
