"""Models on their way to those who follow: whole, as deltas, and after something was missed."""

from __future__ import annotations

import os
import signal
import threading

import msgpack
import numpy as np
import pytest
import zmq
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.conftest import PATIENCE, published_first, until, wide_text
from streamlearn import wire
from streamlearn.catalogue import resolve
from streamlearn.daemon.inbox import Inbox
from streamlearn.daemon.learning import Every, Learn, Learning
from streamlearn.daemon.ledger import Ledger
from streamlearn.delta import apply, difference
from streamlearn.errors import ModelError
from streamlearn.model import Model
from streamlearn.record import replace
from streamlearn.training import Training

NEVER = ("--publish-every", "100000s")
TOPICS = (wire.SNAPSHOT_TOPIC, wire.DELTA_TOPIC)


@pytest.fixture
def subscribe():
    """subscribe(daemon, topic): a SUB socket that has its first model coming."""
    context, opened = zmq.Context(), []

    def subscribe(daemon, topic):
        socket = context.socket(zmq.SUB)
        opened.append(socket)
        socket.linger = 0
        socket.rcvtimeo = int(1000 * PATIENCE)
        socket.connect(daemon.endpoints["publish"])
        socket.subscribe(topic)
        return socket

    yield subscribe
    for socket in opened:
        socket.close()
    context.term()


def hear(socket, topic):
    found, body = socket.recv_multipart()
    assert found == topic
    body = msgpack.unpackb(body)
    assert body["v"] == 1
    return body


# ---- deltas --------------------------------------------------------------------------------------

weights = st.floats(-1e50, 1e50).filter(bool)
vectors = st.dictionaries(st.integers(0, 2**63 - 1) | st.integers(0, 20), weights, max_size=30)


def model_of(t, vector, bias=0.0, seen=99):
    ids = np.array(sorted(vector), "<i8")
    return Model(
        settings={"algo": "averagesl", "loss": "logistic", "l1": 1e-3},
        t=t,
        bias=bias,
        ids=ids.tobytes(),
        weights=np.array([vector[i] for i in ids.tolist()], "<f8").tobytes(),
        seen=seen,
        labels=(-1.0, 1.0),
        normalize="none",
        progress={"examples": t, "weight": 1.0 * t, "loss": 0.5 * t, "errors": 0.0},
        certificate={"violation": None, "objective": None},
        counters={"bad_lines": 0, "blank_lines": 0, "ignored_features": 0},
    )


@settings(max_examples=60, deadline=None)
@given(vectors, vectors, vectors, st.floats(-9, 9))
def test_a_delta_makes_the_new_model_of_the_old_bit_for_bit(kept, gone, fresh, bias):
    old = model_of(10, {**gone, **kept})
    new = model_of(17, {**kept, **fresh}, bias, seen=123)
    delta = msgpack.unpackb(wire.pack(difference(old, new)))  # as it goes over the wire
    assert apply(old, delta).to_bytes() == new.to_bytes()
    same = [i for i in kept if i not in fresh]
    assert len(delta["ids"]) // 8 <= new.nonzeros - len(same)


@settings(max_examples=60, deadline=None)
@given(vectors, vectors, st.data())
def test_a_damaged_delta_is_refused(before, after, data):
    old, new = model_of(10, before), model_of(17, after, 0.25)
    delta = wire.unpack(wire.pack(difference(old, new)))
    name = data.draw(st.sampled_from(sorted(delta)))
    value = delta[name]
    if isinstance(value, bytes) and value:
        place = data.draw(st.integers(0, len(value) - 1))
        flipped = value[place] ^ (1 << data.draw(st.integers(0, 7)))
        value = value[:place] + bytes([flipped]) + value[place + 1 :]
    elif isinstance(value, bytes):
        value = bytes(8)
    elif isinstance(value, dict):
        value = {**value, data.draw(st.sampled_from(sorted(value))): 5}
    else:
        value += 1
    try:
        made = apply(old, {**delta, name: value})
    except ModelError:
        return
    assert made.to_bytes() == new.to_bytes()  # such as another gone id that never was there


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gone", b""),
        ("gone", b"x"),
        ("ids", b""),
        ("ids", np.array([2], "<i8").tobytes()),
        ("weights", b""),
        ("weights", np.array([2.5], "<f8").tobytes()),
        ("head", {}),
        ("head", 5),
        ("checksum", 0),
        ("from", 11),
        ("from", None),
    ],
)
def test_a_delta_with_a_wrong_part_is_refused(name, value):
    old, new = model_of(10, {1: 1.0, 7: 7.0}), model_of(17, {1: 2.0})
    delta = difference(old, new)
    assert apply(old, delta).to_bytes() == new.to_bytes()
    with pytest.raises(ModelError):
        apply(old, {**delta, name: value})
    del delta[name]
    with pytest.raises(ModelError):
        apply(old, delta)


