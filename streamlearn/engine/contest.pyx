# Contest: the classes of a stream and since when each is known, and how well the largest margin has
# told them. Learns nothing.
from libc.stdint cimport int64_t
from libc.stdlib cimport free

from streamlearn.engine.block cimport Block, grown
from streamlearn.engine.libsvm cimport FAULT_NONE, add_class, place_of
from streamlearn.engine.loss cimport loss_named

from streamlearn.engine.learner import ZERO_LOSS
from streamlearn.errors import ModelError


cdef class Contest:
    """Counts, for each row, whether the largest margin was that of its class.

    Only classes that occurred in an earlier row take part, so that nothing depends on how the
    stream is cut into blocks; the first row of a class is always an error. The loss of a row is the
    mean over those classes of the loss of each against the rest.
    """

    def __cinit__(self, str loss, declared=()):
        self.loss = loss_named(loss)
        self.zero_loss = ZERO_LOSS[loss]
        self.labels, self.weights = bytearray(), bytearray()
        self.first = {}
        for label in sorted(declared):
            self.add(label, -1)

    def __dealloc__(self):
        free(self.known.known)
        free(self.bouts)

    def add(self, double label, int64_t first):
        """A class is there from now on."""
        if add_class(&self.known, label) != FAULT_NONE:
            raise MemoryError("no memory for a class")
        self.first[label] = first

    @property
    def classes(self):
        """Rising."""
        return [self.known.known[i] for i in range(self.known.count)]

    cdef int64_t waiting(self) noexcept:
        return len(self.labels) // 8

    cdef list meet(self, Block block, int64_t rows):
        """Take in the labels of the first rows of a block; returns the classes that are new."""
        cdef int64_t row, place, t = self.tally.examples + self.waiting()
        cdef list new = []
        for row in range(rows):
            place = place_of(&self.known, block.labels[row])
            if place == self.known.count or self.known.known[place] != block.labels[row]:
                new.append(block.labels[row])
                self.add(block.labels[row], t + row)
        self.labels += (<char*>block.labels)[:rows * 8]
        self.weights += (<char*>block.weights)[:rows * 8]
        return new

    # ---- judging: begin, enter each class by rising label, finish --------------------------------

    cdef int begin(self, int64_t rows) except -1:
        """The first of the waiting rows are to be judged."""
        cdef int64_t i
        self.bouts = <Bout*>grown(self.bouts, (rows + 1) * sizeof(Bout) // 8)
        for i in range(rows):
            self.bouts[i].best = self.bouts[i].winner = self.bouts[i].loss = 0.0
            self.bouts[i].rivals = 0
        return 0

    cdef int enter(self, double label, const double* margins, int64_t rows) except -1:
        """A class shows its margins, from before each row was learned; NULL: all are 0."""
        cdef const double* y = <const double*><char*>self.labels
        # It takes part in the rows behind its first one.
        cdef int64_t i, start = max(<int64_t>self.first[label] + 1 - self.tally.examples, 0)
        cdef double margin, value, slope
        cdef Bout* bout
        with nogil:
            for i in range(start, rows):
                bout = &self.bouts[i]
                margin = margins[i] if margins != NULL else 0.0
                self.loss(margin, 1.0 if y[i] == label else -1.0, &value, &slope)
                bout.loss += value
                if bout.rivals == 0 or margin > bout.best:       # a tie goes to the smaller class
                    bout.best = margin
                    bout.winner = label
                bout.rivals += 1
        return 0

    cdef int finish(self, int64_t rows) except -1:
        """Count the rows; they wait no longer."""
        cdef const double* y = <const double*><char*>self.labels
        cdef const double* weight = <const double*><char*>self.weights
        cdef Progress* p = &self.tally
        cdef int64_t i
        cdef Bout* bout
        for i in range(rows):
            bout = &self.bouts[i]
            p.examples += 1
            p.weight += weight[i]
            p.loss += weight[i] * (bout.loss / bout.rivals if bout.rivals else self.zero_loss)
            p.baseline += weight[i] * self.zero_loss
            p.errors += weight[i] * (bout.rivals == 0 or bout.winner != y[i])
            p.run = p.run + 1 if y[i] == p.last_label else 1
            p.last_label = y[i]
            p.longest_run = max(p.longest_run, p.run)
        del self.labels[:8 * rows]
        del self.weights[:8 * rows]
        return 0

    # ---- states ----------------------------------------------------------------------------------

    def sums(self, int64_t majority):
        """Sums of the progressive validation; `majority` rows have the most frequent class."""
        sums = dict(self.tally)
        del sums["positive"]
        return {**sums, "majority": majority}

    def state(self):
        """Everything, by name; restore is the inverse."""
        return {
            "progress": self.tally,
            "first": [self.first[label] for label in self.classes],
            "labels": bytes(self.labels),
            "weights": bytes(self.weights),
        }

    def restore(self, classes, dict state):
        self.tally = state["progress"]
        for label, first in zip(classes, state["first"], strict=True):
            self.add(label, first)
        self.labels[:] = state["labels"]
        self.weights[:] = state["weights"]
        if len(self.labels) != len(self.weights) or len(self.labels) % 8:
            raise ModelError("the state's waiting rows need a label and a weight each")
