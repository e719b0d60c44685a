"""A disk that is full, broken, read-only or taken: no lie, no crash, nothing acked is lost."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import tempfile
from pathlib import Path

import pytest
from cli.conftest import PATIENCE

from daemon.conftest import adds_up, status_when
from daemon.damage import SETTINGS, agree, fresh, recovered
from daemon.history import NEVER, Batch, drive, ignore, offline, same
from streamlearn.daemon import learning as learning_module
from streamlearn.daemon.disk import Disk
from streamlearn.daemon.inbox import Inbox
from streamlearn.daemon.journal import LARGEST, Journal
from streamlearn.daemon.learning import Every, Learning
from streamlearn.daemon.state import StateFolder
from streamlearn.durability import Durability
from streamlearn.errors import CannotCreate
from streamlearn.training import Training
from streamlearn.wire import Refusal

SOON = 5.0  # seconds for a start that is refused: a second, on a machine with nothing else to do
FAILURES = [
    ("write", errno.ENOSPC),
    ("write", errno.EIO),
    ("sync", errno.EIO),
    ("sync", errno.ENOSPC),
]


class Failing(Disk):
    """The n-th write or sync fails, or all from there on; a write leaves half of it behind."""

    def __init__(self, call: str, number: int, code: int, for_good: bool = False) -> None:
        super().__init__()
        self.call, self.number, self.for_good = call, number, for_good
        self.error = OSError(code, os.strerror(code))
        self.count = 0

    def fails(self, call: str) -> bool:
        self.count += call == self.call
        reached = self.count >= self.number if self.for_good else self.count == self.number
        return call == self.call and reached

    def write(self, file: int, data: bytes | memoryview, offset: int) -> None:
        if self.fails("write"):
            super().write(file, bytes(data)[: len(data) // 2], offset)
            raise self.error
        super().write(file, data, offset)

    def sync(self, file: int) -> None:
        if self.fails("sync"):
            raise self.error

    def sync_folder(self, path: Path) -> None:
        if self.fails("sync"):
            raise self.error


def batches(lines: list[bytes], rows: int = 3) -> list[Batch]:
    texts = [b"".join(lines[at : at + rows]) for at in range(0, len(lines), rows)]
    return [Batch("c", seq, text) for seq, text in enumerate(texts, 1)]


@pytest.mark.parametrize("for_good", [False, True])
@pytest.mark.parametrize(("call", "code"), FAILURES)
def test_whatever_write_or_sync_fails_only_what_is_kept_is_acked(
    tmp_path, lines, call, code, for_good
):
    refused = 0
    for number in range(1, 51):
        folder = tmp_path / str(number)
        disk = Failing(call, number, code, for_good)
        acked: list[Batch] = []
        stopped, state = False, None
        try:
            state = StateFolder(str(folder), Durability("always"), disk=disk)
            ledger = state.recover(fresh, agree)
        except CannotCreate:
            if state:
                state.close()
            assert number <= 6  # of the first checkpoint, or of the first segment
            continue
        learning = Learning(ledger, Inbox(1 << 30), ignore, NEVER, state)
        waiting = batches(lines[:90])
        for step in range(40):
            if waiting:
                (reply,) = drive(learning, [waiting[0].request()])
                if "code" in reply:
                    assert reply["code"] == "STORAGE"
                    assert learning.figures["healthy"] is False
                    assert learning.live().t == ledger.t == 3 * len(acked)  # predictions go on
                    refused += 1
                else:
                    assert not stopped  # after a failed sync nothing is ever learned again
                    acked.append(waiting.pop(0))
                    assert learning.figures["healthy"] is True
            stopped = stopped or learning.trouble is not None
            if step % 10 == 5:
                learning.save()
            if not stopped:  # no half record
                assert os.fstat(state.journal.file).st_size == state.journal.size
        state.close()
        with StateFolder(str(folder)) as again:
            same(again.recover(fresh, agree), offline(SETTINGS, acked))
    assert refused >= 20


def test_a_failed_sync_stops_learning_and_shows_even_when_nothing_comes(tmp_path, lines, caplog):
    disk = Failing("sync", 99, errno.EIO, for_good=True)
    with StateFolder(str(tmp_path), Durability("interval", 1e-9), disk=disk) as state:
        learning = Learning(state.recover(fresh, agree), Inbox(1 << 30), ignore, NEVER, state)
        (first, second, *_) = batches(lines)
        drive(learning, [first.request()])
        disk.number = 1
        learning.keep_up()
        assert learning.figures["healthy"] is False
        assert "the journal cannot be synced: Input/output error" in learning.figures["trouble"]
        assert "learning has stopped" in caplog.text
        (reply,) = drive(learning, [second.request()])
        assert reply["code"] == "STORAGE"
        with pytest.raises(Refusal, match="STORAGE"):
            learning.checkpoint()
    assert recovered(tmp_path) == offline(SETTINGS, [first]).training.to_bytes()


def test_a_duplicate_of_what_was_acked_is_told_so_though_its_group_is_lost(tmp_path, lines):
    disk = Failing("write", 99, errno.ENOSPC)
    with StateFolder(str(tmp_path), disk=disk) as state:
        learning = Learning(state.recover(fresh, agree), Inbox(1 << 30), ignore, NEVER, state)
        one, two, three, *_ = (batch.request() for batch in batches(lines))
        drive(learning, [one])
        disk.number = disk.count + 1
        replies = drive(learning, [one, two, two, three])
        assert [reply.get("code") for reply in replies] == [None, *["STORAGE"] * 3]
        assert replies[0]["duplicate"]
        replies = drive(learning, [two, two, three])
        assert [reply.get("duplicate", False) for reply in replies] == [False, True, False]
        assert adds_up(learning.figures)


def test_labels_of_a_lost_group_decide_nothing(tmp_path):
    disk = Failing("write", 99, errno.ENOSPC)
    with StateFolder(str(tmp_path), disk=disk) as state:
        learning = Learning(state.recover(fresh, agree), Inbox(1 << 30), ignore, NEVER, state)
        disk.number = disk.count + 1
        assert drive(learning, [{"text": b"-1 1:1\n"}])[0]["code"] == "STORAGE"
        assert drive(learning, [{"text": b"0 1:1\n"}])[0]["learned"] == 1
    with StateFolder(str(tmp_path)) as state:
        training = state.recover(fresh, agree).training
    assert training.parser.labels == (0.0, 1.0)


def test_a_failed_checkpoint_leaves_no_draft_and_is_not_tried_with_every_batch(tmp_path, lines):
    disk = Failing("write", 99, errno.ENOSPC)
    with StateFolder(str(tmp_path), Durability("always"), 300, disk) as state:
        learning = Learning(state.recover(fresh, agree), Inbox(1 << 30), ignore, NEVER, state)
        for batch in batches(lines[:30]):
            drive(learning, [batch.request()])
        assert state.full
        disk.number, disk.for_good = disk.count + 1, True
        learning.keep_up()
        tries = disk.count
        assert learning.keep_up() > 1.0  # seconds
        assert disk.count == tries
        assert not list(tmp_path.glob("*.tmp"))


def test_a_group_too_large_for_a_frame_is_refused_not_written(tmp_path):
    journal = Journal(tmp_path, Disk(), 0)
    journal.begin()

    class Large(bytes):
        def __len__(self) -> int:
            return LARGEST + 1

    with pytest.raises(OSError, match="beyond 1 GiB"):
        journal.append(Large())
    journal.close()


@pytest.mark.parametrize("place", [0, 1, 2, 5])
def test_what_is_kept_but_not_learned_in_time_is_told_so_and_learned_by_the_next_start(
    tmp_path, lines, monkeypatch, place
):
    """Time is up at a row of any batch of a group: half a batch, too, is in no checkpoint."""
    group = batches(lines[:18])
    monkeypatch.setattr(learning_module, "STRETCH_SECONDS", 0.0)  # row by row
    with StateFolder(str(tmp_path)) as state:
        learning = Learning(state.recover(fresh, agree), Inbox(1 << 30), ignore, NEVER, state)
        learn, stop = learning.ledger.learn, 3 * place + 1

        def hurry(block, name):
            learning.hurried = learning.ledger.t + 1 == stop
            return learn(block, name)

        monkeypatch.setattr(learning.ledger, "learn", hurry)
        replies = drive(learning, [batch.request() for batch in [*group, group[0], group[-1]]])
        assert [reply.get("code") for reply in replies[:6]] == [
            *[None] * place,
            *["STOPPING"] * (6 - place),
        ]
        assert all(reply["kept"] for reply in replies[place:6])
        assert [reply.get("duplicate", False) for reply in replies[6:]] == [place > 0, False]
        assert drive(learning, [Batch("d", 1, lines[0]).request()])[0]["code"] == "STOPPING"
        assert learning.stop() == {"t": stop}
        with pytest.raises(Refusal, match="STOPPING"):
            learning.checkpoint()
    with StateFolder(str(tmp_path)) as state:
        ledger = state.recover(fresh, agree)
        same(ledger, offline(SETTINGS, group))
        learning = Learning(ledger, Inbox(1 << 30), ignore, NEVER, state)
        (reply,) = drive(learning, [group[-1].request()])
        assert (reply["duplicate"], reply["t"]) == (True, 18)


def learn_more_and_more(client, texts):
    """New features all the time, each text a single batch, until that is refused."""
    while True:
        first = 10_000 * len(texts)
        rows = [
            b" ".join(b"%d:1" % (7919 * (first + 100 * row + k)) for k in range(100))
            for row in range(100)
        ]
        texts.append(b"".join(b"%d %b\n" % (n % 2, row) for n, row in enumerate(rows)))
        client.learn(texts[-1])


def test_a_daemon_without_memory_goes_on_serving_and_has_all_after_a_restart(serve, fitted):
    flags = ("--algo", "averagesl", "--checkpoint-every", "0", "--state", "state")
    daemon, texts = serve(*flags, "--publish-every", "100000s"), []
    with daemon.client() as c:
        c.learn(b"1 1:1\n0 2:1\n")
        status_when(c, lambda status: status["published_t"] == 2)
        size = Path(f"/proc/{daemon.process.pid}/statm").read_text().split()[0]
        bound = int(size) * resource.getpagesize() + (64 << 20)
        resource.prlimit(daemon.process.pid, resource.RLIMIT_AS, (bound, bound))
        with pytest.raises(Refusal, match=r"MEMORY: .*no memory"):
            learn_more_and_more(c, texts)
        status = c.status()
        assert (status["healthy"], status["t"]) == (False, 2 + 100 * (len(texts) - 1))
        assert len(c.margins([[0, 1.0, 0]])) == 1
        with pytest.raises(Refusal, match="MEMORY"):
            c.learn(b"1 1:1\n")
    daemon.process.kill()
    daemon.process.wait()
    again = serve(*flags)
    with again.client() as c:  # the batch that was in the journal, too
        assert c.status()["t"] == 2 + 100 * len(texts)
        expected = fitted(b"1 1:1\n0 2:1\n" + b"".join(texts), "--algo", "averagesl")
        assert c.snapshot().to_bytes() == expected.to_bytes()
    again.stop()


def test_a_start_without_memory_for_its_checkpoint_serves_what_it_has(tmp_path, lines, monkeypatch):
    group = batches(lines[:12])
    with StateFolder(str(tmp_path)) as state:
        learning = Learning(state.recover(fresh, agree), Inbox(1 << 30), ignore, NEVER, state)
        drive(learning, [batch.request() for batch in group])

    def scarce(training):
        raise MemoryError("no memory for so many bytes")

    with monkeypatch.context() as patched, StateFolder(str(tmp_path)) as state:
        patched.setattr(Training, "to_bytes", scarce)
        ledger = state.recover(fresh, agree)
        assert ledger.stopped.code == "MEMORY"
        learning = Learning(ledger, Inbox(1 << 30), ignore, NEVER, state)
        assert learning.live().t == 12
        assert drive(learning, [group[0].request()])[0]["code"] == "MEMORY"
        assert learning.stop() == {"t": 12}
    with StateFolder(str(tmp_path)) as state:
        same(state.recover(fresh, agree), offline(SETTINGS, group))


@pytest.mark.parametrize("within", [0, 2])
def test_memory_that_runs_out_stops_learning_and_not_the_daemon(
    tmp_path, lines, monkeypatch, within
):
    """Live, and at every start behind that; with more memory all that was kept is learned."""
    group = batches(lines[:12])
    monkeypatch.setattr(learning_module, "STRETCH_SECONDS", 1e9)  # all in one block
    learn, enough = Training.learn, False

    def scarce(training, block, name):
        room = 6 + within - training.learner.t
        if enough or len(block) <= room:
            return learn(training, block, name)
        if within:
            learn(training, block.part(0, room), name)
        raise MemoryError("no memory for 1024 features")

    monkeypatch.setattr(Training, "learn", scarce)
    with StateFolder(str(tmp_path)) as state:
        learning = Learning(state.recover(fresh, agree), Inbox(1 << 30), ignore, NEVER, state)
        drive(learning, [batch.request() for batch in group[:2]])
        assert learning.live().t == 6
        replies = drive(learning, [batch.request() for batch in group[2:]])
        assert [reply["code"] for reply in replies] == ["MEMORY", "MEMORY"]
        figures = learning.figures
        assert (figures["t"], figures["learned"], figures["rejected"]) == (
            6 + within, 6 + within, 3 - within,
        )  # fmt: skip
        assert adds_up(figures)
        assert figures["healthy"] is False
        assert "no memory for 1024 features; give the daemon more" in figures["trouble"]
        assert learning.live().t == 6  # predictions go on
        with pytest.raises(Refusal, match="MEMORY"):
            learning.checkpoint()
        assert learning.stop() == {"t": 6 + within}
    for _ in range(2):
        with StateFolder(str(tmp_path)) as state:
            ledger = state.recover(fresh, agree)
            assert ledger.stopped.code == "MEMORY"
            learning = Learning(ledger, Inbox(1 << 30), ignore, NEVER, state)
            same(ledger, offline(SETTINGS, group[:2]))
            assert learning.live().t == 6
            assert drive(learning, [group[2].request()])[0]["code"] == "MEMORY"
    enough = True
    with StateFolder(str(tmp_path)) as state:
        same(state.recover(fresh, agree), offline(SETTINGS, group))


def test_without_memory_for_a_model_or_a_checkpoint_learning_goes_on(tmp_path, lines, monkeypatch):
    def exhausted(*_, **options):
        raise MemoryError("no memory")

    with StateFolder(str(tmp_path)) as state:
        every = Every(seconds=1e-9)
        learning = Learning(state.recover(fresh, agree), Inbox(1 << 30), ignore, every, state, 1e-9)
        one, two, *_ = batches(lines)
        drive(learning, [one.request()])
        with monkeypatch.context() as patch:
            patch.setattr(Training, "model", exhausted)
            patch.setattr(Training, "to_bytes", exhausted)
            assert learning.keep_up() > 0.0
            assert learning.published.model.t == 0
        assert drive(learning, [two.request()])[0]["t"] == 6
        learning.publish_after = 0.0
        learning.keep_up()
        assert learning.published.model.t == learning.checkpointed_t == 6


# ---- real daemons --------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [8_000, 30_000])
def test_a_full_disk_is_told_and_nothing_acked_is_lost(serve, fitted, rows, tmp_path, limit):
    """By RLIMIT_FSIZE: a write is cut in the middle, as on a full disk."""
    lines = rows(3000, 7)
    daemon = serve(
        "--state",
        tmp_path / "state",
        env={"PYTHONDONTWRITEBYTECODE": "1"},  # it would cut those files, too
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    acked = []

    def fill(c) -> None:
        for start in range(0, len(lines), 10):
            acked.append(c.learn(b"".join(lines[start : start + 10]))["learned"])

    with daemon.client() as c:
        with pytest.raises(Refusal, match=r"STORAGE: .*File too large; nothing was learned"):
            fill(c)
        learned = sum(acked)
        status = c.status()
        assert not status["healthy"]
        assert status["t"] == status["learned"] == learned > 0
        assert adds_up(status)
        assert len(c.predict(lines[0])) == 1
    daemon.process.kill()
    daemon.ended(-signal.SIGKILL)
    daemon = serve("--state", tmp_path / "state")
    with daemon.client() as c:
        assert c.status()["t"] == learned
        assert c.snapshot().to_bytes() == fitted(b"".join(lines[:learned])).to_bytes()
        assert c.learn(lines[learned])["t"] == learned + 1
    daemon.stop()


def obey_modes() -> None:
    """Root may write anywhere, unless that right is dropped: prctl(PR_CAPBSET_DROP, 1)."""
    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)


def test_a_folder_that_cannot_be_written_ends_the_start_with_73(serve, tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "state", Path("/proc/state")):
        log = serve("--state", place, listens=False).ended(73, SOON)
        assert f"{place}: cannot keep state there: " in log
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        log = serve("--state", folder, listens=False, preexec_fn=obey_modes).ended(73, SOON)
        assert f"{folder}: cannot keep state there: Permission denied" in log
        new = serve("--state", f"{folder}/new", listens=False, preexec_fn=obey_modes)
        log = new.ended(73, SOON)
        assert "cannot keep state there: Permission denied" in log
        os.chmod(folder, 0o755)


def test_a_second_daemon_is_refused_and_told_of_the_first(serve, tmp_path):
    first = serve("--state", tmp_path / "state")
    log = serve("--state", tmp_path / "state", listens=False).ended(75, SOON)
    assert f"in use by the daemon with process id {first.process.pid};" in log
    first.process.kill()
    first.ended(-signal.SIGKILL)
    third = serve("--state", tmp_path / "state")  # free at once
    third.stop()


def test_of_many_daemons_at_once_exactly_one_wins(serve, tmp_path):
    daemons = [serve("--state", tmp_path / "state", listens=False) for _ in range(20)]
    winners = []
    for daemon in daemons:
        with daemon.more:
            assert daemon.more.wait_for(
                lambda: any("requests on" in line or line == "<end>" for line in daemon.log),  # noqa: B023
                timeout=PATIENCE,
            )
        if "<end>" not in daemon.log:
            winners.append(daemon)
    (winner,) = winners
    for daemon in daemons:
        if daemon is not winner:
            assert f"process id {winner.process.pid};" in daemon.ended(75)
    with winner.listen().client() as c:
        assert c.learn(b"+1 1:1\n")["learned"] == 1
    winner.stop()


def test_settings_that_disagree_with_the_folder_change_nothing(serve, tmp_path):
    serve("--state", tmp_path / "state", "--algo", "sgd").stop()
    held = sorted((p.name, p.read_bytes()) for p in (tmp_path / "state").glob("*.sl*"))
    daemon = serve("--state", tmp_path / "state", "--algo", "ftrl", listens=False)
    assert "algo" in daemon.ended(64)
    assert sorted((p.name, p.read_bytes()) for p in (tmp_path / "state").glob("*.sl*")) == held
