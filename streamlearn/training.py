"""From sources through the parser to the learner: what `fit` does, without a command line.

Bad lines are counted, skipped, set aside or refused here, before anything of them is learned.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Protocol

from streamlearn import container
from streamlearn._version import __version__
from streamlearn.catalogue import LOSSES, learner_class, make_learner
from streamlearn.engine.block import Block
from streamlearn.engine.learner import Learner
from streamlearn.engine.libsvm import Parser
from streamlearn.errors import BadLine, DataError, Divergence, ModelError, UsageError
from streamlearn.model import CONTRADICTIONS, Model
from streamlearn.sources import Source, chunks

FORMAT = "streamlearn-state"
COUNTERS = ("bad_lines", "blank_lines")


class Aside(Protocol):
    """Where bad lines are set aside."""

    def write(self, line: bytes) -> object: ...


@dataclass
class BadLines:
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


def label_rule(loss: str, labels: tuple[float, float] | None) -> Any:
    """How the parser shall read labels for a loss."""
    if not LOSSES[loss].classifies:
        if labels:
            raise UsageError(
                f"--labels names two classes; --loss {loss} takes any number as a label"
            )
        return "any"
    return "binary" if labels is None else labels


def parse(source: Source, parser: Parser, bad: BadLines, block: Block) -> Iterator[Block]:
    """Blocks of a source, each valid until the next; bad lines go to the policy."""
    parser.start_file()
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
            if error is not None:
                bad.meet(error, text)


@dataclass
class Training:
    """A learner with all that belongs to its run; saved as a state, read out as a model."""

    settings: dict[str, Any]
    labels: tuple[float, float] | None = None  # as given by the user
    normalize: str = "none"
    learner: Learner = field(default=None)  # type: ignore[assignment]
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))

    def __post_init__(self) -> None:
        if self.learner is None:
            self.learner = make_learner(self.settings)
        self.parser = Parser(label_rule(self.settings["loss"], self.labels))
        self.block = Block()

    def run(self, sources: Iterable[Source], bad: BadLines) -> Iterator[Source]:
        """Learn everything; yields the source in hand after each block, for progress."""
        with closing(self.blocks(sources, bad)) as blocks:
            for source, block in blocks:
                if self.normalize == "l2":
                    block.normalize()
                self.learn(block, source.name)
                yield source

    def learn(self, block: Block, name: str) -> None:
        """Learn a block; a divergence tells the name of the source."""
        try:
            self.learner.learn(block)
        except Divergence as error:
            raise Divergence(error.example, error.line, f"{name}: {error.what}") from error

    def blocks(
        self, sources: Iterable[Source], bad: BadLines
    ) -> Generator[tuple[Source, Block]]:
        """Every block as it was written, with its source, valid until the next; counts lines."""
        blank, before = self.parser.blank, bad.count
        counted = dict(self.counters)
        for source in sources:
            try:
                for block in parse(source, self.parser, bad, self.block):
                    yield source, block
            finally:
                source.close()
                self.counters["bad_lines"] = counted["bad_lines"] + bad.count - before
                self.counters["blank_lines"] = counted["blank_lines"] + self.parser.blank - blank

    def model(
        self,
        evidence: float | None = None,
        max_nonzeros: int | None = None,
        smoothness: float | None = None,
    ) -> Model:
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
        return Model(
            settings=settings,
            t=found["t"],
            bias=found["bias"],
            ids=found["ids"],
            weights=found["weights"],
            seen=found["seen"],
            labels=self.parser.labels,
            normalize=self.normalize,
            progress=self.learner.progress,
            certificate=found["certificate"],
            counters={**self.counters, "ignored_features": self.learner.ignored},
        )

    def to_bytes(self) -> bytes:
        """The state file: everything that going on depends on."""
        labels = self.parser.labels
        return container.pack(
            FORMAT,
            {
                "streamlearn": __version__,
                "settings": self.settings,
                "labels": list(self.labels) if self.labels else None,
                "negative": labels[0] if labels and self.parser.settled else None,
                "normalize": self.normalize,
                "counters": self.counters,
                "learner": self.learner.state(),
            },
        )

    @classmethod
    def load(cls, path: str) -> Training:
        """A run that goes on exactly where its state was saved."""
        body = container.read_file(path, FORMAT)
        try:
            training = cls(
                settings=body["settings"],
                labels=tuple(body["labels"]) if body["labels"] else None,
                normalize=body["normalize"],
                learner=learner_class(body["settings"]).from_state(body["learner"]),
                counters={name: int(body["counters"][name]) for name in COUNTERS},
            )
            if body["negative"] is not None and training.labels is None:
                training.parser.settle(body["negative"])
        except (ModelError, *CONTRADICTIONS) as error:
            raise ModelError(f"{path}: not a whole state: {error}") from error
        return training
