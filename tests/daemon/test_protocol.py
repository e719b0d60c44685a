"""Frames as any language may send them: good ones, golden ones, and whatever else comes by."""

from __future__ import annotations

import ast
import errno
import itertools
import re
import socket as sockets
import struct
from contextlib import suppress
from random import Random

import msgpack
import pytest
import zmq

from daemon.conftest import PATIENCE, SOCKETS, adds_up, daemons, until
from streamlearn import wire
from streamlearn.catalogue import resolve
from streamlearn.client import Client
from streamlearn.daemon.commands import COMMANDS
from streamlearn.daemon.ledger import Ledger
from streamlearn.daemon.publisher import whole
from streamlearn.daemon.server import Options, Server
from streamlearn.delta import apply, difference
from streamlearn.keys import KeyFolder
from streamlearn.model import Model
from streamlearn.training import Training

LIMIT = 1 << 16  # of a message to the shared daemon
GOLDEN = "tests/golden/protocol-1.txt"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    """One daemon for all that must leave no trace."""
    with daemons(tmp_path_factory.mktemp("daemon")) as serve:
        yield serve("--max-message", LIMIT)


@pytest.fixture(scope="module")
def context():
    context = zmq.Context()
    yield context
    context.destroy(linger=0)


@pytest.fixture
def peer(context):
    """peer(daemon, kind): a connected socket."""
    opened = []

    def peer(daemon, kind=zmq.DEALER):
        socket = context.socket(kind)
        opened.append(socket)
        socket.linger = 0
        socket.rcvtimeo = int(1000 * PATIENCE)
        socket.connect(daemon.endpoint)
        return socket

    yield peer
    for socket in opened:
        socket.close()


def ask(socket, **body):
    socket.send(msgpack.packb({"v": 1, **body}))
    return msgpack.unpackb(socket.recv())


@pytest.fixture
def unharmed(daemon):
    """Whatever the test does to the shared daemon, it goes on answering and has learned nothing."""
    with daemon.client() as c:
        before = c.status()
    yield before
    with daemon.client() as c:
        assert c.margins("1 1:1\n").shape == (1,)
        after = c.status()
    assert after["t"] == before["t"]
    assert after["healthy"]
    assert adds_up(after)
    assert after["pid"] == before["pid"]


# ---- golden frames -------------------------------------------------------------------------------


def frames_of(root):
    """[(mark, bytes, what they mean)] in the order of the file; behind ~ only the words there."""
    found = []
    for line in (root / GOLDEN).read_text(encoding="utf-8").splitlines():
        mark, _, text = line.partition(" ")
        if mark in (">", "<", "@"):
            topic, _, frame = text.rpartition(" ")
            found.append([mark + topic, bytes.fromhex(frame)])
        elif mark == "=":
            found[-1].append(ast.literal_eval(text))
        elif mark == "~":
            found.append([mark, b"", text.split()])
    return found


def pairs(root, mark):
    """Each request with what stands behind it, if that has this mark."""
    frames = frames_of(root)
    return [
        (*asked[1:], *told[1:])
        for asked, told in itertools.pairwise(frames)
        if (asked[0], told[0]) == (">", mark)
    ]


def golden(root):
    """[(request bytes, request, reply bytes, reply)] of a conversation with a new daemon."""
    return pairs(root, "<")


def test_frames_of_this_version_stay_as_they_are(root):
    frames = frames_of(root)
    assert {meaning["do"] for mark, _, meaning in frames if mark == ">"} > {*COMMANDS}
    assert {mark for mark, _, _ in frames} == {">", "<", "~", "@snapshot", "@delta"}
    for mark, data, meaning in frames:
        if mark != "~":
            assert wire.unpack(data) == meaning
            assert wire.pack(meaning) == data


