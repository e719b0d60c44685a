"""Mutated requests to a real daemon over real sockets, and whatever else comes to its ports.

Checked all the time: it lives, every message is counted and answered, a good client gets right
answers, the counters add up, nothing unforeseen is in the log, and memory stays as it was.
"""

from __future__ import annotations

import ast
import os
import socket as sockets
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import msgpack
import zmq

import streamlearn
from fuzz.hunt import Bag, Violation
from fuzz.mutation import Seed, Wrong, mutated
from streamlearn import wire
from streamlearn.multiclass import model_from_bytes

GOLDEN = Path(__file__).parent.parent / "golden" / "protocol-1.txt"
ANYWHERE = "tcp://127.0.0.1:*"
PLACES = ("requests", "feed", "publish")
LIMIT = 1 << 16  # bytes of a message
# Ids are mutated, too: without a bound the model would grow, as it should.
FLAGS = ("--max-message", LIMIT, "--max-features", 1000)
PATIENCE = 60.0
WINDOW = 200  # unanswered at a time; fewer than a ROUTER keeps for a peer
ROUND = 2000  # frames between two looks at everything
ALLOWED = 32 << 20  # bytes of growth that are no leak
GREETING, SIGNATURE = 64, b"\xff" + bytes(8) + b"\x7f\x03"  # bytes of it; how it begins
HELD = 20  # connections kept open at a time
ROWS = [[0, 1, 0.5, 0], [0, 0, 1, -2]]  # of the good client
Make = Callable[[], list[bytes]]  # the parts of a message


# ---- the daemon ----------------------------------------------------------------------------------


class Daemon:
    """The process under test: where it listens, what it logged."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.log: list[str] = []
        self.endpoints: dict[str, str] = {}
        for raw in process.stderr or ():
            self.note(raw)
            if len(self.endpoints) == len(PLACES):
                break
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self) -> None:
        for raw in self.process.stderr or ():
            self.note(raw)

    def note(self, raw: bytes) -> None:
        line = raw.decode("utf-8", "replace").rstrip()
        self.log.append(line)
        for place in PLACES:
            if f"{place} on tcp" in line:
                self.endpoints[place] = line.split()[-1]

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def address(self, place: str) -> tuple[str, int]:
        host, port = self.endpoints[place].removeprefix("tcp://").rsplit(":", 1)
        return host, int(port)


@contextmanager
def started(*flags: object) -> Iterator[Daemon]:
    words = ["--bind", ANYWHERE, "--bind-feed", ANYWHERE, "--bind-publish", ANYWHERE]
    package = Path(streamlearn.__file__).resolve().parents[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "streamlearn", "serve", *words, *map(str, flags)],
        # Not here: a checkout that was not built would be found before what is installed.
        cwd="/", stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(package)},
    )  # fmt: skip
    daemon = Daemon(process)
    try:
        if len(daemon.endpoints) < len(PLACES):
            raise RuntimeError("the daemon did not start: " + " ".join(daemon.log))
        yield daemon
    finally:
        process.kill()
        process.wait()
        daemon.reader.join()
        if process.stderr:
            process.stderr.close()


# ---- what is sent --------------------------------------------------------------------------------


def requests() -> list[Seed]:
    """The golden conversation, and what is not in it."""
    found = []
    for line in GOLDEN.read_text("utf-8").splitlines():
        if line.startswith("> "):
            asked = line[2:]
        elif line.startswith("= ") and asked:
            if ast.literal_eval(line[2:]).get("do") != "shutdown":
                found.append(bytes.fromhex(asked))
            asked = ""
    rows = {name: bytes(8 * n) for name, n in (("offsets", 3), ("labels", 2), ("weights", 2))}
    more = [
        {"do": "ping"}, {"do": "help"}, {"do": "status"}, {"do": "config"}, {"do": "checkpoint"},
        {"do": "snapshot"}, {"do": "snapshot", "published": True},
        {"do": "snapshot", "evidence": 2.5, "smoothness": 3.0, "max_nonzeros": 4},
        {"do": "learn", "rows": {**rows, "ids": b"", "values": b""}, "client": "r", "seq": 1},
        {"do": "learn", "text": b"1 1:x\n-1 2:1\n", "on_error": "skip", "name": "n", "line": 7},
        {"do": "predict", "text": b"1:1\n" * 500, "model": "live", "output": "label"},
        {"do": "learn", "text": b"1:0.5 1:1e49 2:-3 9223372036854775807:1\n-1 3:1\n" * 40},
    ]  # fmt: skip
    found += [msgpack.packb({"v": 1, "id": n, **body}) for n, body in enumerate(more)]
    return [Seed("frame", data) for data in found]


class Frames:
    """Mutated messages, each of one part or a few; none is a whole request to shut down."""

    def __init__(self, seed: int) -> None:
        self.random, self.seeds = Random(f"frames {seed}"), requests()

    def make(self) -> list[bytes]:
        random = self.random
        frame = mutated(random, random.choice(self.seeds), self.seeds)[: LIMIT + 5000]
        if b"shutdown" in frame:
            return [b"shutdown"]
        if random.random() < 0.97:
            return [frame]
        empty = [b""] * random.choice((0, 1, 1, 2))
        return [*empty, frame, *([frame[:20]] * random.choice((0, 0, 1, 30)))]


def greeting_of(mechanism: bytes, minor: bytes = b"\0") -> bytes:
    """The first bytes of a peer."""
    words = SIGNATURE + minor + mechanism.ljust(20, b"\0")
    return words.ljust(GREETING, b"\0")


def greeting(random: Random) -> bytes:
    """The same, now and then not quite."""
    name = random.choice((b"NULL", b"NULL", b"PLAIN", b"CURVE", b"nonsense" * 2))
    return greeting_of(name, random.choice((b"\0", b"\1")))


def ready(kind: bytes) -> bytes:
    body = b"\x05READY\x0bSocket-Type" + len(kind).to_bytes(4, "big") + kind
    return b"\x04" + bytes([len(body)]) + body


def say(raw: sockets.socket, words: bytes) -> None:
    """A greeting waits for the other side's: libzmq hangs up on a peer that says all at once."""
    raw.sendall(words[:GREETING])
    if words[GREETING:]:
        left = GREETING if words.startswith(SIGNATURE) else 0
        while left and (heard := len(raw.recv(left))):
            left -= heard
        raw.sendall(words[GREETING:])


