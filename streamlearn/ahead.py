"""Ahead: an iterator that runs in a thread of its own, a few items ahead of who takes them."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from queue import Empty, Full, Queue
from typing import Generic, TypeVar

Item = TypeVar("Item")
PATIENCE = 0.1  # seconds after which a thread that waits looks whether it is still wanted
FAREWELL = 1.0  # seconds for a thread to close what it reads


class Ahead(Generic[Item]):
    """Takes items from a generator in another thread; what it raises is raised here, in its turn.

    At most `depth` items wait, so depth + 2 are alive: those, one in use, one in the making.
    """

    def __init__(self, items: Generator[Item], depth: int) -> None:
        self.items = items
        self.queue: Queue[tuple[bool, Item | BaseException | None]] = Queue(depth)
        self.wanted = True
        self.thread = threading.Thread(target=self.run, name="reading", daemon=True)
        self.thread.start()

    def run(self) -> None:
        try:
            with closing(self.items):  # here: no other thread may close what this one reads
                for item in self.items:
                    if not self.put(True, item):
                        return
            self.put(False, None)
        except BaseException as error:
            self.put(False, error)

    def put(self, more: bool, item: Item | BaseException | None) -> bool:
        while self.wanted:
            try:
                self.queue.put((more, item), timeout=PATIENCE)
                return True
            except Full:
                continue
        return False

    def __iter__(self) -> Iterator[Item]:
        while True:
            try:  # with a time limit: a wait without one would not hear Ctrl-C
                more, item = self.queue.get(timeout=PATIENCE)
            except Empty:
                continue
            if isinstance(item, BaseException):
                raise item
            if not more:
                return
            yield item  # type: ignore[misc]

    def close(self) -> None:
        """No more; files are closed. A thread that waits for bytes of a pipe is left behind."""
        self.wanted = False
        with suppress(Empty):  # room for what it is about to put
            while True:
                self.queue.get_nowait()
        self.thread.join(FAREWELL)
