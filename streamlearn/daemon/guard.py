"""The guard: decides at the handshake who comes in (ZAP), and remembers what each may do.

CURVE alone lets any stranger in; the allow-list is what keeps them out.
"""

from __future__ import annotations

import logging
import threading

import zmq
from zmq.utils import z85

from streamlearn.keys import Allowed, KeyFolder

log = logging.getLogger("streamlearn")

ADDRESS = "inproc://zeromq.zap.01"
DOORS = {b"requests": None, b"feed": "learn", b"publish": "predict"}  # the role each socket needs


class Guard:
    """Answers libzmq's questions about keys, in a thread of its own."""

    def __init__(self, folder: KeyFolder) -> None:
        self.folder = folder
        self.pair = folder.server()
        self.allowed: dict[bytes, Allowed] = {}
        self.refused = 0
        self.reload()

    def start(self, context: zmq.Context) -> None:
        """Before any socket is bound; ends with the context."""
        self.socket = context.socket(zmq.REP)
        self.socket.linger = 0
        self.socket.bind(ADDRESS)
        threading.Thread(target=self.run, name="guard", daemon=True).start()

    def reload(self) -> bool:
        """Read the allow-list again; whether somebody may follow no more.

        Whatever comes over a connection is looked up each time, so that a revoked key can do
        nothing more with an open one but listen to what is published.
        """
        before, self.allowed = self.allowed, self.folder.allowed()
        now = self.allowed.get
        return any(
            entry.may("predict") and not ((new := now(key)) and new.may("predict"))
            for key, entry in before.items()
        )

    def lock(self, socket: zmq.Socket, door: str) -> None:
        """Only those on the list, from now on."""
        socket.curve_server = 1
        socket.curve_publickey, socket.curve_secretkey = self.pair.public, self.pair.secret
        socket.zap_domain = door.encode()
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)

    def who(self, frame: zmq.Frame) -> Allowed | None:
        """Who sent a frame, as far as they are still on the list."""
        try:
            return self.allowed.get(str(frame.get("User-Id")).encode())
        except zmq.ZMQError:
            return None

    def run(self) -> None:
        try:
            while True:
                self.answer(self.socket.recv_multipart())
        except zmq.ContextTerminated:
            pass
        except zmq.ZMQError:
            log.debug("the guard's socket was closed")
        finally:
            self.socket.close()

    def answer(self, question: list[bytes]) -> None:
        version, number, door, address, _, mechanism, *credentials = question
        entry = None
        if mechanism == b"CURVE" and credentials and len(credentials[0]) == 32:
            entry = self.allowed.get(z85.encode(credentials[0]))
        needed = DOORS.get(door, "admin")
        if entry and (needed is None or entry.may(needed)):
            # Known by the key, not by the name: a name may be given anew.
            self.socket.send_multipart([version, number, b"200", b"OK", entry.public, b""])
            return
        self.refused += 1
        if str(self.refused).strip("0") == "1":  # 1, 10, 100, ...
            place, what = address.decode("ascii", "replace"), door.decode("ascii", "replace")
            log.warning("refused a key from %s at %s (%d so far)", place, what, self.refused)
        self.socket.send_multipart([version, number, b"400", b"not on the list", b"", b""])
