"""Those who are not on the list, at a real daemon with keys: none of them reaches a handler.

A stranger has no key, a key that nobody knows, the key of another daemon, or a key that was
revoked, with which it may have come in before. Each knocks at the door of requests and at that of
the feed, and says something that would be learned.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgpack
import zmq
from zmq.utils.monitor import recv_monitor_message

from fuzz.frames import Daemon, started
from fuzz.hunt import Bag, Violation
from fuzz.mutation import Wrong
from streamlearn.keys import KeyFolder, Pair, new_pair, read_secret

AT_ONCE = 48  # strangers at the doors together, an equal share of each kind
PATIENCE = 60.0
KINDS = ("no key", "a key that nobody knows", "another daemon's key", "a revoked key")
DOORS = ((zmq.DEALER, "requests"), (zmq.PUSH, "feed"))
LINE = b"+1 1:1\n"
LET_IN = zmq.EVENT_HANDSHAKE_SUCCEEDED
TURNED_AWAY = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_DISCONNECTED
)  # fmt: skip


class Doors:
    """A daemon with keys, an admin who looks, and what the strangers were told."""

    def __init__(
        self, daemon: Daemon, keys: KeyFolder, secrets: Path, context: zmq.Context
    ) -> None:
        self.daemon, self.keys, self.secrets, self.context = daemon, keys, secrets, context
        self.server = keys.server().public
        self.admin = self.socket(zmq.DEALER, read_secret(secrets / "root"), self.server)
        self.admin.connect(daemon.endpoints["requests"])
        self.known = 0  # requests that should have been counted
        self.bag = Bag()

    def socket(self, kind: int, pair: Pair | None, server: bytes) -> zmq.Socket:
        socket = self.context.socket(kind)
        socket.linger, socket.rcvtimeo = 0, int(1000 * PATIENCE)
        if pair:
            socket.curve_publickey, socket.curve_secretkey = pair.public, pair.secret
            socket.curve_serverkey = server
        return socket

    def reload(self, count: int) -> None:
        """Have the list read again; it has so many clients then."""
        lines = len(self.daemon.log)
        self.daemon.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + PATIENCE
        while not any(f"{count} keys are on the list" in x for x in self.daemon.log[lines:]):
            if time.monotonic() > deadline or not self.daemon.alive:
                raise Wrong("the list was not read again")
            time.sleep(0.001)

    def revoked(self, names: list[str], stack: ExitStack) -> list[tuple[Pair, zmq.Socket]]:
        """Keys that were on the list, each with a connection from that time."""
        found = []
        for name in names:
            self.keys.add(name, ["learn", "predict"], self.secrets / name)
        self.reload(len(names) + 1)
        for name in names:
            pair = read_secret(self.secrets / name)
            socket = self.socket(zmq.DEALER, pair, self.server)
            stack.enter_context(socket)
            socket.connect(self.daemon.endpoints["requests"])
            if not self.told(socket, do="ping").get("ok"):
                raise Wrong("a key on the list does not come in")
            found.append((pair, socket))
        for name in names:
            self.keys.revoke(name)
        self.reload(1)
        return found

    def told(self, socket: zmq.Socket, **body: Any) -> dict[str, Any]:
        self.known += 1
        socket.send(msgpack.packb({"v": 1, "id": 1, **body}))
        return msgpack.unpackb(socket.recv())

    def knock(self, count: int, number: int) -> None:
        """So many strangers at once; `number` have been there before them."""
        with ExitStack() as stack:
            kinds = [KINDS[(number + n) % len(KINDS)] for n in range(count)]
            names = [f"former-{number + n}" for n, kind in enumerate(kinds) if kind == KINDS[3]]
            former = self.revoked(names, stack) if names else []
            for _, socket in former:
                reply = self.told(socket, do="learn", text=LINE)
                if reply.get("code") != "AUTH":
                    raise Wrong(f"a revoked key is answered {reply}")
            pairs = iter(former)
            waiting: dict[zmq.Socket, str] = {}
            for kind in kinds:
                pair = next(pairs)[0] if kind == KINDS[3] else new_pair()
                server = new_pair().public if kind == KINDS[2] else self.server
                for what, door in DOORS:
                    socket = self.socket(what, None if kind == KINDS[0] else pair, server)
                    stack.enter_context(socket)
                    monitor = socket.get_monitor_socket(LET_IN | TURNED_AWAY)
                    stack.enter_context(monitor)
                    stack.callback(socket.disable_monitor)
                    waiting[monitor] = kind
                    socket.connect(self.daemon.endpoints[door])
                    batch = {"v": 1, "id": 1, "do": "learn", "text": LINE}
                    with suppress(zmq.Again):  # who was refused by now has nowhere to put it
                        words = msgpack.packb(batch) if what == zmq.DEALER else LINE
                        socket.send(words, zmq.NOBLOCK)
            self.wait(waiting)
            self.check()
            self.bag.fates.update(kinds)
            self.bag.cases += count

    def wait(self, waiting: dict[zmq.Socket, str]) -> None:
        """Until every one of them was turned away."""
        poller = zmq.Poller()
        for monitor in waiting:
            poller.register(monitor, zmq.POLLIN)
        deadline = time.monotonic() + PATIENCE
        left = set(waiting)
        while left:
            for monitor, _ in poller.poll(100):
                if recv_monitor_message(monitor)["event"] == LET_IN:
                    raise Wrong(f"{waiting[monitor]} came in")
                left.discard(monitor)
            if time.monotonic() > deadline:
                raise Wrong(f"{len(left)} of {len(waiting)} were not told that they are refused")

    def check(self) -> None:
        status = self.told(self.admin, do="status")["status"]
        if status["requests"] != self.known:
            raise Wrong(f"{status['requests']} requests where {self.known} were of those we know")
        for name in ("received", "learned", "feed_messages", "t"):
            if status[name]:
                raise Wrong(f"{name} is {status[name]}, of strangers alone")


@contextmanager
def guarded() -> Iterator[Doors]:
    """A daemon with one client on its list."""
    with TemporaryDirectory() as folder, zmq.Context() as context:
        secrets, keys = Path(folder), KeyFolder(str(Path(folder) / "keys"))
        keys.add("root", ["admin"], secrets / "root")
        with started("--keys", keys.path) as daemon:
            doors = Doors(daemon, keys, secrets, context)
            with doors.admin:
                yield doors


def turned_away(count: int) -> Bag:
    """So many strangers, and what became of them."""
    begin = time.monotonic()
    with guarded() as doors:
        bag = doors.bag
        try:
            while bag.cases < count:
                doors.knock(min(AT_ONCE, count - bag.cases), bag.cases)
        except (Wrong, zmq.Again) as error:
            what = "; ".join([str(error), *doors.daemon.log[-3:]])
            bag.violations.append(Violation("strangers", bag.cases, "key", what, b""))
    bag.seconds = time.monotonic() - begin
    return bag
