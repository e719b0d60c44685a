"""The state folder: one daemon at a time; a checkpoint, and a journal of all that came after it.

    lock             held while a daemon runs; the process id of the last one is in it
    checkpoint.sl    the learner, the clients and the counters after journal frame `frame`
    journal-N.slj    what came after; see journal.py

Recovery is the checkpoint, then the journal, learned in the same order: the same bits.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from reprlib import repr as short
from typing import Any

import msgpack

from streamlearn import container
from streamlearn._version import __version__
from streamlearn.daemon.batches import Rows
from streamlearn.daemon.disk import Disk
from streamlearn.daemon.journal import Journal, Reader, first_of, segments
from streamlearn.daemon.ledger import Counts, End, Entry, Ledger
from streamlearn.daemon.sessions import Sessions
from streamlearn.durability import Durability
from streamlearn.engine.block import Block
from streamlearn.errors import (
    CannotCreate,
    Damaged,
    DataError,
    IoFailure,
    Locked,
    ModelError,
    NoInput,
)
from streamlearn.model import CONTRADICTIONS
from streamlearn.training import Training, whole

log = logging.getLogger("streamlearn")

FORMAT = "streamlearn-checkpoint"
SIGN_SECONDS = 0.5
COLUMNS = ("offsets", "ids", "values", "labels", "weights")


class StateFolder:
    """A folder that belongs to one daemon while it runs."""

    def __init__(
        self,
        path: str,
        durability: Durability | None = None,
        journal_bytes: int = 256 << 20,
        disk: Disk | None = None,
        reading: bool = False,
    ) -> None:
        self.path = Path(path)
        self.durability = durability or Durability()
        self.journal_bytes = journal_bytes
        self.disk = disk or Disk()
        self.journal: Journal | None = None
        self.reader: Reader | None = None  # of the journal, once it was replayed
        self.synced_at = time.monotonic()
        self.lock = -1
        if reading and not self.lock_path.is_file():
            if not self.kept:
                raise NoInput(f"{path}: no daemon has kept its state there")
            return  # a copy of a folder: no daemon runs here
        try:
            if not reading:
                self.make()
            flags = os.O_RDONLY if reading else os.O_RDWR | os.O_CREAT
            self.lock = os.open(self.lock_path, flags | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CannotCreate(f"{path}: cannot keep state there: {error.strerror}") from error
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = self.owner()
            os.close(self.lock)
            raise Locked(
                f"{path}: in use by the daemon with process id {owner}; stop it, or name another "
                "folder with --state"
            ) from error
        if not reading:
            self.sign()

    def make(self) -> None:
        """The folder; its name, too, must survive a power cut."""
        new = [place for place in (self.path, *self.path.parents) if not place.exists()]
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for place in new:
            self.disk.sync_folder(place.parent)

    def owner(self) -> str:
        """Who holds the lock. Right after a start it may not have signed yet."""
        deadline = time.monotonic() + SIGN_SECONDS
        while True:
            owner = os.pread(self.lock, 20, 0).decode("ascii", "replace").strip()
            if Path("/proc", owner or "none").exists() or time.monotonic() > deadline:
                return owner or "unknown"
            time.sleep(0.01)

    def sign(self) -> None:
        """Tell those who find the folder locked by whom."""
        try:
            os.ftruncate(self.lock, 0)
            os.pwrite(self.lock, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            os.close(self.lock)
            raise CannotCreate(f"{self.path}: cannot keep state there: {error.strerror}") from error

    @property
    def checkpoint_path(self) -> Path:
        return self.path / "checkpoint.sl"

    @property
    def lock_path(self) -> Path:
        return self.path / "lock"

    @property
    def kept(self) -> bool:
        """Whether there is anything to recover from."""
        return self.checkpoint_path.is_file() or (self.path.is_dir() and bool(segments(self.path)))

    def __enter__(self) -> StateFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self.journal:
            self.journal.close()
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1

    # ---- reading ---------------------------------------------------------------------------------

    def load(self) -> tuple[Ledger, int] | None:
        """The last checkpoint and the journal frame it was made after; None in a new folder."""
        name = str(self.checkpoint_path)
        if not self.checkpoint_path.exists():
            if segments(self.path):
                raise Damaged(f"{name}: is missing, but its journal is there; restore it")
            return None
        body = container.read_file(name, FORMAT)
        try:
            sessions = Sessions(body["sessions"])
            counts = Counts(**{name: whole(count) for name, count in body["counts"].items()})
            ledger = Ledger(Training.from_bytes(body["training"], name), sessions, counts)
            return ledger, whole(body["frame"])
        except CONTRADICTIONS as error:
            raise ModelError(f"{name}: not a whole checkpoint: {error}") from error

    def rebuild(self, ledger: Ledger, frame: int) -> tuple[Ledger, Reader]:
        """The ledger after the whole journal; if a batch diverges, as it was before that one, since
        nothing can be read out of it any more. Learning has stopped all the same."""
        reader, before = self.replay(ledger, frame), ledger.counts.batches
        if not ledger.stopped or (kept := self.load()) is None:
            return ledger, reader
        whole, frame = kept
        self.replay(whole, frame, before - whole.counts.batches - 1)
        whole.stopped = ledger.stopped
        return whole, reader

    def replay(self, ledger: Ledger, frame: int, most: int | None = None) -> Reader:
        """Enter every batch of the journal behind a frame, in order; at most so many."""
        reader = self.reader = Reader(self.path, frame)
        for found in reader.frames():
            try:
                entries = [unpacked(*entry) for entry in container.unpacked(found.payload)]
            except (*CONTRADICTIONS, DataError, msgpack.exceptions.UnpackException) as error:
                raise reader.spoilt(found, f"not what we write: {error}") from error
            for entry in entries[:most]:
                ledger.enter_again(entry)
            if most is not None:
                most = max(most - len(entries), 0)
        ledger.training.forget_labels(settled=True)  # the parser knows the classes of the learner
        return reader

    def recover(self, fresh: Callable[[], Training], check: Callable[[Training], None]) -> Ledger:
        """The ledger as it was left, or a new one; ready to record what comes next."""
        kept = self.load()
        if kept is None:
            self.disk.reach("first-start")
            ledger, frame = Ledger(fresh()), 0
        else:
            ledger, frame = kept
            check(ledger.training)
        # A segment is begun when the checkpoint before it is on disk, and then the others go. Else
        # that checkpoint may be in the system's cache only: its sync may have failed.
        settled = [first_of(path) for path in segments(self.path)] == [frame + 1]
        begin, before = time.monotonic(), ledger.t
        ledger, reader = self.rebuild(ledger, frame)
        seconds = time.monotonic() - begin
        if ledger.t > before:
            log.info(
                "recovered %d examples from %s bytes of journal in %.2f s",
                ledger.t - before, f"{reader.bytes:,d}", seconds,
            )  # fmt: skip
        if reader.torn:
            log.warning("%s", reader.torn)
        if not ledger.stopped:  # else nothing will be recorded
            as_it_was = settled and reader.last == frame
            try:
                self.open_journal(reader.last, None if as_it_was else ledger)
            except MemoryError as error:  # for its checkpoint; predictions need less
                why = f"no memory for a checkpoint: {error}; give the daemon more and restart it"
                ledger.stopped = End("MEMORY", why)
                log.critical("learning has stopped: %s. Predictions go on", why)
        return ledger

    def open_journal(self, last: int, ledger: Ledger | None = None) -> None:
        """Ready to record behind a frame; with a ledger that is in no checkpoint yet, after one.

        What was replayed may be in the system's cache only: the last daemon may have been killed
        before it was synced, or because it could not be. So nothing is built on it.
        """
        self.journal = Journal(self.path, self.disk, last)
        try:
            if ledger:
                self.checkpoint(ledger)
            else:
                self.journal.begin()
        except IoFailure as error:
            raise CannotCreate(str(error)) from error
        except OSError as error:
            raise CannotCreate(f"{self.path}: no journal: {error.strerror}") from error

    # ---- writing ---------------------------------------------------------------------------------

    @property
    def trouble(self) -> str | None:
        return self.journal.broken if self.journal else None

    @property
    def full(self) -> bool:
        """Whether a checkpoint is due to bound the journal."""
        return self.journal is not None and self.journal.size > self.journal_bytes

    def record(self, entries: list[Entry]) -> None:
        assert self.journal
        self.journal.append(msgpack.packb([packed(entry) for entry in entries]))
        if self.durability.policy == "always":
            try:
                self.journal.sync()
            except OSError:
                self.journal.take_back()
                raise

    def reach(self, place: str) -> None:
        self.disk.reach(place)

    def tend(self) -> float | None:
        """Sync when the interval is over; the seconds until it is, if there is anything to sync."""
        journal, interval = self.journal, self.durability.seconds
        if not journal or journal.synced == journal.last or self.durability.policy != "interval":
            return None
        left = self.synced_at + interval - time.monotonic()
        if left <= 0.0:
            with suppress(OSError):  # the journal knows that it is broken
                journal.sync()
            self.synced_at = time.monotonic()
            return None
        return left

    def checkpoint(self, ledger: Ledger) -> str:
        """Write all that going on depends on, then begin a new journal and drop the old one."""
        assert self.journal
        frame = self.journal.last
        data = container.pack(
            FORMAT,
            {
                "streamlearn": __version__,
                "frame": frame,
                "sessions": ledger.sessions.state(),
                "counts": asdict(ledger.counts),
                "training": ledger.training.to_bytes(),
            },
        )
        draft = self.checkpoint_path.with_suffix(".tmp")
        disk = self.disk
        try:
            self.journal.sync()
            disk.reach("checkpoint-begin")
            file = disk.open(draft)
            try:
                disk.truncate(file, 0)
                half = len(data) // 2
                disk.write(file, memoryview(data)[:half], 0)
                disk.reach("checkpoint-mid")
                disk.write(file, memoryview(data)[half:], half)
                disk.reach("checkpoint-before-sync")
                disk.sync(file)
            finally:
                disk.close(file)
            disk.reach("checkpoint-before-rename")
            disk.rename(draft, self.checkpoint_path)
            disk.reach("checkpoint-before-folder")
            disk.sync_folder(self.path)
            self.journal.begin()
            disk.reach("before-drop")
            self.journal.drop(frame)
        except OSError as error:
            with suppress(OSError):
                draft.unlink(missing_ok=True)  # its space may be what is missing
            raise IoFailure(f"{self.checkpoint_path}: {error.strerror}") from error
        return str(self.checkpoint_path)


def packed(entry: Entry) -> list[Any]:
    """A batch as the journal keeps it."""
    rows = entry.rows
    columns = None
    if not entry.rejected:
        arrays = rows.block.part(rows.first, rows.stop).arrays()
        columns = [arrays[name] for name in COLUMNS]
    return [
        entry.client, entry.seq, entry.rejected, rows.bad, rows.blank, entry.negative, columns,
        entry.refusal,
    ]  # fmt: skip


def unpacked(
    client: str | None,
    seq: int,
    rejected: int,
    bad: int,
    blank: int,
    negative: float | None,
    columns: list[bytes] | None,
    refusal: str = "",
) -> Entry:
    """The inverse; a ValueError where it is not what `packed` makes."""
    if not (client is None or type(client) is str) or type(refusal) is not str:
        raise ValueError(f"the client {short(client)} or the refusal {short(refusal)} is no text")
    if negative is not None and negative not in (-1.0, 0.0):
        raise ValueError(f"the negative class is not written {short(negative)}")
    for number in (seq, rejected, bad, blank):
        whole(number)
    block = Block()
    if columns is not None:
        block = Block.from_bytes(dict(zip(COLUMNS, columns, strict=True)))
    rows = Rows(block, 0, len(block), blank, bad)
    return Entry(rows, client, seq, rejected, refusal, negative)
