"""Client: the daemon from Python. Learns exactly once, in order, across lost replies and restarts.

    with Client() as c:
        c.learn(text)            # libsvm text, or c.learn(X, y) with arrays
        c.predict(X)
        c.snapshot()             # a Model
        c.status()
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zmq

from streamlearn import wire
from streamlearn.errors import Unavailable
from streamlearn.keys import read_secret
from streamlearn.ports import DEFAULT_ENDPOINT
from streamlearn.wire import Refusal

if TYPE_CHECKING:
    import numpy as np

    from streamlearn.multiclass import AnyModel

WINDOW_BATCHES = wire.REMEMBERED  # unanswered at a time: of all of them the answers are kept
WINDOW_BYTES = 4 << 20
RESEND_SECONDS = 1.0  # of silence; doubles while it lasts
BUSY_SECONDS = 0.02
LOOK_SECONDS = 0.02
TURNED_AWAY = ("BUSY", "STOPPING", "SEQ_GAP")  # not taken, and nothing wrong with the batch
BATCH_BYTES = 1 << 18  # of text in a request
BATCH_ROWS = 4096  # of arrays in a request

Heard = Callable[[Any, dict[str, Any]], None]


@dataclass
class Batch:
    """One that waits for its answer."""

    body: dict[str, Any]
    message: bytes
    tag: Any  # the caller's own, handed back with the answer
    turned_away: bool = False  # to be sent again; until then no copy of it is under way


class Client:
    """One connection; not to be shared by threads.

    timeout: seconds of silence after which the daemon counts as gone.
    key: the secret file that `streamlearn keys new` made, for a daemon with --keys.
    """

    def __init__(
        self,
        endpoint: str = DEFAULT_ENDPOINT,
        timeout: float = 30.0,
        key: str | None = None,
        context: zmq.Context | None = None,
    ) -> None:
        self.endpoint, self.timeout = endpoint, timeout
        self.name = secrets.token_hex(8)
        self.pair = read_secret(Path(key)) if key else None
        self.own_context = context is None
        self.context = context or zmq.Context()
        self.socket = self.opened(zmq.DEALER)
        self.socket.sndhwm = 0  # the windows bound what is under way
        self.socket.reconnect_ivl, self.socket.reconnect_ivl_max = 50, 1000
        self.feeder: zmq.Socket | None = None
        self.number = 0  # of the last request: -1, -2, ...; batches are 1, 2, ...
        self.seq = 0
        self.batches: OrderedDict[int, Batch] = OrderedDict()  # not answered, by seq
        self.bytes_waiting = 0
        self.requests: dict[int, bytes] = {}  # not answered, by number
        self.answers: dict[int, dict[str, Any]] = {}
        self.trouble: Refusal | None = None  # of a batch, to be raised
        self.heard: Heard = lambda tag, ack: None
        self.hello: dict[str, Any] | None = None
        self.resent, self.resend_seconds = 0, RESEND_SECONDS
        self.looked = 0.0  # when answers were last looked for
        try:
            self.socket.connect(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise Unavailable(f"cannot connect to {endpoint}: {error.strerror}") from error

    def opened(self, kind: int) -> zmq.Socket:
        """A socket with our key, if we have one."""
        socket = self.context.socket(kind)
        socket.linger = 0
        if self.pair:
            socket.curve_publickey, socket.curve_secretkey = self.pair.public, self.pair.secret
            socket.curve_serverkey = self.pair.server
        return socket

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self.close()

    def close(self) -> None:
        """Leave. Batches that were not answered may or may not have been learned."""
        self.socket.close(linger=0)
        if self.feeder is not None:
            self.feeder.close(linger=int(1000 * self.timeout))  # what is still to be sent
        if self.own_context:
            self.context.term()

    # ---- learning --------------------------------------------------------------------------------

    def learn(
        self, data: Any, y: Any = None, weights: Any = None, on_error: str = "reject"
    ) -> dict[str, Any]:
        """Learn libsvm text, or rows X with labels y; returns when all of it is learned.

        The result counts rows learned, skipped and rejected; t is the examples learned in all. With
        on_error "reject" a bad row refuses its batch, and Refusal (BAD_LINE) is raised at the end.
        """
        total: dict[str, Any] = {"t": 0, "learned": 0, "skipped": 0, "rejected": 0, "errors": []}

        def add(tag: Any, ack: dict[str, Any]) -> None:
            for key in ("learned", "skipped", "rejected"):
                total[key] += ack.get(key, 0)
            total["errors"] += ack.get("errors", ())
            total["t"] = max(total["t"], ack.get("t", 0))

        self.flush()
        self.heard, before = add, self.heard
        try:
            for body in payloads(data, y, weights):
                self.send({**body, "on_error": on_error})
            self.flush()
        finally:
            self.heard = before
        return total

    def send(self, body: dict[str, Any], tag: Any = None) -> None:
        """Send one batch {text or rows, name, line, on_error}; waits only when many are under way.

        `heard(tag, reply)` is called with each answer; a refusal is raised by the next call of
        `send` or `flush`.
        """
        limit = self.greet()["max_message"]
        self.seq += 1
        message = self.pack_batch(self.seq, body)
        if len(message) > limit:
            self.seq -= 1
            raise Refusal(
                "TOO_LARGE", f"a batch of {len(message):,d} bytes; the daemon takes {limit:,d}"
            )
        self.batches[self.seq] = Batch(body, message, tag)
        self.bytes_waiting += len(message)
        self.socket.send(message)
        # Looking for answers costs as much as a batch does: look seldom, then for many.
        if self.fills(1.0):
            while self.fills(0.5):
                self.hear()
        now = time.monotonic()
        if now - self.looked > LOOK_SECONDS:
            self.looked = now
            while self.socket.poll(0):
                self.hear()
        self.complain()

    def fills(self, share: float) -> bool:
        """Whether what is under way takes this share of the window; one batch always may be."""
        return len(self.batches) >= share * WINDOW_BATCHES or (
            self.bytes_waiting > share * WINDOW_BYTES and len(self.batches) > 1
        )

    def flush(self) -> None:
        """Wait until every batch is answered; raises the first refusal."""
        while self.batches:
            self.hear()
        self.complain()

    def feed(self, text: bytes) -> None:
        """Lines for the feed: not acknowledged. Blocks while the daemon's queue is full."""
        if self.feeder is None:
            self.feeder = self.opened(zmq.PUSH)
            self.feeder.sndtimeo = int(1000 * self.timeout)
            self.feeder.connect(self.place("feed"))
        try:
            self.feeder.send(text)
        except zmq.Again:
            raise self.silence() from None

    # ---- asking ----------------------------------------------------------------------------------

    def predict(self, data: Any, live: bool = False) -> np.ndarray:
        """The label of each row (the value, for regression); data is X or libsvm text."""
        return self.scores(data, "label", live)[0]

    def margins(self, data: Any, live: bool = False) -> np.ndarray:
        return self.scores(data, "margin", live)[0]

    def probabilities(self, data: Any, live: bool = False) -> np.ndarray:
        return self.scores(data, "probability", live)[0]

    def scores(self, data: Any, output: str, live: bool = False) -> tuple[np.ndarray, int]:
        """Margins, probabilities or labels, and the t of the model that gave the last of them.

        With many classes margins and probabilities have a column for each, by rising class.
        """
        import numpy as np

        parts: list[np.ndarray] = []
        t = 0
        for body in payloads(data):
            reply = self.request(
                "predict", **body, output=output, model="live" if live else "snapshot"
            )
            found = np.frombuffer(reply[wire.OUTPUT_KEYS[output]])
            if "classes" in reply and output != "label":
                found = found.reshape(-1, len(reply["classes"]))
            parts.append(found)
            t = reply["t"]
        return np.concatenate(parts) if parts else np.empty(0), t

    def snapshot(self, published: bool = False, **options: float) -> AnyModel:
        """The exactly sparse model of now, all acked batches in it; or the one last published.

        options: evidence, smoothness, max_nonzeros.
        """
        from streamlearn.multiclass import model_from_bytes

        more = {"published": True} if published else {}
        return model_from_bytes(self.request("snapshot", **options, **more)["model"])

    def status(self) -> dict[str, Any]:
        return self.request("status")["status"]

    def config(self) -> dict[str, Any]:
        """Every setting in force."""
        return self.request("config")["settings"]

    def checkpoint(self) -> dict[str, Any]:
        """Have the state folder written; returns t and the path."""
        return answer_of(self.request("checkpoint"))

    def ping(self) -> dict[str, Any]:
        return answer_of(self.request("ping"))

    def help(self) -> dict[str, Any]:
        return answer_of(self.request("help"))

    def shutdown(self) -> dict[str, Any]:
        """Have it learn what is queued, checkpoint and end; returns the last t."""
        return answer_of(self.request("shutdown"))

    def place(self, what: str) -> str:
        """The endpoint of the `feed` or of `publish`, as seen from here."""
        places = self.greet()["endpoints"][what]
        transport = self.endpoint.split(":")[0]
        for place in places:
            if place.startswith(transport):
                host = self.endpoint.rsplit(":", 1)[0]
                return f"{host}:{place.rsplit(':', 1)[1]}" if transport == "tcp" else place
        raise Unavailable(f"{self.endpoint}: the daemon offers no {what} by {transport}")

    # ---- the conversation ------------------------------------------------------------------------

    def greet(self) -> dict[str, Any]:
        """What the daemon said of itself; asked once."""
        if self.hello is None:
            self.hello = self.ping()
        return self.hello

    def request(self, do: str, **body: Any) -> dict[str, Any]:
        """Any command, answered; raises Refusal when the answer is an error.

        A daemon that is busy is asked again for as long as a silent one would be.
        """
        deadline = time.monotonic() + self.timeout
        while True:
            reply = self.ask(do, body)
            if reply["ok"]:
                return reply
            if reply["code"] != "BUSY" or time.monotonic() > deadline:
                raise refused(reply)
            self.wait_for_room(reply)

    def ask(self, do: str, body: dict[str, Any]) -> dict[str, Any]:
        """One command, and its reply whatever it is."""
        self.number -= 1
        message = wire.pack({"v": wire.NEWEST, "id": self.number, "do": do, **body})
        self.requests[self.number] = message
        self.socket.send(message)
        try:
            while self.number not in self.answers:
                self.hear()
        finally:
            self.requests.pop(self.number, None)
        return self.answers.pop(self.number)

    def hear(self) -> None:
        """Take one reply, whatever it answers; what stays unanswered for long is sent again."""
        left, wait = self.timeout, self.resend_seconds
        while not self.socket.poll(int(1000 * min(wait, left))):
            left -= wait
            if left <= 0.0:
                raise self.silence()
            wait *= 2.0
            self.resend()
        reply = wire.unpack(self.socket.recv())
        number: Any = reply.get("id")
        if number in self.requests:
            self.answers[number] = reply
        elif number in self.batches:
            self.settle(number, reply)
        elif number is None and not reply["ok"]:
            raise refused(reply)
        # anything else answers what was sent twice

    def silence(self) -> Unavailable:
        return Unavailable(
            f"{self.endpoint}: no answer for {self.timeout:g} s; is the daemon running? "
            "Start it with: streamlearn serve"
        )

    def settle(self, seq: int, reply: dict[str, Any]) -> None:
        """The answer to a batch."""
        code, oldest = reply.get("code"), next(iter(self.batches))
        if code == "SEQ_GAP" and reply["expected"] < oldest:
            self.start_again()
            return
        if code in TURNED_AWAY:
            self.batches[seq].turned_away = True
            if seq == oldest:
                self.wait_for_room(reply)
        else:
            batch = self.batches.pop(seq)
            self.bytes_waiting -= len(batch.message)
            if not reply["ok"] and self.trouble is None:
                self.trouble = refused(reply)
            self.heard(batch.tag, reply)
        # Only when it is the turn of the oldest can those behind it be taken.
        if self.batches and next(iter(self.batches.values())).turned_away:
            self.send_again([batch for batch in self.batches.values() if batch.turned_away])

    def wait_for_room(self, reply: dict[str, Any]) -> None:
        """What the daemon says, within reason, or a moment."""
        time.sleep(min(max(reply.get("wait", 0.0), BUSY_SECONDS), self.timeout))

    def resend(self) -> None:
        """Everything unanswered once more: the daemon tells what it knows from what is new."""
        for message in self.requests.values():
            self.socket.send(message)
        self.send_again(list(self.batches.values()))

    def send_again(self, batches: list[Batch]) -> None:
        for batch in batches:
            batch.turned_away = False
            self.socket.send(batch.message)
            self.resent += 1

    def start_again(self) -> None:
        """The daemon has forgotten us and what it had not kept: go on under a new name."""
        waiting = list(self.batches.values())
        self.name, self.seq, self.bytes_waiting = secrets.token_hex(8), 0, 0
        self.batches.clear()
        for batch in waiting:
            self.seq += 1
            batch.message = self.pack_batch(self.seq, batch.body)
            self.batches[self.seq] = batch
            self.bytes_waiting += len(batch.message)
        self.resend()

    def pack_batch(self, seq: int, body: dict[str, Any]) -> bytes:
        return wire.pack(
            {"v": wire.NEWEST, "id": seq, "do": "learn", "client": self.name, "seq": seq, **body}
        )

    def complain(self) -> None:
        if self.trouble is not None:
            trouble, self.trouble = self.trouble, None
            raise trouble


