"""The client: what it takes, how it cuts it, whom it talks to, when it gives up or asks again."""

from __future__ import annotations

import errno
import signal
import socket as sockets
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import msgpack
import numpy as np
import pytest
import scipy.sparse
import zmq

from daemon.conftest import PATIENCE, daemons, until
from streamlearn import wire
from streamlearn.client import Client
from streamlearn.errors import ConfigError, DataError, Unavailable, UsageError
from streamlearn.keys import KeyFolder
from streamlearn.payloads import to_learn, to_predict
from streamlearn.wire import Refusal

LIMIT = 1 << 16  # of a message to the shared daemon
X, Y = np.array([[0.0, 1.0, 0.0, 0.5], [0.0, 0.0, 1.0, 0.0]]), np.array([1.0, -1.0])
TEXT = "+1 1:1 3:0.5\n-1 2:1\n"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with daemons(tmp_path_factory.mktemp("daemon")) as serve:
        yield serve("--max-message", LIMIT)


@pytest.fixture
def client(daemon):
    with daemon.client() as c:
        yield c


class Double:
    """A stand-in for a daemon: answers what a test wants it to, when it wants it to."""

    def __init__(self, context, endpoint="tcp://127.0.0.1:*"):
        self.socket = context.socket(zmq.ROUTER)
        self.socket.linger = 0
        self.socket.rcvtimeo = int(1000 * PATIENCE)
        until(lambda: self.bound(endpoint))
        self.endpoint = self.socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def bound(self, endpoint):
        """Whether the place is free by now: sockets close in the background."""
        try:
            self.socket.bind(endpoint)
        except zmq.ZMQError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
        return True

    def hear(self):
        self.peer, data = self.socket.recv_multipart()
        return msgpack.unpackb(data)

    def answer(self, request, **body):
        reply = {"v": 1, "id": request["id"], "ok": True, **body}
        self.socket.send_multipart([self.peer, msgpack.packb(reply)])

    def welcome(self, protocols=(1, 1)):
        """The reply to the first ping."""
        request = self.hear()
        assert request["do"] == "ping"
        self.answer(request, protocols=protocols, max_message=LIMIT, endpoints={})
        return request


@pytest.fixture
def stand_in():
    """stand_in(endpoint): a double at a free port, or where another was."""
    context, begun = zmq.Context(), []

    def stand_in(*where):
        begun.append(Double(context, *where))
        return begun[-1]

    yield stand_in
    for double in begun:
        double.socket.close()
    context.term()


@pytest.fixture
def pool():
    with ThreadPoolExecutor(1) as pool:
        yield pool


# ---- what it takes -------------------------------------------------------------------------------

FORMS = {
    "str": lambda: (TEXT,),
    "bytes": lambda: (TEXT.encode(),),
    "bytearray": lambda: (bytearray(TEXT.encode()),),
    "memoryview": lambda: (memoryview(TEXT.encode()),),
    "lines": lambda: (TEXT.splitlines(),),
    "lines with newlines": lambda: (TEXT.encode().splitlines(keepends=True),),
    "a pair of lines": lambda: (tuple(TEXT.splitlines()),),
    "a generator of lines": lambda: ((line for line in TEXT.splitlines()),),
    "an array of lines": lambda: (np.array(TEXT.splitlines()),),
    "X, y": lambda: (X, Y),
    "a pair": lambda: ((X, Y),),
    "lists": lambda: (X.tolist(), Y.tolist()),
    "a generator of rows": lambda: ((row for row in X), Y),
    "fractions": lambda: ([[Fraction(v) for v in row] for row in X.tolist()], Y),
    "small numbers": lambda: (X.astype(np.float32), Y.astype(np.int8)),
    "sparse": lambda: (scipy.sparse.csr_array(X), Y),
    "a sparse pair": lambda: ((scipy.sparse.coo_array(X), Y.tolist()),),
    "csc": lambda: (scipy.sparse.csc_matrix(X), Y),
}


