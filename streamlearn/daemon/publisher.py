"""The publishing thread: each new model to those who follow, whole or as what has changed.

A new subscriber gets the whole model at once; after that, deltas for those who want deltas.
"""

from __future__ import annotations

import zmq

from streamlearn import wire
from streamlearn.daemon.learning import Published
from streamlearn.delta import difference
from streamlearn.model import Model
from streamlearn.multiclass import AnyModel

ADDRESS = "inproc://published"


class Publisher:
    """Owns the XPUB socket. `announce` is for the learning thread, `run` is the thread's life."""

    def __init__(self, context: zmq.Context, socket: zmq.Socket, first: AnyModel) -> None:
        self.socket = socket
        self.inlet, self.outlet = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
        self.inlet.bind(ADDRESS)
        self.outlet.connect(ADDRESS)
        self.newest = self.sent = first
        self.subscribers = {wire.SNAPSHOT_TOPIC: 0, wire.DELTA_TOPIC: 0}
        self.messages = 0

    def announce(self, published: Published) -> None:
        """A new model is there; a publisher that is behind goes straight to the newest."""
        self.newest = published.model
        self.outlet.send(b"new")

    def close(self) -> None:
        """From the thread that announces, after its last."""
        self.outlet.send(b"end")

    def run(self) -> None:
        poller = zmq.Poller()
        poller.register(self.socket, zmq.POLLIN)
        poller.register(self.inlet, zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            if self.socket in ready:
                self.welcome(self.socket.recv())
            if self.inlet in ready:
                words = [self.inlet.recv()]
                while self.inlet.poll(0):
                    words.append(self.inlet.recv())
                self.publish()
                if b"end" in words:
                    break
        for socket in (self.inlet, self.outlet, self.socket):
            socket.close()

    def welcome(self, message: bytes) -> None:
        """A subscription (1 + topic) or its end (0 + topic); a peer may send other messages."""
        topic, change = message[1:], {b"\1": 1, b"\0": -1}.get(message[:1], 0)
        if topic in self.subscribers:
            self.subscribers[topic] += change
            if change > 0:
                self.send(topic, whole(self.sent))

    def publish(self) -> None:
        before, now = self.sent, self.newest
        if now is before or now.t == before.t:
            return
        self.sent = now
        if self.subscribers[wire.SNAPSHOT_TOPIC]:
            self.send(wire.SNAPSHOT_TOPIC, whole(now))
        if self.subscribers[wire.DELTA_TOPIC]:
            self.send(wire.DELTA_TOPIC, smaller(before, now))

    def send(self, topic: bytes, message: bytes) -> None:
        self.messages += 1
        self.socket.send_multipart((topic, message))


def smaller(before: AnyModel, now: AnyModel) -> bytes:
    """What changed, or the whole model where that is less; for many classes always that."""
    full = whole(now)
    if not (isinstance(before, Model) and isinstance(now, Model)):
        return full
    delta = wire.pack({"v": wire.NEWEST, "kind": "delta", **difference(before, now)})
    return delta if len(delta) < len(full) else full


def whole(model: AnyModel) -> bytes:
    return wire.pack(
        {"v": wire.NEWEST, "kind": "snapshot", "t": model.t, "model": model.to_bytes()}
    )
