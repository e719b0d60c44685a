"""Ahead: an iterator that runs in a thread of its own, a few items ahead of who takes them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

Item = TypeVar("Item")
PATIENCE = 0.1  # seconds after which a thread that waits looks whether it is still wanted
FAREWELL = 1.0  # seconds for a thread to close what it reads


class Ahead(Generic[Item]):
    """Takes items from a generator in another thread; what it raises is raised here, in its turn.

    At most `depth` items wait, so depth + 2 are alive: those, one in use, one in the making.
    `prepare` is work on an item that either thread may do: the one ahead does it, unless the taker
    has nothing to do but wait for the item.
    """

    def __init__(
        self,
        items: Generator[Item],
        depth: int,
        prepare: Callable[[Item], object] | None = None,
    ) -> None:
        self.items, self.prepare = items, prepare
        self.queue: SimpleQueue[tuple[bool, Item | BaseException | None]] = SimpleQueue()
        self.room: SimpleQueue[None] = SimpleQueue()  # one for each item that may be put
        for _ in range(depth):
            self.room.put(None)
        self.wanted, self.awaited = True, False
        self.thread = threading.Thread(target=self.run, name="reading", daemon=True)
        self.thread.start()

    def run(self) -> None:
        try:
            with closing(self.items):  # here: no other thread may close what this one reads
                for item in self.items:
                    if self.prepare and not self.awaited:
                        self.prepare(item)
                    if not self.put(True, item):
                        return
            self.put(False, None)
        except BaseException as error:
            self.put(False, error)

    def put(self, more: bool, item: Item | BaseException | None) -> bool:
        while self.wanted:
            try:
                self.room.get(timeout=PATIENCE)
            except Empty:
                continue
            self.queue.put((more, item))
            return True
        return False

    def take(self) -> tuple[bool, Item | BaseException | None]:
        try:
            return self.queue.get_nowait()
        except Empty:
            self.awaited = True
        while True:
            try:  # with a time limit: a wait without one would not hear Ctrl-C
                found = self.queue.get(timeout=PATIENCE)
            except Empty:
                continue
            self.awaited = False
            return found

    def __iter__(self) -> Iterator[Item]:
        while True:
            more, item = self.take()
            if isinstance(item, BaseException):
                raise item
            if not more:
                return
            self.room.put(None)
            yield item  # type: ignore[misc]

    def close(self) -> None:
        """No more; files are closed. A thread that waits for bytes of a pipe is left behind."""
        self.wanted = False
        with suppress(Empty):  # room for what it is about to put
            while True:
                self.queue.get_nowait()
        self.room.put(None)
        self.thread.join(FAREWELL)
