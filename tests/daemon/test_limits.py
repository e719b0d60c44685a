"""Limits on clients and rates: who is beyond them is told BUSY, counted, and served later."""

from __future__ import annotations

import resource
import signal
import time

import msgpack
import numpy as np
import pytest
import zmq

from daemon.conftest import PATIENCE, adds_up, status_when, until, wide_text
from streamlearn import wire
from streamlearn.daemon import limits
from streamlearn.daemon.limits import IDLE_SECONDS, LENT_BYTES, Limits
from streamlearn.wire import Refusal


def test_one_client_too_many_is_turned_away_until_another_falls_silent():
    bound = Limits(clients=2, rate=0)
    bound.admit("anna", 10, 0.0)
    bound.admit("bert", 10, 1.0)
    with pytest.raises(Refusal, match="BUSY: 2 clients are served, --max-clients"):
        bound.admit("carl", 10, 2.0)
    bound.admit("anna", 10, 50.0)
    bound.admit("carl", 10, 1.0 + IDLE_SECONDS)  # bert was silent for so long
    with pytest.raises(Refusal):
        bound.admit("bert", 10, 2.0 + IDLE_SECONDS)
    assert set(bound.peers) == {"anna", "carl"}
    assert bound.turned_away == 2


def test_each_client_has_a_rate_of_its_own():
    bound = Limits(clients=0, rate=100)
    bound.admit("anna", 60, 0.0)
    bound.admit("anna", 60, 0.0)  # overdrawn by 20
    with pytest.raises(Refusal, match="BUSY: more than 100 bytes a second") as refused:
        bound.admit("anna", 1, 0.1)
    bound.admit("bert", 100, 0.1)
    wait = refused.value.details["wait"]
    assert wait == pytest.approx(0.11)
    bound.admit("anna", 1, 0.1 + wait)


def test_over_a_long_time_the_rate_holds_whatever_the_sizes():
    bound = Limits(clients=0, rate=1000)
    sent, largest = 0, 5000
    for step in range(100_000):
        size = (step * 7919) % largest
        try:
            bound.admit("anna", size, step / 1000)
        except Refusal:
            continue
        sent += size
    assert 0.99 * 100 * 1000 < sent < 100 * 1000 + 1000 + largest


def test_without_bounds_nothing_is_kept():
    bound = Limits(0, 0)
    for number in range(100):
        bound.admit(number, 1 << 30, 0.0)
    assert not bound.peers


def test_silent_clients_are_forgotten_though_only_rates_are_bounded():
    bound = Limits(clients=0, rate=1000)
    for number in range(1000):
        bound.admit(number, 1, float(number))
    assert len(bound.peers) == IDLE_SECONDS


def test_a_process_may_open_all_the_files_it_can_and_warns_when_they_are_few(monkeypatch):
    asked = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 1000))
    monkeypatch.setattr(resource, "setrlimit", lambda which, pair: asked.append(pair))
    assert limits.allow_files(500) is None
    assert asked == [(1000, 1000)]
    assert "only 1000 files may be open here: too few for 4096 clients" in limits.allow_files(4096)


def test_large_replies_are_lent_only_so_far():
    bound = Limits(0, 0)
    bound.lend("anna", 3 * LENT_BYTES, 0.0)  # one of any size
    with pytest.raises(Refusal, match=r"BUSY: .* may not have read yet") as refused:
        bound.lend("anna", 100_000, 0.0)
    wait = refused.value.details["wait"]
    bound.lend("bert", 100_000, 0.0)
    bound.lend("anna", 100_000, wait)
    with pytest.raises(Refusal):
        bound.lend("anna", 2 * LENT_BYTES, wait)
    bound.lend("anna", 2 * LENT_BYTES, wait + 60.0)
    bound.lend("carl", 1, 1000.0)
    assert set(bound.peers) == {"carl"}


# ---- real daemons --------------------------------------------------------------------------------


