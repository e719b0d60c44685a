"""System calls that fail, at the disk class and in a real daemon: only what is kept is acked."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daemon.conftest import Daemon, adds_up, until
from daemon.damage import SETTINGS, agree, fresh, recovered
from daemon.history import NEVER, Batch, drive, ignore, offline, same
from streamlearn.daemon.disk import Disk
from streamlearn.daemon.inbox import Inbox
from streamlearn.daemon.learning import Learning
from streamlearn.daemon.state import StateFolder
from streamlearn.errors import CannotCreate
from streamlearn.wire import Refusal

# ---- at the disk class ---------------------------------------------------------------------------


class Failing(Disk):
    """Calls fail by their name: {"rename": {2}} is the second. A write leaves half of it behind."""

    def __init__(self, plan: dict[str, set[int]] | None = None) -> None:
        super().__init__()
        self.plan = plan or {}
        self.counts: dict[str, int] = {}

    def fail_next(self, *calls: str) -> None:
        self.plan = {call: {self.counts.get(call, 0) + 1} for call in calls}

    def call(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1
        if self.counts[name] in self.plan.get(name, ()):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def open(self, path: Path) -> int:
        self.call("open")
        return super().open(path)

    def write(self, file: int, data: bytes | memoryview, offset: int) -> None:
        super().write(file, bytes(data)[: len(data) // 2], offset)
        self.call("write")
        super().write(file, data, offset)

    def sync(self, file: int) -> None:
        self.call("sync")

    def truncate(self, file: int, size: int) -> None:
        self.call("truncate")
        super().truncate(file, size)

    def rename(self, old: Path, new: Path) -> None:
        self.call("rename")
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        self.call("remove")
        super().remove(path)

    def sync_folder(self, path: Path) -> None:
        self.call("sync_folder")


def batches(lines: list[bytes], rows: int = 3) -> list[Batch]:
    texts = [b"".join(lines[at : at + rows]) for at in range(0, len(lines), rows)]
    return [Batch("c", seq, text) for seq, text in enumerate(texts, 1)]


def learning_of(state: StateFolder) -> Learning:
    return Learning(state.recover(fresh, agree), Inbox(1 << 30), ignore, NEVER, state)


@pytest.mark.parametrize("call", ["open", "truncate", "rename", "remove"])
def test_whatever_open_cut_rename_or_removal_fails_nothing_acked_is_lost(tmp_path, lines, call):
    """The n-th, for every n; checkpoints fail, and learning goes on."""
    failed, number = 0, 0
    while number == failed:  # until there is no n-th any more
        number += 1
        disk, folder = Failing({call: {number}}), tmp_path / str(number)
        state, acked = StateFolder(str(folder), disk=disk), []
        try:
            learning = learning_of(state)
        except CannotCreate:
            assert disk.counts[call] == number
            learning = None
        for step, batch in enumerate(batches(lines[:90]) if learning else ()):
            (reply,) = drive(learning, [batch.request()])
            assert reply["learned"] == 3
            acked.append(batch)
            if step % 5 == 4:
                learning.save()
            assert learning.figures["healthy"] is True
            assert os.fstat(state.journal.file).st_size == state.journal.size
        state.close()
        failed += disk.counts.get(call, 0) >= number
        with StateFolder(str(folder)) as again:
            same(again.recover(fresh, agree), offline(SETTINGS, acked))
    assert failed >= 6


@pytest.mark.parametrize("number", range(1, 11))
def test_half_a_frame_that_cannot_be_cut_off_stops_learning(tmp_path, lines, number):
    disk = Failing()
    with StateFolder(str(tmp_path), disk=disk) as state:
        learning = learning_of(state)
        *acked, lost, later = batches(lines)[: number + 2]
        for batch in acked:
            drive(learning, [batch.request()])
        disk.fail_next("write", "truncate")
        for batch in (lost, later, lost):
            (reply,) = drive(learning, [batch.request()])
            assert reply["code"] == "STORAGE"
        assert "the journal cannot be cut back: Input/output error" in learning.figures["trouble"]
        assert learning.figures["healthy"] is False
        assert learning.live().t == 3 * len(acked)  # predictions go on
        with pytest.raises(Refusal, match=r"cannot be cut back.*; restart the daemon"):
            learning.checkpoint()
    assert recovered(tmp_path) == offline(SETTINGS, acked).training.to_bytes()


def test_a_new_segment_that_can_neither_stay_nor_go_stops_learning(tmp_path, lines):
    """Its name is not on disk for sure, nor is it gone: a frame in either might not be found."""
    disk = Failing()
    with StateFolder(str(tmp_path), disk=disk) as state:
        learning = learning_of(state)
        first, second, *_ = batches(lines)
        drive(learning, [first.request()])
        # The first sync of the folder is that of the checkpoint, the second that of the segment.
        disk.fail_next("remove")
        disk.plan["sync_folder"] = {disk.counts["sync_folder"] + 2}
        learning.save()
        trouble = learning.figures["trouble"]
        assert "journal-00000000000000000002.slj: cannot be taken back: Input/output" in trouble
        (reply,) = drive(learning, [second.request()])
        assert reply["code"] == "STORAGE"
    assert recovered(tmp_path) == offline(SETTINGS, [first]).training.to_bytes()


def test_a_new_segment_that_is_taken_back_leaves_learning_to_the_old_one(tmp_path, lines):
    disk = Failing()
    with StateFolder(str(tmp_path), disk=disk) as state:
        learning = learning_of(state)
        first, second, *_ = batches(lines)
        drive(learning, [first.request()])
        disk.plan["sync_folder"] = {disk.counts["sync_folder"] + 2}
        learning.save()
        assert disk.counts["remove"] == 1
        assert drive(learning, [second.request()])[0]["learned"] == 3
    assert recovered(tmp_path) == offline(SETTINGS, [first, second]).training.to_bytes()


# ---- in a real daemon ----------------------------------------------------------------------------


@pytest.fixture
def injected(tmp_path: Path) -> Iterator[Callable[[Daemon, str], None]]:
    """injected(daemon, what): strace makes calls of a running daemon fail from now on."""
    if not shutil.which("strace"):
        pytest.skip("needs strace")
    begun: list[subprocess.Popen[bytes]] = []

    def injected(daemon: Daemon, what: str) -> None:
        said = tmp_path / "strace"
        with said.open("wb") as file:
            words = ["strace", "-f", "-o", os.devnull, "-e", f"inject={what}"]
            tracer = subprocess.Popen([*words, "-p", str(daemon.process.pid)], stderr=file)
        begun.append(tracer)
        until(lambda: b"attached" in said.read_bytes() or tracer.poll() is not None)
        if tracer.poll() is not None:
            pytest.skip(f"strace cannot be used here: {said.read_text().strip()}")

    yield injected
    for tracer in begun:
        tracer.kill()
        tracer.wait()


@pytest.mark.parametrize("number", [1, 2, 7])
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ("fdatasync", "EIO", "Input/output error"),
        ("fdatasync", "ENOSPC", "No space left on device"),
        ("pwrite64", "ENOSPC", "No space left on device"),
        ("pwrite64", "EIO", "Input/output error"),
    ],
)
def test_a_system_call_that_fails_is_told_and_nothing_acked_is_lost(
    serve, injected, fitted, lines, tmp_path, call, error, message, number
):
    daemon = serve("--state", tmp_path / "state")
    acked = 3
    with daemon.client() as c:
        assert c.learn(b"".join(lines[:3]))["learned"] == 3
        injected(daemon, f"{call}:error={error}:when={number}")
        for _ in range(number - 1):
            acked += c.learn(lines[acked])["learned"]
        with pytest.raises(Refusal, match=f"STORAGE: .*{message}; nothing was learned"):
            c.learn(lines[acked])
        status = c.status()
        assert status["healthy"] is False
        assert status["t"] == status["learned"] == acked
        assert adds_up(status)
        assert len(c.predict(lines[0])) == 1
        if call == "fdatasync":  # what a second try says means nothing
            with pytest.raises(Refusal, match=r"STORAGE: .*; restart the daemon"):
                c.learn(lines[acked])
        else:  # there is room again
            acked += c.learn(lines[acked])["learned"]
            assert c.status()["healthy"] is True
    daemon.process.kill()
    daemon.ended(-signal.SIGKILL)
    daemon = serve("--state", tmp_path / "state")
    with daemon.client() as c:
        assert c.status()["t"] == acked
        assert c.snapshot().to_bytes() == fitted(b"".join(lines[:acked])).to_bytes()
        assert c.learn(lines[acked])["t"] == acked + 1
    daemon.stop()