@pytest.mark.parametrize("form", FORMS)
def test_data_is_learned_in_whatever_form_it_comes(client, form):
    assert client.learn(*FORMS[form]())["learned"] == 2
    (body,) = to_learn(*[*FORMS[form](), None, None][:3], limit=LIMIT)
    if "text" in body:
        assert body["text"].decode() == TEXT
    else:
        columns = {k: np.frombuffer(v, "<f8" if k in ("values", "labels") else "<i8")
                   for k, v in body["rows"].items()}  # fmt: skip
        found = scipy.sparse.csr_array((columns["values"], columns["ids"], columns["offsets"]))
        assert found.toarray().tolist() == X.tolist()
        assert columns["labels"].tolist() == Y.tolist()


def test_an_open_file_is_read_line_by_line(client, tmp_path):
    path = tmp_path / "data.svm"
    path.write_text(TEXT * 40_000)
    for mode in ("r", "rb"):
        with path.open(mode) as file:
            assert client.learn(file)["learned"] == 80_000


@pytest.mark.parametrize(
    "row",
    [
        scipy.sparse.coo_array(X[0]),
        X[0],
        X[0].tolist(),
        scipy.sparse.csr_array(X[:1]),
    ],
    ids=["coo", "dense", "list", "csr"],
)
def test_a_vector_is_one_row(client, row):
    assert client.margins(row).tobytes() == client.margins(X[:1]).tobytes()
    assert client.learn(row, 1.0)["learned"] == 1


