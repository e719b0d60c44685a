"""The ledger: the learner and all that is kept beside it. Batches are entered, live or replayed."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field

from streamlearn.daemon.batches import Rows
from streamlearn.daemon.sessions import Ack, Sessions
from streamlearn.engine.block import Block
from streamlearn.errors import Divergence
from streamlearn.record import replace
from streamlearn.training import Training
from streamlearn.wire import Refusal

log = logging.getLogger("streamlearn")


@dataclass
class Counts:
    """Rows. received = learned + skipped + rejected + duplicate, always."""

    received: int = 0
    learned: int = 0
    skipped: int = 0  # bad lines left out of a batch
    rejected: int = 0  # rows of batches that were refused as a whole
    duplicate: int = 0  # rows of batches that had been answered before
    batches: int = 0


@dataclass(slots=True)
class Entry:
    """A batch that was read and is about to be learned; what the journal keeps of it."""

    rows: Rows
    client: str | None = None
    seq: int = 0
    rejected: int = 0  # rows, when the batch is refused as a whole
    refusal: str = ""  # why it is
    negative: float | None = None  # how the data writes the negative class, once it is known


@dataclass(frozen=True)
class End:
    """Why learning has ended: a code of the protocol, and a sentence."""

    code: str
    message: str

    def __str__(self) -> str:
        return self.message

    def refusal(self, **details: int) -> Refusal:
        return Refusal(self.code, self.message, **details)


@dataclass
class Ledger:
    """Everything that going on depends on."""

    training: Training
    sessions: Sessions = field(default_factory=Sessions)
    counts: Counts = field(default_factory=Counts)
    stopped: End | None = None  # why learning has ended for good, if it has

    @property
    def t(self) -> int:
        return self.training.learner.t

    def learn(self, block: Block, name: str) -> int:
        """Learn a block of the rows of any number of batches, to be entered one by one behind that.

        Returns how many rows were learned: less than all after a divergence or where memory ran
        out, which ends learning, and -1 when it had ended before.
        """
        if self.stopped:
            return -1
        before = self.t
        try:
            self.training.learn_rows(block, name)
            return len(block)
        except Divergence as error:
            self.stopped = End("DIVERGED", str(error))
        except MemoryError as error:
            # The engine asks for memory before it learns, so most often none of the rows is in.
            # Where it came in between, the learner may be half changed: it is never read again.
            why = f"{name}: {error or 'no memory'}; give the daemon more and restart it"
            self.stopped = End("MEMORY", why)
        log.critical("learning has stopped: %s. Predictions go on", self.stopped)
        return max(self.t - before, 0)

    def enter(self, entry: Entry, before: int, learned: int) -> Ack:
        """Count a batch and note its ack, or refuse it if it has rows that were not learned.

        before: the examples learned in all before its block was; learned: rows of the block.
        """
        counts, rows = self.counts, entry.rows
        t, good, bad = before + rows.stop, rows.good, rows.bad
        if self.stopped and rows.first > learned:
            raise self.stopped.refusal()  # its turn did not come
        counts.batches += 1
        if entry.rejected:
            counts.received += entry.rejected
            counts.rejected += entry.rejected
            ack = Ack(t, 0, 0, entry.rejected, entry.refusal)
        else:
            counts.received += good + bad
            if self.stopped and rows.stop > learned:
                done = learned - rows.first
                counts.learned += done
                counts.rejected += good + bad - done
                raise self.stopped.refusal(learned=done, rejected=good + bad - done)
            counts.learned += good
            if bad or rows.blank:
                counts.skipped += bad
                self.training.counters["bad_lines"] += bad
                self.training.counters["blank_lines"] += rows.blank
            ack = Ack(t, good, bad, 0)
        if entry.client is not None:
            self.sessions.note(entry.client, entry.seq, ack)
        return ack

    def enter_again(self, entry: Entry) -> None:
        """From the journal."""
        parser = self.training.parser
        if entry.negative is not None and not parser.settled:
            parser.settle(entry.negative)
        before = self.t
        learned = self.learn(entry.rows.block, "journal")
        with suppress(Refusal):  # it ended so the first time, too
            self.enter(entry, before, learned)
        if learned >= 0 and self.stopped and self.stopped.code == "MEMORY":
            # What was learned up to here is built again, since nothing can be read out of this
            # learner; there is no room for both.
            self.training.learner = replace(self.training, learner=None).learner

    def repeated(self, ack: Ack) -> None:
        """A batch that had been answered before came again."""
        rows = ack.learned + ack.skipped + ack.rejected
        self.counts.received += rows
        self.counts.duplicate += rows
