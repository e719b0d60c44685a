"""The predicting thread: large predictions, so that the poll thread is free for everybody else."""

from __future__ import annotations

import logging
from collections.abc import Callable

from streamlearn.daemon.inbox import Inbox
from streamlearn.daemon.learning import Ask, answered

INLINE_BYTES = 1 << 15  # of a request; a smaller one costs less than handing it over

log = logging.getLogger("streamlearn")


class Predicting:
    """Takes jobs one after the other; `run` is the thread's life."""

    def __init__(self, budget: int, wake: Callable[[], None]) -> None:
        self.inbox, self.wake = Inbox(budget), wake
        self.ended = False

    def run(self) -> None:
        while not self.ended or len(self.inbox):
            job = self.inbox.take(None)
            if job is not None:
                reply = answered(job)
                self.inbox.done(job.size)
                job.answer(reply)
                self.wake()

    def take(self, job: Ask) -> bool:
        """Whether there is room for it."""
        if self.ended or not self.inbox.has_room(job.size):
            return False
        self.inbox.put(job)
        return True

    def close(self) -> None:
        self.ended = True
        self.inbox.nudge()