def answer_of(reply: dict[str, Any]) -> dict[str, Any]:
    """A reply without its envelope."""
    return {key: value for key, value in reply.items() if key not in ("v", "id", "ok")}


def refused(reply: dict[str, Any]) -> Refusal:
    details = answer_of(reply)
    return Refusal(details.pop("code"), details.pop("message"), **details)


def payloads(data: Any, y: Any = None, weights: Any = None) -> Iterator[dict[str, Any]]:
    """Text or arrays as bodies of requests, cut into batches."""
    if isinstance(data, str):
        data = data.encode()
    if isinstance(data, bytes | bytearray | memoryview):
        yield from text_payloads(bytes(data))
        return
    from streamlearn.arrays import to_bytes

    for rows in to_bytes(data, y, weights, BATCH_ROWS):
        yield {"rows": rows}


def text_payloads(text: bytes) -> Iterator[dict[str, Any]]:
    start, line = 0, 1
    while start < len(text):
        stop = len(text)
        if stop - start > BATCH_BYTES:
            stop = text.rfind(b"\n", start, start + BATCH_BYTES) + 1
            if stop <= start:  # one very long line
                stop = text.find(b"\n", start) + 1 or len(text)
        part = text[start:stop]
        yield {"text": part, "line": line}
        line += part.count(b"\n")
        start = stop