@pytest.mark.parametrize(
    "nothing",
    [[], (), "", b"", np.empty((0, 4)), scipy.sparse.csr_array((0, 4)), iter([])],
    ids=lambda x: f"{type(x).__name__}{getattr(x, 'shape', '')}",
)
def test_nothing_gives_no_predictions_and_teaches_nothing(client, nothing):
    assert client.predict(nothing).shape == (0,)
    t = client.learn(TEXT)["t"]
    assert t > 0
    assert client.learn(nothing) == {
        "t": t, "learned": 0, "skipped": 0, "rejected": 0, "errors": []
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((X,), UsageError, "rows without labels"),
        ((scipy.sparse.csr_array(X),), UsageError, "rows without labels"),
        (((X, Y, Y),), DataError, "X: "),
        ((TEXT, Y), UsageError, "text has its labels"),
        ((TEXT, None, Y), UsageError, "text has its labels"),
        ((X, Y, [1.0]), DataError, r"weights has shape \(1,\); expected one for each of 2 rows"),
        ((X, [1.0]), DataError, "y has shape"),
        ((X, ["a", "b"]), DataError, "y holds text; expected real numbers"),
        ((X, {"a": 1}), DataError, "a dict holds no rows"),
        ((X * 1j, Y), DataError, "X holds complex128; expected real numbers"),
        ((scipy.sparse.csr_array(X * 1j), Y), DataError, "X holds complex128"),
        ((X, Y * 1j), DataError, "y holds complex128"),
        (([["1", "2"]], [1]), DataError, "X holds text"),
        (([[1], [1, 2]], Y), DataError, "X: .*inhomogeneous.*; expected rows of numbers"),
        (({"a": 1}, Y), DataError, "a dict holds no rows; expected rows of numbers, a sparse"),
        ((None, Y), DataError, "a NoneType holds no rows"),
        ((3.0, 1.0), DataError, "X has 0 dimensions"),
        ((np.zeros((2, 2, 2)), Y), DataError, "X has 3 dimensions"),
        ((Path("data.svm"),), DataError, "data.svm: a path is no data; open the file"),
        ((["1 1:1", 5],), DataError, "line 2: int is no text"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(client, arguments, error, words):
    before = client.status()["received"]
    with pytest.raises(error, match=words):
        client.learn(*arguments)
    assert client.status()["received"] == before


@pytest.mark.parametrize(
    "data", [{"a": 1}, Path("x"), X * 1j, [["1"]], None, [[1], [1, 2]]], ids=str
)
def test_what_cannot_be_predicted_from_is_refused_with_a_sentence(client, data):
    with pytest.raises(DataError, match=r"expected|open the file"):
        client.predict(data)


def test_numbers_of_numpy_are_numbers(client):
    client.learn(TEXT)
    assert client.snapshot(max_nonzeros=np.int64(1)).nonzeros <= 1
    assert client.snapshot(evidence=np.float32(2)).to_bytes() == client.snapshot(
        evidence=2.0
    ).to_bytes()
    with pytest.raises(UsageError, match="snapshot: cannot be sent: a object is neither"):
        client.snapshot(evidence=object())
    with pytest.raises(UsageError, match="snapshot: cannot be sent"):
        client.snapshot(max_nonzeros=2**70)


def test_the_feed_takes_text_and_nothing_else(serve):
    with serve("--max-message", LIMIT).client() as c:
        c.feed(TEXT)
        c.feed(TEXT.encode() * 20_000)  # beyond what fits into a message
        until(lambda: c.status()["t"] == 40_002)
        assert c.status()["skipped"] == 0
        for data in (X, ["1 1:1"], 5, None):
            with pytest.raises(DataError, match=r"feed: .* is no text; expected str or bytes"):
                c.feed(data)
        with pytest.raises(Refusal, match=r"TOO_LARGE: feed:2: a line of 100,006 bytes; .* learn"):
            c.feed("\n1 " + "1:1 " * 25_001)


def test_a_line_too_long_for_the_feed_is_refused_here_and_not_cut_off_there(serve):
    with serve().client() as c:
        c.feed("1 " + " ".join(f"{i}:1" for i in range(1, 8000)))
        until(lambda: c.status()["t"] == 1)
        with pytest.raises(Refusal, match=r"TOO_LARGE: feed:1: .* takes 65,536: use learn"):
            c.feed("1 " + " ".join(f"{i}:1" for i in range(1, 20_000)))
        c.feed(TEXT)
        until(lambda: c.status()["t"] == 3)


# ---- how it cuts ---------------------------------------------------------------------------------


def test_arrays_are_cut_by_bytes_and_come_back_whole(serve):
    wide = np.random.default_rng(2).normal(size=(3000, 600))
    y = np.where(wide[:, 0] > 0, 1.0, -1.0)
    assert max(len(wire.pack(body)) for body in to_learn(wide, y, y * y, 1 << 23)) < 1 << 21
    with serve().client() as c:
        assert c.learn(wide, y)["learned"] == 3000
        assert c.margins(wide).tobytes() == c.snapshot(published=True).margins(wide).tobytes()


@pytest.mark.parametrize("rows", [1, 7, 4096, 5000])
def test_every_row_is_in_one_part_and_each_part_has_its_number(rows):
    X = scipy.sparse.random_array((rows, 50), density=0.3, rng=np.random.default_rng(rows))
    bodies = list(to_learn(X, np.ones(rows), None, 20_000))
    at = 1
    for body in bodies:
        assert body["line"] == at
        at += len(body["rows"]["labels"]) // 8
        assert sum(map(len, body["rows"].values())) <= 20_000
    assert at == rows + 1
    values = b"".join(body["rows"]["values"] for body in bodies)
    assert values == X.tocsr().data.tobytes()
    assert all("labels" not in body["rows"] for body in to_predict(X, 20_000))


def test_messages_stay_below_a_small_limit_of_the_daemon(client):
    wide = np.ones((100, 500))
    assert client.learn(wide, np.arange(100) % 2 * 2 - 1)["learned"] == 100
    assert client.predict(wide).shape == (100,)
    assert client.learn(TEXT * 10_000)["learned"] == 20_000
    assert len(client.margins(TEXT * 10_000)) == 20_000


def test_what_is_too_large_whole_is_refused_before_it_is_sent(client):
    line = "1 " + " ".join(f"{i}:1" for i in range(1, 12_000))
    asked = client.status()["requests"]
    for ask in (
        lambda: client.learn(f"{TEXT}{line}\n"),
        lambda: client.predict(f"{TEXT}{line}\n"),
        lambda: client.request("predict", text=line.encode(), line=3),
    ):
        with pytest.raises(Refusal, match=rf"TOO_LARGE: batch:3: \d.* the daemon takes {LIMIT:,d}"):
            ask()
    for ask in (client.predict, lambda X: client.learn(X, [1, 1])):
        with pytest.raises(Refusal, match=r"TOO_LARGE: row 1: \d"):
            ask(scipy.sparse.csr_array(np.array([[0.0] * 9000, [1.0] * 9000])))
    status = client.status()
    assert status["bad_frames"] == 0
    assert status["requests"] <= asked + 6  # what came before the long ones, and this question


def test_the_commands_cut_by_the_limit_of_the_daemon(serve, run, lines):
    daemon = serve("--max-message", "4k")
    text = b"".join(lines)
    run("send", "--connect", daemon.endpoint, stdin=text)
    said = run("predict", "--connect", daemon.endpoint, stdin=text).stdout
    assert said.count(b"\n") == len(lines)
    long = b"1 " + b"".join(b"%d:1 " % i for i in range(1000)) + b"\n"
    for command in ("send", "predict"):
        said = run(command, "--connect", daemon.endpoint, stdin=text + long, code=65).stderr
        assert "TOO_LARGE: <stdin>:601: " in said


def test_a_bad_row_of_an_array_is_named_as_it_was_given(serve):
    X = np.ones((6000, 5))
    with serve().client() as c:
        X[5000, 3] = np.nan
        for ask in (lambda: c.learn(X, np.ones(6000)), lambda: c.predict(X)):
            with pytest.raises(Refusal, match="row 5000: value nan of feature 3") as refused:
                ask()
            assert refused.value.details["errors"][0]["line"] == 5001
        y = np.ones(6000)
        y[4999] = 7.0
        with pytest.raises(Refusal, match="BAD_LINE: row 4999: label '7'"):
            c.learn(np.ones((6000, 5)), y)


def test_more_classes_than_a_request_may_have_items(serve):
    many = 1100
    with serve("--multiclass", "--max-classes", "3000").client() as c:
        c.learn(scipy.sparse.eye_array(many, format="csr"), np.arange(many))
        c.snapshot()
        assert c.predict([[1.0, 0.0]]).shape == (1,)
        assert c.margins([[1.0, 0.0]]).shape == (1, many)


# ---- whom it talks to ----------------------------------------------------------------------------


@pytest.fixture
def keys(tmp_path):
    folder = KeyFolder(str(tmp_path / "keys"))
    folder.add("alice", ["learn", "predict"], tmp_path / "alice.secret")
    return folder


def gives_up(endpoint, words, **options):
    """It says so with these words, and in time; and again when it is asked again."""
    with Client(endpoint, timeout=1.0, **options) as c:
        for ask in (c.ping, lambda: c.learn(TEXT), lambda: c.predict(TEXT), lambda: c.feed(TEXT)):
            begin = time.monotonic()
            with pytest.raises(Unavailable, match=words):
                ask()
            assert time.monotonic() - begin < 10.0
        c.batches.clear()


@pytest.mark.parametrize("door", ["feed", "publish"])
def test_another_socket_of_the_daemon_is_given_up(daemon, door):
    gives_up(daemon.endpoints[door], r"no answer for 1 s; .* its feed or publish socket")


def test_a_daemon_that_wants_a_key_is_given_up_without_one(serve, keys, run):
    daemon = serve("--keys", "keys")
    gives_up(daemon.endpoint, r"wants? a key \(--key FILE\)")
    said = run("status", "--connect", daemon.endpoint, "--timeout", "20", code=69, timeout=15)
    assert "a key (--key FILE)" in said.stderr


def test_a_key_for_a_daemon_without_keys_is_given_up(daemon, keys, tmp_path):
    words = r"takes? no keys.* leave --key out"  # seen, or guessed when it hangs up before that
    gives_up(daemon.endpoint, words, key=str(tmp_path / "alice.secret"))


def test_a_key_that_is_not_on_the_list_is_given_up(serve, keys, tmp_path):
    daemon = serve("--keys", "keys")
    keys.revoke("alice")
    daemon.signal(signal.SIGHUP)
    daemon.wait_for("0 keys are on the list")
    gives_up(daemon.endpoint, "not have our key on its list", key=str(tmp_path / "alice.secret"))


def test_the_secret_of_the_daemon_is_no_key_for_a_client(keys, run, tmp_path):
    with pytest.raises(ConfigError, match=r"the secret of a daemon.*streamlearn keys new NAME"):
        Client("tcp://127.0.0.1:9", key=str(keys.server_path))
    said = run("ping", "--key", "keys/server.secret", code=78).stderr
    assert "keys/server.secret: the secret of a daemon" in said


def test_a_stranger_that_answers_is_no_daemon(stand_in, pool):
    double = stand_in()
    with Client(double.endpoint, timeout=PATIENCE) as c:
        for noise in (b"hello", msgpack.packb([1]), msgpack.packb({"id": 1})):
            asked = pool.submit(c.ping)
            double.hear()
            double.socket.send_multipart([double.peer, noise])
            with pytest.raises(Unavailable, match="is no daemon of ours"):
                asked.result(PATIENCE)


def test_a_daemon_is_found_at_an_address_of_ipv6(serve, run):
    with sockets.socket(sockets.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("no IPv6 here")
    place = "tcp://[::1]:*"
    daemon = serve("--bind-feed", place, "--bind-publish", place, bind=place)
    with daemon.client() as c:
        assert c.learn(TEXT)["learned"] == 2
        c.feed(TEXT)
        c.snapshot()
    run("follow", "--connect", daemon.endpoint, "--count", "1", "-o", "m.sl")


# ---- versions ------------------------------------------------------------------------------------


def test_the_newest_version_that_both_speak_is_spoken(stand_in, pool, monkeypatch):
    monkeypatch.setattr(wire, "NEWEST", 5)
    double = stand_in()
    for theirs, agreed in (((1, 1), 1), ((1, 3), 3), ((5, 9), 5), ((2, 99), 5)):
        with Client(double.endpoint, timeout=PATIENCE) as c:
            asked = pool.submit(c.status)
            double.welcome(theirs)
            request = double.hear()
            assert (request["v"], request["do"]) == (agreed, "status")
            double.answer(request, status={})
            assert asked.result(PATIENCE) == {}


def test_a_daemon_that_speaks_no_version_of_ours_is_refused_by_both_ranges(stand_in, pool):
    double = stand_in()
    for ask in (lambda c: c.learn(TEXT), Client.status, lambda c: c.feed(TEXT)):
        with Client(double.endpoint, timeout=PATIENCE) as c:
            asked = pool.submit(ask, c)
            double.welcome((7, 9))
            with pytest.raises(Refusal, match="versions 7 to 9 of the protocol and we 1 to 1"):
                asked.result(PATIENCE)


def test_a_newer_client_speaks_the_version_of_a_real_daemon(daemon, monkeypatch):
    monkeypatch.setattr(wire, "NEWEST", 5)
    with daemon.client() as c:
        assert c.learn(TEXT)["learned"] == 2
        assert c.version == 1


# ---- asking again --------------------------------------------------------------------------------


def test_a_request_that_takes_its_time_is_not_asked_again(stand_in, pool):
    double = stand_in()
    with Client(double.endpoint, timeout=PATIENCE) as c:
        c.resend_seconds = 0.01
        asked = pool.submit(c.request, "snapshot")
        double.welcome()
        request = double.hear()
        assert request["do"] == "snapshot"
        assert not double.socket.poll(500)  # fifty times as long as a batch would wait
        double.answer(request, t=5)
        assert asked.result(PATIENCE)["t"] == 5


def test_a_batch_is_sent_again_when_there_is_silence(stand_in, pool):
    double = stand_in()
    with Client(double.endpoint, timeout=PATIENCE) as c:
        c.resend_seconds = 0.01
        asked = pool.submit(c.learn, TEXT)
        double.welcome()
        first = double.hear()
        assert double.hear() == first
        double.answer(first, t=2, learned=2)
        assert asked.result(PATIENCE)["t"] == 2


def test_a_request_survives_the_end_of_the_daemon_it_was_sent_to(stand_in, pool):
    double = stand_in()
    with Client(double.endpoint, timeout=PATIENCE) as c:
        asked = pool.submit(c.request, "snapshot")
        double.welcome()
        first = double.hear()
        double.socket.close()
        double = stand_in(double.endpoint)
        again = double.hear()
        assert again == first
        assert not double.socket.poll(200)  # once
        double.answer(again, t=5)
        assert asked.result(PATIENCE)["t"] == 5
        asked = pool.submit(c.status)  # what it may send to the new one it asks anew
        double.welcome()
        double.answer(double.hear(), status={})
        assert asked.result(PATIENCE) == {}


def test_a_snapshot_survives_the_death_of_a_daemon(serve, pool, lines):
    daemon = serve()
    with daemon.client() as c:
        c.ping()
        daemon.signal(signal.SIGSTOP)
        asked = pool.submit(c.snapshot)
        daemon.process.kill()
        daemon.process.wait()
        serve(bind=daemon.endpoint)
        assert asked.result(PATIENCE).t == 0
