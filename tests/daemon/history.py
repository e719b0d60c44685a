"""Random histories of a daemon without its sockets: clients, batches, kills and power cuts.

`World` drives the learning thread's own code over a state folder on a `platter`, keeps what the
clients were told, and after every recovery compares state, sessions and counters with a run offline
over what must be there. Any difference is an AssertionError.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from daemon.platter import FAULTS, FragileDisk, Killed, Platter
from streamlearn.catalogue import resolve
from streamlearn.daemon.inbox import Inbox
from streamlearn.daemon.learning import Every, Learn, Learning
from streamlearn.daemon.ledger import Ledger
from streamlearn.daemon.state import StateFolder
from streamlearn.durability import Durability
from streamlearn.errors import CannotCreate
from streamlearn.training import Training

NEVER = Every(seconds=1e9)  # publications


def text_of(random: Random, rows: int, negative: str | None = "-1") -> bytes:
    """Lines of two classes, or of a regression; now and then with an importance weight."""
    lines = []
    for _ in range(rows):
        ids = sorted(random.sample(range(1, 30), random.randint(0, 5)))
        row = [f"{i}:{random.gauss(0, 1):.3f}" for i in ids]
        label = random.choice((negative, "+1")) if negative else f"{random.gauss(0, 2):.3f}"
        if random.random() < 0.2:
            label += f":{random.choice((0.5, 2, 3))}"
        lines.append(" ".join([label, *row]) + "\n")
    return "".join(lines).encode()


@dataclass(frozen=True)
class Batch:
    """What a client sends under a number."""

    client: str
    seq: int
    text: bytes

    def request(self) -> dict[str, Any]:
        return {"client": self.client, "seq": self.seq, "text": self.text}


def drive(learning: Learning, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Let the learning thread's code take a group of batches; the replies in their order."""
    replies: list[dict[str, Any]] = []
    for request in requests:
        learning.inbox.put(Learn(request, len(request["text"]), replies.append))
    while len(learning.inbox):
        learning.learn(learning.inbox.take(0.0))
    return replies


def offline(settings: dict[str, Any], order: list[Batch]) -> Ledger:
    """The same batches without a folder, one at a time."""
    learning = Learning(
        Ledger(Training(settings)), Inbox(1 << 30), ignore, NEVER
    )
    for batch in order:
        drive(learning, [batch.request()])
    return learning.ledger


def same(found: Ledger, expected: Ledger) -> None:
    """State, sessions and counters, but for duplicates, which nobody keeps."""
    assert found.counts.batches == expected.counts.batches
    assert found.sessions.state() == expected.sessions.state()
    assert found.training.to_bytes() == expected.training.to_bytes()
    for name in ("learned", "skipped", "rejected"):
        assert getattr(found.counts, name) == getattr(expected.counts, name)
    parts = (found.counts.learned, found.counts.skipped, found.counts.rejected)
    assert found.counts.received == sum(parts) + found.counts.duplicate


class World:
    """A folder, two clients, and a seed from which all else follows."""

    def __init__(self, folder: Path, seed: int, policy: str = "always", faulty: bool = False):
        self.random = random = Random(seed)
        self.folder, self.policy, self.faulty = folder, policy, faulty
        self.settings = resolve(random.choice(("averagesl", "ftrl", "adaptivesl")), "logistic", {})
        self.negative = random.choice(("-1", "0"))
        self.platter = Platter(random)
        folder.mkdir(exist_ok=True)
        self.order: list[Batch] = []  # answered: learned, or refused for a bad line; in turn
        self.safe = 0  # how many of them a power cut must spare
        self.doubtful: list[Batch] = []  # the group of which nobody knows whether it was kept
        self.waiting: list[Batch] = []  # not answered: to be sent again
        self.last = {"anna": 0, "ben": 0}  # the number of the last batch each has made
        self.lives = self.cuts = self.repeats = self.refusals = 0

    # ---- one life of the daemon ------------------------------------------------------------------

    def live(self) -> None:
        """Start, recover, check, work for a while, and die."""
        random, self.lives = self.random, self.lives + 1
        powered = random.random() < 0.7  # else kill -9: the system's cache survives
        disk = FragileDisk(
            self.platter,
            end=int(math.exp(random.uniform(0, 5))),
            faults={random.randint(1, 80): random.choice(FAULTS) for _ in range(2 * self.faulty)},
        )
        folder = StateFolder(str(self.folder), Durability(self.policy, 0.0), 4096, disk)
        try:
            ledger = folder.recover(lambda: Training(self.settings), lambda held: None)
            self.check(ledger)
            self.work(Learning(ledger, Inbox(1 << 30), ignore, NEVER, folder))
        except Killed:
            self.cuts += powered
        except CannotCreate:
            assert disk.failed  # it could not start, and said so
        finally:
            folder.close()
            for descriptor in list(disk.files):
                disk.close(descriptor)
        if powered:
            self.platter.lose_power(self.folder)

    def work(self, learning: Learning) -> None:
        for _ in range(self.random.randint(0, 12)):
            group, stopped = self.group(), learning.trouble
            if not stopped:
                self.doubtful = group
            replies = drive(learning, [batch.request() for batch in group])
            for batch, reply in zip(group, replies, strict=True):
                self.hear(batch, reply)
            if not learning.trouble:  # else what the failed sync was for is in doubt
                self.doubtful = []
            if self.random.random() < 0.2:
                learning.save()
            learning.keep_up()
            if self.policy != "none" and not learning.trouble:
                self.safe = len(self.order)

    # ---- the clients -----------------------------------------------------------------------------

    def group(self) -> list[Batch]:
        """What waits, something new, and something that was answered before."""
        random, group = self.random, list(self.waiting)
        for _ in range(random.randint(0 if group else 1, 3)):
            client = random.choice(sorted(self.last))
            self.last[client] += 1
            bad = random.random() < 0.1
            text = text_of(random, random.randint(0, 9), self.negative) + b"+1 oops\n" * bad
            group.append(Batch(client, self.last[client], text))
        self.waiting = list(group)
        if self.order and random.random() < 0.3:
            group.insert(random.randrange(len(group) + 1), random.choice(self.order[-20:]))
        return group

    def hear(self, batch: Batch, reply: dict[str, Any]) -> None:
        code = reply.get("code")
        if code == "STORAGE":
            self.refusals += 1
            return
        assert code in (None, "BAD_LINE"), reply
        if reply.get("duplicate"):
            self.repeats += 1
            assert batch in self.order
        else:
            assert batch not in self.order
            self.order.append(batch)
        if batch in self.waiting:
            self.waiting.remove(batch)
        if self.policy == "always":
            self.safe = len(self.order)

    # ---- after a recovery ------------------------------------------------------------------------

    def check(self, ledger: Ledger) -> None:
        """All that is safe is there, in its order; of the group in doubt all or nothing."""
        doubtful = [batch for batch in self.doubtful if batch not in self.order]
        kept = ledger.counts.batches
        legal = {len(self.order), len(self.order) + len(doubtful)}
        if self.policy != "always":
            legal |= set(range(self.safe, len(self.order)))
        assert kept in legal, f"{kept} batches, legal are {sorted(legal)}"
        self.order = [*self.order, *doubtful][:kept]
        same(ledger, offline(self.settings, self.order))
        if self.policy != "always":  # what was lost is gone; its clients go on from there
            known = ledger.sessions.clients
            self.last = {name: known[name][-1][0] if name in known else 0 for name in self.last}
            self.waiting = []
        self.doubtful, self.safe = [], len(self.order)


def ignore(published: object) -> None:
    pass
