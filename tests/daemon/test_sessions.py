"""Exactly once, in order: duplicates, gaps, a full queue, forgotten clients, restarts."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import msgpack
import pytest
import zmq

from daemon.conftest import PATIENCE, adds_up, until
from streamlearn.client import Client
from streamlearn.daemon.sessions import CLIENTS
from streamlearn.errors import Unavailable
from streamlearn.wire import REMEMBERED, Refusal


class Peer:
    """A client that says just what a test wants it to say."""

    def __init__(self, context, daemon):
        self.socket = context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.rcvtimeo = int(1000 * PATIENCE)
        self.socket.connect(daemon.endpoint)

    def say(self, seq, text, client="anna", **more):
        body = {"v": 1, "id": f"{client}/{seq}", "do": "learn", "client": client, "seq": seq}
        self.socket.send(msgpack.packb({**body, "text": text, **more}))

    def hear(self):
        reply = msgpack.unpackb(self.socket.recv())
        assert reply.pop("v") == 1
        return reply

    def ask(self, *args, **more):
        self.say(*args, **more)
        return self.hear()


@pytest.fixture
def peer():
    context, met = zmq.Context(), []

    def peer(daemon):
        met.append(Peer(context, daemon))
        return met[-1]

    yield peer
    for each in met:
        each.socket.close()
    context.term()


def test_duplicates_get_the_same_answer_and_teach_nothing(serve, peer, lines, fitted):
    daemon = serve()
    anna = peer(daemon)
    first = [anna.ask(1 + i, line) for i, line in enumerate(lines[:50])]
    again = [anna.ask(1 + i, line) for i, line in enumerate(lines[:50])]
    assert [{**reply, "duplicate": True} for reply in first] == again
    assert [reply["t"] for reply in first] == list(range(1, 51))
    # What is in a batch that was answered before is not even looked at.
    assert anna.ask(3, b"nonsense") == again[2]
    assert anna.ask(51, lines[50])["t"] == 51
    with daemon.client() as c:
        status = c.status()
        assert (status["learned"], status["duplicate"], status["received"]) == (51, 51, 102)
        assert adds_up(status)
        assert c.snapshot().to_bytes() == fitted(b"".join(lines[:51])).to_bytes()


def test_a_refusal_is_repeated_as_a_refusal(serve, peer, lines):
    daemon = serve()
    anna = peer(daemon)
    refused = anna.ask(1, lines[0] + b"bad\n", name="data.svm")
    assert (refused["ok"], refused["code"], refused["rejected"]) == (False, "BAD_LINE", 2)
    assert refused.pop("errors")
    assert anna.ask(1, lines[0] + b"bad\n", name="data.svm") == {**refused, "duplicate": True}
    skipped = anna.ask(2, lines[0] + b"bad\n", on_error="skip")
    assert (skipped["learned"], skipped["skipped"]) == (1, 1)
    skipped.pop("errors")
    assert anna.ask(2, lines[0] + b"bad\n", on_error="skip") == {**skipped, "duplicate": True}
    with daemon.client() as c:
        status = c.status()
    assert (status["rejected"], status["skipped"], status["duplicate"]) == (2, 1, 4)
    assert adds_up(status)


def test_bad_arrays_use_up_their_number(serve, peer):
    daemon = serve()
    anna = peer(daemon)
    nan = b"\xff" * 8
    rows = {"offsets": bytes(8) + b"\1" + bytes(7), "ids": bytes(8), "values": nan,
            "labels": bytes(8)}  # fmt: skip
    body = {"v": 1, "id": 1, "do": "learn", "client": "anna", "seq": 1, "rows": rows}
    for more in ({}, {"duplicate": True}):
        anna.socket.send(msgpack.packb(body))
        reply = anna.hear()
        assert reply["code"] == "BAD_LINE"
        assert "finite" in reply["message"]
        assert {k: v for k, v in reply.items() if k in ("rejected", "duplicate")} == {
            "rejected": 1, **more,
        }  # fmt: skip
    assert anna.ask(2, b"1 1:1\n")["t"] == 1


def test_a_batch_that_comes_too_early_is_sent_back(serve, peer, lines):
    daemon = serve()
    anna = peer(daemon)
    for seq, expected in ((2, 1), (100, 1), (2**64 - 1, 1)):
        reply = anna.ask(seq, lines[0])
        assert (reply["code"], reply["expected"]) == ("SEQ_GAP", expected)
    assert anna.ask(1, lines[0])["t"] == 1
    assert anna.ask(3, lines[1])["expected"] == 2
    assert anna.ask(1, lines[1], client="ben")["t"] == 2  # each counts for itself
    with daemon.client() as c:
        assert c.status()["received"] == 2


def test_other_refusals_use_no_number_up(serve, peer, lines):
    daemon = serve()
    anna = peer(daemon)
    assert anna.ask(1, lines[0], on_error="perhaps")["code"] == "BAD_REQUEST"
    assert anna.ask(1, lines[0])["learned"] == 1


def test_answers_are_remembered_for_so_many_batches(serve, peer, lines):
    daemon = serve()
    anna = peer(daemon)
    for i in range(REMEMBERED + 5):
        assert anna.ask(1 + i, lines[i])["ok"]
    assert anna.ask(6, b"")["duplicate"]
    late = anna.ask(5, b"")
    assert (late["code"], late["expected"]) == ("BAD_REQUEST", REMEMBERED + 6)
    with daemon.client() as c:
        assert c.status()["learned"] == REMEMBERED + 5


def test_the_clients_heard_of_last_are_remembered_and_no_more(serve, peer):
    daemon = serve("--state", "state")
    crowd = peer(daemon)
    for start in range(0, CLIENTS + 10, 500):  # so many answers under way at a time
        some = range(start, min(start + 500, CLIENTS + 10))
        for i in some:
            crowd.say(1, b"1 1:1\n", client=f"client {i}")
        assert all(crowd.hear()["ok"] for _ in some)
    with daemon.client() as c:
        assert c.status()["clients"] == CLIENTS
    endpoint = daemon.endpoint
    daemon.stop()
    daemon = serve("--state", "state", bind=endpoint)  # and so after a restart
    crowd = peer(daemon)
    assert crowd.ask(1, b"1 1:1\n", client=f"client {CLIENTS + 9}")["duplicate"]
    assert crowd.ask(1, b"1 1:1\n", client="client 10")["duplicate"]
    assert crowd.ask(2, b"1 1:1\n", client="client 9")["expected"] == 1
    with daemon.client() as c:
        assert c.status()["clients"] == CLIENTS


# ---- a full queue --------------------------------------------------------------------------------


def test_a_full_queue_says_busy_and_takes_the_batch_later(serve, peer, lines):
    daemon = serve("--queue-bytes", "10k")
    anna, text = peer(daemon), b"".join(lines[:100])
    assert anna.ask(1, lines[0])["ok"]
    daemon.signal(signal.SIGSTOP)
    for seq in range(2, 20):
        anna.say(seq, text)
    daemon.signal(signal.SIGCONT)
    replies = {reply["id"]: reply for reply in (anna.hear() for _ in range(18))}
    busy = [r for r in replies.values() if r.get("code") == "BUSY"]
    assert busy
    assert all(r["ok"] or r["code"] in ("BUSY", "SEQ_GAP") for r in replies.values())
    with daemon.client() as c:
        assert c.status()["busy"] == len(busy)
        learned = c.status()["learned"]
    seq = 2 + (learned - 1) // 100
    assert anna.ask(seq, text)["t"] == learned + 100


@pytest.mark.parametrize("senders", [1, 3])
def test_a_client_delivers_all_once_and_in_order_past_a_full_queue(serve, rows, fitted, senders):
    daemon = serve("--queue-bytes", "3k")
    texts = [rows(150, seed=number) for number in range(senders)]

    def teach(lines):
        done = []
        with daemon.client() as c:
            c.heard = lambda text, ack: done.append((ack["t"], text))
            for line in lines:
                c.send({"text": line}, tag=line)
            c.flush()
        return done

    with ThreadPoolExecutor(senders) as pool:
        acks = list(pool.map(teach, texts))
    for lines, done in zip(texts, acks, strict=True):
        assert [text for _, text in done] == lines
        assert done == sorted(done)
    order = sorted(ack for done in acks for ack in done)
    with daemon.client() as c:
        status = c.status()
        assert status["busy"] > 0
        assert status["learned"] == status["t"] == 150 * senders
        assert adds_up(status)
        model = c.snapshot()
    assert model.to_bytes() == fitted(b"".join(text for _, text in order)).to_bytes()


def test_the_feed_goes_on_past_a_full_queue(serve, lines, fitted):
    daemon = serve("--queue-bytes", "1k")
    with daemon.client() as c:
        for line in lines:
            c.feed(line)
        until(lambda: c.status()["t"] == len(lines))
        assert c.snapshot().to_bytes() == fitted(b"".join(lines)).to_bytes()


# ---- restarts ------------------------------------------------------------------------------------


def test_answers_survive_a_restart(serve, peer, lines):
    daemon = serve("--state", "state")
    anna = peer(daemon)
    first = [anna.ask(1 + i, line) for i, line in enumerate(lines[:10])]
    refused = anna.ask(11, b"bad\n")  # the last answer, and t does not move
    refused.pop("errors")
    daemon.signal(signal.SIGTERM)
    daemon.ended()
    daemon = serve("--state", "state", bind=daemon.endpoint)
    anna = peer(daemon)
    assert [anna.ask(1 + i, b"") for i in range(10)] == [
        {**reply, "duplicate": True} for reply in first
    ]
    assert anna.ask(11, b"bad\n") == {**refused, "duplicate": True}
    assert anna.ask(12, lines[10])["t"] == 11
    with daemon.client() as c:
        status = c.status()
        assert (status["learned"], status["rejected"], status["duplicate"]) == (11, 1, 11)
        assert adds_up(status)


def test_send_goes_on_across_restarts_and_nothing_is_lost_or_repeated(
    serve, start, rows, fitted
):
    lines = rows(2000, seed=8) * 15
    daemon = serve("--state", "state")
    endpoint = daemon.endpoint
    sender = start("send", "--connect", endpoint, "--batch", "2k", "--progress", "none")

    parts = [threading.Event() for _ in range(3)]  # each is sent while the one before may be lost
    parts[0].set()

    def write():
        for number, part in enumerate(parts):
            part.wait(PATIENCE)
            for i in range(10_000 * number, 10_000 * (number + 1), 100):
                sender.write(b"".join(lines[i : i + 100]))
        sender.process.stdin.close()

    writer = threading.Thread(target=write)
    writer.start()
    learned = 0
    for part in parts[1:]:
        with Client(endpoint) as c:
            until(lambda: c.status()["t"] > learned + 3000)  # noqa: B023
        daemon.signal(signal.SIGTERM)
        part.set()
        log = daemon.ended()
        learned = int(log.rsplit("stopped at ", 1)[1].split()[0])
        assert learned < len(lines)
        daemon = serve("--state", "state", bind=endpoint)
    writer.join(PATIENCE)
    sender.process.stdin = None
    sender.finish()
    with daemon.client() as c:
        status = c.status()
        assert status["t"] == status["learned"] == len(lines)
        assert adds_up(status)
        model = c.snapshot()
    assert model.to_bytes() == fitted(b"".join(lines)).to_bytes()


def test_a_client_goes_on_with_a_daemon_that_has_forgotten_all(serve, lines):
    daemon = serve()
    with daemon.client() as c:
        c.learn(b"".join(lines[:100]))
        name = c.name
        daemon.process.kill()
        daemon.process.wait()
        daemon = serve(bind=daemon.endpoint)
        assert c.learn(b"".join(lines[100:]))["t"] == 500
        assert c.name != name
        assert c.status()["clients"] == 1


def test_a_client_gives_up_on_a_daemon_that_stays_away(serve, lines):
    daemon = serve()
    c = daemon.client(timeout=1.0)
    c.learn(lines[0])
    daemon.process.kill()
    daemon.process.wait()
    with pytest.raises(Unavailable, match="no answer for 1 s"):
        c.learn(lines[1])
    c.close()


def test_a_refusal_that_was_lost_is_heard_in_the_end(serve, lines):
    """The reply to a bad batch is thrown away; the client asks again and must learn of it."""
    daemon = serve()
    c = daemon.client()
    c.greet()
    daemon.signal(signal.SIGSTOP)  # no reply may come before it can be thrown away
    c.send({"text": b"bad\n"})
    daemon.signal(signal.SIGCONT)
    assert c.socket.poll(int(1000 * PATIENCE))
    c.socket.recv()
    c.resend()
    with pytest.raises(Refusal, match="BAD_LINE"):
        c.flush()
    c.close()
