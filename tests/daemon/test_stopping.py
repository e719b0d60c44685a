"""How a daemon ends: in order, in time, or at once."""

from __future__ import annotations

import re
import shutil
import signal
import time

import msgpack
import pytest
import zmq

from daemon.conftest import PATIENCE, adds_up, until
from streamlearn import container
from streamlearn.catalogue import resolve
from streamlearn.daemon import server
from streamlearn.daemon.ledger import Ledger
from streamlearn.daemon.server import Options, Server
from streamlearn.training import Training
from streamlearn.wire import Refusal

NEVER = ("--publish-every", "100000s")


def kept(folder):
    """The training in a state folder."""
    body = container.read_file(str(folder / "checkpoint.sl"), "streamlearn-checkpoint")
    return Training.from_bytes(body["training"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_under_load_keeps_all_that_was_acked(serve, lines, fitted, tmp_path, number):
    """Every batch is answered: learned and saved, or sent back; nothing between."""
    daemon = serve("--state", "state")
    acks = []
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        socket.connect(daemon.endpoint)
        for i, line in enumerate(lines):
            socket.send(msgpack.packb({"v": 1, "id": i, "do": "learn", "text": line}))
            if i == 200:
                acks.append(msgpack.unpackb(socket.recv()))
                daemon.signal(number)
        log = daemon.ended()
        while socket.poll(0):
            acks.append(msgpack.unpackb(socket.recv()))
    learned = [reply["id"] for reply in acks if reply["ok"]]
    assert learned == list(range(len(learned)))
    assert learned
    assert all(reply["code"] == "STOPPING" for reply in acks if not reply["ok"])
    assert f"stopping: {number.name}" in log
    assert f"stopped at {len(learned)} examples" in log
    expected = fitted(b"".join(lines[: len(learned)]))
    assert kept(tmp_path / "state").model().to_bytes() == expected.to_bytes()


def test_the_next_start_goes_on_bit_for_bit(serve, rows, fitted):
    lines = rows(600, seed=3, labels=("0", "1"))
    for i, number in enumerate((signal.SIGTERM, signal.SIGINT, signal.SIGTERM)):
        daemon = serve("--state", "state", "--algo", "averagesl", "--l1", "0.001")
        with daemon.client() as c:
            assert c.status()["t"] == 200 * i
            c.learn(b"".join(lines[200 * i : 200 * i + 200]) + b"bad\n", on_error="skip")
        daemon.signal(number)
        daemon.ended()
    daemon = serve("--state", "state")  # what was learned with is in the state
    with daemon.client() as c:
        assert c.config()["algo"] == "averagesl"
        assert c.margins("0 1:1\n").tolist() == c.snapshot().margins([[0, 1]]).tolist()
        status = c.status()
        assert (status["learned"], status["skipped"], status["received"]) == (600, 3, 603)
        assert adds_up(status)
        model = c.snapshot()
    text = b"".join([*lines[:200], b"bad\n", *lines[200:400], b"bad\n", *lines[400:], b"bad\n"])
    flags = ("--algo", "averagesl", "--l1", "0.001", "--on-error", "skip")
    assert model.to_bytes() == fitted(text, *flags).to_bytes()


def test_what_moves_no_t_is_kept_too(serve, tmp_path):
    for expected in (1, 2):
        daemon = serve("--state", "state")
        with daemon.client() as c:
            c.learn(b"bad\n", on_error="skip")
            assert c.status()["skipped"] == expected
        daemon.stop()
    assert kept(tmp_path / "state").counters["bad_lines"] == 2


def test_lines_that_reached_the_feed_are_learned_before_the_end(serve, lines, fitted, tmp_path):
    daemon = serve("--state", "state")
    with daemon.client() as c:
        c.feed(b"".join(lines[:10]))
        until(lambda: c.status()["t"] == 10)
        daemon.signal(signal.SIGSTOP)
        for line in lines[10:]:
            c.feed(line)
        # In the kernel's hands once the feeder has nothing left to send.
        c.feeder.close(linger=int(1000 * PATIENCE))
        c.feeder = None
        daemon.signal(signal.SIGCONT)
        until(lambda: c.status()["t"] > 10)
        daemon.signal(signal.SIGTERM)
        daemon.ended()
    t = kept(tmp_path / "state").learner.t
    expected = fitted(b"".join(lines[:t]))
    assert kept(tmp_path / "state").model().to_bytes() == expected.to_bytes()


SLOW = ("--algo", "ssg", "--l1", "0")  # an example costs O(features), all of them to the end
WIDE = ("1 " + " ".join(f"{i}:1" for i in range(1, 60_001)) + "\n").encode()
BATCH = b"0 1:1\n1 2:1\n" * 1000


def too_many(client):
    """Batches that take longer to learn than a stop may, here and now; learns one to know.

    No more of them than are kept together.
    """
    begin = time.monotonic()
    client.learn(BATCH)
    return min(2 + int(9.0 / (time.monotonic() - begin)), 60)


def test_a_second_signal_ends_at_once(serve, tmp_path):
    daemon = serve(*SLOW, *NEVER, "--state", "state")
    with daemon.client() as c:
        c.learn(WIDE)
        before = (tmp_path / "state" / "checkpoint.sl").read_bytes()
        for _ in range(31):
            c.send({"text": b"0 1:1\n1 2:1\n" * 5000})
        daemon.signal(signal.SIGTERM)
        daemon.wait_for("stopping: SIGTERM")
        daemon.signal(signal.SIGTERM)
        log = daemon.ended(code=128 + signal.SIGTERM)
        c.batches.clear()
    assert "SIGTERM again: ending at once" in log
    assert "stopped at" not in log
    assert (tmp_path / "state" / "checkpoint.sl").read_bytes() == before


def test_two_signals_in_one_moment_end_it_as_well(serve):
    daemon = serve()
    daemon.signal(signal.SIGSTOP)
    daemon.signal(signal.SIGTERM)
    daemon.signal(signal.SIGINT)
    daemon.signal(signal.SIGCONT)
    assert daemon.process.wait(PATIENCE) in (128 + signal.SIGTERM, 128 + signal.SIGINT)


def test_while_it_drains_it_takes_no_more_but_answers(serve):
    daemon = serve(*SLOW, *NEVER)
    with daemon.client() as c, daemon.client() as other:
        c.learn(WIDE)
        for _ in range(10):
            c.send({"text": b"0 1:1\n1 2:1\n" * 100})
        until(lambda: other.status()["queued"] >= 9)
        daemon.signal(signal.SIGTERM)
        daemon.wait_for("stopping: SIGTERM")
        with pytest.raises(Refusal, match="STOPPING"):
            other.request("learn", text=b"1 1:1\n")
        assert other.margins("1 1:1\n").shape == (1,)
        c.flush()
    assert "stopped at 2001 examples" in daemon.ended()


def test_every_shutdown_is_answered(serve):
    daemon = serve(*SLOW, *NEVER)
    with daemon.client() as c, daemon.client() as other:
        c.learn(WIDE)
        for _ in range(10):
            c.send({"text": b"0 1:1\n1 2:1\n" * 100})
        until(lambda: other.status()["queued"] >= 9)
        for number in range(3):
            body = {"v": 1, "id": number, "do": "shutdown"}
            other.socket.send(msgpack.packb(body))
        for number in range(3):
            assert other.socket.poll(int(1000 * PATIENCE))
            reply = msgpack.unpackb(other.socket.recv())
            assert reply == {"v": 1, "id": number, "ok": True, "t": 2001}
        c.flush()
    daemon.ended()


def test_what_takes_too_long_to_drain_is_sent_back(serve):
    daemon = serve(*SLOW, *NEVER)  # half a batch is learned, too, but not acked
    with daemon.client(timeout=5.0) as c, daemon.client() as other:
        c.learn(WIDE)
        count = too_many(c)
        for _ in range(count):
            c.send({"text": BATCH})
        until(lambda: other.status()["queued"] >= 0.7 * count)
        daemon.signal(signal.SIGTERM)
        log = daemon.ended()
        acked = 0
        while c.socket.poll(0):
            reply = msgpack.unpackb(c.socket.recv())
            acked += reply["ok"]
            assert reply["ok"] or reply["code"] == "STOPPING"
        acked += count - len(c.batches)
        c.batches.clear()
    assert "the rest is sent back" in log
    assert 0 < acked < count
    assert f" learned={1 + 2000 * (1 + acked)} " in log


def test_sigterm_ends_in_time_and_the_next_start_learns_what_only_the_journal_has(serve, fitted):
    """The batches are read and kept together; to learn them takes longer than a stop may."""
    daemon = serve(*SLOW, *NEVER, "--state", "state")
    with daemon.client() as c, daemon.client() as other:
        c.learn(WIDE)
        count = too_many(c)
        for _ in range(count):
            c.send({"text": BATCH})
        until(lambda: other.status()["queued"] >= count - 1)
        begin = time.monotonic()
        daemon.signal(signal.SIGTERM)
        log = daemon.ended()
        assert time.monotonic() - begin < 10.0
        assert "the next start learns it" in log
        assert "checkpoint of" not in log
        daemon = serve("--state", "state", *NEVER, bind=daemon.endpoint)
        learned = int(re.search(r"stopped at (\d+) examples", log)[1])
        recovered = int(re.search(r"recovered (\d+) examples", daemon.wait_for("recovered"))[1])
        total = 1 + 2000 * (1 + count)
        assert learned < recovered <= total
        c.flush()  # what was not answered is sent again
        status = c.status()
        assert status["t"] == status["learned"] == total
        assert status["duplicate"] > 0
        assert adds_up(status)
        model = c.snapshot()
    assert model.to_bytes() == fitted(WIDE + BATCH * (1 + count), *SLOW).to_bytes()


def test_a_checkpoint_that_fails_in_the_end_is_told(serve, lines, tmp_path):
    daemon = serve("--state", "state")
    with daemon.client() as c:
        c.learn(b"".join(lines))
        shutil.rmtree(tmp_path / "state")
        with pytest.raises(Refusal, match="STORAGE"):
            c.checkpoint()
        assert c.learn(lines[0])["learned"] == 1  # that is no reason to stop
        with pytest.raises(Refusal, match="STORAGE"):
            c.shutdown()
    assert "what was learned last is not saved" in daemon.ended(code=74)


def test_a_feed_that_brings_more_and_more_does_not_keep_it_from_stopping(tmp_path, monkeypatch):
    places = [[f"ipc://{tmp_path}/{name}"] for name in ("requests", "feed", "publish")]
    running = Server(Ledger(Training(resolve("averagesl", "logistic", {}))), Options(*places))
    deadline = time.monotonic() + PATIENCE

    class Endless:
        def poll(self, timeout):
            assert time.monotonic() < deadline
            return zmq.POLLIN

    monkeypatch.setattr(server, "LAST_SECONDS", 0.01)
    monkeypatch.setattr(running, "feed", Endless())
    monkeypatch.setattr(running, "take_feed", lambda: None)  # learned as fast as it comes
    try:
        running.stop("a test")
        assert running.stopping
    finally:
        running.context.destroy(linger=0)
        running.close()
