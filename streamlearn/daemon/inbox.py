"""Inbox: what the poll thread hands to the learning thread, bounded in bytes."""

from __future__ import annotations

from collections import deque
from threading import Condition
from typing import Any


class Inbox:
    """A queue with a byte budget. What was taken counts until it is `done` with."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.held = self.open = 0  # bytes and jobs that were put and are not done with
        self.jobs: deque[Any] = deque()
        self.filled = Condition()

    def has_room(self, size: int) -> bool:
        """Anything fits into an empty inbox, so that no batch is refused for ever."""
        return self.held == 0 or self.held + size <= self.budget

    def put(self, job: Any) -> None:
        with self.filled:
            self.jobs.append(job)
            self.held += job.size
            self.open += 1
            self.filled.notify()

    def take(self, timeout: float | None) -> Any:
        """The next job, or None when there is none in time."""
        with self.filled:
            if not self.jobs:
                self.filled.wait(timeout)
            return self.jobs.popleft() if self.jobs else None

    def nudge(self) -> None:
        """Let whoever waits look at the clock again."""
        with self.filled:
            self.filled.notify()

    def take_more(self, kind: type, size: int, count: int) -> list[Any]:
        """Jobs that are there and of this kind: up to the one that makes up `size`, or `count`."""
        found: list[Any] = []
        with self.filled:
            while size > 0 and len(found) < count and self.jobs and isinstance(self.jobs[0], kind):
                found.append(self.jobs.popleft())
                size -= found[-1].size
        return found

    def done(self, size: int, count: int = 1) -> None:
        with self.filled:
            self.held -= size
            self.open -= count

    def __len__(self) -> int:
        return len(self.jobs)