def test_replies_that_tell_of_time_and_place_keep_their_keys(serve, peer, root):
    socket, asked = peer(serve()), pairs(root, "~")
    assert {request["do"] for _, request, _, _ in asked} == {
        "ping", "help", "status", "config", "snapshot"
    }  # fmt: skip
    for sent, request, _, keys in asked:
        socket.send(sent)
        reply = msgpack.unpackb(socket.recv())
        assert (reply.pop("v"), reply.pop("id"), reply.pop("ok")) == (1, request["id"], True)
        assert set(reply) >= set(keys), request


def test_published_frames_of_this_version_are_understood(root):
    frames = [frame for frame in frames_of(root) if frame[0].startswith("@")]
    (_, first), (_, begun), (_, change), (_, last) = [(mark, body) for mark, _, body in frames]
    assert begun == first
    old, new = Model.from_bytes(first["model"]), Model.from_bytes(last["model"])
    assert apply(old, change).to_bytes() == new.to_bytes() == last["model"]
    # and what is published now has the keys of then
    assert set(wire.unpack(whole(new))) >= set(last)
    assert {"v", "kind", *difference(old, new)} >= set(change)


def test_a_daemon_says_what_it_said_to_the_golden_frames(serve, peer, root):
    socket = peer(serve())
    for sent, request, heard, reply in golden(root):
        socket.send(sent)
        found = socket.recv()
        if reply["ok"]:
            assert found == heard, request
        else:  # words may be improved; nothing else may change
            found = msgpack.unpackb(found)
            assert {**found, "message": reply["message"]} == reply, request
            assert found["message"]


def test_the_client_sends_the_golden_frames(root):
    batches = [r for _, r, _, _ in golden(root) if "seq" in r and r["id"] == r["seq"]]
    assert batches
    for request in batches:
        client = Client("ipc:///nowhere")
        client.name = request["client"]
        body = {k: v for k, v in request.items() if k not in ("v", "id", "do", "client", "seq")}
        sent = wire.unpack(client.pack_batch(request["seq"], body))
        assert sent == request
        assert [*sent][:5] == ["v", "id", "do", "client", "seq"]
        client.close()


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65535, 65536, 70000])
def test_text_is_packed_as_any_packer_would(size):
    text = b"x" * size
    body = {"v": 1, "do": "learn", "text": text, "line": 7}
    expected = wire.pack({"v": 1, "do": "learn", "line": 7, "text": text})
    assert wire.pack_text(dict(body)) == expected
    assert wire.pack_text({**body, "text": memoryview(text)}) == expected
    assert wire.pack_text({"v": 1}) == wire.pack({"v": 1})


# ---- good requests -------------------------------------------------------------------------------

GIVES = {
    "learn": ({"text": b""}, "t learned skipped rejected"),
    "predict": ({"text": b"1 1:1\n"}, "t margins"),
    "snapshot": ({}, "t nonzeros model"),
    "status": ({}, "status"),
    "config": ({}, "settings"),
    "ping": ({}, "streamlearn protocols endpoints max_message pid time"),
    "help": ({}, "commands codes"),
}


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("kind", [zmq.DEALER, zmq.REQ])
@pytest.mark.parametrize("do", GIVES)
def test_every_command_gives_what_it_promises(daemon, peer, kind, do):
    body, keys = GIVES[do]
    reply = ask(peer(daemon, kind), id=5, do=do, **body)
    assert (reply.pop("v"), reply.pop("id"), reply.pop("ok")) == (1, 5, True)
    assert set(reply) == set(keys.split())


def test_commands_that_end_and_save(serve, peer, tmp_path):
    daemon = serve("--state", "state")
    socket = peer(daemon)
    assert ask(socket, do="learn", text=b"1 1:1\n")["t"] == 1
    saved = ask(socket, id="s", do="checkpoint")
    assert saved == {"v": 1, "id": "s", "ok": True, "t": 1, "path": "state/checkpoint.sl"}
    assert (tmp_path / saved["path"]).exists()
    assert ask(socket, id="e", do="shutdown") == {"v": 1, "id": "e", "ok": True, "t": 1}
    daemon.ended()


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("number", [0, -1, 2**64 - 1, -(2**63), "", "a b", "ü" * 100])
@pytest.mark.parametrize("do", ["ping", "learn", "nonsense"])
def test_the_id_comes_back(daemon, peer, number, do):
    more = {"text": b""} if do == "learn" else {}
    assert ask(peer(daemon), id=number, do=do, **more)["id"] == number