def garbage(random: Random, frames: Frames) -> bytes:
    """What a stranger might say to a port."""
    peer = greeting(random) + ready(random.choice((b"DEALER", b"PUSH", b"SUB", b"REQ", b"x" * 200)))
    frame = frames.make()[0]
    match random.randrange(11):
        case 0:
            return b""
        case 1:
            return f"GET /{random.random()} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        case 2:
            return random.randbytes(random.choice((1, 9, 64, 70, 5000)))
        case 3:
            return b"1 1:1 2:2\n" * random.choice((1, 10, 1000))
        case 4:
            return peer[: random.randrange(len(peer))]  # half a handshake
        case 5:
            return peer + random.randbytes(random.randrange(300))
        case 6:  # the length of a message that will not come
            length = random.choice((255, 1 << 24, (1 << 63) - 1, (1 << 64) - 1))
            return peer + b"\x02" + length.to_bytes(8, "big")
        case 7:
            return peer + b"\x04" + random.choice((b"\x05\x04PING", b"\x00", b"\x09\x09SUBSCRIBE"))
        case 8:
            return peer + b"\x00\x00\x00" + bytes([min(len(frame), 255)]) + frame[:255]
        case 9:  # the end of a subscription that never began
            words = b"\0" + random.choice((b"delta", b"snapshot", b""))
            return greeting_of(b"NULL") + ready(b"SUB") + bytes([0, len(words)]) + words
        case _:
            return b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)


# ---- the siege -----------------------------------------------------------------------------------