def test_a_crowd_is_turned_away_and_a_place_that_is_given_up_is_taken(serve, lines, tmp_path):
    config = tmp_path / "serve.toml"
    config.write_text("max_clients = 2\n")
    daemon = serve("--config", config)
    one, two, late = daemon.client(), daemon.client(), daemon.client(timeout=0.3)
    assert one.learn(lines[0])["learned"] == two.learn(lines[1])["learned"] == 1
    with pytest.raises(Refusal, match="BUSY: 2 clients are served"):
        late.learn(lines[2])
    assert one.status()["busy"] > 1  # it asked again for as long as it had patience
    config.write_text("max_clients = 3\n")
    daemon.signal(signal.SIGHUP)
    daemon.wait_for("max_clients is now 3")
    assert late.learn(lines[2])["t"] == 3
    assert adds_up(one.status())


def test_a_client_that_is_too_fast_is_slowed_down_and_loses_nothing(serve, rows, fitted):
    lines = rows(600, 5)
    size = sum(map(len, lines))
    daemon = serve("--max-rate", str(size))  # all in about a second
    with daemon.client() as c:
        for start in range(0, len(lines), 10):
            c.send({"text": b"".join(lines[start : start + 10])})
        c.flush()
        for start in range(0, len(lines), 10):
            c.send({"text": b"".join(lines[start : start + 10])})
        c.flush()
        status = c.status()
        assert status["busy"] > 0
        assert status["learned"] == 1200
        assert adds_up(status)
        assert len(c.predict(b"".join(lines))) == 600
        model = until(c.snapshot)
    assert model.to_bytes() == fitted(b"".join(lines) * 2).to_bytes()