@pytest.mark.usefixtures("unharmed")
def test_a_request_needs_no_id(daemon, peer):
    assert ask(peer(daemon), do="ping")["id"] is None


def test_help_is_the_table(daemon, peer):
    found = ask(peer(daemon), do="help")
    assert set(found["commands"]) == set(COMMANDS)
    assert found["codes"] == wire.CODES
    for name, command in COMMANDS.items():
        assert set(found["commands"][name]["takes"]) == set(command.takes)


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("more", [{"v": 1}, {"v": 99}, {"v": 0}, {"v": "next"}, {}], ids=str)
def test_every_version_may_ping(daemon, peer, more):
    socket = peer(daemon)
    socket.send(msgpack.packb({"id": 9, "do": "ping", **more}))
    reply = msgpack.unpackb(socket.recv())
    assert (reply["id"], reply["ok"]) == (9, True)
    assert reply["protocols"] == [wire.OLDEST, wire.NEWEST]


# ---- bad requests --------------------------------------------------------------------------------


def nested(depth):
    return b"\x91" * depth + b"\xc0"


def envelope(value):
    """A request whose `do` is these raw bytes."""
    return b"\x83\xa1v\x01\xa2id\x07\xa2do" + value


ROWS = {"offsets": struct.pack("<2q", 0, 1), "ids": struct.pack("<q", 3),
        "values": struct.pack("<d", 1.0), "labels": struct.pack("<d", 1.0)}  # fmt: skip

