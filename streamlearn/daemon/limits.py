"""Limits: how many clients are served at a time, and how fast each of them may send."""

from __future__ import annotations

import ctypes
import resource
from collections import OrderedDict
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass

from streamlearn.wire import Refusal

IDLE_SECONDS = 60.0  # of silence after which a client makes room for another
LENT_BYTES, LENT_RATE = 64 << 20, 32 << 20  # of large replies: at once, and a second
M_ARENA_MAX = -8  # of malloc.h
SPARE_FILES = 64  # for everything that is no connection


@dataclass
class Peer:
    """A client that was heard of lately."""

    seen: float
    credit: float  # bytes it may still send; below zero it waits
    lent: float = 0.0  # bytes of large replies that it may not have read yet


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
        if who not in self.peers:
            self.forget(now)
            if self.clients and len(self.peers) >= self.clients:
                self.turned_away += 1
                raise Refusal(
                    "BUSY", f"{self.clients} clients are served, --max-clients; come again later"
                )
        # A second's worth is saved up. Whoever has any credit may overdraw it: a message of any
        # size gets through, and is paid for by the wait behind it.
        peer = self.heard_of(who, now)
        if self.rate and peer.credit <= 0.0:
            what = f"more than {self.rate:,d} bytes a second, --max-rate"
            raise self.wait(what, (1.0 - peer.credit) / self.rate)
        peer.credit -= size

    def refused(self, who: Hashable, size: int, now: float) -> Refusal | None:
        """Why a request is one too many, if it is."""
        try:
            self.admit(who, size, now)
        except Refusal as error:
            return error
        return None

    def lend(self, who: Hashable, size: int, now: float) -> None:
        """A large reply. Nobody tells whether the peer reads, so that it gets only so many at once.

        One that never reads is cut off by its missing heartbeats; until then it costs this much.
        """
        self.forget(now)
        peer = self.heard_of(who, now)
        if peer.lent and peer.lent + size > LENT_BYTES:
            wait = (peer.lent + size - LENT_BYTES) / LENT_RATE
            what = "this client was sent so much that it may not have read yet"
            raise self.wait(what, min(wait, peer.lent / LENT_RATE))
        peer.lent += size

    def heard_of(self, who: Hashable, now: float) -> Peer:
        """The peer, with what the time since the last request is worth."""
        peer = self.peers.get(who)
        if peer is None:
            peer = self.peers[who] = Peer(now, self.rate)
        passed, peer.seen = now - peer.seen, now
        peer.credit = min(peer.credit + self.rate * passed, self.rate)
        peer.lent = max(peer.lent - LENT_RATE * passed, 0.0)
        self.peers.move_to_end(who)
        return peer

    def wait(self, why: str, seconds: float) -> Refusal:
        self.turned_away += 1
        return Refusal("BUSY", f"{why}; wait {seconds:.3f} s", wait=seconds)

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


def share_heap() -> None:
    """One heap for all threads.

    libzmq's thread makes the memory of a message and another frees it. With a heap for each thread,
    which is what glibc does, that memory goes back to the system and comes again, zeroed, with
    every batch: a twelfth of all the time that learning over a socket takes.
    """
    with suppress(AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
