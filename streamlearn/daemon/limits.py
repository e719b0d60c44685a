"""Limits: how many clients are served at a time, and how fast each of them may send."""

from __future__ import annotations

import resource
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from streamlearn.wire import Refusal

IDLE_SECONDS = 60.0  # of silence after which a client makes room for another
SPARE_FILES = 64  # for everything that is no connection


@dataclass
class Peer:
    """A client that was heard of lately."""

    seen: float
    credit: float  # bytes it may still send; below zero it waits


class Limits:
    """Turns away with BUSY. Each of the two bounds is 0 for none."""

    def __init__(self, clients: int, rate: int) -> None:
        self.clients, self.rate = clients, rate
        self.peers: OrderedDict[Hashable, Peer] = OrderedDict()  # the one heard of last, last
        self.turned_away = 0

    def admit(self, who: Hashable, size: int, now: float) -> None:
        """A request of `size` bytes; raises BUSY where it is one too many."""
        if not self.clients and not self.rate:
            return
        self.forget(now)
        peer = self.peers.get(who)
        if peer is None:
            if self.clients and len(self.peers) >= self.clients:
                self.turned_away += 1
                raise Refusal(
                    "BUSY", f"{self.clients} clients are served, --max-clients; come again later"
                )
            peer = self.peers[who] = Peer(now, self.rate)
        # A second's worth is saved up. Whoever has any credit may overdraw it: a message of any
        # size gets through, and is paid for by the wait behind it.
        peer.credit = min(peer.credit + self.rate * (now - peer.seen), self.rate)
        peer.seen = now
        self.peers.move_to_end(who)
        if self.rate and peer.credit <= 0.0:
            self.turned_away += 1
            wait = (1.0 - peer.credit) / self.rate
            raise Refusal(
                "BUSY",
                f"more than {self.rate:,d} bytes a second, --max-rate; wait {wait:.3f} s",
                wait=wait,
            )
        peer.credit -= size

    def forget(self, now: float) -> None:
        """Those that were silent for long."""
        while self.peers:
            who, peer = next(iter(self.peers.items()))
            if now - peer.seen < IDLE_SECONDS:
                return
            del self.peers[who]


def allow_files(clients: int) -> str | None:
    """Let this process open as many files as it may; a warning where that is too few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < clients + SPARE_FILES:
        return f"only {hard} files may be open here: too few for {clients} clients; see ulimit -n"
    return None