BAD = [
    ({"v": 2, "do": "status"}, "BAD_VERSION"),
    ({"v": 0, "do": "status"}, "BAD_VERSION"),
    ({"v": "1", "do": "status"}, "BAD_VERSION"),
    ({"v": 1.0, "do": "status"}, "BAD_VERSION"),
    ({"v": True, "do": "status"}, "BAD_VERSION"),
    ({"v": None, "do": "status"}, "BAD_VERSION"),
    ({}, "BAD_REQUEST"),
    ({"do": None}, "BAD_REQUEST"),
    ({"do": "Learn"}, "BAD_REQUEST"),
    ({"do": b"ping"}, "BAD_REQUEST"),
    ({"do": ["ping"]}, "BAD_REQUEST"),
    ({"do": "x" * 60_000}, "BAD_REQUEST"),
    ({"do": "ping", "extra": 1}, "BAD_REQUEST"),
    ({"do": "ping", "text": b""}, "BAD_REQUEST"),
    ({"do": "status", "": 1}, "BAD_REQUEST"),
    ({"do": "learn"}, "BAD_REQUEST"),
    ({"do": "learn", "text": "1 1:1\n"}, "BAD_REQUEST"),
    ({"do": "learn", "text": None}, "BAD_REQUEST"),
    ({"do": "learn", "text": b"", "rows": ROWS}, "BAD_REQUEST"),
    ({"do": "learn", "text": b"", "client": "c"}, "BAD_REQUEST"),
    ({"do": "learn", "text": b"", "seq": 1}, "BAD_REQUEST"),
    ({"do": "learn", "text": b"", "client": "", "seq": 1}, "BAD_REQUEST"),
    ({"do": "learn", "text": b"", "client": "c" * 65, "seq": 1}, "BAD_REQUEST"),
    ({"do": "learn", "text": b"", "client": "c", "seq": 0}, "BAD_REQUEST"),
    ({"do": "learn", "text": b"", "client": "c", "seq": -1}, "BAD_REQUEST"),
    ({"do": "learn", "text": b"", "client": "c", "seq": True}, "BAD_REQUEST"),
    ({"do": "learn", "text": b"", "client": 7, "seq": 1}, "BAD_REQUEST"),
    ({"do": "learn", "text": b"", "on_error": "stop"}, "BAD_REQUEST"),
    ({"do": "learn", "text": b"bad\n", "line": 2**64 - 1}, "BAD_REQUEST"),
    ({"do": "learn", "text": b"bad\n", "line": -1}, "BAD_REQUEST"),
    ({"do": "learn", "text": b"bad\n", "line": 1.5}, "BAD_REQUEST"),
    ({"do": "learn", "text": b"bad\n", "name": "n" * 1025}, "BAD_REQUEST"),
    ({"do": "learn", "rows": {}}, "BAD_REQUEST"),
    ({"do": "learn", "rows": []}, "BAD_REQUEST"),
    ({"do": "learn", "rows": {**ROWS, "more": b""}}, "BAD_REQUEST"),
    ({"do": "learn", "rows": {**ROWS, "ids": [3]}}, "BAD_REQUEST"),
    ({"do": "learn", "rows": {**ROWS, "ids": b"1234567"}}, "BAD_REQUEST"),
    ({"do": "learn", "rows": {k: v for k, v in ROWS.items() if k != "labels"}}, "BAD_REQUEST"),
    ({"do": "predict", "text": b"bad\n", "line": 2**64 - 1}, "BAD_REQUEST"),
    ({"do": "predict", "text": b"", "output": "odds"}, "BAD_REQUEST"),
    ({"do": "predict", "text": b"", "model": "best"}, "BAD_REQUEST"),
    ({"do": "snapshot", "max_nonzeros": 2**64 - 1}, "BAD_REQUEST"),
    ({"do": "snapshot", "max_nonzeros": -1}, "BAD_REQUEST"),
    ({"do": "snapshot", "max_nonzeros": 1.0}, "BAD_REQUEST"),
    ({"do": "snapshot", "max_nonzeros": True}, "BAD_REQUEST"),
    ({"do": "snapshot", "evidence": float("nan")}, "BAD_REQUEST"),
    ({"do": "snapshot", "evidence": "1"}, "BAD_REQUEST"),
    ({"do": "snapshot", "published": 1}, "BAD_REQUEST"),
    ({"do": "snapshot", "published": True, "evidence": 2.0}, "BAD_REQUEST"),
    ({"do": "ping", "id": 1.5}, "BAD_REQUEST"),
    ({"do": "ping", "id": True}, "BAD_REQUEST"),
    ({"do": "ping", "id": b"x"}, "BAD_REQUEST"),
    ({"do": "ping", "id": [1]}, "BAD_REQUEST"),
    ({"do": "ping", "id": msgpack.ExtType(5, b"")}, "BAD_REQUEST"),
]


