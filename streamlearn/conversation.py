"""Conversation: one connection to a daemon, and what was said on it and not answered. No API.

Batches are numbered: after some silence they are sent again, the daemon knows them apart. Other
requests are not, and a daemon that is slow is at work on them: they go out again only on a new
connection, when the one they went over was lost.
"""

from __future__ import annotations

import os
import struct
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import zmq

from streamlearn import wire
from streamlearn.errors import ConfigError, Unavailable, UsageError
from streamlearn.payloads import place_of
from streamlearn.wire import Refusal

if TYPE_CHECKING:
    from streamlearn.keys import Pair

RESEND_SECONDS = 1.0  # of silence, until batches are sent again; doubles while it lasts
DIAL_SECONDS = 0.25  # from one connection that is lost to the next attempt
BUSY_SECONDS = 0.02
TURNED_AWAY = ("BUSY", "STOPPING", "SEQ_GAP")  # not taken, and nothing wrong with the batch
SHAKEN, FAILED = zmq.EVENT_HANDSHAKE_SUCCEEDED, zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
MISMATCH = 0x11000002  # ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH: only one side has keys

OURS = ("v", "id", "do", "client", "seq")  # what a batch is sent with, besides its body

Heard = Callable[[Any, dict[str, Any]], None]


class Batch:
    """One that waits for its answer."""

    __slots__ = ("message", "tag", "turned_away")

    def __init__(self, message: bytes, tag: Any) -> None:
        self.message = message
        self.tag = tag  # the caller's own, handed back with the answer
        self.turned_away = False  # to be sent again; until then no copy of it is under way


