"""The learning thread: owns the ledger. Reads batches, keeps and learns them, answers, publishes.

Jobs are done strictly in the order they came, so that what a client was told about is in all that
it asks for next. The engine runs without the GIL; the poll thread answers meanwhile.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from streamlearn.catalogue import LOSSES
from streamlearn.daemon.batches import many_rows
from streamlearn.daemon.cores import Cores
from streamlearn.daemon.inbox import Inbox
from streamlearn.daemon.ledger import Entry, Ledger
from streamlearn.engine.block import Block
from streamlearn.errors import IoFailure, StreamlearnError
from streamlearn.multiclass import AnyModel
from streamlearn.wire import Refusal

log = logging.getLogger("streamlearn")

# Read, then learned, then answered together. The fewer turns of the GIL, the sooner others are
# answered meanwhile: with a quarter of it the median of predictions under load was 15 % longer.
GROUP_BYTES = 1 << 20
KEPT_BYTES, KEPT_BATCHES = 8 << 20, 64  # kept together in the journal
QUIET_SECONDS = 0.05
RETRY_SECONDS = 10.0  # until a checkpoint or a publication that failed is tried again
STRETCH_SECONDS = 0.5  # of learning, after which it is asked whether time is up

Answer = Callable[[dict[str, Any]], None]


@dataclass(slots=True)
class Learn:
    """A batch to learn."""

    request: dict[str, Any]
    size: int
    answer: Answer


@dataclass(slots=True)
class Ask:
    """Anything else that needs the learner: called in its thread, its result is the answer."""

    what: Callable[[], dict[str, Any]]
    size: int
    answer: Answer


@dataclass
class Every:
    """How often: after so many examples, or so many seconds."""

    examples: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return str(self.examples) if self.examples else f"{self.seconds:g}s"


@dataclass(frozen=True)
class Published:
    """The model that predictions come from; replaced as a whole, never changed."""

    model: AnyModel
    at: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self.model.warm()


class Keeper(Protocol):
    """Where state survives: see state.StateFolder."""

    def record(self, entries: list[Entry]) -> None: ...
    def checkpoint(self, ledger: Ledger) -> str: ...
    def tend(self) -> float | None: ...
    def reach(self, place: str) -> None: ...
    @property
    def trouble(self) -> str | None: ...
    @property
    def full(self) -> bool: ...


@dataclass(slots=True)
class Reading:
    """A job whose batch was read: its entry, or why it teaches nothing."""

    job: Learn
    entry: Entry | None = None
    refused: Refusal | None = None


@dataclass
class Group:
    """Batches whose rows lie in one block and come from one source."""

    name: str
    block: Block
    size: int = 0
    jobs: list[Learn] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)  # of the jobs, in their order


class Learning:
    """What the learning thread does; `run` is its life."""

    def __init__(
        self,
        ledger: Ledger,
        inbox: Inbox,
        announce: Callable[[Published], None],
        publish_every: Every,
        keeper: Keeper | None = None,
        checkpoint_every: float = 0.0,
        max_nonzeros: int | None = None,
        answered: Callable[[], None] = lambda: None,
        cores: Cores | None = None,
    ) -> None:
        self.ledger, self.inbox, self.announce, self.keeper = ledger, inbox, announce, keeper
        self.answered = answered  # called when there are answers to send
        self.cores = cores or Cores(divided=False)
        self.publish_every, self.checkpoint_every = publish_every, checkpoint_every
        self.max_nonzeros = max_nonzeros
        self.training = ledger.training
        self.stopping = False
        self.lost: Refusal | None = None  # why the last group was not kept, if so
        self.published = Published(self.training.model(max_nonzeros=max_nonzeros))
        self.checkpointed_t: int | None = None
        self.saved_batches = ledger.counts.batches
        self.hurried = False  # whether what is queued shall be sent back, not learned
        self.behind = False  # whether the journal holds batches that there was no time to learn
        self.pace = 2000.0  # rows a second, as it was last
        self.published_at = self.checkpointed_at = self.retry_at = time.monotonic()
        self.publish_after = 0.0  # when a publication that failed is tried again
        self.snapshot_seconds = 0.0
        self.blocks: list[Block] = []
        self.figures: dict[str, Any] = {}
        self.note_figures()

    # ---- the thread ------------------------------------------------------------------------------

    def run(self) -> None:
        patience: float | None = 0.0
        while not self.stopping:
            waiting = len(self.inbox) > 0
            job = self.inbox.take(self.cores.patience(patience))
            if isinstance(job, Learn):
                self.cores.busy(waiting)
                self.learn(job)
            elif job is None:
                self.cores.rest()
            else:
                self.ask(job)
            patience = self.keep_up(quiet=job is None)

    def stop(self) -> dict[str, Any]:
        """The last job: a checkpoint, if there is where to, then the end of the thread.

        None of what is behind its journal: the next start learns the rest from there.
        """
        self.stopping = True
        if self.unsaved and not self.trouble and not self.behind:
            return self.checkpoint()
        if self.behind and self.keeper:
            log.warning("what was not learned in time is in the journal: the next start learns it")
        return {"t": self.ledger.t}

    @property
    def unsaved(self) -> bool:
        """Whether the checkpoint lacks anything; also a refused batch counts and was answered."""
        return self.keeper is not None and self.ledger.counts.batches != self.saved_batches

    def keep_up(self, quiet: bool = False) -> float | None:
        """Publish and save what is due; the seconds until something is due though nothing comes."""
        if self.stopping or self.trouble or self.behind:
            return None
        due = [self.keeper.tend()] if self.keeper else []
        if self.trouble:  # what was to be synced could not be
            log.critical("learning has stopped: %s. Predictions go on", self.trouble.message)
            self.note_figures()
            return None
        now, fresh = time.monotonic(), self.ledger.t - self.published.model.t
        if fresh:
            when = max(self.next_publication(now, fresh, quiet), self.publish_after)
            if now >= when:
                self.renew()
                if self.publish_after > now:
                    due.append(self.publish_after - now)
            else:
                due.append(when - now)
        if (saving := self.next_checkpoint()) is not None:
            if now >= saving:
                self.save()
            else:
                due.append(saving - now)
        return min((seconds for seconds in due if seconds is not None), default=None)

    def next_checkpoint(self) -> float | None:
        """When the next one is due, if any is."""
        if self.keeper and self.keeper.full:
            return self.retry_at
        if self.keeper and self.checkpoint_every and self.unsaved:
            return self.checkpointed_at + self.checkpoint_every
        return None

    def next_publication(self, now: float, fresh: int, quiet: bool) -> float:
        """When the model should be replaced, `fresh` examples being in none yet."""
        every = self.publish_every
        if every.examples and fresh >= every.examples:
            return now
        if self.published.model.t == 0:  # anything is better than a model that knows nothing
            return now
        # A snapshot costs O(features): spend at most a tenth of the time on them.
        when = self.published_at + max(every.seconds, 10.0 * self.snapshot_seconds)
        # Whatever the count: when all is quiet, the newest is served.
        return when if every.seconds or quiet else max(when, now + QUIET_SECONDS)

    # ---- jobs ------------------------------------------------------------------------------------

    def learn(self, job: Learn) -> None:
        """Read a batch and those that wait behind it; keep them; learn and answer them."""
        settled = self.training.parser.settled
        groups = self.read_waiting(job)
        lost = self.keep([r.entry for group in groups for r in group.readings if r.entry])
        if lost:
            self.training.forget_labels(settled)
        for group in groups:
            before = self.ledger.t
            learned = -1 if lost else self.learn_group(group)
            done: list[tuple[Learn | Ask, dict[str, Any]]] = []
            for reading in group.readings:
                done.append((reading.job, self.finish(reading, lost, before, learned)))
                if self.keeper:
                    self.keeper.reach("after-apply")
            self.answer(done)

    def learn_group(self, group: Group) -> int:
        """How many of its rows were learned: all, unless learning ends or time is up.

        In stretches of bounded time, which gives the same bits: some algorithms take seconds for
        a batch, and a stop must not wait for that.
        """
        block, done = group.block, 0
        while not self.hurried:
            stop = min(done + max(int(self.pace * STRETCH_SECONDS), 1), len(block))
            part = block if stop - done == len(block) else block.part(done, stop)
            begin = time.monotonic()
            learned = self.ledger.learn(part, group.name)
            if learned < stop - done:
                return done + learned
            if learned:
                self.pace = learned / max(time.monotonic() - begin, 1e-6)
            done = stop
            if done == len(block):
                return done
        self.behind = self.behind or any(reading.entry for reading in group.readings)
        return done or -1  # -1: an empty batch was not reached, either

    def read_waiting(self, first: Learn) -> list[Group]:
        """The batches that wait, in groups: one, or all that can be kept together."""
        groups: list[Group] = []
        ahead: dict[str, int] = {}  # the last batch of each client that was read but not learned
        most = KEPT_BYTES if self.keeper else GROUP_BYTES
        for job in (first, *self.inbox.take_more(Learn, most - first.size, KEPT_BATCHES - 1)):
            name = job.request.get("name", "batch")
            if not groups or groups[-1].size >= GROUP_BYTES or groups[-1].name != name:
                groups.append(Group(name, self.emptied(len(groups))))
            groups[-1].jobs.append(job)
            groups[-1].size += job.size
        for group in groups:
            self.read(group, ahead)
        return groups

    def emptied(self, number: int) -> Block:
        """A block for the group of this number: the same again and again."""
        if number == len(self.blocks):
            self.blocks.append(Block())
        self.blocks[number].clear()
        return self.blocks[number]

    def answer(self, done: list[tuple[Learn | Ask, dict[str, Any]]]) -> None:
        """Tell what became of jobs, several at once: waking the poll thread costs more than that.

        The figures come first, so that whoever was answered finds it in them.
        """
        self.note_figures()
        self.inbox.done(sum(job.size for job, _ in done), len(done))
        for job, reply in done:
            job.answer(reply)
        self.answered()

    def read(self, group: Group, ahead: dict[str, int]) -> None:
        """Put the rows of its batches into its block, or tell why not; nothing is learned yet."""
        jobs, readings, block = group.jobs, group.readings, group.block
        while len(readings) < len(jobs):
            here, first = len(readings), len(block)
            try:
                many = self.in_turn(jobs[here:], dict(ahead))
                requests = [job.request for job in jobs[here : here + many]]
                found = many_rows(requests, self.training.parser, block) if many else []
            except Refusal as error:
                readings.append(Reading(jobs[here], None, error))
                continue
            except MemoryError as error:
                block.cut(first)
                refused = Refusal("TOO_LARGE", f"no memory for this batch: {error}")
                readings.append(Reading(jobs[here], None, refused))
                continue
            if not many:
                readings.append(Reading(jobs[here]))  # it came before
            for i, rows in enumerate(found):
                request = jobs[here + i].request
                entry = Entry(rows, request.get("client"), request.get("seq", 0))
                refused = self.refusal_of(entry, request)
                if i + 1 == len(found) or found[i + 1].settled:
                    entry.negative = self.training.negative
                if entry.client is not None:
                    ahead[entry.client] = entry.seq
                readings.append(Reading(jobs[here + i], entry, refused))

    def in_turn(self, jobs: list[Learn], ahead: dict[str, int]) -> int:
        """How many of these, from the first on, are the next of their clients.

        Raises a refusal when the first will never be learned; 0 when it was answered before.
        """
        if self.trouble:
            raise self.trouble
        if self.hurried:
            raise ending()
        for count, job in enumerate(jobs):
            client, seq = job.request.get("client"), job.request.get("seq", 0)
            if client is None:
                continue
            try:
                if not self.ledger.sessions.is_next(client, seq, ahead.get(client)):
                    return count
            except Refusal:
                if count:
                    return count
                raise
            ahead[client] = seq
        return len(jobs)

    def refusal_of(self, entry: Entry, request: dict[str, Any]) -> Refusal | None:
        """Why a batch is refused as a whole, if it is; then it is the last one in its block."""
        rows = entry.rows
        if not rows.bad or request.get("on_error") == "skip":
            return None
        self.training.forget_labels(rows.settled)
        entry.rejected = rows.total
        rows.block.cut(rows.first)
        rows.stop = rows.first
        message = rows.errors[0]["message"]
        if rows.bad > 1:
            message += f" (and {rows.bad - 1} more bad rows)"
        refused = Refusal("BAD_LINE", f"{message}; nothing was learned", errors=rows.errors)
        entry.refusal = refused.message
        return refused

    def keep(self, entries: list[Entry]) -> Refusal | None:
        """To the journal, before anything of it is learned; None when all is well."""
        if self.keeper is None or not entries:
            return None
        self.lost = None
        try:
            self.keeper.record(entries)
        except OSError as error:
            what = f"the journal cannot be written: {error.strerror}"
            log.error("%s", what)
            self.lost = Refusal("STORAGE", f"{what}; nothing was learned")
        except MemoryError:  # before anything was written
            log.error("no memory for what the journal shall keep")
            self.lost = Refusal("TOO_LARGE", "no memory to keep this batch; nothing was learned")
        return self.lost

    def finish(
        self, reading: Reading, lost: Refusal | None, before: int, learned: int
    ) -> dict[str, Any]:
        """Enter a batch into the ledger; the reply says what became of each of its rows."""
        request, entry, refused = reading.job.request, reading.entry, reading.refused
        try:
            if entry is None:
                if refused:
                    raise refused
                before = self.ledger.sessions.answer(request["client"], request["seq"])
                if before is None:  # its first copy is in this group and came to nothing
                    raise lost or self.trouble or self.postponed
                self.ledger.repeated(before)
                if before.refusal:
                    raise Refusal("BAD_LINE", before.refusal, **before.reply(duplicate=True))
                return before.reply(duplicate=True)
            if lost:
                raise lost
            if self.behind and entry.rows.stop > learned and not self.ledger.stopped:
                raise self.postponed
            ack = self.ledger.enter(entry, before, learned)
            if refused:
                raise Refusal(refused.code, refused.message, **ack.reply(), **refused.details)
        except Refusal as error:
            return refusal(error)
        return ack.reply(errors=entry.rows.errors) if entry.rows.errors else ack.reply()

    @property
    def postponed(self) -> Refusal:
        """For a batch that was read, but not learned in time."""
        if self.keeper is None:
            return ending()
        return Refusal(
            "STOPPING",
            "the daemon is shutting down; this batch is in its journal, the next start learns it",
            kept=True,
        )

    def ask(self, job: Ask) -> None:
        late = self.hurried and job.what != self.stop
        self.answer([(job, refusal(ending()) if late else answered(job))])

    @property
    def trouble(self) -> Refusal | None:
        """Why nothing can be learned any more, if so."""
        if self.ledger.stopped:
            return self.ledger.stopped.refusal()
        if self.keeper and self.keeper.trouble:
            return Refusal("STORAGE", f"{self.keeper.trouble}; restart the daemon")
        return None

    @property
    def ended(self) -> bool:
        """Whether there is trouble; for the poll thread, which asks often."""
        return bool(self.ledger.stopped or (self.keeper and self.keeper.trouble))

    # ---- models ----------------------------------------------------------------------------------

    def publish(self) -> Published:
        """Make the model of now the one that is served."""
        start = time.monotonic()
        with self.cores.shared():
            self.published = Published(self.training.model(max_nonzeros=self.max_nonzeros))
        self.published_at = time.monotonic()
        self.snapshot_seconds = self.published_at - start
        self.note_figures()
        self.announce(self.published)
        return self.published

    def renew(self) -> None:
        """Publish because it is time; without the memory for that, the last model stays."""
        try:
            self.publish()
        except MemoryError as error:
            self.publish_after = time.monotonic() + RETRY_SECONDS
            log.error("no memory to publish a model: %s; the one of before is served", error)

    def live(self) -> AnyModel:
        """The model of this very moment; when learning has ended the last good one."""
        if self.ledger.t == self.published.model.t or self.ledger.stopped:
            return self.published.model
        return self.publish().model

    def snapshot(self, **options: Any) -> AnyModel:
        """The model of now, as sparse as the options say."""
        if not options:
            return self.live()
        if self.ledger.stopped:
            raise self.ledger.stopped.refusal()
        with self.cores.shared():
            return self.training.model(**{"max_nonzeros": self.max_nonzeros, **options})

    def checkpoint(self) -> dict[str, Any]:
        """Write all that going on depends on."""
        if self.keeper is None:
            raise Refusal("STORAGE", "the daemon runs without a state folder; start with --state")
        if self.trouble:
            raise self.trouble
        if self.behind:  # it would claim batches of the journal that are not in it
            raise ending()
        start, t = time.monotonic(), self.ledger.t
        try:
            path = self.keeper.checkpoint(self.ledger)
        except MemoryError as error:
            raise IoFailure(f"no memory for a checkpoint: {error}") from error
        self.checkpointed_t, self.checkpointed_at = t, time.monotonic()
        self.saved_batches = self.ledger.counts.batches
        log.info("checkpoint of %d examples: %s (%.2f s)", t, path, self.checkpointed_at - start)
        return {"t": t, "path": path}

    def save(self) -> None:
        """A checkpoint that nobody asked for; if it fails the journal is still there."""
        try:
            self.checkpoint()
        except StreamlearnError as error:
            self.checkpointed_at = time.monotonic()
            self.retry_at = self.checkpointed_at + RETRY_SECONDS
            log.error("checkpoint failed: %s", error)
        self.note_figures()

    def note_figures(self) -> None:
        """What the poll thread may tell of us; a new map each time, so it reads a whole one."""
        sums, model = self.training.learner.progress, self.published.model
        trouble = self.trouble or self.lost
        weight = sums["weight"]
        classifies = LOSSES[self.training.settings["loss"]].classifies
        self.figures = {
            **vars(self.ledger.counts),
            "t": sums["examples"],
            "loss": sums["loss"] / weight if weight else None,
            "error": sums["errors"] / weight if weight and classifies else None,
            "nonzeros": model.nonzeros,
            "density": model.density,
            "features": model.seen,
            "published_t": model.t,
            "published_at": self.published.at,
            "snapshot_seconds": self.snapshot_seconds,
            "checkpoint_t": self.checkpointed_t,
            "learner_bytes": self.training.learner.memory,
            "clients": len(self.ledger.sessions.clients),
            "healthy": trouble is None,
            "trouble": trouble and trouble.message,
        }


def ending() -> Refusal:
    return Refusal("STOPPING", "the daemon is shutting down; nothing was learned")


def refusal(error: Refusal) -> dict[str, Any]:
    """An error as a reply."""
    return {"code": error.code, "message": error.message, **error.details}


def answered(job: Ask) -> dict[str, Any]:
    """What is said to a job, whatever happens: it only looks, so what is learned stays sound."""
    try:
        return job.what()
    except Refusal as error:
        return refusal(error)
    except StreamlearnError as error:
        code = "STORAGE" if error.exit_code in (73, 74) else "BAD_REQUEST"
        return refusal(Refusal(code, str(error)))
    except Exception as error:
        log.exception("a request failed")
        return refusal(Refusal("INTERNAL", f"{type(error).__name__}; the log has more"))