@dataclass
class Talk:
    """A conversation with one daemon: a flood on one connection, a good client on another."""

    daemon: Daemon
    context: zmq.Context
    sent: int = 0
    heard: int = 0
    asked: int = 0
    fed: int = 0
    rows: int = 0  # learned by the good client
    strangers: int = 0  # their messages, which cannot be foreseen: as counted when they had left
    lost: int = 0  # replies that they did not wait for
    waiting: deque[list[bytes]] = field(default_factory=lambda: deque(maxlen=2 * WINDOW))
    codes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.flood, self.good = self.peer(zmq.DEALER), self.peer(zmq.DEALER)
        self.follower = self.peer(zmq.SUB, "publish")
        self.follower.subscribe(wire.DELTA_TOPIC)
        self.followed = -1

    def peer(
        self, kind: int, place: str = "requests", context: zmq.Context | None = None
    ) -> zmq.Socket:
        socket = (context or self.context).socket(kind)
        socket.linger = 0
        socket.rcvtimeo = socket.sndtimeo = int(1000 * PATIENCE)
        socket.connect(self.daemon.endpoints[place])
        return socket

    def close(self) -> None:
        for socket in (self.flood, self.good, self.follower):
            socket.close()

    def pour(self, make: Make, count: int) -> None:
        """So many messages, as fast as they are answered."""
        stop = self.sent + count
        while self.sent < stop or self.heard < self.sent:
            while self.sent < stop and self.sent - self.heard < WINDOW:
                message = make()
                self.flood.send_multipart(message)
                self.waiting.append(message)
                self.sent += 1
            self.hear()

    def hear(self) -> None:
        """One answer, and all that are there."""
        if not self.comes(self.flood):
            missing, state = self.sent - self.heard, "lives" if self.daemon.alive else "is dead"
            raise Wrong(f"{missing} of {self.sent} were not answered; the daemon {state}")
        with suppress(zmq.Again):
            while True:
                reply = self.flood.recv_multipart(zmq.NOBLOCK)
                self.heard += 1
                self.judge(reply[-1])

    def comes(self, socket: zmq.Socket) -> bool:
        """Whether there is anything to read, as long as the daemon lives."""
        deadline = time.monotonic() + PATIENCE
        while not (found := socket.poll(100)) and self.daemon.alive:
            if time.monotonic() > deadline:
                break
        return bool(found)

    def judge(self, reply: bytes) -> None:
        body = msgpack.unpackb(reply)
        code = body.get("code", "ok")
        self.codes[code] += 1
        if code == "INTERNAL" or (code != "ok" and code not in wire.CODES):
            raise Wrong(f"answered {body}")
        if body["v"] != wire.NEWEST or body["ok"] is not (code == "ok"):
            raise Wrong(f"an answer that is none: {body}")

    def ask(self, **body: Any) -> dict[str, Any]:
        """The good client's way."""
        self.asked += 1
        self.good.send(msgpack.packb({"v": 1, "id": self.asked, **body}))
        if not self.comes(self.good):
            raise Wrong(f"a good client waits in vain for {body['do']}")
        reply = msgpack.unpackb(self.good.recv())
        if reply["id"] != self.asked:
            raise Wrong(f"a good client got the answer to another request: {reply['id']}")
        return reply

    def look(self) -> dict[str, Any]:
        """Everything at once: answers, counters, log; the status."""
        text = b"+1 1:1 2:0.5\n-1 2:1 3:-2\n"
        reply = self.ask(do="learn", text=text)
        if reply.get("learned") != 2:
            raise Wrong(f"a good batch was not learned: {reply}")
        self.follow(self.predict(text, reply["t"]))
        status = self.ask(do="status")["status"]
        parts = ("learned", "skipped", "rejected", "duplicate")
        if status["received"] != sum(status[name] for name in parts):
            raise Wrong(f"received {status['received']} does not add up")
        requests, known = status["requests"], self.sent + self.asked + self.strangers
        if requests != known:
            raise Wrong(f"{requests} requests were counted where {known} were sent")
        if status["lost_replies"] != self.lost:
            raise Wrong(f"{status['lost_replies'] - self.lost} replies were lost")
        if not status["healthy"]:
            raise Wrong(f"not healthy: {status['trouble']}")
        for line in self.daemon.log:
            if any(word in line for word in ("Traceback", "CRITICAL", "Exception", "failed")):
                raise Wrong(f"in the log: {line}")
        return status

    def predict(self, text: bytes, t: int) -> int:
        """Margins are those of a model that has learned t examples or more; of how many it has."""
        deadline = time.monotonic() + PATIENCE
        while True:
            live = self.ask(do="predict", text=text, model="live")
            model = model_from_bytes(self.ask(do="snapshot", published=True)["model"])
            again = self.ask(do="predict", text=text)
            if not t <= live["t"] <= model.t <= again["t"]:
                raise Wrong("a good client is answered from a model older than it was told of")
            if live["t"] == again["t"]:  # no stranger taught it anything meanwhile
                break
            if time.monotonic() > deadline:
                raise Wrong("the model does not come to rest")
        if not live["margins"] == again["margins"] == model.margins(ROWS).tobytes():
            raise Wrong(f"a good client gets wrong margins from the model of {model.t}")
        return model.t

    def follow(self, t: int) -> None:
        """A follower hears of the model that a good client was answered from."""
        while self.followed < t:
            if not self.comes(self.follower):
                raise Wrong(f"a follower waits in vain for the model of {t}")
            self.followed = msgpack.unpackb(self.follower.recv_multipart()[1])["t"]

    def feed(self, make: Make, count: int) -> None:
        """Mutated messages to the feed, each counted."""
        socket = self.peer(zmq.PUSH, "feed")
        try:
            before = self.ask(do="status")["status"]["feed_messages"]
            for _ in range(count):
                socket.send(make()[-1])
            self.fed += count
            deadline = time.monotonic() + PATIENCE
            while (n := self.ask(do="status")["status"]["feed_messages"]) < before + count:
                if time.monotonic() > deadline:
                    raise Wrong(f"{n - before} of {count} messages to the feed were counted")
        finally:
            socket.close()

    def storm(self, random: Random, frames: Frames, count: int) -> None:
        """So many strangers at the three ports, until all of them have left."""
        if count:
            before = self.daemon.files
            self.knock(random, frames, count)
            self.settle(before)

    def knock(self, random: Random, frames: Frames, count: int) -> None:
        """Strangers: some leave at once, some stay and say no more."""
        held: deque[sockets.socket] = deque()
        try:
            for _ in range(count):
                place = random.choice(PLACES)
                raw = sockets.create_connection(self.daemon.address(place), timeout=PATIENCE)
                with suppress(OSError):  # it may hang up at once
                    say(raw, garbage(random, frames))
                held.append(raw)
                while held and (len(held) > HELD or random.random() < 0.5):
                    held.popleft().close()
                if random.random() < 0.2:
                    self.visit(random, frames, place)
        finally:
            for raw in held:
                raw.close()

    def settle(self, files: int) -> None:
        """Wait until the daemon has seen everybody else leave, and holds so many files again."""
        deadline = time.monotonic() + PATIENCE
        while True:
            left, status = self.daemon.files - files, self.ask(do="status")["status"]
            figures = status["requests"] - self.sent - self.asked, status["lost_replies"]
            if figures[0] < self.strangers:
                raise Wrong(f"{self.strangers - figures[0]} requests were not counted")
            # Its queues are empty when nothing changed over a learned batch and its answer.
            if left <= 0 and status["queued"] == 0 and figures == (self.strangers, self.lost):
                return
            self.strangers, self.lost = figures
            self.ask(do="learn", text=b"")
            if time.monotonic() > deadline:
                raise Wrong(f"behind strangers {left} files stay open")

    def visit(self, random: Random, frames: Frames, place: str) -> None:
        """A peer of the right kind that says the wrong things and leaves."""
        kinds = {"requests": zmq.DEALER, "feed": zmq.PUSH, "publish": zmq.XSUB}
        # Its own context ends with it: what it said has left, and nothing comes late.
        with (
            zmq.Context() as context,
            closing(self.peer(kinds[place], place, context)) as socket,
            suppress(zmq.Again),
        ):
            socket.linger = 1000
            for _ in range(random.randrange(4)):
                words = frames.make()[0]
                if place == "publish":
                    topic = random.choice((b"delta", b"snapshot", b"", words))
                    words = random.choice((b"\1", b"\0", b"\2")) + topic
                socket.send(words, zmq.NOBLOCK)


