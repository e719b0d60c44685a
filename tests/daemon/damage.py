"""State folders with a known journal, and what must come of it when bytes of it are spoilt."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from daemon.history import NEVER, drive, ignore, text_of
from streamlearn.catalogue import resolve
from streamlearn.daemon.inbox import Inbox
from streamlearn.daemon.journal import HEADER_SIZE, Reader
from streamlearn.daemon.learning import Learning
from streamlearn.daemon.state import StateFolder
from streamlearn.errors import Damaged, ModelError
from streamlearn.training import Training

SETTINGS = resolve("averagesl", "logistic", {})


def fresh() -> Training:
    return Training(SETTINGS)


def agree(held: Training) -> None:
    pass


@dataclass
class Kept:
    """A folder with one checkpoint and one segment, as a killed daemon leaves it."""

    folder: Path
    segment: Path
    data: bytes  # of the segment
    ends: list[int]  # offsets: behind the header, behind each frame
    states: list[bytes]  # of the learner after so many frames

    @property
    def payloads(self) -> list[bytes]:
        return [bytes(frame.payload) for frame in Reader(self.folder, 0).frames()]


def made(folder: Path, frames: int = 8, rows: int = 12) -> Kept:
    """One batch a frame."""
    random = Random(frames)
    with StateFolder(str(folder)) as state:
        ledger = state.recover(fresh, agree)
        learning = Learning(ledger, Inbox(1 << 30), ignore, NEVER, state)
        assert state.journal
        ends, states = [state.journal.size], [ledger.training.to_bytes()]
        for number in range(1, frames + 1):
            text = text_of(random, rows)
            (reply,) = drive(learning, [{"client": "c", "seq": number, "text": text}])
            assert reply["learned"] == rows
            ends.append(state.journal.size)
            states.append(ledger.training.to_bytes())
    (segment,) = folder.glob("journal-*.slj")
    return Kept(folder, segment, segment.read_bytes(), ends, states)


def recovered(folder: Path) -> bytes:
    """The state that a daemon would start with."""
    with StateFolder(str(folder)) as state:
        return state.recover(fresh, agree).training.to_bytes()


def flip_journal(kept: Kept, bits: Callable[[int], Iterable[int]]) -> int:
    """Flip bits of each byte of the segment, one at a time; how many were flipped.

    Damage in the last frame may be a torn write: it is dropped and reported. Anywhere else it is an
    error that names the file and the offset of the frame.
    """
    payloads, starts = kept.payloads, [0, *kept.ends[:-1]]
    flipped = 0
    for place, bit in flips(kept.segment, bits):
        index = sum(end <= place for end in kept.ends)  # of its frame; 0: the header
        reader, found, said = Reader(kept.folder, 0), [], ""
        try:
            found = [bytes(frame.payload) for frame in reader.frames()]
        except Damaged as error:
            said = str(error)
        if index < len(payloads):
            where = f"{kept.segment}: damaged at offset {starts[index]:,d}:"
            assert where in said, f"byte {place}, bit {bit}: {said or 'not noticed'}"
        else:
            assert not said
            assert reader.torn
            assert reader.torn.offset == starts[index]
            assert found == payloads[:-1]
        flipped += 1
    return flipped


def flip_checkpoint(kept: Kept, bits: Callable[[int], Iterable[int]]) -> int:
    """The same for the checkpoint: always an error that names it."""
    path, flipped = kept.folder / "checkpoint.sl", 0
    with StateFolder(str(kept.folder)) as state:
        for place, bit in flips(path, bits):
            said = ""
            try:
                state.load()
            except ModelError as error:
                said = str(error)
            assert str(path) in said, f"byte {place}, bit {bit}: {said or 'not noticed'}"
            flipped += 1
    return flipped


def flips(path: Path, bits: Callable[[int], Iterable[int]]) -> Iterator[tuple[int, int]]:
    """(byte, bit): the file has that bit flipped until the next."""
    with path.open("r+b", buffering=0) as file:
        for place, right in enumerate(path.read_bytes()):
            for bit in bits(place):
                os.pwrite(file.fileno(), bytes([right ^ 1 << bit]), place)
                yield place, bit
            os.pwrite(file.fileno(), bytes([right]), place)


def cut_everywhere(kept: Kept, step: int = 1) -> int:
    """Cut the segment at every byte: whole frames are read, a part of one is reported."""
    payloads = kept.payloads
    for size in range(len(kept.data), -1, -step):
        os.truncate(kept.segment, size)
        reader = Reader(kept.folder, 0)
        found = [bytes(frame.payload) for frame in reader.frames()]
        whole = sum(end <= size for end in kept.ends[1:])
        assert found == payloads[:whole]
        boundary = kept.ends[whole] if size >= HEADER_SIZE else 0
        if size == boundary and size >= HEADER_SIZE:
            assert reader.torn is None
        else:
            assert reader.torn
            assert (reader.torn.offset, reader.torn.size) == (boundary, size)
    kept.segment.write_bytes(kept.data)
    return len(kept.data) // step + 1
