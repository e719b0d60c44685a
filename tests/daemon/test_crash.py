"""A real daemon, killed under load: nothing acked is lost, nothing is learned twice, same bits."""

from __future__ import annotations

import argparse
import importlib.util
import signal
import sys
import threading

import pytest

from daemon.conftest import adds_up
from daemon.siege import Siege
from streamlearn.client import Client
from streamlearn.daemon.disk import FAILPOINTS
from streamlearn.errors import Unavailable
from streamlearn.model import Model


@pytest.fixture
def besieged(tmp_path):
    """besieged(seed, durability, algo): a siege that is lifted in the end."""
    sieges = []

    def besieged(seed: int, durability: str = "always", algo: str = "averagesl") -> Siege:
        sieges.append(Siege(tmp_path / "state", seed, durability=durability, algo=algo))
        return sieges[-1]

    yield besieged
    for siege in sieges:
        siege.close()


@pytest.mark.parametrize(
    ("durability", "algo", "cycles"),
    [
        ("always", "adaptivesl", 9), ("always", "ftrl", 8), ("interval=1s", "optimalsl", 4),
        ("none", "rda", 4),
    ],
)  # fmt: skip
def test_kill_9_at_a_random_moment_loses_nothing(besieged, durability, algo, cycles):
    """25 cycles in all; `crash kill` goes on with that."""
    siege = besieged(len(durability + algo), durability, algo)
    for _ in range(cycles):
        siege.cycle()
        assert siege.violations == []
    assert siege.kills == cycles
    assert siege.batches > 10 * cycles
    assert siege.replica.ledger.t > 300


@pytest.mark.parametrize("points", [FAILPOINTS[0::2], FAILPOINTS[1::2]])
def test_death_at_every_failpoint_loses_nothing(besieged, points):
    """The first time each place is reached, and the third."""
    siege = besieged(7)
    if "first-start" in points:
        siege.start("first-start")
        siege.cycle()
    others = [name for name in points if name != "first-start"]
    for index, name in enumerate([*others, ""]):
        siege.cycle(name and f"{name}:{1 + 2 * (index % 2)}")
        assert siege.violations == []
    assert set(siege.failpoints) == set(points)


def test_sigterm_under_load_keeps_all_that_was_acked_and_leaves_nothing_to_replay(
    serve, fitted, rows, tmp_path
):
    lines = rows(20_000, 8)
    daemon = serve("--state", tmp_path / "state")
    sent, acked, failed = [], [], []

    def load() -> None:
        with Client(daemon.endpoint, timeout=2.0) as c:
            c.heard = lambda tag, reply: acked.append(tag)
            for start in range(0, len(lines), 10):
                sent.append(start)
                c.send({"text": b"".join(lines[start : start + 10])}, start)
                if start == 2500:
                    daemon.signal(signal.SIGTERM)

    def guarded() -> None:
        try:
            load()
        except Unavailable as error:
            failed.append(error)

    sender = threading.Thread(target=guarded)
    sender.start()
    daemon.ended(0)
    sender.join()
    assert failed  # the daemon did not come back: the client waited, then said so
    assert acked == sent[: len(acked)]
    (segment,) = (tmp_path / "state").glob("journal-*.slj")
    assert segment.stat().st_size == 24  # its header
    daemon = serve("--state", tmp_path / "state")
    with daemon.client() as c:
        status = c.status()
        assert 10 * len(acked) <= status["t"] <= 10 * len(sent)
        expected = fitted(b"".join(lines[: status["t"]]))
        assert c.snapshot().to_bytes() == expected.to_bytes()
        assert adds_up(status)
    assert "recovered" not in daemon.stop()


def test_a_second_sigterm_ends_at_once_and_loses_nothing(serve, rows, tmp_path):
    lines = rows(30_000, 9)
    daemon = serve("--state", tmp_path / "state")
    with daemon.client() as c:
        acks = []
        c.heard = lambda tag, reply: acks.append(reply.get("t", 0))
        c.flush()
        for start in range(0, len(lines), 1000):
            c.send({"text": b"".join(lines[start : start + 1000])})
        daemon.signal(signal.SIGTERM)
        daemon.signal(signal.SIGINT)
        code = daemon.process.wait(60)
        assert code in (0, 128 + signal.SIGTERM, 128 + signal.SIGINT)
        while c.socket.poll(0):
            c.hear()
        c.batches.clear()
        c.trouble = None
    daemon = serve("--state", tmp_path / "state")
    with daemon.client() as c:
        assert c.status()["t"] >= max(acks, default=0)
    daemon.stop()


def test_a_client_goes_on_by_itself_across_an_orderly_restart(serve, fitted, lines, tmp_path):
    first = serve("--state", tmp_path / "state")
    with first.client() as c:
        c.learn(b"".join(lines[:300]))
        first.stop()
        second = serve("--state", tmp_path / "state", bind=first.endpoint)
        c.learn(b"".join(lines[300:]))
        model = c.snapshot()
    assert model.to_bytes() == fitted(b"".join(lines)).to_bytes()
    second.stop()


def test_replay_rebuilds_the_model_of_a_killed_daemon(serve, fitted, run, lines, tmp_path):
    daemon = serve("--state", tmp_path / "state")
    with daemon.client() as c:
        c.learn(b"".join(lines[:200]))
        c.checkpoint()
        c.learn(b"".join(lines[200:]))
    daemon.process.kill()
    daemon.ended(-signal.SIGKILL)
    run("replay", tmp_path / "state", "-o", tmp_path / "again.sl")
    again = Model.load(str(tmp_path / "again.sl"))
    assert again.to_bytes() == fitted(b"".join(lines)).to_bytes()


# ---- the tool ------------------------------------------------------------------------------------


@pytest.fixture
def crash(root, monkeypatch):
    """tools/crash.py as a module."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec = importlib.util.spec_from_file_location("crash", root / "tools" / "crash.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_two_daemons_that_both_run_on_one_folder_are_a_violation(
    crash, monkeypatch, tmp_path, capfd
):
    words = [sys.executable, "-c", "import signal; signal.pause()"]
    monkeypatch.setattr(crash, "serving", lambda folder: words)
    assert crash.start(argparse.Namespace(starts=2, patience=0.2), tmp_path) == 1
    said = capfd.readouterr()
    assert said.err == "VIOLATION: 2 daemons run on one folder\n"
    assert "start: 2 at once: 2 runs, 0 ended: 1 violations in " in said.out


def test_many_daemons_started_by_the_tool_leave_one(crash, tmp_path, capfd):
    assert crash.start(argparse.Namespace(starts=4, patience=60.0), tmp_path) == 0
    assert "start: 4 at once: 1 runs, 3 ended: 0 violations in " in capfd.readouterr().out


def test_a_flipped_bit_that_nobody_notices_is_a_violation_and_the_rest_goes_on(
    crash, monkeypatch, tmp_path, capfd
):
    def unnoticed(kept, bits):
        kept.segment.write_bytes(b"spoilt")
        raise AssertionError("byte 3, bit 1: not noticed")

    monkeypatch.setattr(crash, "flip_journal", unnoticed)
    monkeypatch.setattr(crash, "flip_checkpoint", lambda kept, bits: 7)
    assert crash.bits(argparse.Namespace(), tmp_path) == 1
    said = capfd.readouterr()
    assert said.err == "VIOLATION: AssertionError: byte 3, bit 1: not noticed\n"
    assert " 7 in its checkpoint, 17,3" in said.out
    assert ": 1 violations in " in said.out
