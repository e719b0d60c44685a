"""The ledger: the learner and all that is kept beside it. Batches are entered, live or replayed."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field

from streamlearn.daemon.batches import Rows
from streamlearn.daemon.sessions import Ack, Sessions
from streamlearn.errors import Divergence
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


@dataclass
class Entry:
    """A batch that was read and is about to be learned; what the journal keeps of it."""

    rows: Rows
    client: str | None = None
    seq: int = 0
    rejected: int = 0  # rows, when the batch is refused as a whole
    refusal: str = ""  # why it is
    negative: float | None = None  # how the data writes the negative class, once it is known


@dataclass
class Ledger:
    """Everything that going on depends on."""

    training: Training
    sessions: Sessions = field(default_factory=Sessions)
    counts: Counts = field(default_factory=Counts)
    stopped: str | None = None  # why learning has ended for good, if it has

    @property
    def t(self) -> int:
        return self.training.learner.t

    def enter(self, entry: Entry, name: str) -> Ack:
        """Learn a batch and count it; a divergence is a refusal, and the end of learning."""
        if self.stopped:
            raise Refusal("DIVERGED", self.stopped)
        counts, training, rows = self.counts, self.training, entry.rows
        counts.batches += 1
        if entry.rejected:
            counts.received += entry.rejected
            counts.rejected += entry.rejected
            ack = Ack(self.t, 0, 0, entry.rejected, entry.refusal)
        else:
            before, total = self.t, rows.total
            counts.received += total
            try:
                training.learn_rows(rows.block, name)
            except Divergence as error:
                self.stopped = str(error)
                counts.learned += self.t - before
                counts.rejected += total - (self.t - before)
                log.critical("learning has stopped: %s. Predictions go on", error)
                raise Refusal("DIVERGED", self.stopped) from None
            counts.learned += len(rows.block)
            counts.skipped += rows.bad
            training.counters["bad_lines"] += rows.bad
            training.counters["blank_lines"] += rows.blank
            ack = Ack(self.t, len(rows.block), rows.bad, 0)
        if entry.client is not None:
            self.sessions.note(entry.client, entry.seq, ack)
        return ack

    def enter_again(self, entry: Entry) -> None:
        """From the journal."""
        parser = self.training.parser
        if entry.negative is not None and not parser.settled:
            parser.settle(entry.negative)
        with suppress(Refusal):  # a divergence: it ended so the first time, too
            self.enter(entry, "journal")

    def repeated(self, ack: Ack) -> None:
        """A batch that had been answered before came again."""
        rows = ack.learned + ack.skipped + ack.rejected
        self.counts.received += rows
        self.counts.duplicate += rows