def test_a_delta_fits_only_the_model_it_is_from():
    old, new = model_of(10, {1: 1.0}), model_of(17, {1: 2.0})
    delta = difference(old, new)
    with pytest.raises(ModelError, match="does not fit a model of 9"):
        apply(model_of(9, {1: 1.0}), delta)
    with pytest.raises(ModelError, match="wrong checksum"):
        apply(model_of(10, {1: 1.0, 2: 5.0}), delta)  # of the same t, but another


# ---- topics --------------------------------------------------------------------------------------


def test_the_snapshot_topic_carries_every_model_whole(serve, subscribe, lines):
    daemon = serve(*NEVER)
    socket = subscribe(daemon, b"snapshot")
    assert hear(socket, b"snapshot")["t"] == 0
    with daemon.client() as c:
        for upto in (200, 400, 600):
            c.learn(b"".join(lines[upto - 200 : upto]))
            now = c.snapshot()
            body = hear(socket, b"snapshot")
            assert body == {"v": 1, "kind": "snapshot", "t": upto, "model": now.to_bytes()}
        c.snapshot()  # the same again is nothing new
        assert c.status()["published_messages"] == 4
        assert not socket.poll(0)


def test_the_delta_topic_begins_with_a_whole_model(serve, subscribe, rows):
    daemon = serve(*NEVER, "--algo", "averagesl", "--l1", "0.02")
    lines = rows(3000, seed=2, features=2000)
    with daemon.client() as c:
        c.learn(b"".join(lines[:2900]))
        first = c.snapshot()
        socket = subscribe(daemon, b"delta")
        model = Model.from_bytes(hear(socket, b"delta")["model"])
        if model.t == 0:  # it came before the first model had been sent out
            model = Model.from_bytes(hear(socket, b"delta")["model"])
        assert model.to_bytes() == first.to_bytes()
        kinds = []
        for i in range(2900, 3000, 10):
            c.learn(b"".join(lines[i : i + 10]))
            now = c.snapshot()
            body = hear(socket, b"delta")
            kinds.append(body["kind"])
            if body["kind"] == "delta":
                assert (body["from"], body["t"]) == (i, i + 10)
                model = apply(model, body)
            else:  # where that is smaller
                model = Model.from_bytes(body["model"])
            assert model.to_bytes() == now.to_bytes()


def test_subscribers_come_are_counted_and_go(serve, subscribe, lines):
    daemon = serve(*NEVER)
    with daemon.client() as c:
        assert c.status()["subscribers"] == 0
        some = [subscribe(daemon, topic) for topic in (b"snapshot", b"delta", b"delta")]
        for socket in some:
            assert socket.recv_multipart()
        until(lambda: c.status()["subscribers"] == 3)
        some[0].unsubscribe(b"snapshot")
        until(lambda: c.status()["subscribers"] == 2)
        some[1].close()
        until(lambda: c.status()["subscribers"] == 1)
        subscribe(daemon, b"nothing")
        c.learn(lines[0])
        c.snapshot()
        while (t := hear(some[2], b"delta")["t"]) == 0:  # what another newcomer was sent
            pass
        assert t == 1
        assert c.status()["subscribers"] == 1


def test_every_so_many_examples(serve, subscribe, lines):
    daemon = serve("--publish-every", "250")
    socket = subscribe(daemon, b"snapshot")
    assert hear(socket, b"snapshot")["t"] == 0
    with daemon.client() as c:
        published_first(c, lines[0])
        daemon.signal(signal.SIGSTOP)  # so that all of it is there when it looks
        for i in range(0, 600, 100):
            text = b"".join(lines[i : i + 100])
            c.socket.send(msgpack.packb({"v": 1, "id": "x", "do": "learn", "text": text}))
        daemon.signal(signal.SIGCONT)
        seen = {0}
        while 601 not in seen:
            seen.add(hear(socket, b"snapshot")["t"])
    # Those between may be left out, by a publisher that is behind, or come when all is quiet; but
    # none before there are 250 examples that no model knows.
    assert not seen & {101, 201}


