# One class against the rest, for every class of a stream: each has a learner of its own that is,
# bit for bit, the binary learner of the stream in which that class is +1 and all others are -1.
#
# A class that was not declared may come at any time. Until then its learner is the one that has
# seen every row as -1: the background. When the class first occurs, a copy of the background
# becomes its learner and learns the block; neither when it comes nor the cut into blocks matters.
from libc.math cimport NAN
from libc.stdint cimport int64_t

from streamlearn.engine.batch cimport BatchLearner
from streamlearn.engine.block cimport Block
from streamlearn.engine.contest cimport Contest
from streamlearn.engine.conversion cimport Conversion, strongest
from streamlearn.engine.learner cimport Learner
from streamlearn.engine.window cimport Window

from streamlearn.errors import Divergence, ModelError, UsageError


cdef void relabel(double* labels, const double* given, int64_t rows, double label) noexcept nogil:
    """+1 for the class, -1 for the rest."""
    cdef int64_t row
    for row in range(rows):
        labels[row] = 1.0 if given[row] == label else -1.0


cdef object of_class(object error, object label):
    """A divergence that tells whose it is."""
    whose = "the rest alone" if label is None else f"class {label:.0f} against the rest"
    return Divergence(error.example, error.line, f"{whose}: {error.what}")


cdef class OneVsRest:
    """Learns every class against the rest, behind the surface of Learner.

    `spec` is that of each binary learner; labels are whole numbers. With `classes` given there are
    no others, and no background is needed.
    """

    def __init__(self, dict spec, classes=None):
        self.spec = spec
        self.contest = Contest(spec["loss"], classes or ())
        self.members = {label: Learner(spec) for label in self.contest.classes}
        self.background = Learner(spec) if classes is None else None
        self.scratch = Block()

    @property
    def classes(self):
        """The classes there are, rising."""
        return self.contest.classes

    cdef Learner any(self):
        """One of the learners: what does not depend on labels is the same in all."""
        return next(iter(self.members.values()), self.background)

    @property
    def t(self):
        """Examples taken in, the waiting ones included."""
        return self.contest.tally.examples + self.contest.waiting()

    @property
    def ignored(self):
        """Features dropped by max_features, counted once for all classes."""
        return self.any().ignored

    @property
    def memory(self):
        """Bytes mapped for slots and indices of all classes."""
        learners = [*self.members.values(), *([self.background] if self.background else ())]
        return sum([learner.memory for learner in learners])

    @property
    def progress(self):
        """Sums of the progressive validation of the class with the largest margin."""
        cdef OneVsRest settled = self.settled()
        cdef Learner member
        majority = 0
        for member in settled.members.values():
            majority = max(majority, member.tally.positive)
        return settled.contest.sums(majority)

    # ---- learning --------------------------------------------------------------------------------

    def look_up(self, Block block):
        """Nothing to find ahead: each class has slots of its own."""

    def learn(self, Block block):
        """Learn every row in order. Raises Divergence with the example's number and line."""
        cdef int64_t extreme = block.first_extreme()
        cdef int64_t rows = block.rows if extreme < 0 else extreme
        if self.broken is not None:
            raise self.broken
        self.scratch.clear()
        self.scratch.append(block, 0, rows)
        state = None
        for label in self.contest.meet(block, rows):
            if state is None:
                state = self.background.state()
            self.members[label] = Learner.from_state(state)
        for label in self.contest.classes:
            relabel(self.scratch.labels, block.labels, rows, label)
            self.teach(self.members[label], label)
        if self.background is not None:
            relabel(self.scratch.labels, block.labels, rows, NAN)       # all are the rest
            self.teach(self.background, None)
        self.judge()
        if extreme >= 0:
            raise block.too_large(extreme, self.t)

    cdef int teach(self, Learner learner, object label) except -1:
        """One learner learns the relabelled rows; when it diverges, all of us have."""
        try:
            learner.learn(self.scratch)
        except Divergence as error:
            self.broken = of_class(error, label)
            raise self.broken from error
        return 0

    cdef int judge(self) except -1:
        """Hand in the margins of the rows that the learners ran through just now."""
        cdef int64_t rows = self.any().heard           # none while the warm-up goes on
        cdef Learner member
        self.contest.begin(rows)
        for label in self.contest.classes:
            member = self.members[label]
            self.contest.enter(label, member.margins, rows)
        self.contest.finish(rows)
        return 0

    cdef OneVsRest settled(self):
        """Self, or a copy for which the warm-up is over with the examples there are."""
        cdef OneVsRest copy
        cdef Learner member
        if self.contest.waiting() == 0:
            return self
        copy = OneVsRest.from_state(self.state())
        for member in copy.members.values():
            member.begin_learning()
        copy.judge()
        return copy

    # ---- snapshots -------------------------------------------------------------------------------

    def snapshot(self, smoothness=None, evidence=None, max_nonzeros=None):
        """The exactly sparse model of now, as a dict with a part for each class; changes nothing.

        max_nonzeros keeps the strongest weights of all classes together.
        """
        cdef Learner member
        cdef Conversion c
        cdef Window window
        cdef double cut
        if self.broken is not None:
            raise self.broken
        if max_nonzeros is not None and max_nonzeros < 0:
            raise UsageError(f"max_nonzeros {max_nonzeros}: expected a whole number >= 0")
        classes, prepared = self.contest.classes, []
        for label in classes:
            member = (<Learner>self.members[label]).settled()
            prepared.append((member, member.prepared(smoothness, evidence, None)))
        if max_nonzeros is not None:
            every = bytearray()
            for _, c in prepared:
                every += c.strengths()
            cut = strongest(every, max_nonzeros, 0.0)
            for _, c in prepared:
                c.cut = max(c.cut, cut)
        parts = []
        for label, (member, c) in zip(classes, prepared, strict=True):
            try:
                window = Window(member.recent, member.slots)
                parts.append({**member.solved(c, window), "progress": member.progress})
            except Divergence as error:
                raise of_class(error, label) from error
        return whole(classes, parts, self.t)

    # ---- states ----------------------------------------------------------------------------------

    def state(self):
        """Everything the next example depends on, by name; from_state is the inverse."""
        if self.broken is not None:
            raise self.broken
        classes = self.contest.classes
        return {
            "spec": dict(self.spec),
            "classes": classes,
            "members": [self.members[label].state() for label in classes],
            "background": None if self.background is None else self.background.state(),
            "contest": self.contest.state(),
        }

    @staticmethod
    def from_state(dict state):
        """A learner that goes on exactly where state() was taken."""
        cdef OneVsRest new = OneVsRest(state["spec"])
        classes = state["classes"]
        if sorted({*classes}) != classes:
            raise ModelError("the state's classes do not rise")
        new.contest.restore(classes, state["contest"])
        new.members = {label: Learner.from_state(member)
                       for label, member in zip(classes, state["members"], strict=True)}
        new.background = None
        if state["background"] is not None:
            new.background = Learner.from_state(state["background"])
        # Judging relies on it that all of them run through the same rows at the same time.
        for learner in [*new.members.values(), *([new.background] if new.background else ())]:
            if (learner.spec != new.spec or learner.t != new.t
                    or (<Learner>learner).tally.examples != new.contest.tally.examples):
                raise ModelError("the state's classes have not learned the same examples")
        return new