def share(whole: int, parts: int, number: int) -> int:
    """Of the whole, for one of the parts."""
    return (number + 1) * whole // parts - number * whole // parts


def culprit(messages: list[list[bytes]]) -> list[bytes] | None:
    """The message that a new daemon cannot stand by itself, if there is one."""
    with started(*FLAGS) as daemon, zmq.Context() as context:
        talk = Talk(daemon, context)
        try:
            talk.look()
            for message in messages:
                try:
                    talk.pour(lambda: message, 1)  # noqa: B023 - called at once
                    talk.look()
                except Wrong:
                    return message
        finally:
            talk.close()
    return None


def besieged(
    count: int, seed: int, connections: int, make: Make | None = None
) -> tuple[Bag, int]:
    """So many frames and strangers; what came of it, and by how many bytes the daemon grew."""
    frames, random, bag = Frames(seed), Random(f"storm {seed}"), Bag()
    make = make or frames.make
    rounds = max(2, -(-count // ROUND))
    begin, memory, growth = time.monotonic(), 0, 0
    with started(*FLAGS) as daemon, zmq.Context() as context:
        talk = Talk(daemon, context)
        try:
            talk.look()  # also settles that the negative class is written -1
            for number in range(rounds):
                talk.pour(make, share(count, rounds, number))
                if number % 10 == 1:
                    talk.feed(frames.make, 100)
                status = talk.look()
                talk.storm(random, frames, share(connections, rounds, number))
                # What a storm of strangers leaves, and what every client may leave, comes first.
                if number == min(rounds // 4, 25):
                    memory = status["memory"]
                growth = status["memory"] - memory if memory else 0
                if growth > ALLOWED:
                    raise Wrong(f"memory grew by {growth / 2**20:.1f} MiB behind the warm-up")
        except Wrong as error:
            messages = list(talk.waiting)
            found = culprit(messages) if "memory" not in str(error) else None
            data, kind = msgpack.packb(found or messages), "frame" if found else "frames"
            what = "; ".join([str(error), *daemon.log[-3:]])
            bag.violations.append(Violation("frames", talk.sent, kind, what, data))
        finally:
            bag.cases, bag.fates = talk.sent, talk.codes
            talk.close()
    bag.seconds = time.monotonic() - begin
    return bag, growth
