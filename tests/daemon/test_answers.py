"""What a daemon answers is what the model of the same t says; asking changes nothing learned."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import msgpack
import numpy as np
import pytest
import scipy.sparse
import zmq

from daemon.conftest import (
    PATIENCE,
    adds_up,
    daemons,
    environment,
    published_first,
    until,
)
from streamlearn import container
from streamlearn.catalogue import resolve
from streamlearn.engine.block import Block
from streamlearn.engine.libsvm import Parser
from streamlearn.model import Model
from streamlearn.payloads import to_predict
from streamlearn.training import Training
from streamlearn.wire import Refusal

NEVER = ("--publish-every", "100000s")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory, lines):
    """One that has learned all lines and publishes only when asked to."""
    with daemons(tmp_path_factory.mktemp("daemon")) as serve:
        daemon = serve(*NEVER)
        with daemon.client() as c:
            c.learn(b"".join(lines))
            c.snapshot()
        yield daemon


@pytest.fixture(scope="module")
def matrix():
    random = np.random.default_rng(4)
    return scipy.sparse.random_array((300, 45), density=0.2, rng=random, format="csr")


def as_text(X):
    return "".join(
        "0 " + " ".join(f"{j}:{v!r}" for j, v in zip(X[[i]].indices, X[[i]].data.tolist(),
                                                     strict=True)) + "\n"
        for i in range(X.shape[0])
    )  # fmt: skip


def expected(model: Model, X, output):
    ways = {"margin": model.margins, "probability": model.probabilities, "label": model.predict}
    return ways[output](X)


# ---- predict -------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["text", "sparse", "dense", "bytes"])
@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("output", ["margin", "probability", "label"])
def test_predictions_are_those_of_the_model(daemon, matrix, output, live, form):
    data = {
        "text": lambda: as_text(matrix),
        "bytes": lambda: as_text(matrix).encode(),
        "sparse": lambda: matrix,
        "dense": lambda: matrix.toarray(),
    }[form]()
    with daemon.client() as c:
        model = c.snapshot(published=True)
        found, t = c.scores(data, output, live)
    assert t == model.t == 600
    assert len(set(found.tolist())) > 1
    assert found.tobytes() == expected(model, matrix, output).tobytes()


@pytest.mark.parametrize(
    ("flags", "labels"),
    [
        (("--loss", "hinge", "--labels", "2,3"), ("2", "3")),
        (("--loss", "squared", "--normalize", "l2"), None),
    ],
)
def test_labels_and_values_are_those_of_the_data(serve, rows, matrix, flags, labels):
    daemon = serve(*flags)
    with daemon.client() as c:
        c.learn(b"".join(rows(300, 5, labels)))
        model = c.snapshot()
        found = c.predict(matrix, live=True)
        assert found.tobytes() == model.predict(matrix).tobytes()
        assert labels is None or set(found.tolist()) == {2.0, 3.0}
        with pytest.raises(Refusal, match="gives no probabilities"):
            c.probabilities(matrix)


def test_live_sees_all_that_was_acked_and_the_snapshot_only_what_was_published(serve, lines):
    daemon = serve(*NEVER)
    with daemon.client() as c:
        published_first(c, lines[0])
        for upto in (2, 100, 600):
            c.learn(b"".join(lines[c.status()["t"] : upto]))
            before = c.status()["published_t"]
            assert before < upto
            assert c.scores("0 1:1\n", "margin")[1] == before
            assert c.scores("0 1:1\n", "margin", live=True)[1] == upto
            assert c.scores("0 1:1\n", "margin")[1] == upto


# ---- snapshot ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algo", "choices"),
    [
        (
            "adaptivesl",
            [{"evidence": 3.0}, {"max_nonzeros": 5}, {"evidence": 2, "max_nonzeros": 7}],
        ),
        ("averagesl", [{"smoothness": 0.125}, {"max_nonzeros": 0}]),
    ],
)
def test_a_snapshot_is_what_an_equal_state_gives(serve, run, data, tmp_path, algo, choices):
    run("fit", data, "--algo", algo, "--save-state", "state.sl", "-o", "fit.sl")
    state = Training.load(str(tmp_path / "state.sl"))
    daemon = serve("--algo", algo)
    with daemon.client() as c:
        c.learn(data.read_bytes())
        assert c.snapshot().to_bytes() == (tmp_path / "fit.sl").read_bytes()
        for options in choices:
            precise = {k: x if k == "max_nonzeros" else float(x) for k, x in options.items()}
            assert c.snapshot(**options).to_bytes() == state.model(**precise).to_bytes()
    flags = [w for name, x in options.items() for w in (f"--{name.replace('_', '-')}", x)]
    run("snapshot", "--connect", daemon.endpoint, *flags, "-o", "online.sl")
    run("snapshot", "state.sl", *flags, "-o", "offline.sl")
    assert (tmp_path / "online.sl").read_bytes() == (tmp_path / "offline.sl").read_bytes()


def test_options_that_make_no_sense_are_refused(daemon):
    with daemon.client() as c:
        with pytest.raises(Refusal, match="below"):
            c.snapshot(evidence=0.001)
        with pytest.raises(Refusal, match="finite number > 0"):
            c.snapshot(smoothness=0.0)
        assert c.snapshot(max_nonzeros=2**63 - 1).nonzeros == c.snapshot().nonzeros


def test_the_published_model_is_given_as_it_is(serve, lines):
    daemon = serve(*NEVER, "--max-nonzeros", "6")
    with daemon.client() as c:
        published_first(c, lines[0])
        c.learn(b"".join(lines[1:]))
        assert c.snapshot(published=True).t == 1
        now = c.snapshot()
        assert now.nonzeros == 6
        assert c.snapshot(published=True).to_bytes() == now.to_bytes()


# ---- status and config ---------------------------------------------------------------------------


def test_status_tells_what_happened(serve, lines):
    daemon = serve(*NEVER)
    with daemon.client() as c:
        published_first(c, lines[0])
        c.learn(b"".join(lines[1:]))
        c.learn(b"bad\n", on_error="skip")
        with pytest.raises(Refusal):
            c.learn(b"1 1:1\nbad\n")
        c.margins("1 1:1\n1 2:1\n")
        status = c.status()
        assert status["t"] == status["lag"] + 1 == status["learned"] == 600
        assert (status["skipped"], status["rejected"], status["duplicate"]) == (1, 2, 0)
        assert (status["batches"], status["clients"], status["predictions"]) == (4, 1, 2)
        assert (status["published_t"], status["features"]) == (1, lines[0].count(b":"))
        assert (status["queued"], status["queued_bytes"], status["busy"]) == (0, 0, 0)
        assert status["pid"] == daemon.process.pid
        assert status["memory"] > status["learner_bytes"] > 0
        assert (status["state"], status["checkpoint_t"]) == (None, None)
        model = c.snapshot()
        status = c.status()
        assert (status["nonzeros"], status["features"]) == (model.nonzeros, model.seen)
        assert status["density"] == model.density
        assert status["lag"] == 0
        assert status["loss"] == model.progress["loss"] / model.progress["weight"]
        assert status["error"] == model.progress["errors"] / model.progress["weight"]
        assert adds_up(status)
        c.learn(b"".join(lines))
        assert until(lambda: c.status()["rate"]) > 0.0


def test_config_tells_every_setting_in_force(serve):
    flags = ("--algo", "averagesl", "--l1", "0.25", "--queue-bytes", "1M", "--normalize", "l2")
    with serve(*flags, env={"STREAMLEARN_PUBLISH_EVERY": "77"}).client() as c:
        found = c.config()
    assert (found["algo"], found["l1"], found["normalize"]) == ("averagesl", 0.25, "l2")
    assert (found["queue_bytes"], found["publish_every"]) == (1 << 20, "77")
    assert {"loss", "l2", "state", "checkpoint_every", "log", "max_message"} <= set(found)


# ---- many at once --------------------------------------------------------------------------------


def test_a_thousand_requests_in_one_go_are_all_answered_and_in_order(serve, lines, fitted):
    daemon = serve()
    doing = ("learn", "predict", "live", "status", "ping")
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        socket.rcvtimeo = int(1000 * PATIENCE)
        socket.connect(daemon.endpoint)
        for i in range(1000):
            do, body = doing[i % 5], {}
            if do in ("learn", "predict", "live"):
                body["text"] = b"".join(lines[3 * (i // 5) : 3 * (i // 5) + 3])
            if do == "live":
                do, body["model"] = "predict", "live"
            socket.send(msgpack.packb({"v": 1, "id": i, "do": do, **body}))
        replies = [msgpack.unpackb(socket.recv()) for _ in range(1000)]
    assert all(reply["ok"] for reply in replies)
    assert sorted(reply["id"] for reply in replies) == list(range(1000))
    learned = [reply for reply in replies if reply["id"] % 5 in (0, 2)]
    assert [reply["id"] for reply in learned] == sorted(reply["id"] for reply in learned)
    for reply in learned:  # each live prediction saw the batch before it, and no more
        assert reply["t"] == 3 * (reply["id"] // 5 + 1)
    with daemon.client() as c:
        assert c.snapshot().to_bytes() == fitted(b"".join(lines)).to_bytes()


def test_twenty_clients_at_once_teach_some_order_of_their_batches(serve, rows, fitted):
    daemon = serve()
    batches = {
        number: [
            b"".join(part[i : i + size]) for i in range(0, 120, size)
        ]
        for number in range(20)
        for part, size in [(rows(120, seed=number), 1 + number % 7)]
    }  # fmt: skip

    def teach(number):
        """[(t behind it, learned, text)] of one client."""
        done = []
        with daemon.client() as c:
            c.heard = lambda text, ack: done.append((ack["t"], ack["learned"], text))
            for text in batches[number]:
                c.send({"text": text}, tag=text)
            c.flush()
        return done

    with ThreadPoolExecutor(20) as pool:
        acks = sorted(ack for part in pool.map(teach, batches) for ack in part)
    t = 0
    for behind, learned, text in acks:  # no gap and no overlap
        t += learned
        assert (behind, learned) == (t, text.count(b"\n"))
    with daemon.client() as c:
        status = c.status()
        assert (status["t"], status["learned"], status["clients"]) == (2400, 2400, 20)
        assert adds_up(status)
        model = c.snapshot()
    assert model.to_bytes() == fitted(b"".join(text for _, _, text in acks)).to_bytes()


def test_each_answer_comes_from_the_one_model_that_it_names(serve, rows):
    """Asked while it learns: every reply is that of the offline model of its t."""
    stream, asked = rows(6000, seed=3), b"".join(rows(20, seed=4))
    daemon = serve("--publish-every", "0.001s")
    over, found = threading.Event(), {}

    def ask():
        with daemon.client() as c:
            while not over.is_set() or len(found) < 3:
                margins, t = c.scores(asked, "margin")
                assert found.setdefault(t, margins.tobytes()) == margins.tobytes()

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        with daemon.client() as c:
            for start in range(0, len(stream), 50):
                c.learn(b"".join(stream[start : start + 50]))
            c.margins(asked, live=True)
            until(lambda: len(found) >= 3)
        over.set()
        asking.result()
    training, block = Training(resolve("adaptivesl", "logistic", {})), Block()
    assert Parser("any").parse(asked, 0, len(asked), block) == len(asked)
    compared = 0
    for start in range(-50, len(stream), 50):
        text = b"".join(stream[max(start, 0) : start + 50])
        if text:
            rows_ = Block()
            training.parser.parse(text, 0, len(text), rows_)
            training.learn_rows(rows_, "here")
        if (t := training.learner.t) in found:
            assert training.model().block_margins(block).tobytes() == found[t], t
            compared += 1
    assert compared == len(found) >= 3


def test_storms_of_questions_change_nothing_that_is_learned(serve, lines, data, tmp_path):
    """The state of a daemon that is asked all the time is that of `fit`, byte for byte."""
    daemon = serve("--state", "state", "--algo", "averagesl", "--publish-every", "1")
    over = threading.Event()

    def storm(number):
        asked = 0
        with daemon.client() as c:
            while not over.is_set() or asked < 20:
                text = b"".join(lines[asked % 500 : asked % 500 + 20])
                match (asked + number) % 4:
                    case 0:
                        c.margins(text)
                    case 1:
                        c.margins(text, live=True)
                    case 2:
                        c.snapshot(max_nonzeros=3)
                    case _:
                        c.status()
                asked += 1
        return asked

    with ThreadPoolExecutor(3) as pool:
        storms = [pool.submit(storm, number) for number in range(3)]
        with daemon.client() as c:
            for line in lines:
                c.send({"text": line})
            c.flush()
        over.set()
        assert sum(s.result() for s in storms) >= 60
    daemon.stop()
    subprocess.run(
        [sys.executable, "-m", "streamlearn", "fit", data, "--algo", "averagesl",
         "--save-state", "fit.state"],
        cwd=tmp_path, env=environment(), stderr=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    kept = container.read_file(str(tmp_path / "state/checkpoint.sl"), "streamlearn-checkpoint")
    assert kept["training"] == (tmp_path / "fit.state").read_bytes()


def test_arrays_go_over_in_parts_and_come_back_whole(daemon):
    X = scipy.sparse.random_array((10_000, 45), density=0.05, rng=np.random.default_rng(1),
                                  format="csr")  # fmt: skip
    assert len(list(to_predict(X, 1 << 20))) == 3
    with daemon.client() as c:
        assert c.margins(X).tobytes() == c.snapshot().margins(X).tobytes()


def test_a_live_prediction_that_waits_is_not_mixed_up_with_the_next(daemon, lines):
    """Rows that wait for the learning thread are theirs; those that come behind them are others."""
    with daemon.client() as c:
        expected = c.margins(b"".join(lines))
        c.ping()
        daemon.signal(signal.SIGSTOP)  # so that all of it is there when it looks
        for i in range(400):
            which = "live" if i % 2 == 0 else "snapshot"
            body = {"v": 1, "id": i, "do": "predict", "text": lines[i], "model": which}
            c.socket.send(msgpack.packb(body))
        daemon.signal(signal.SIGCONT)
        for _ in range(400):
            assert c.socket.poll(int(1000 * PATIENCE))
            reply = msgpack.unpackb(c.socket.recv())
            assert np.frombuffer(reply["margins"]) == expected[reply["id"]]
