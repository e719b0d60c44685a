"""Inbox: what the poll thread hands to another thread, bounded in bytes.

One thread puts and one takes; each counts for itself, so that there is nothing to lock.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import Any


class Inbox:
    """A queue with a byte budget. What was taken counts until it is `done` with."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.put_bytes = self.put_jobs = 0  # counted by the thread that puts
        self.done_bytes = self.done_jobs = 0  # ... and by the one that takes
        self.jobs: SimpleQueue[Any] = SimpleQueue()
        self.next: Any = None  # a job that was taken too soon

    @property
    def held(self) -> int:
        """Bytes that were put and are not done with."""
        return self.put_bytes - self.done_bytes

    @property
    def open(self) -> int:
        """Jobs that were put and are not done with."""
        return self.put_jobs - self.done_jobs

    def has_room(self, size: int) -> bool:
        """Anything fits into an empty inbox, so that no batch is refused for ever."""
        held = self.put_bytes - self.done_bytes
        return held == 0 or held + size <= self.budget

    def put(self, job: Any) -> None:
        self.put_bytes += job.size
        self.put_jobs += 1
        self.jobs.put(job)

    def take(self, timeout: float | None) -> Any:
        """The next job, or None when there is none in time."""
        if self.next is not None:
            job, self.next = self.next, None
            return job
        try:
            return self.jobs.get(timeout=timeout)
        except Empty:
            return None

    def nudge(self) -> None:
        """Let whoever waits look at the clock again."""
        self.jobs.put(None)

    def take_more(self, kind: type, size: int, count: int) -> list[Any]:
        """Jobs that are there and of this kind: up to the one that makes up `size`, or `count`."""
        found: list[Any] = []
        while size > 0 and len(found) < count and (job := self.take(0.0)) is not None:
            if not isinstance(job, kind):
                self.next = job
                break
            found.append(job)
            size -= job.size
        return found

    def done(self, size: int, count: int = 1) -> None:
        self.done_bytes += size
        self.done_jobs += count

    def __len__(self) -> int:
        return self.jobs.qsize() + (self.next is not None)
