"""What is learned over a socket is what `fit` learns from a file, bit for bit; nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import zmq

from daemon.conftest import adds_up, status_when
from streamlearn.catalogue import resolve
from streamlearn.daemon.ledger import End, Ledger
from streamlearn.daemon.server import Options, Server
from streamlearn.training import Training
from streamlearn.wire import Refusal


def batches(lines, size):
    return [b"".join(lines[i : i + size]) for i in range(0, len(lines), size)]


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
@pytest.mark.parametrize("algo", ["averagesl", "adaptivesl", "optimalsl", "ftrl"])
def test_batches_of_any_size_give_the_bytes_of_fit(serve, fitted, lines, algo, size):
    daemon = serve("--algo", algo)
    with daemon.client() as c:
        for text in batches(lines, size):
            c.send({"text": text})
        c.flush()
        model = c.snapshot()
    assert model.to_bytes() == fitted(b"".join(lines), "--algo", algo).to_bytes()


@pytest.mark.parametrize(
    "flags",
    [
        ("--normalize", "l2"),
        ("--loss", "hinge", "--labels", "2,3"),
        ("--loss", "squared"),
        ("--max-features", "10"),
    ],
)
def test_settings_mean_what_they_mean_for_fit(serve, fitted, rows, flags):
    named = ("2", "3") if "--labels" in flags else ("0", "1")
    text = b"".join(rows(300, 5, named))
    daemon = serve(*flags)
    with daemon.client() as c:
        assert c.learn(text)["learned"] == 300
        model = c.snapshot()
    assert model.to_bytes() == fitted(text, *flags).to_bytes()


def test_many_classes_over_the_wire_and_across_a_restart(serve, fitted, rows):
    lines = [
        row.replace(b"+1", b"%d" % (i % 3)).replace(b"-1", b"%d" % (5 + i % 2))
        for i, row in enumerate(rows(400, 11))
    ]
    text = b"".join(lines)
    expected = fitted(text, "--multiclass")
    X = np.eye(6, 42)
    daemon = serve("--multiclass", "--state", "state")
    with daemon.client() as c:
        c.learn(b"".join(lines[:150]))
        with pytest.raises(Refusal, match="names no class"):
            c.learn("9 1:1\n1.5 1:1\n")
    daemon.process.kill()
    daemon.ended(-9)
    daemon = serve("--multiclass", "--state", "state")
    with daemon.client() as c:
        c.learn(b"".join(lines[150:]))
        assert c.snapshot().to_bytes() == expected.to_bytes()
        assert (c.margins(X, live=True) == expected.margins(X)).all()
        assert (c.probabilities(X) == expected.probabilities(X)).all()
        assert (c.predict(X) == expected.predict(X)).all()
        status = c.status()
    assert (status["learned"], status["rejected"]) == (400, 2)
    assert adds_up(status)


def test_arrays_teach_what_text_teaches(serve, fitted):
    random = np.random.default_rng(3)
    X = scipy.sparse.random_array((500, 30), density=0.2, rng=random, format="csr")
    y = np.where(X @ random.normal(size=30) > 0, 1.0, -1.0)
    weights = random.integers(1, 4, size=500).astype(float)
    text = "".join(
        f"{int(y[i])}:{int(weights[i])} "
        + " ".join(f"{j}:{v!r}" for j, v in zip(X[[i]].indices, X[[i]].data.tolist(), strict=True))
        + "\n"
        for i in range(500)
    )
    expected = fitted(text.encode())
    daemon = serve()
    with daemon.client() as c:
        assert c.learn(X[:200], y[:200], weights[:200])["t"] == 200
        assert c.learn(X[200:499].toarray(), y[200:499], weights[200:499])["learned"] == 299
        assert c.learn(X[[499]].toarray()[0], y[499], weights[499])["t"] == 500
        model = c.snapshot()
        assert (c.margins(X, live=True) == expected.margins(X)).all()
    assert model.to_bytes() == expected.to_bytes()


@pytest.mark.parametrize("per_message", [1, 5, 600])
@pytest.mark.parametrize("ended", [True, False])
def test_the_feed_learns_lines_in_their_order(serve, fitted, lines, per_message, ended):
    daemon = serve()
    with daemon.client() as c, zmq.Context() as context, context.socket(zmq.PUSH) as push:
        push.connect(daemon.endpoints["feed"])
        for text in batches(lines, per_message):
            push.send(text if ended else text.rstrip(b"\n"))
        status = status_when(c, lambda status: status["t"] == len(lines))
        assert status["feed_messages"] == len(batches(lines, per_message))
        assert adds_up(status)
        assert c.snapshot().to_bytes() == fitted(b"".join(lines)).to_bytes()


def test_bad_lines_of_the_feed_are_left_out_counted_and_logged(serve, fitted, lines):
    daemon = serve()
    bad = [b"xyz 1:1\n", b"+1 1:nan\n", *[b"+1 0:1 0:1\n"] * 30]
    with daemon.client() as c, zmq.Context() as context, context.socket(zmq.PUSH) as push:
        push.connect(daemon.endpoints["feed"])
        push.send(b"".join([*lines[:100], *bad, *lines[100:]]))
        status = status_when(c, lambda status: status["received"] == len(lines) + len(bad))
        model = c.snapshot()
    assert (status["learned"], status["skipped"]) == (len(lines), len(bad))
    expected = fitted(b"".join([*lines[:100], *bad, *lines[100:]]), "--on-error", "skip")
    assert model.to_bytes() == expected.to_bytes()
    assert "feed:101:1: bad label 'xyz'" in daemon.wait_for("skipped (32 so far)")


def test_a_bad_line_refuses_its_batch_and_says_where(serve, fitted, lines):
    daemon = serve()
    with daemon.client() as c:
        c.learn(b"".join(lines[:300]))
        with pytest.raises(Refusal) as refused:
            c.learn(b"".join([lines[0], b"+1 7:abc\n", lines[1], b"+1 8:\n"]))
        assert refused.value.code == "BAD_LINE"
        assert refused.value.message.startswith("batch:2:6: bad value 'abc' for feature 7")
        assert [(e["line"], e["column"]) for e in refused.value.details["errors"]] == [
            (2, 6),
            (4, 6),
        ]
        assert refused.value.details["rejected"] == 4
        c.send({"text": b"1 2:x\n", "name": "clicks.svm", "line": 1001})
        with pytest.raises(Refusal, match=r"clicks\.svm:1001:5: bad value 'x'"):
            c.flush()
        c.learn(b"".join(lines[300:]))
        status = c.status()
        assert c.snapshot().to_bytes() == fitted(b"".join(lines)).to_bytes()
    assert (status["learned"], status["rejected"]) == (len(lines), 5)
    assert adds_up(status)


def test_skip_leaves_bad_lines_out_and_learns_the_rest(serve, fitted, lines):
    text = b"".join([*lines[:50], b"\n# a comment\n", b"+1 1:1e999\n" * 25, *lines[50:]])
    daemon = serve()
    with daemon.client() as c:
        done = c.learn(text, on_error="skip")
        assert (done["learned"], done["skipped"], done["rejected"]) == (len(lines), 25, 0)
        assert len(done["errors"]) == 10
        assert done["errors"][0]["message"].startswith("batch:53:6: value '1e999'")
        assert adds_up(c.status())
        assert c.snapshot().to_bytes() == fitted(text, "--on-error", "skip").to_bytes()


def test_a_refused_batch_does_not_decide_how_labels_are_written(serve):
    daemon = serve()
    with daemon.client() as c:
        with pytest.raises(Refusal, match="BAD_LINE"):
            c.learn("-1 1:1\n+1 bad\n")
        assert c.learn("0 1:1\n+1 2:1\n")["learned"] == 2
        with pytest.raises(Refusal, match="0 and -1 both stand for the negative class"):
            c.learn("-1 1:1\n")
        assert c.snapshot().labels == (0.0, 1.0)


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        ([[1.0, 2.0]], [7.0], "label '7'"),
        ([[float("nan"), 1.0]], [1.0], "values must be finite"),
        ([[1e60, 1.0]], [1.0], "scale the data"),
        ([[1.0, 1.0], [1.0, 2.0]], [1.0, float("nan")], "label 'nan'"),
    ],
)
def test_bad_arrays_are_refused_whole(serve, X, y, words):
    daemon = serve()
    with daemon.client() as c:
        with pytest.raises(Refusal, match="BAD_LINE") as refused:
            c.learn(X, y)
        assert words in refused.value.message
        assert c.status()["learned"] == 0


def test_an_empty_batch_teaches_nothing(serve):
    daemon = serve()
    with daemon.client() as c:
        assert c.learn(b"")["learned"] == 0
        assert c.learn(b"\n\n# nothing\n")["learned"] == 0
        assert c.learn(b"+1")["learned"] == 1  # an example without features


def test_divergence_stops_learning_but_not_predictions(serve, rows):
    daemon = serve("--algo", "sgd", "--loss", "squared", "--t0", "0", "--l2", "1e-9")
    text = b"".join(rows(300, 3, None)).replace(b":-", b":").replace(b":", b":99999")
    with daemon.client() as c:
        before = c.margins("0 1:1\n")
        with pytest.raises(Refusal) as refused:
            c.learn(text)
        assert refused.value.code == "DIVERGED"
        with pytest.raises(Refusal, match="DIVERGED"):
            c.learn("1 1:1\n")
        status = c.status()
        assert not status["healthy"]
        assert "diverged" in status["trouble"]
        assert adds_up(status)
        assert np.isfinite(c.margins("0 1:1\n")).all()
        assert (c.margins("0 1:1\n", live=True) == before).all()
    daemon.wait_for("learning has stopped")


def test_lines_of_the_feed_are_counted_logged_and_not_read_when_learning_has_stopped(serve):
    daemon = serve("--algo", "sgd", "--loss", "squared", "--t0", "0", "--l2", "1e-9")
    wild = b"".join(b"%d 1:99999.%d\n" % (i, i) for i in range(1, 300))
    with daemon.client() as c, zmq.Context() as context, context.socket(zmq.PUSH) as push:
        push.linger = 0
        push.connect(daemon.endpoints["feed"])
        push.send(b"1 1:1\n" * 5)
        status_when(c, lambda status: status["t"] == 5)
        push.send(wild)
        for _ in range(200):
            push.send(b"1 1:1\n" * 1000)
        status_when(c, lambda status: not status["healthy"])

        def all_told(status):
            taken = 5 + 299 + 1000 * (status["feed_messages"] - 2)
            return taken == status["received"] + status["feed_lost"]

        status = status_when(c, all_told)
        assert adds_up(status)
        for _ in range(100):
            push.send(b"1 1:1\n")
        assert c.ping()
        assert c.status()["feed_messages"] == status["feed_messages"]
    daemon.wait_for("learning has stopped")


def test_lines_of_the_feed_that_cannot_be_kept_are_counted_and_logged(tmp_path):
    """By a server without its threads: the disk is full, then it is not."""
    options = Options(*[[f"ipc://{tmp_path}/{name}"] for name in ("requests", "feed", "publish")])
    server = Server(Ledger(Training(resolve("averagesl", "logistic", {}))), options)
    try:
        assert server.takes_feed
        text = b"1 1:1\n\n-1 2:1\n"
        full = {"code": "STORAGE", "message": "the journal cannot be written"}
        server.note_feed(text, full)
        assert server.feed_lost == 2
        assert not server.takes_feed  # for a moment
        assert 0 < server.patience <= 1001
        server.note_feed(text, {**full, "code": "STOPPING", "kept": True})
        server.note_feed(text, {**full, "code": "DIVERGED", "learned": 1, "rejected": 1})
        assert server.status()["feed_lost"] == 2
        server.feed_at = 0.0
        server.note_feed(text, {"t": 2, "learned": 2, "skipped": 0, "rejected": 0})
        assert server.takes_feed
        server.learning.ledger.stopped = End("MEMORY", "no memory")
        assert not server.takes_feed
    finally:
        server.context.destroy(linger=0)
        server.close()


def test_every_batch_taken_is_answered(serve, lines):
    """Many more batches than are learned in one turn; a lost one would be sent again unnoticed."""
    daemon = serve()
    with daemon.client() as c:
        for line in lines * 2:
            c.send({"text": line})
        c.flush()
        status = c.status()
        assert (status["queued"], status["queued_bytes"]) == (0, 0)
        assert status["t"] == status["learned"] == 2 * len(lines)