def test_the_count_alone_decides_while_there_is_work(lines):
    announced = []
    learning = Learning(
        Ledger(Training(resolve("sgd", "logistic", {}))),
        Inbox(1 << 20),
        lambda published: announced.append(published.model.t),
        Every(examples=250),
    )
    for i in range(0, 600, 50):
        request = {"text": b"".join(lines[i : i + 50])}
        learning.learn(Learn(request, 0, lambda reply: None))
        learning.keep_up(quiet=False)
    assert announced == [50, 300, 550]  # the first at once


def test_a_model_is_not_made_behind_every_batch(serve, lines):
    daemon = serve("--publish-every", "100000")
    with daemon.client() as c:
        made = {c.status()["published_t"]}
        for line in lines:
            c.learn(line)
            made.add(c.status()["published_t"])
        assert len(made) < len(lines) / 2
        until(lambda: c.status()["published_t"] == len(lines))


@pytest.mark.parametrize("beginning", [b"", b"snap", b"d"])
def test_the_beginning_of_a_topic_is_enough(serve, lines, beginning):
    daemon = serve("--publish-every", "0.01s")
    with daemon.client() as c, zmq.Context() as context, context.socket(zmq.SUB) as follower:
        follower.subscribe(beginning)
        follower.connect(daemon.endpoints["publish"])
        seen = set()
        while seen != {t for t in TOPICS if t.startswith(beginning)}:
            assert follower.poll(int(1000 * PATIENCE))
            seen.add(follower.recv_multipart()[0])
        assert c.status()["subscribers"] == 1
        t = c.learn(b"".join(lines))["t"]
        while wire.unpack(follower.recv_multipart()[1])["t"] < t:
            pass


def test_one_that_subscribes_again_and_again_is_sent_no_more_than_it_reads(serve):
    """A model is sent once for all subscriptions that came meanwhile, and few wait for a reader."""
    daemon = serve("--evidence", "0")
    with daemon.client() as c, zmq.Context() as context, context.socket(zmq.SUB) as follower:
        c.learn(wide_text())
        size = len(c.snapshot().to_bytes())
        assert size > 1_000_000
        follower.rcvhwm = 1
        follower.connect(daemon.endpoints["publish"])
        before = c.status()["memory"]
        for _ in range(200):
            follower.subscribe(wire.SNAPSHOT_TOPIC)
            follower.unsubscribe(wire.SNAPSHOT_TOPIC)
        follower.subscribe(wire.SNAPSHOT_TOPIC)
        until(lambda: c.status()["subscribers"] == 1)
        assert c.status()["memory"] - before < 30 * size


def test_every_so_many_seconds(serve, lines):
    seldom, often = serve(*NEVER), serve("--publish-every", "0.01s")
    with seldom.client() as s, often.client() as o:
        published_first(s, lines[0])
        s.learn(b"".join(lines[1:]))
        o.learn(b"".join(lines))
        until(lambda: o.status()["published_t"] == len(lines))
        assert s.status()["published_t"] == 1


# ---- follow --------------------------------------------------------------------------------------


def test_follow_keeps_a_file_that_is_the_published_model(serve, start, tmp_path, lines):
    daemon = serve(*NEVER)
    follower = start("follow", "--connect", daemon.endpoint, "-o", "latest.sl")
    follower.wait_for(lambda line: "from 0 examples" in line)
    with daemon.client() as c:
        for upto in (1, 300, 600):
            c.learn(b"".join(lines[c.status()["t"] : upto]))
            now = c.snapshot()
            follower.wait_for(lambda line: f"from {upto} examples" in line)  # noqa: B023
            assert (tmp_path / "latest.sl").read_bytes() == now.to_bytes()
    follower.process.send_signal(signal.SIGINT)
    follower.finish(code=130)


def test_follow_ends_after_so_many(serve, run, tmp_path, lines):
    daemon = serve()
    with daemon.client() as c:
        c.learn(b"".join(lines))
        now = c.snapshot()
    run("follow", "--connect", daemon.endpoint, "-o", "one.sl", "--count", "1", "--quiet")
    assert (tmp_path / "one.sl").read_bytes() == now.to_bytes()