class Conversation:
    """Says things until they are answered, or the daemon was silent for too long."""

    def __init__(
        self, endpoint: str, timeout: float, key: str | None, context: zmq.Context | None
    ) -> None:
        self.endpoint, self.timeout = endpoint, timeout
        self.name = os.urandom(8).hex()
        self.pair = client_pair(key) if key else None
        self.own_context = context is None
        self.context = context or zmq.Context()
        self.version = wire.OLDEST  # until the daemon has told what it speaks
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
        self.hung_up = False  # the last that we know of a handshake is that it failed
        self.sockets: list[zmq.Socket] = []  # of the connection
        self.dial()

    # ---- the connection --------------------------------------------------------------------------

    def dial(self) -> None:
        """A new socket, and one that tells what becomes of its connection."""
        self.dialled = time.monotonic()
        self.lost = self.shaken = False
        try:
            self.socket = self.opened(zmq.DEALER)
            self.sockets.append(self.socket)
            self.socket.sndhwm = 0  # the windows bound what is under way
            self.socket.reconnect_ivl, self.socket.reconnect_ivl_max = 50, 1000
            self.monitor = self.socket.get_monitor_socket(SHAKEN | FAILED | zmq.EVENT_DISCONNECTED)
            self.sockets.append(self.monitor)
            self.socket.connect(self.endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise Unavailable(f"cannot connect to {self.endpoint}: {error.strerror}") from error
        self.poller = zmq.Poller()
        for socket in self.sockets:
            self.poller.register(socket, zmq.POLLIN)

    def opened(self, kind: int) -> zmq.Socket:
        """A socket with our key, if we have one."""
        socket = self.context.socket(kind)
        socket.linger = 0
        socket.ipv6 = "[" in self.endpoint
        socket.heartbeat_ivl, socket.heartbeat_timeout = 5000, 15000  # a host that vanished
        if self.pair:
            socket.curve_publickey, socket.curve_secretkey = self.pair.public, self.pair.secret
            socket.curve_serverkey = self.pair.server
        return socket

    def hang_up(self) -> None:
        if self.sockets:
            self.socket.disable_monitor()
        while self.sockets:
            self.sockets.pop().close(linger=0)

    def close(self) -> None:
        self.hang_up()
        if self.own_context:
            self.context.term()

    def dial_again(self) -> None:
        """Everything unanswered goes over a new connection, perhaps to a new daemon."""
        self.hang_up()
        self.dial()
        self.hello = None
        self.resend()

    def watch(self) -> None:
        """Take note of what became of the connection."""
        while self.monitor.poll(0):
            event, value = struct.unpack("=HI", self.monitor.recv_multipart()[0])
            if event == SHAKEN:
                self.shaken, self.hung_up = True, False
            elif event == zmq.EVENT_DISCONNECTED:
                # libzmq gives a connection up for good when the other side is not to its liking.
                self.lost, self.hung_up, self.shaken = True, not self.shaken, False
            elif value == MISMATCH:
                self.lost = True
                what = "takes no keys; leave --key out" if self.pair else "wants a key (--key FILE)"
                raise Unavailable(f"{self.endpoint}: the daemon {what}")

    def silence(self) -> Unavailable:
        what = f"{self.endpoint}: no answer for {self.timeout:g} s; "
        if not self.hung_up:
            start = "Start it with: streamlearn serve"
            return Unavailable(f"{what}is the daemon running? {start}")
        # It may have hung up before we saw what it was that it did not like.
        key = "want a key (--key FILE)"
        if self.pair:
            key = "take no keys (then leave --key out) or not have our key on its list"
        return Unavailable(
            f"{what}the connection is broken off there: the daemon may {key}, or this is its feed "
            "or publish socket and not the one for requests"
        )

    # ---- saying ----------------------------------------------------------------------------------

    def greet(self) -> dict[str, Any]:
        """What the daemon said of itself; asked once on each connection."""
        if self.hello is None:
            hello = self.request("ping")
            self.version = self.agreed(*hello["protocols"])
            self.hello = hello
        return self.hello

    def agreed(self, oldest: int, newest: int) -> int:
        """The newest version of the protocol that both sides speak."""
        if max(oldest, wire.OLDEST) > min(newest, wire.NEWEST):
            raise Refusal(
                "BAD_VERSION",
                f"{self.endpoint}: the daemon speaks versions {oldest} to {newest} of the protocol "
                f"and we {wire.OLDEST} to {wire.NEWEST}; install the newer streamlearn on both",
                protocols=[oldest, newest],
            )
        return min(newest, wire.NEWEST)

    def request(self, do: str, **body: Any) -> dict[str, Any]:
        """Any command, answered; raises Refusal when the answer is an error.

        A daemon that is busy is asked again for as long as a silent one would be.
        """
        if do != "ping":
            self.greet()
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
        number = self.number
        message = self.packed({"id": number, "do": do, **body})
        self.requests[number] = message
        self.post(message)
        try:
            while number not in self.answers:
                self.hear()
        finally:
            self.requests.pop(number, None)
        return self.answers.pop(number)

    def packed(self, body: dict[str, Any]) -> bytes:
        """A message that the daemon will take, as far as its size goes."""
        try:
            message = wire.pack_text({"v": self.version, **body})
        except (TypeError, ValueError, OverflowError) as error:
            raise UsageError(f"{body['do']}: cannot be sent: {error}") from error
        self.check_size(len(message), body)
        return message

    def check_size(self, size: int, body: dict[str, Any], most: int = 1 << 63) -> None:
        """At once, what the daemon would say of it, or hang up on us for."""
        limit = min(self.hello["max_message"] if self.hello else size, most)
        if size > limit:
            raise Refusal(
                "TOO_LARGE",
                f"{place_of(body)}: {size:,d} bytes in one message; the daemon takes {limit:,d} "
                "(--max-message)",
            )

    def pack_batch(self, seq: int, body: dict[str, Any]) -> bytes:
        return self.packed({"id": seq, "do": "learn", "client": self.name, "seq": seq, **body})

    def post(self, message: bytes) -> None:
        """Without waiting: after a failed handshake a socket has nowhere to put it."""
        try:
            self.socket.send(message, zmq.NOBLOCK)
        except zmq.Again:
            self.lost = True  # `hear` will dial again

    # ---- hearing ---------------------------------------------------------------------------------

    def hear(self) -> None:
        """Take one reply, whatever it answers."""
        data = self.received()
        self.take(self.awaited() if data is None else data)

    def received(self) -> bytes | None:
        """A reply, if one is there."""
        try:
            return self.socket.recv(zmq.NOBLOCK)
        except zmq.Again:
            return None

    def awaited(self) -> bytes:
        """The next reply; raises when there is none for too long."""
        now, wait = time.monotonic(), self.resend_seconds
        end, again = now + self.timeout, now + wait
        while not self.answered_by(min(again, end)):
            now = time.monotonic()
            if now >= end:
                raise self.silence()
            if self.lost and now >= self.dialled + DIAL_SECONDS:
                self.dial_again()
            elif now >= again:
                wait *= 2.0
                again = now + wait
                self.send_again(list(self.batches.values()))
        return self.socket.recv()

    def answered_by(self, deadline: float) -> bool:
        """Whether a reply is there; waits for one until then, or until the connection is lost."""
        if self.lost:
            deadline = min(deadline, self.dialled + DIAL_SECONDS)
        ready = dict(self.poller.poll(1 + int(1000 * max(deadline - time.monotonic(), 0.0))))
        if self.monitor in ready:
            self.watch()
        return self.socket in ready

    def look(self) -> None:
        """Take the replies that are there already."""
        while (data := self.received()) is not None:
            self.take(data)

    def take(self, data: bytes) -> None:
        try:
            reply = wire.unpack(data, keys=-1, items=-1)  # it may name thousands of classes
            ok = reply["ok"]
        except (Refusal, KeyError):
            raise Unavailable(f"{self.endpoint}: what answers there is no daemon of ours") from None
        number: Any = reply.get("id")
        if number in self.requests:
            self.answers[number] = reply
        elif number in self.batches:
            self.settle(number, reply)
        elif number is None and not ok:
            raise refused(reply)
        # anything else answers what was sent twice

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

    # ---- saying it again -------------------------------------------------------------------------

    def resend(self) -> None:
        """Everything unanswered once more."""
        for message in self.requests.values():
            self.post(message)
        self.send_again(list(self.batches.values()))

    def send_again(self, batches: list[Batch]) -> None:
        for batch in batches:
            batch.turned_away = False
            self.post(batch.message)
            self.resent += 1

    def start_again(self) -> None:
        """The daemon has forgotten us and what it had not kept: go on under a new name."""
        waiting = list(self.batches.values())
        self.name, self.seq, self.bytes_waiting = os.urandom(8).hex(), 0, 0
        self.batches.clear()
        for batch in waiting:
            self.seq += 1
            said = wire.unpack(batch.message, -1, -1)
            body = {key: said[key] for key in said if key not in OURS}
            batch.message = self.pack_batch(self.seq, body)
            self.batches[self.seq] = batch
            self.bytes_waiting += len(batch.message)
        self.send_again(waiting)


def client_pair(key: str) -> Pair:
    from pathlib import Path  # most callers have no key

    from streamlearn.keys import read_secret

    pair = read_secret(Path(key))
    if not pair.server:
        raise ConfigError(
            f"{key}: the secret of a daemon; a client needs the file that "
            "'streamlearn keys new NAME' has written for it"
        )
    return pair


def answer_of(reply: dict[str, Any]) -> dict[str, Any]:
    """A reply without its envelope."""
    return {key: value for key, value in reply.items() if key not in ("v", "id", "ok")}


def refused(reply: dict[str, Any]) -> Refusal:
    details = answer_of(reply)
    return Refusal(details.pop("code"), details.pop("message"), **details)
