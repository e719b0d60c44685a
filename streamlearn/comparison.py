"""Comparison: many learners on one stream, parsed once, each judged on the same test rows.

What a learner becomes here is bit for bit what it becomes alone: it is handed the same examples in
the same order, and shares nothing but the parser's blocks, which nobody writes to. It reads no
settings and prints nothing.
"""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

from streamlearn.catalogue import ALGORITHMS, PARAMETERS, idle, resolve, taken
from streamlearn.engine.block import Block
from streamlearn.errors import DataError, Divergence, UsageError
from streamlearn.model import Model
from streamlearn.multiclass import MulticlassModel
from streamlearn.scoring import judge, judge_classes
from streamlearn.training import BadLines, Training, label_parser, parse

if TYPE_CHECKING:
    import numpy as np

    from streamlearn.training import AnySource

FIRST_POINT = 128  # examples before the first point of a curve; the others follow by doubling

Values = Mapping[str, Sequence[Any]]  # for each parameter the values to try


# ---- who takes part ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entrant:
    """An algorithm with all its settings, and those of them that tell it from its siblings."""

    settings: dict[str, Any]
    varied: dict[str, Any]

    @property
    def algo(self) -> str:
        return self.settings["algo"]


def line_up(
    algos: Sequence[str],
    loss: str,
    shared: Values,
    own: Mapping[str, Values],
    refused: dict[str, UsageError] | None = None,
) -> list[Entrant]:
    """One entrant for each algorithm and each choice of values.

    A shared parameter goes to the algorithms that take it, and at least one must; what is said to
    one algorithm alone (own) wins over what is shared. With `refused` given, an algorithm that
    cannot do what is asked of it is put there, with the reason, as long as others can.
    """
    phases = shared.get("phase_one", ())
    for name in shared:
        if not any(name in ever_taken(algo, phases) for algo in algos):
            users = [a.name for a in ALGORITHMS.values() if name in a.parameters]
            raise UsageError(
                f"{PARAMETERS[name].flag} means nothing to {', '.join(algos)} "
                f"(it is a parameter of {', '.join(users)})"
            )
    for algo in own:
        if algo not in algos:
            raise UsageError(f"--set {algo}: it takes no part; the algorithms are "
                             f"{', '.join(algos)}")
    entrants: list[Entrant] = []
    for algo in algos:
        mine = own.get(algo, {})
        names = ever_taken(algo, mine.get("phase_one", phases))
        tried = {**{k: v for k, v in shared.items() if k in names}, **mine}
        many = [name for name, values in tried.items() if len(values) > 1]
        try:
            for choice in product(*tried.values()):
                given = dict(zip(tried, choice, strict=True))
                settings = resolve(algo, loss, meant(algo, loss, given, mine))
                entrant = Entrant(settings, {n: settings[n] for n in many if n in settings})
                if entrant.settings not in [e.settings for e in entrants]:
                    entrants.append(entrant)
        except UsageError as error:
            if refused is None:
                raise
            entrants = [e for e in entrants if e.algo != algo]
            refused[algo] = error
    if refused and not entrants:
        raise next(iter(refused.values()))
    return entrants


def ever_taken(algo: str, phases: Sequence[str]) -> set[str]:
    """The parameters that an algorithm takes with any of these first phases."""
    return set().union(*(taken(algo, {"phase_one": p}) for p in phases), taken(algo, {}))


def meant(
    algo: str, loss: str, given: Mapping[str, Any], own: Mapping[str, Any]
) -> dict[str, Any]:
    """Without what is shared but, beside the rest, means nothing to this algorithm."""
    defaults = taken(algo, given)
    known = {k: v for k, v in given.items() if k in defaults or k in own}
    checked = {k: PARAMETERS[k].check(v) for k, v in known.items()}
    without = idle({"algo": algo, "loss": loss, **defaults, **checked})
    return {k: v for k, v in known.items() if k in own or k not in without}


# ---- what they are judged by ---------------------------------------------------------------------


class TestSet:
    """Labelled rows in memory, read once, scaled as the models want them; only read afterwards."""

    __test__ = False  # the name is no invitation to pytest

    def __init__(self, blocks: Sequence[Block], loss: str) -> None:
        import numpy as np

        self.blocks, self.loss = blocks, loss
        arrays = [block.arrays() for block in blocks]
        self.labels = np.frombuffer(b"".join(a["labels"] for a in arrays))
        self.weights = np.frombuffer(b"".join(a["weights"] for a in arrays))

    @classmethod
    def read(
        cls,
        source: AnySource,
        loss: str,
        labels: tuple[float, ...] | None,
        normalize: str,
        bad: BadLines,
        multiclass: bool = False,
    ) -> TestSet:
        """All rows of a source."""
        try:
            parser = label_parser(loss, labels, multiclass)
            blocks = [
                own_block(block, normalize) for block in parse(source, parser, bad, Block())
            ]
        finally:
            source.close()
        test = cls(blocks, loss)
        if not test.weights.sum():
            what = "the importance weights add up to 0" if blocks else "no examples to score"
            raise DataError(f"{source.name}: {what}")
        return test

    def judge(self, model: Model | MulticlassModel) -> dict[str, float]:
        """Loss, and error or rmse, of a model."""
        import numpy as np

        if isinstance(model, MulticlassModel):
            if not model.parts:  # of an empty stream
                return {"loss": math.inf, "error": 1.0}
            columns = np.stack([self.margins(part) for part in model.parts], axis=1)
            return judge_classes(self.loss, columns, self.labels, self.weights, model.classes)
        return judge(self.loss, self.margins(model), self.labels, self.weights)

    def margins(self, model: Model) -> np.ndarray:
        import numpy as np

        return np.frombuffer(b"".join(model.scorer.margins(block) for block in self.blocks))


