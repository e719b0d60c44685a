"""The publishing thread: each new model to those who follow, whole or as what has changed.

A new subscriber gets the whole model at once; after that, deltas for those who want deltas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import Lock

import zmq

from streamlearn import wire
from streamlearn.daemon.learning import Published
from streamlearn.delta import difference
from streamlearn.model import Model
from streamlearn.multiclass import AnyModel

ADDRESS = "inproc://published"
TOPICS = (wire.SNAPSHOT_TOPIC, wire.DELTA_TOPIC)


class Publisher:
    """Owns the XPUB socket. `announce` is for the learning thread, `run` is the thread's life.

    `reopen` makes a socket at the same places: the only way to be rid of a subscriber.
    """

    def __init__(
        self,
        context: zmq.Context,
        socket: zmq.Socket,
        first: AnyModel,
        reopen: Callable[[], zmq.Socket],
    ) -> None:
        self.socket, self.reopen = socket, reopen
        self.inlet, self.outlet = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
        self.inlet.bind(ADDRESS)
        self.outlet.connect(ADDRESS)
        self.newest = self.sent = first
        self.subscribers: Counter[bytes] = Counter()  # by what they subscribed to
        self.wanted: set[bytes] = set()  # topics that somebody has subscribed to
        self.messages = 0
        self.telling = Lock()  # several threads tell

    def announce(self, published: Published) -> None:
        """A new model is there; a publisher that is behind goes straight to the newest."""
        self.newest = published.model
        self.tell(b"new")

    def cut_off(self) -> None:
        """Everybody: who may still follow comes back, and is welcomed, by itself."""
        self.tell(b"cut")

    def close(self) -> None:
        """After the last announcement."""
        self.tell(b"end")

    def tell(self, word: bytes) -> None:
        with self.telling:
            if not self.outlet.closed:
                self.outlet.send(word)

    def run(self) -> None:
        poller = zmq.Poller()
        poller.register(self.socket, zmq.POLLIN)
        poller.register(self.inlet, zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            if self.socket in ready:
                self.welcome()
            if self.inlet in ready:
                words = [self.inlet.recv()]
                while self.inlet.poll(0):
                    words.append(self.inlet.recv())
                self.publish()
                if b"cut" in words:
                    poller.unregister(self.socket)
                    self.socket.close()
                    self.subscribers.clear()
                    self.wanted.clear()
                    self.socket = self.reopen()
                    poller.register(self.socket, zmq.POLLIN)
                if b"end" in words:
                    break
        with self.telling:
            for socket in (self.inlet, self.outlet, self.socket):
                socket.close()

    def welcome(self) -> None:
        """Subscriptions (1 + beginning of a topic) and their ends (0 + the same).

        A peer may send other messages too; they mean nothing. It may also end what it never began,
        which libzmq passes on: ends are counted, but nobody who follows is left without for one.
        Whoever is new gets the whole model. All others of the topic get it again, so however many
        come at once, it is sent once.
        """
        new = set()
        while self.socket.poll(0):
            message = self.socket.recv()
            wanted = [topic for topic in TOPICS if topic.startswith(message[1:])]
            if wanted and message[:1] == b"\1":
                self.subscribers[message[1:]] += 1
                new.update(wanted)
            elif wanted and message[:1] == b"\0":
                self.subscribers[message[1:]] = max(self.subscribers[message[1:]] - 1, 0)
        self.wanted |= new
        for topic in sorted(new):
            self.send(topic, whole(self.sent))

    def publish(self) -> None:
        before, now = self.sent, self.newest
        if now is before or now.t == before.t:
            return
        self.sent = now
        if wire.SNAPSHOT_TOPIC in self.wanted:
            self.send(wire.SNAPSHOT_TOPIC, whole(now))
        if wire.DELTA_TOPIC in self.wanted:
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
