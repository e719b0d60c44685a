"""From sources through the parser to the learner: what `fit` does, without a command line.

Bad lines are counted, skipped, set aside or refused here, before anything of them is learned.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import cycle, repeat
from reprlib import repr as short
from typing import TYPE_CHECKING, Any, Protocol

from streamlearn import container
from streamlearn._version import __version__
from streamlearn.ahead import Ahead
from streamlearn.catalogue import (
    LOSSES,
    checked_settings,
    engine_spec,
    learner_class,
    make_learner,
    make_multiclass,
    steadier,
)
from streamlearn.engine.block import Block
from streamlearn.engine.libsvm import Parser
from streamlearn.errors import BadLine, DataError, Divergence, ModelError, UsageError
from streamlearn.model import CONTRADICTIONS, Model, are_labels
from streamlearn.multiclass import REST, AnyModel, MulticlassModel
from streamlearn.record import Record, field
from streamlearn.sources import Source, chunks

if TYPE_CHECKING:  # most runs need no cache, nor the time to load what makes one
    from streamlearn.cache import CachedFile

    AnySource = Source | CachedFile
    Parsed = tuple[AnySource, Block, dict[str, int]]

FORMAT = "streamlearn-state"
COUNTERS = ("bad_lines", "blank_lines")
MAX_CLASSES = 1000
AHEAD = 2  # blocks parsed and not yet learned


class Aside(Protocol):
    """Where bad lines are set aside."""

    def write(self, line: bytes) -> object: ...


class BadLines(Record):
    """What to do with a bad line: stop, skip it, or set it aside in a file."""

    policy: str = "stop"
    limit: int | None = None  # more than this many bad lines stop the run under any policy
    aside: Aside | None = None
    warn: Callable[[str], None] = lambda message: None
    count: int = 0

    def meet(self, error: BadLine, text: bytes) -> None:
        """Count the line and act; raises where the policy or the limit says stop."""
        if self.policy == "stop":
            raise error
        self.count += 1
        if self.limit is not None and self.count > self.limit:
            raise DataError(f"{error}; that is bad line {self.count}, --max-errors is {self.limit}")
        if self.aside is not None:
            self.aside.write(text if text.endswith(b"\n") else text + b"\n")
        digits = str(self.count)
        if digits == "1" + "0" * (len(digits) - 1):  # 1, 10, 100, ...
            done = "set aside" if self.policy == "quarantine" else "skipped"
            self.warn(f"{error}; line {done} ({self.count} so far). Use --on-error stop to fail")


def label_parser(
    loss: str,
    labels: tuple[float, ...] | None = None,
    multiclass: bool = False,
    max_classes: int | None = None,
    known: Iterable[float] = (),
) -> Parser:
    """A parser that reads labels as a loss wants them; known classes count for max_classes."""
    if not LOSSES[loss].classifies:
        if multiclass:
            raise UsageError(
                f"--multiclass learns classes; --loss {loss} is for regression: use one of "
                + ", ".join(e.name for e in LOSSES.values() if e.classifies)
            )
        if labels:
            raise UsageError(
                f"--labels names two classes; --loss {loss} takes any number as a label"
            )
        return Parser("any")
    if multiclass:
        if labels is not None:
            return Parser("classes", known=labels, fixed=True)
        return Parser("classes", known=known, limit=max_classes)
    if labels is not None and len(labels) != 2:
        raise UsageError(
            f"--labels names {len(labels)} classes; without --multiclass there are two"
        )
    return Parser("binary" if labels is None else (labels[0], labels[1]))


def parse(source: AnySource, parser: Parser, bad: BadLines, block: Block) -> Iterator[Block]:
    """Blocks of a source, each valid until the next; bad lines go to the policy."""
    return parse_into(repeat(block), source, parser, bad)


def parse_into(
    ring: Iterator[Block], source: AnySource, parser: Parser, bad: BadLines
) -> Iterator[Block]:
    """The same, with a block of the ring for each."""
    parser.start_file()
    block = next(ring)
    if hasattr(source, "blocks"):  # a CachedFile
        block = yield from source.blocks(block, ring, parser)
        if source.whole:
            return
        if source.bad and bad.policy != "stop":
            bad.warn(f"{source.name}: has bad lines: it is read as text, without a cache")
        source = source.text()
    for buffer, stop in chunks(source):
        start = 0
        while start < stop:
            begin = start
            start = parser.parse(buffer, begin, stop, block)
            error = None
            if parser.fault:
                error = BadLine(source.name, parser.line, parser.column, parser.complaint())
                line_start = max(begin, buffer.rfind(b"\n", begin, start - 1) + 1)
                text = bytes(buffer[line_start:start])
            if len(block):
                yield block
                block = next(ring)  # an empty one is filled again
            if error is not None:
                bad.meet(error, text)


class Training(Record):
    """A learner with all that belongs to its run; saved as a state, read out as a model."""

    settings: dict[str, Any]
    labels: tuple[float, ...] | None = None  # as given by the user
    normalize: str = "none"
    learner: Any = None  # a Learner, or one with the same surface
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))
    multiclass: bool = False
    max_classes: int = MAX_CLASSES

    def __post_init__(self) -> None:
        self.allow(self.max_classes)
        if self.learner is None:
            self.learner = (
                make_multiclass(self.settings, self.labels)
                if self.multiclass
                else make_learner(self.settings)
            )
        self.block = Block()

    def allow(self, max_classes: int) -> None:
        """Read labels, of so many classes at most."""
        self.max_classes = max_classes
        known = self.learner.classes if self.multiclass and self.learner is not None else ()
        self.parser = label_parser(
            self.settings["loss"], self.labels, self.multiclass, max_classes, known
        )

    @property
    def negative(self) -> float | None:
        """How the data writes the negative of two classes, once that is known."""
        labels = self.parser.labels
        return labels[0] if labels and self.parser.settled else None

    def forget_labels(self, settled: bool) -> None:
        """What a refused batch showed of the labels: as if it had not come."""
        if self.multiclass:
            self.allow(self.max_classes)
        elif not settled:
            self.parser.unsettle()

    def run(
        self, sources: Iterable[AnySource], bad: BadLines, threads: int = 1
    ) -> Iterator[AnySource]:
        """Learn everything; yields the source in hand after each block, for progress.

        With two threads one reads and parses ahead while the other learns: the same bits, sooner.
        """
        ring = [Block() for _ in range(AHEAD + 2)] if threads > 1 else None
        for source in sources:
            blocks = self.blocks([source], bad, ring)
            with closing(Ahead(blocks, AHEAD, self.look_up) if ring else blocks) as ready:
                for _, block, counters in ready:
                    self.learn_rows(block, source.name)
                    self.counters = counters  # of what is learned, not of what is read
                    yield source

    def look_up(self, parsed: Parsed) -> None:
        """Find the slots of a block ahead: where ids are scattered that is half of the work."""
        self.learner.look_up(parsed[1])

    def learn_rows(self, block: Block, name: str) -> None:
        """Learn a block as it was written."""
        if self.normalize == "l2":
            block.normalize()
        self.learn(block, name)

    def learn(self, block: Block, name: str) -> None:
        """Learn a block; a divergence tells the name of the source."""
        try:
            self.learner.learn(block)
        except Divergence as error:
            what = f"{name}: {error.what}; {steadier(self.settings)}"
            raise Divergence(error.example, error.line, what) from error

    def blocks(
        self, sources: Iterable[AnySource], bad: BadLines, ring: Sequence[Block] | None = None
    ) -> Generator[Parsed]:
        """Every block as it was written, its source, and the lines counted up to it.

        A block is valid until the ring comes round; an empty one ends each source.
        """
        before, blank, bad_before = dict(self.counters), self.parser.blank, bad.count
        rounds = cycle(ring or [self.block])

        def counted() -> dict[str, int]:
            return {
                "bad_lines": before["bad_lines"] + bad.count - bad_before,
                "blank_lines": before["blank_lines"] + self.parser.blank - blank,
            }

        for source in sources:
            try:
                for block in parse_into(rounds, source, self.parser, bad):
                    yield source, block, counted()
                yield source, Block(), counted()
            finally:
                source.close()

    def model(
        self,
        evidence: float | None = None,
        max_nonzeros: int | None = None,
        smoothness: float | None = None,
    ) -> AnyModel:
        """The exactly sparse model of now; learning goes on undisturbed."""
        found = self.learner.snapshot(smoothness, evidence, max_nonzeros)
        settings = dict(self.settings)
        for name, value in (
            ("evidence", evidence),
            ("smoothness", smoothness),
            ("max_nonzeros", max_nonzeros),
        ):
            if value is not None:
                settings[name] = value
        shared: dict[str, Any] = {
            "settings": settings,
            "normalize": self.normalize,
            "counters": {**self.counters, "ignored_features": self.learner.ignored},
        }
        progress = self.learner.progress
        if self.multiclass:
            return MulticlassModel(
                **shared,
                t=found["t"],
                seen=found["seen"],
                classes=tuple(map(int, found["classes"])),
                parts=tuple(Model(**shared, **part, labels=REST) for part in found["parts"]),
                progress=progress,
            )
        return Model(**shared, **found, labels=self.parser.labels, progress=progress)

    def to_bytes(self) -> bytes:
        """The state file: everything that going on depends on."""
        return container.pack(
            FORMAT,
            {
                "streamlearn": __version__,
                "settings": self.settings,
                "labels": list(self.labels) if self.labels else None,
                "negative": self.negative,
                "normalize": self.normalize,
                "counters": self.counters,
                **({"max_classes": self.max_classes} if self.multiclass else {}),
                "learner": self.learner.state(),
            },
        )

    @classmethod
    def load(cls, path: str) -> Training:
        """A run that goes on exactly where its state was saved."""
        return cls._checked(container.read_file(path, FORMAT), path)

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "state") -> Training:
        """The inverse of to_bytes."""
        return cls._checked(container.unpack(data, FORMAT, name), name)

    @classmethod
    def _checked(cls, body: dict[str, Any], path: str) -> Training:
        multiclass = "max_classes" in body
        try:
            if engine_spec(checked_settings(body["settings"])) != body["learner"]["spec"]:
                raise ModelError("its learner is not the one of its settings")
            training = cls(
                settings=body["settings"],
                labels=tuple(body["labels"]) if body["labels"] else None,
                normalize=body["normalize"],
                learner=learner_class(body["settings"], multiclass).from_state(body["learner"]),
                counters={name: whole(body["counters"][name]) for name in COUNTERS},
                multiclass=multiclass,
                max_classes=body.get("max_classes", MAX_CLASSES),
            )
            if training.labels and not multiclass and not are_labels(*training.labels):
                raise ModelError("its labels are no two numbers")
            # Without the background no class can come that was not declared.
            closed = "background" in body["learner"] and body["learner"]["background"] is None
            if closed and {*(training.labels or ())} != {*training.learner.classes}:
                raise ModelError("its classes are not those that were declared")
            if body["negative"] is not None and training.labels is None:
                if body["negative"] not in (-1.0, 0.0):
                    raise ModelError("its negative class is neither -1 nor 0")
                training.parser.settle(body["negative"])
        except (ModelError, UsageError, DataError, *CONTRADICTIONS) as error:
            raise ModelError(f"{path}: not a whole state: {error}") from error
        return training


def whole(number: Any) -> int:
    """A counter of a file."""
    if type(number) is not int or not 0 <= number < 1 << 63:
        raise ValueError(f"{short(number)} is no count")
    return number
