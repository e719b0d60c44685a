"""sd_notify: tells a service manager how we are, when it has asked to be told."""

from __future__ import annotations

import socket
from contextlib import suppress
from math import inf


class Manager:
    """The service manager, or nobody. Messages are lines such as READY=1."""

    def __init__(self, address: str | None = None, watchdog: str | None = None) -> None:
        # A leading @ stands for the zero byte of an abstract address.
        self.address = "\0" + address[1:] if address and address[0] == "@" else address
        # Half the time in which it wants to hear from us.
        self.seconds = int(watchdog) / 2e6 if watchdog and watchdog.isdigit() else None
        self.told = -inf

    def alive(self, now: float) -> None:
        """Called at least every `seconds`: tells so, though not each time."""
        if self.seconds and now - self.told >= self.seconds / 2.0:
            self.told = now
            self.tell("WATCHDOG=1")

    def tell(self, message: str) -> None:
        if not self.address:
            return
        with (
            suppress(OSError),  # a manager that has gone is no reason to stop learning
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
        ):
            sender.connect(self.address)
            sender.sendall(message.encode())