@pytest.mark.parametrize("door", ["feed", "requests"])
def test_a_sender_far_beyond_capacity_costs_a_bounded_memory(serve, door):
    """Text in the largest messages, which are learned much more slowly than they come."""
    daemon = serve("--algo", "ssg", "--queue-bytes", "1M")
    line = b"1 " + b" ".join(b"%d:1" % i for i in range(1, 8000)) + b"\n"
    with daemon.client() as c, zmq.Context() as context:
        c.learn(line)
        before = c.status()["memory"]
        kind = zmq.PUSH if door == "feed" else zmq.DEALER
        with context.socket(kind) as socket:
            socket.linger, socket.sndhwm, socket.sndtimeo = 0, 2, 300
            socket.connect(daemon.endpoints[door])
            message = (b"1 1:1\n" * 20_000)[: 9 * wire.MAX_FEED // 8]
            if door == "requests":
                message = wire.pack({"v": 1, "id": 1, "do": "learn", "text": message * 16})
            most, sent = 0, 0
            end = time.monotonic() + 5.0
            while time.monotonic() < end and sent < 5000:
                try:
                    socket.send(message)
                    sent += 1
                except zmq.Again:
                    break  # it blocks: so it should
                if sent % 50 == 0:
                    most = max(most, c.status()["memory"] - before)
            most = max(most, c.status()["memory"] - before)
            status = c.status()
    if door == "feed":
        assert sent < 5000
        assert most < 100 << 20  # 70 MiB of it wait on the connection
    else:
        assert status["busy"] > 0
        assert most < 64 << 20
    assert sent * len(message) > 5 * (status["learned"] * 6 + (1 << 20))
    assert adds_up(status)


def test_the_feed_is_one_client_as_far_as_rates_go(serve):
    """All that its senders send together; what is too fast waits, nothing is lost."""
    daemon = serve("--max-rate", "100k")
    text = b"1 1:1\n" * 10_000
    begin = time.monotonic()
    with daemon.client() as c:
        for _ in range(10):
            c.feed(text)
        status = status_when(c, lambda status: status["learned"] == 100_000)
        assert time.monotonic() - begin > (600_000 - (1 << 19)) / 100_000
        assert status["feed_lost"] == 0
    daemon.stop()


@pytest.mark.parametrize(
    ("bad", "code", "seconds"),
    [(bytes(50_000), "BAD_REQUEST", 3.0), (bytes(150_000), "TOO_LARGE", 13.0)],
    ids=["malformed", "too large"],
)
def test_what_is_malformed_or_too_large_is_charged_for_as_well(serve, bad, code, seconds):
    daemon = serve("--max-rate", "10k", "--max-message", "100k")
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        socket.connect(daemon.endpoint)
        socket.send(bad)
        assert wire.unpack(socket.recv())["code"] == code
        socket.send(wire.pack({"v": 1, "id": 7, "do": "status"}))
        reply = wire.unpack(socket.recv())
        assert (reply["code"], reply["id"]) == ("BUSY", 7)
        assert reply["wait"] > seconds


def test_one_that_never_reads_costs_no_more_than_what_is_lent(serve, lines):
    """It asks for the whole model for ever and reads nothing; everybody else is served."""
    daemon = serve("--evidence", "0")
    with daemon.client() as c, zmq.Context() as context, context.socket(zmq.DEALER) as greedy:
        c.learn(wide_text())
        size = len(c.snapshot().to_bytes())
        assert size > 1_000_000
        before = c.status()["memory"]
        greedy.rcvhwm, greedy.linger = 1, 0
        greedy.connect(daemon.endpoint)
        for number in range(300):
            greedy.send(wire.pack({"v": 1, "id": number, "do": "snapshot", "published": True}))
        status = status_when(c, lambda status: status["requests"] > 300)
        assert status["busy"] > 0
        assert status["memory"] - before < 3 * LENT_BYTES  # all of it would be 7 times that
        assert len(c.predict(lines[0])) == 1


def test_one_that_never_reads_loses_its_answers_and_is_counted(serve, lines):
    daemon = serve()
    with daemon.client() as c, zmq.Context() as context, context.socket(zmq.DEALER) as deaf:
        deaf.rcvhwm, deaf.rcvbuf, deaf.linger = 1, 4096, 0
        deaf.connect(daemon.endpoint)
        request = wire.pack({"v": 1, "id": "x" * 128, "do": "predict", "text": b"0 1:1\n" * 500})
        for _ in range(4000):
            deaf.send(request)
            if c.status()["lost_replies"]:
                break
        assert c.status()["lost_replies"] > 0
        assert c.learn(b"".join(lines))["learned"] == len(lines)


@pytest.mark.parametrize("name", ["x" * 129, 1.5, [1], True])
def test_an_id_is_short(serve, name):
    daemon = serve()
    with daemon.client() as c, zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        socket.connect(daemon.endpoint)
        socket.send(wire.pack({"v": 1, "id": name, "do": "ping"}))
        assert socket.poll(int(1000 * PATIENCE))
        reply = wire.unpack(socket.recv())
        assert (reply["id"], reply["code"]) == (None, "BAD_REQUEST")
        assert c.status()["bad_frames"] == 1


def test_a_huge_prediction_is_no_reason_to_wait_for_a_small_one(serve, lines):
    """The reply to the small one comes first, though it was asked for later."""
    daemon = serve()
    with daemon.client() as c, zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        c.learn(b"".join(lines))
        margins = c.margins(b"".join(lines), live=True)
        socket.linger = 0
        socket.connect(daemon.endpoint)
        ask = {"v": 1, "do": "predict", "output": "margin"}
        socket.send(wire.pack({**ask, "id": "huge", "text": b"".join(lines) * 200}))
        socket.send(wire.pack({**ask, "id": "small", "text": lines[0]}))
        replies = [msgpack.unpackb(socket.recv()) for _ in range(2)]
        assert [reply["id"] for reply in replies] == ["small", "huge"]
        assert replies[0]["margins"] == margins[:1].tobytes()
        assert replies[1]["margins"] == np.tile(margins, 200).tobytes()
        assert c.status()["predictions"] == 201 * len(lines) + 1
        with pytest.raises(Refusal, match="BAD_LINE: batch:20001:1: bad label 'x'"):
            c.predict(b"0 1:1\n" * 20_000 + b"x 1:1\n")
        assert c.status()["predictions"] == 201 * len(lines) + 1  # nothing was predicted