@pytest.mark.parametrize(("body", "code"), BAD, ids=lambda x: str(x)[:50])
def test_what_is_no_request_is_refused_and_counted(daemon, peer, unharmed, body, code):
    reply = ask(peer(daemon), **body)
    assert (reply["ok"], reply["code"]) == (False, code)
    assert 0 < len(reply["message"]) < 500
    if code == "BAD_VERSION":
        assert reply["protocols"] == [1, 1]
    with daemon.client() as c:
        assert c.status()["bad_frames"] == unharmed["bad_frames"] + 1


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"do": "learn", "text": b"no\n"}, "BAD_LINE"),
        ({"do": "predict", "text": b"no\n"}, "BAD_LINE"),
        ({"do": "learn", "rows": {**ROWS, "offsets": b""}}, "BAD_LINE"),
        ({"do": "learn", "rows": {**ROWS, "offsets": struct.pack("<2q", -1, -1)}}, "BAD_LINE"),
        ({"do": "learn", "rows": {**ROWS, "offsets": struct.pack("<2q", 0, 9)}}, "BAD_LINE"),
        ({"do": "learn", "rows": {**ROWS, "ids": struct.pack("<q", -3)}}, "BAD_LINE"),
        ({"do": "learn", "rows": {**ROWS, "weights": b""}}, "BAD_LINE"),
        ({"do": "predict", "rows": {**ROWS, "values": struct.pack("<d", 1e60)}}, "BAD_LINE"),
        ({"do": "checkpoint"}, "STORAGE"),
        ({"do": "learn", "text": b"", "client": "gap", "seq": 2}, "SEQ_GAP"),
        ({"do": "snapshot", "smoothness": 0}, "BAD_REQUEST"),  # the learner's own objection
    ],
)
@pytest.mark.usefixtures("unharmed")
def test_what_cannot_be_done_is_refused(daemon, peer, body, code):
    reply = ask(peer(daemon), id=3, **body)
    assert (reply["id"], reply["ok"], reply["code"]) == (3, False, code)


FRAMES = {
    "empty": b"",
    "text": b"hello",
    "json": b'{"v": 1, "do": "ping"}',
    "nil": b"\xc0",
    "list": b"\x91\x01",
    "number": b"\x01",
    "reserved": b"\xc1",
    "two maps": msgpack.packb({"v": 1, "do": "ping"}) * 2,
    "cut short": msgpack.packb({"v": 1, "do": "ping"})[:-1],
    "a map of 2^32": b"\xdf\xff\xff\xff\xff",
    "a list of 2^32": envelope(b"\xdd\xff\xff\xff\xff"),
    "bytes of 2^32": envelope(b"\xc6\xff\xff\xff\xff"),
    "65 keys": msgpack.packb({str(i): 1 for i in range(65)}),
    "a number as key": msgpack.packb({1: 2}),
    "a list as key": b"\x81\x91\x01\x01",
    "a map as key": b"\x81\x80\x01",
    "no utf-8": envelope(b"\xa2\xff\xfe"),
    "a surrogate": envelope(b"\xa3\xed\xa0\x80"),
    "a time stamp": envelope(b"\xd6\xff\x00\x00\x00\x00"),
    "an extension": envelope(b"\xd4\x05\x00"),
    "nested 500": envelope(nested(500)),
    "nested 1000": envelope(nested(1000)),
    "nested 60000": envelope(nested(60_000)),
    "version nested 1000": b"\x82\xa2do\xa4help\xa1v" + nested(1000),
    "id nested 1000": b"\x82\xa2do\xa4ping\xa2id" + nested(1000),
    "a key of 60000": msgpack.packb({"v": 1, "do": "ping", "k" * 60_000: 1}),
}


@pytest.mark.parametrize("kind", [zmq.DEALER, zmq.REQ])
@pytest.mark.parametrize("name", FRAMES)
def test_frames_that_are_no_map_are_refused_and_counted(daemon, peer, unharmed, kind, name):
    socket = peer(daemon, kind)
    socket.send(FRAMES[name])
    reply = msgpack.unpackb(socket.recv())
    assert reply["code"] in ("BAD_REQUEST", "BAD_VERSION")
    assert len(reply["message"]) < 500
    assert ask(socket, do="ping")["ok"]  # the same connection goes on
    with daemon.client() as c:
        assert c.status()["bad_frames"] == unharmed["bad_frames"] + 1


PING = msgpack.packb({"v": 1, "id": 1, "do": "ping"})


@pytest.mark.parametrize(
    "frames", [[b"", b""], [PING, PING], [b"x", PING], [b"", PING, PING], [PING] * 300, [b""] * 300]
)
def test_messages_of_many_parts_are_refused_and_counted(daemon, peer, unharmed, frames):
    socket = peer(daemon)
    socket.send_multipart(frames)
    assert msgpack.unpackb(socket.recv_multipart()[-1])["code"] == "BAD_REQUEST"
    assert ask(socket, do="ping")["ok"]
    with daemon.client() as c:
        assert c.status()["bad_frames"] == unharmed["bad_frames"] + 1