cdef dict whole(list classes, list parts, int64_t t):
    """A snapshot of all classes; each has seen the same features."""
    return {
        "classes": classes,
        "parts": parts,
        "t": t,
        "seen": parts[0]["seen"] if parts else 0,
    }


cdef class BatchOneVsRest:
    """Solves every class against the rest over all examples, behind the surface of BatchLearner.

    The examples are kept once. A snapshot solves for one class after the other, which takes a
    second copy of them.
    """

    def __init__(self, dict spec, classes=None):
        BatchLearner(spec)                   # refuses what it cannot do
        self.spec, self.declared = spec, classes
        self.contest = Contest(spec["loss"], classes or ())
        self.rows, self.labels = Block(), bytearray()

    @property
    def classes(self):
        """The classes there are, rising."""
        return self.contest.classes

    @property
    def t(self):
        """Examples taken in."""
        return self.rows.rows

    @property
    def ignored(self):
        """Features dropped: none ever is."""
        return 0

    @property
    def memory(self):
        """Bytes mapped for the examples."""
        return 48 * self.rows.row_capacity + 16 * self.rows.feature_capacity

    @property
    def progress(self):
        """Sums over the examples under the zero model, the one there is before the solving."""
        cdef const double* y = <const double*><char*>self.labels
        cdef int64_t row, many, majority = 0
        cdef double label
        for label in self.contest.classes:
            many = 0
            for row in range(self.rows.rows):
                many += y[row] == label
            majority = max(majority, many)
        return self.contest.sums(majority)

    def look_up(self, Block block):
        """Nothing to find ahead: no slots."""

    def learn(self, Block block):
        """Keep every row. Raises Divergence with the number and line of one that is too large."""
        cdef int64_t extreme = block.first_extreme()
        cdef int64_t rows = block.rows if extreme < 0 else extreme
        self.rows.append(block, 0, rows)
        self.labels += (<char*>block.labels)[:rows * 8]
        self.contest.meet(block, rows)
        self.contest.begin(rows)
        for label in self.contest.classes:
            self.contest.enter(label, NULL, rows)
        self.contest.finish(rows)
        if extreme >= 0:
            raise block.too_large(extreme, self.t)

    def solved(self, double label, smoothness, evidence, double cut):
        """The snapshot of a class against the rest, without weights up to `cut` in size."""
        cdef BatchLearner learner = BatchLearner(self.spec)
        relabel(self.rows.labels, <const double*><char*>self.labels, self.rows.rows, label)
        learner.keep(self.rows, self.rows.rows)
        try:
            found = learner.cut_at(learner.checked(smoothness, evidence), cut)
        except Divergence as error:
            raise of_class(error, label) from error
        return {**found, "progress": learner.progress}

    def snapshot(self, smoothness=None, evidence=None, max_nonzeros=None):
        """The solutions over all examples so far, as a dict with a part for each class.

        max_nonzeros keeps the largest weights of all classes together; ties fall together. It takes
        all solving twice.
        """
        cdef double cut = 0.0
        if max_nonzeros is not None and max_nonzeros < 0:
            raise UsageError(f"max_nonzeros {max_nonzeros}: expected a whole number >= 0")
        classes = self.contest.classes
        parts = [self.solved(label, smoothness, evidence, 0.0) for label in classes]
        if max_nonzeros is not None:
            sizes = bytearray(b"".join([part["weights"] for part in parts]))
            cut = strongest(absolute(sizes), max_nonzeros, 0.0)
            if cut > 0.0:
                parts = [self.solved(label, smoothness, evidence, cut) for label in classes]
        return whole(classes, parts, self.t)

    def state(self):
        """Everything the next example depends on: the examples; from_state is the inverse."""
        return {
            "spec": dict(self.spec),
            "declared": self.declared,
            "rows": {**self.rows.state(), "labels": bytes(self.labels)},
        }

    @staticmethod
    def from_state(dict state):
        """A learner that goes on exactly where state() was taken."""
        new = BatchOneVsRest(state["spec"], state["declared"])
        new.learn(Block.from_bytes(state["rows"]))
        return new


cdef bytearray absolute(bytearray numbers):
    """|x| of each float64."""
    cdef double* x = <double*><char*>numbers
    cdef int64_t i
    for i in range(len(numbers) // 8):
        x[i] = abs(x[i])
    return numbers
