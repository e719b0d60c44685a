"""Cores: where threads run while there is much to learn. Knows nothing of what they do.

The threads that poll, send and receive are woken by each message, by the system's choice mostly
where the learning thread is at work: they spoil its caches, and it moves. With a core that nobody
else of this process uses, learning over a socket takes a sixth less time.

Only for as long as it is kept busy. Another program may want just that core: who has to wait for
it takes another one.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

BUSY_SECONDS = 0.02  # of work without a pause, after which it is worth a core
REST_SECONDS = 0.25  # since work last began, after which all cores are for all again
CHECK_SECONDS = 1.0
WAITING = 0.2  # share of its time that a thread waits for a core, at which it asks for another


class Cores:
    """Called by the one thread that works."""

    def __init__(self, divided: bool = True) -> None:
        self.all = sorted(os.sched_getaffinity(0))
        self.divided = divided and len(self.all) > 1
        self.own: int | None = None  # the core of the thread that works, while it has one
        self.since = self.began = self.checked = 0.0
        self.times = (0, 0)

    def busy(self, went_on: bool) -> None:
        """Work begins; `went_on`: without a pause since the last."""
        if not self.divided:
            return
        self.began = now = time.monotonic()
        if self.own is not None:
            if now - self.checked > CHECK_SECONDS:
                self.check(now)
        elif not went_on:
            self.since = now
        elif now - self.since > BUSY_SECONDS:
            self.take(self.all[os.getpid() % len(self.all)], now)

    def patience(self, seconds: float | None) -> float | None:
        """How long to wait for work, so that `rest` is called in time."""
        if self.own is None:
            return seconds
        return REST_SECONDS if seconds is None else min(seconds, REST_SECONDS)

    def rest(self) -> None:
        """There is no work; if there was none for some time, all cores are for all threads."""
        if self.own is not None and time.monotonic() - self.began >= REST_SECONDS:
            self.own = None
            for thread in threads():
                bind(thread, self.all)

    @contextmanager
    def shared(self) -> Iterator[None]:
        """For work that another thread may help with."""
        if self.own is not None:
            bind(0, self.all)
        try:
            yield
        finally:
            if self.own is not None:
                bind(0, [self.own])

    def take(self, core: int, now: float) -> None:
        self.own, self.checked, self.times = core, now, waits()
        others = [other for other in self.all if other != core]
        for thread in threads():
            bind(thread, [core] if thread == threading.get_native_id() else others)

    def check(self, now: float) -> None:
        """Whether this core is ours in fact."""
        ran, waited = (new - old for new, old in zip(waits(), self.times, strict=True))
        core = self.own
        if waited > WAITING * (ran + waited):
            core = self.all[(self.all.index(core) + 1) % len(self.all)]
        self.take(core, now)  # also from threads that have begun since


def threads() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc/self/task")]
    except OSError:
        return []


def bind(thread: int, cores: list[int]) -> None:
    with suppress(OSError):  # it has ended, or these cores were taken away from us
        os.sched_setaffinity(thread, cores)


def waits() -> tuple[int, int]:
    """Nanoseconds that this thread ran, and that it waited for a core."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            ran, waited, _ = map(int, file.read().split())
            return ran, waited
    except (OSError, ValueError):  # a system that does not count
        return 0, 0