def test_an_empty_frame_in_front_comes_back(daemon, peer):
    socket = peer(daemon)
    socket.send_multipart([b"", PING])
    empty, reply = socket.recv_multipart()
    assert empty == b""
    assert msgpack.unpackb(reply)["ok"]


def test_the_largest_message_is_taken_and_one_byte_more_is_not(daemon, peer, unharmed):
    frame = msgpack.packb({"v": 1, "id": 1, "do": "learn", "text": b" " * (LIMIT - 40)})
    fits = msgpack.packb(
        {"v": 1, "id": 1, "do": "learn", "text": b" " * (2 * LIMIT - 40 - len(frame))}
    )
    assert len(fits) == LIMIT
    socket = peer(daemon)
    socket.send(fits)
    assert msgpack.unpackb(socket.recv())["ok"]
    for size in (LIMIT + 1, LIMIT + (1 << 20)):
        socket.send(fits + b" " * (size - LIMIT))
        reply = msgpack.unpackb(socket.recv())
        assert (reply["id"], reply["code"]) == (None, "TOO_LARGE")
    with daemon.client() as c:
        assert c.status()["bad_frames"] == unharmed["bad_frames"] + 2


@pytest.mark.usefixtures("unharmed")
def test_a_message_far_beyond_the_limit_is_cut_off(daemon, peer):
    socket = peer(daemon)
    assert ask(socket, do="ping")["ok"]
    with socket.get_monitor_socket(zmq.EVENT_DISCONNECTED) as monitor:
        socket.send(bytes(LIMIT + (2 << 20)))
        assert monitor.poll(int(1000 * PATIENCE))
        socket.disable_monitor()
    assert ask(peer(daemon), do="ping")["ok"]


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("where", ["requests", "feed", "publish"])
@pytest.mark.parametrize(
    "words",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        b"1 1:1 2:2\n" * 100,
        b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"PLAIN".ljust(20, b"\0") + bytes(32),
        bytes(Random(5).randbytes(100_000)),
    ],
)
def test_other_tongues_at_the_port_do_no_harm(daemon, where, words):
    host, port = daemon.endpoints[where].removeprefix("tcp://").split(":")
    with sockets.create_connection((host, int(port)), timeout=PATIENCE) as raw:
        try:
            raw.sendall(words)
            raw.shutdown(sockets.SHUT_WR)
            while raw.recv(65536):  # until it hangs up
                pass
        except OSError as error:  # at once
            if error.errno not in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN):
                raise


@pytest.mark.usefixtures("unharmed")
def test_who_says_nothing_is_hung_up_on(daemon):
    silent = []
    try:
        for where in SOCKETS:
            host, port = daemon.endpoints[where].removeprefix("tcp://").split(":")
            silent.append(sockets.create_connection((host, int(port)), timeout=PATIENCE))
        for raw in silent:
            with suppress(ConnectionResetError):
                while raw.recv(64):  # its greeting, then the end
                    pass
    finally:
        for raw in silent:
            raw.close()


# Of requests, feed and publish; None where a socket has no use for it.
SETTINGS = {
    zmq.MAXMSGSIZE: (LIMIT + (1 << 20), 72 << 10, LIMIT + (1 << 20)),
    zmq.RCVHWM: (256, 1000, None),
    zmq.SNDHWM: (1000, None, 8),
    zmq.LINGER: (0, 0, 0),
    zmq.HANDSHAKE_IVL: (5000, 5000, 5000),
    zmq.HEARTBEAT_IVL: (5000, 5000, 5000),
    zmq.HEARTBEAT_TIMEOUT: (15000, 15000, 15000),
}