def test_follow_goes_on_after_a_restart(serve, start, tmp_path, lines):
    places = ("--state", "state", *NEVER)
    daemon = serve(*places)
    follower = start("follow", "--connect", daemon.endpoint, "-o", "latest.sl")
    follower.wait_for(lambda line: "from 0 examples" in line)
    daemon.stop()
    words = dict(zip(("--bind-feed", "--bind-publish"),
                     (daemon.endpoints[n] for n in ("feed", "publish")), strict=True))  # fmt: skip
    daemon = serve(*places, *(w for pair in words.items() for w in pair), bind=daemon.endpoint)
    with daemon.client() as c:
        c.learn(b"".join(lines))
        now = c.snapshot()
    follower.wait_for(lambda line: "from 600 examples" in line)
    assert (tmp_path / "latest.sl").read_bytes() == now.to_bytes()


class Lossy(threading.Thread):
    """A relay before a daemon that keeps back the published messages it is told to lose."""

    def __init__(self, daemon):
        super().__init__()
        self.context = zmq.Context()
        self.front, self.back = self.context.socket(zmq.ROUTER), self.context.socket(zmq.DEALER)
        self.subscribers, self.publisher = (
            self.context.socket(zmq.XPUB), self.context.socket(zmq.XSUB),
        )  # fmt: skip
        self.port = self.subscribers.bind_to_random_port("tcp://127.0.0.1")
        self.endpoint = f"tcp://127.0.0.1:{self.front.bind_to_random_port('tcp://127.0.0.1')}"
        self.back.connect(daemon.endpoint)
        self.publisher.connect(daemon.endpoints["publish"])
        self.lose = lambda body: False
        self.lost = 0
        self.over = False

    def run(self):
        poller, publish = zmq.Poller(), f"tcp://127.0.0.1:{self.port}"
        for socket in (self.front, self.back, self.subscribers, self.publisher):
            poller.register(socket, zmq.POLLIN)
        while not self.over:
            ready = dict(poller.poll(50))
            if self.front in ready:
                peer, request = self.front.recv_multipart()
                self.back.send_multipart([b"", request])
                reply = msgpack.unpackb(self.back.recv_multipart()[-1])
                if "endpoints" in reply:
                    reply["endpoints"]["publish"] = [publish]
                self.front.send_multipart([peer, msgpack.packb(reply)])
            if self.subscribers in ready:
                self.publisher.send(self.subscribers.recv())
            if self.publisher in ready:
                topic, body = self.publisher.recv_multipart()
                if self.lose(msgpack.unpackb(body)):
                    self.lost += 1
                else:
                    self.subscribers.send_multipart([topic, body])
        self.context.destroy(linger=0)


def test_follow_recovers_from_a_delta_that_was_lost(serve, start, tmp_path, rows):
    daemon = serve(*NEVER, "--algo", "averagesl", "--l1", "0.02")
    lines = rows(3000, seed=2, features=2000)
    relay = Lossy(daemon)
    relay.lose = lambda body: body["t"] == 2910
    relay.start()
    try:
        with daemon.client() as c:
            c.learn(b"".join(lines[:2900]))
            c.snapshot()
            follower = start("follow", "--connect", relay.endpoint, "-o", "latest.sl")
            follower.wait_for(lambda line: "from 2,900 examples" in line)
            for i in range(2900, 2930, 10):
                c.learn(b"".join(lines[i : i + 10]))
                now = c.snapshot()
                if i == 2910:
                    until(lambda: relay.lost)
            follower.wait_for(lambda line: "from 2,930 examples" in line)
            assert relay.lost == 1
            assert b"asking for the whole model" in follower.said
            assert (tmp_path / "latest.sl").read_bytes() == now.to_bytes()
    finally:
        relay.over = True
        relay.join()


def test_predict_follow_changes_models_between_blocks(start, learned, tmp_path, lines, run):
    one = Model.load(str(learned / "model.sl"))
    other = replace(one, bias=one.bias + 1.0)
    one.save(str(tmp_path / "now.sl"))
    other.save(str(tmp_path / "other.sl"))
    text = b"".join(lines[:20])
    expected = [
        run("predict", "-m", name, stdin=text).stdout for name in ("now.sl", "other.sl")
    ]  # fmt: skip
    assert expected[0] != expected[1]
    predicting = start("predict", "--follow", "-m", "now.sl")
    for number in (0, 1, 0):
        (one, other)[number].save(str(tmp_path / "now.sl"))
        predicting.write(text)
        found = b""
        while found.count(b"\n") < 20:
            found += os.read(predicting.process.stdout.fileno(), 65536)
        assert found == expected[number]
    predicting.finish()