# ---- the run -------------------------------------------------------------------------------------


@dataclass
class Contender:
    """A learner on its way, and what became of it."""

    entrant: Entrant
    training: Training
    features: int = 0  # values learned from
    seconds: float = 0.0  # of a processor, in learning alone (batch methods: in solving)
    diverged: Divergence | None = None
    curve: list[dict[str, Any]] = field(default_factory=list)
    model: Model | MulticlassModel | None = None
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def ns_a_feature(self) -> float | None:
        return 1e9 * self.seconds / self.features if self.features else None

    def learn(self, block: Block, name: str, test: TestSet | None) -> None:
        """Learn a block; with a test set given, put a point on the curve after it."""
        begin = time.thread_time()
        try:
            self.training.learn(block, name)
            self.seconds += time.thread_time() - begin
            self.features += block.features
            if test is not None:
                model = self.training.model()
                self.add_point(model, test.judge(model))
        except Divergence as error:
            self.diverged = error

    def finish(self, test: TestSet) -> None:
        """The model that `fit` would write, judged."""
        begin = time.thread_time()
        try:
            model = self.training.model()
        except Divergence as error:  # in the examples that a warm-up had kept waiting
            self.diverged = error
            return
        if ALGORITHMS[self.entrant.algo].batch:  # it has learned just now
            self.seconds += time.thread_time() - begin
        self.model, self.figures = model, test.judge(model)
        if not self.curve or self.curve[-1]["examples"] < model.t:
            self.add_point(model, self.figures)

    def add_point(self, model: Model | MulticlassModel, figures: Mapping[str, float]) -> None:
        self.curve.append({"examples": model.t, "nonzeros": model.nonzeros, **figures})


class Comparison:
    """Learners side by side: `run` reads the stream once for all of them."""

    def __init__(
        self,
        entrants: Sequence[Entrant],
        test: TestSet,
        labels: tuple[float, ...] | None = None,
        normalize: str = "none",
        threads: int = 1,
        curves: bool = False,
        **classes: Any,
    ) -> None:
        """`classes`: multiclass and max_classes of each Training."""
        self.test, self.normalize = test, normalize
        self.threads, self.curves = threads, curves
        self.contenders = [
            Contender(entrant, Training(entrant.settings, labels, normalize, **classes))
            for entrant in entrants
        ]
        # One of them reads for all: what was read, and how, is then the same in every model.
        self.reader = self.contenders[0].training
        for contender in self.contenders[1:]:
            contender.training.parser = self.reader.parser
            contender.training.counters = self.reader.counters

    @property
    def alive(self) -> list[Contender]:
        """Those that have not diverged."""
        return [c for c in self.contenders if c.diverged is None]

    def run(self, sources: Iterable[AnySource], bad: BadLines) -> None:
        """Learn everything, then judge every model; a learner that diverges is left behind."""
        with ThreadPoolExecutor(self.threads) as pool:
            tasks: list[Future[None]] = []
            with closing(self.pieces(sources, bad)) as pieces:
                for block, name, point in pieces:
                    # The learners were busy with the block before while this one was parsed.
                    for task in tasks:
                        task.result()
                    # The slowest begin, so that the threads end together.
                    tasks = [
                        pool.submit(c.learn, block, name, self.test if point else None)
                        for c in sorted(self.alive, key=lambda c: -c.seconds)
                    ]
                    if not tasks:
                        break
            for task in tasks:
                task.result()
            for task in [pool.submit(c.finish, self.test) for c in self.alive]:
                task.result()

    def pieces(
        self, sources: Iterable[AnySource], bad: BadLines
    ) -> Generator[tuple[Block, str, bool]]:
        """(block, name of its source, whether it ends at a point of the curves).

        The blocks are copies, since the parser writes the next one while learners still read; they
        are cut where a point is due, so that it does not depend on how the bytes came.
        """
        learned, due = 0, FIRST_POINT
        for source, block, counters in self.reader.blocks(sources, bad):
            self.reader.counters.update(counters)  # the contenders share them
            first = 0
            while self.curves and learned + len(block) - first >= due:
                stop = first + due - learned
                yield own_block(block, self.normalize, first, stop), source.name, True
                first, learned, due = stop, due, 2 * due
            if first < len(block):
                yield own_block(block, self.normalize, first), source.name, False
                learned += len(block) - first


def own_block(block: Block, normalize: str, first: int = 0, stop: int | None = None) -> Block:
    """A copy of rows first .. stop-1, scaled after it: a copy of scaled rows loses |x| = 1."""
    arrays = block.arrays()
    if first or stop not in (None, len(block)):
        arrays = rows_of(arrays, first, len(block) if stop is None else stop)
    copy = Block.from_bytes(arrays)
    if normalize == "l2":
        copy.normalize()
    return copy


def rows_of(arrays: Mapping[str, bytes], first: int, stop: int) -> dict[str, bytes]:
    """The arrays of rows first .. stop-1 alone."""
    offsets = memoryview(arrays["offsets"]).cast("q")[first : stop + 1]
    begin, end = offsets[0], offsets[-1]
    return {
        "offsets": array("q", [offset - begin for offset in offsets]).tobytes(),
        **{name: arrays[name][8 * begin : 8 * end] for name in ("ids", "values")},
        **{name: arrays[name][8 * first : 8 * stop] for name in ("labels", "weights", "lines")},
    }