@pytest.mark.parametrize("locked", [False, True])
def test_the_sockets_are_set_as_is_promised(tmp_path, locked):
    options = Options(*[[f"ipc://{tmp_path}/{name}"] for name in SOCKETS], max_message=LIMIT)
    if locked:
        options.keys = KeyFolder(str(tmp_path / "keys"))
        options.keys.add("anna", ["learn"], tmp_path / "anna.key")
    server = Server(Ledger(Training(resolve("averagesl", "logistic", {}))), options)
    try:
        found = (server.router, server.feed, server.publisher.socket)
        for option, values in SETTINGS.items():
            for socket, value in zip(found, values, strict=True):
                assert value is None or socket.getsockopt(option) == value, option
        for socket in found:
            assert socket.zap_domain  # whoever knocks is asked for
            assert socket.mechanism == (zmq.CURVE if locked else zmq.NULL)
        with pytest.raises(zmq.ZMQError, match="unreachable"):  # ROUTER_MANDATORY
            server.router.send_multipart([b"nobody", b"an answer"])
    finally:
        for socket in (server.publisher.socket, server.publisher.inlet, server.publisher.outlet):
            socket.close()
        server.close()


def test_a_thousand_damaged_requests_end_nothing(serve, peer, root):
    daemon = serve("--max-message", LIMIT)
    socket = peer(daemon)
    random = Random(7)
    frames = [sent for mark, sent, request in frames_of(root)
              if mark == ">" and request["do"] != "shutdown"]  # fmt: skip
    heard = 0
    for _ in range(2000):
        frame = bytearray(random.choice(frames))
        for _ in range(random.choice((1, 1, 2, 8))):
            place = random.randrange(len(frame))
            match random.randrange(3):
                case 0:
                    frame[place] = random.randrange(256)
                case 1:
                    del frame[place : place + random.randrange(1, 4)]
                case _:
                    frame[place:place] = random.randbytes(random.randrange(1, 4))
            frame = frame or bytearray(b"\x00")
        socket.send(bytes(frame))
        heard += "code" in msgpack.unpackb(socket.recv())
    assert heard > 500
    status = ask(socket, do="status")["status"]
    assert status["bad_frames"] > 500
    assert adds_up(status)
    assert "INTERNAL" not in daemon.stop()


def test_peers_that_leave_without_reading_do_no_harm(serve, peer):
    daemon = serve()
    for _ in range(20):
        socket = peer(daemon)
        socket.send(msgpack.packb({"v": 1, "do": "learn", "text": b"1 1:1\n"}))
        socket.close(linger=int(1000 * PATIENCE))
    with daemon.client() as c:
        status = until(lambda: (s := c.status())["learned"] == 20 and s)
    assert adds_up(status)
    assert status["lost_replies"] <= 20


# ---- the page ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(root):
    return (root / "streamlearn" / "daemon" / "PROTOCOL.md").read_text(encoding="utf-8")


def test_the_page_names_every_command_and_all_it_takes(page):
    table = page.split("| `do` |")[1].split("\n\n")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE))
    assert set(rows) == set(COMMANDS)
    batch = {"text", "rows", "name", "line"}
    for name, command in COMMANDS.items():
        named = set(re.findall(r"`(\w+)", rows[name]))
        assert set(command.takes) - named <= (batch if "a batch" in rows[name] else set()), name
    assert all(f"`{key}`" in page for key in batch)
    for name, (_, keys) in GIVES.items():
        assert set(keys.split()) <= set(re.findall(r"`(\w+)`", rows[name])), name


def test_the_page_names_every_code(page):
    part = page.split("### Codes")[1].split("###")[0]
    assert re.findall(r"^\| `([A-Z_]+)`", part, re.MULTILINE) == list(wire.CODES)


def test_the_page_names_every_figure_of_the_status(page, daemon):
    part = page.split("### Status")[1].split("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", part)) | set(re.findall(r"\w+", part.split("`")[1]))
    with daemon.client() as c:
        assert set(c.status()) <= named
