# BatchLearner: the learners that see all examples at once, behind the surface of Learner. Learning
# only keeps rows, so memory grows with the data; a snapshot solves from w = 0 over all of them.
# Solving changes nothing that the next example depends on, and is done once until one comes.
from libc.math cimport fabs, isfinite
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from streamlearn.engine.block cimport Block
from streamlearn.engine.columns cimport Columns, allocated
from streamlearn.engine.descent cimport Descent, kth_largest
from streamlearn.engine.learn cimport note
from streamlearn.engine.loss cimport loss_named
from streamlearn.engine.spectrum cimport largest_eigenvalue

from streamlearn.errors import DataError, Divergence, ModelError, UsageError

LOSSES = {
    "scd": ("logistic", "squared", "squared_hinge"),
    "detcd": ("logistic", "squared", "squared_hinge"),
    "grades": ("squared",),
}

# How far above the largest eigenvalue grades puts gamma by itself.
cdef double SAFE = 1.01


cdef class BatchLearner:
    """Keeps the examples; solves over all of them when asked; `spec` says how.

    spec keys: kernel ("scd", "detcd", "grades"), loss, iterations, bias, max_features (0 only),
    l1 (scd, detcd), seed (scd), nonzeros and gamma (grades; gamma None: 1.01 times the largest
    eigenvalue of X'X/m).

    Memory: 16 bytes a non-zero and 40 a row for the examples; 24 more a non-zero while a solution
    is held, from a snapshot to the next example.
    """

    def __cinit__(self, dict spec):
        kernel, loss = spec["kernel"], spec["loss"]
        if kernel not in LOSSES:
            raise UsageError(f"no kernel {kernel!r}; known: {', '.join(LOSSES)}")
        self.loss = loss_named(loss)
        if loss not in LOSSES[kernel]:
            needs = ("is gradient descent on least squares" if kernel == "grades"
                     else "needs a loss of bounded curvature")
            raise UsageError(f"{kernel} cannot minimise the loss {loss}: it {needs}; accepted: "
                             f"{', '.join(LOSSES[kernel])}")
        if spec["max_features"]:
            raise UsageError(f"max_features {spec['max_features']} means nothing to {kernel}: it "
                             "keeps every example whole; accepted: 0")
        self.spec = spec
        self.rows = Block()

    @property
    def t(self):
        """Examples taken in."""
        return self.rows.rows

    @property
    def ignored(self):
        """Features dropped: none ever is."""
        return 0

    @property
    def progress(self):
        """Sums over the examples under the zero model, the one there is before the solving."""
        return self.tally

    @property
    def memory(self):
        """Bytes mapped for the examples, and for the solution while it is held."""
        held = 40 * self.rows.row_capacity + 16 * self.rows.feature_capacity
        if self.solution is not None:
            held += self.solution.bytes + self.solution.columns.bytes
        return held

    # ---- learning --------------------------------------------------------------------------------

    def look_up(self, Block block):
        """Nothing to find ahead: no slots."""

    def learn(self, Block block):
        """Keep every row. Raises Divergence with the number and line of one that is too large."""
        cdef int64_t extreme = block.first_extreme()
        self.keep(block, block.rows if extreme < 0 else extreme)
        if extreme >= 0:
            raise block.too_large(extreme, self.t)

    cdef int keep(self, Block block, int64_t stop) except -1:
        cdef int64_t row
        cdef double value, slope
        if stop == 0:
            return 0
        self.solution = None                  # it was that of the rows before
        self.rows.append(block, 0, stop)
        with nogil:
            for row in range(stop):
                self.loss(0.0, block.labels[row], &value, &slope)
                note(&self.tally, 0.0, block.labels[row], value, block.weights[row])
                self.tally.baseline = self.tally.loss
        return 0

    # ---- solving ---------------------------------------------------------------------------------

    cdef Descent solved(self):
        """The solution over all rows, found now unless it is at hand."""
        cdef dict spec = self.spec
        cdef Descent descent
        cdef int64_t iterations = spec["iterations"]
        cdef uint64_t seed
        if self.solution is not None:
            return self.solution
        descent = Descent(Columns(self.rows, spec["bias"]), spec["loss"],
                          0.0 if spec["kernel"] == "grades" else spec["l1"])
        if spec["kernel"] == "scd":
            seed = spec["seed"] % 2 ** 64
            with nogil:
                descent.scd(iterations, seed)
        elif spec["kernel"] == "detcd":
            with nogil:
                descent.detcd(iterations)
        else:
            self.run_grades(descent)
        self.solution = descent
        return descent

    cdef int run_grades(self, Descent descent) except -1:
        cdef int64_t iterations = self.spec["iterations"], reached
        cdef double* sizes
        cdef double top
        descent.nonzeros = self.spec["nonzeros"]
        if self.spec["gamma"] is None:
            descent.gamma = SAFE * largest_eigenvalue(descent.columns)
            if descent.gamma == 0.0:          # no example teaches anything
                return 0
        else:
            descent.gamma = self.spec["gamma"]
        sizes = <double*>allocated(descent.columns.count)
        with nogil:
            reached = descent.grades(iterations, sizes)
        free(sizes)
        if reached:
            top = largest_eigenvalue(descent.columns)
            raise self.divergence(
                f"grades diverged: after {reached} of {iterations} steps with stiffness "
                f"{descent.gamma:g} the squared error is a million times that of the zero model. "
                f"The largest eigenvalue of X'X/m is about {top:g}; with --stiffness above it, as "
                "with auto, grades cannot diverge")
        return 0

    cdef object divergence(self, str what):
        """All examples together are the reason; the last one gives the place."""
        return Divergence(self.rows.rows, self.rows.lines[self.rows.rows - 1], what)

    # ---- snapshots -------------------------------------------------------------------------------

    def snapshot(self, smoothness=None, evidence=None, max_nonzeros=None):
        """The solution over all examples so far, as a dict; the certificate is exact.

        max_nonzeros keeps the largest weights, ties fall together. There is no conversion, so
        smoothness changes nothing.
        """
        cdef Descent descent = self.checked(smoothness, evidence)
        cdef double cut = 0.0
        if max_nonzeros is not None and max_nonzeros < 0:
            raise UsageError(f"max_nonzeros {max_nonzeros}: expected a whole number >= 0")
        if max_nonzeros is not None and max_nonzeros < descent.columns.features:
            cut = cut_to(descent.w, descent.columns.features, max_nonzeros)
        return self.cut_at(descent, cut)

    cdef Descent checked(self, object smoothness, object evidence):
        """The solution, unless something is asked of it that makes no sense."""
        if smoothness is not None and not (smoothness > 0.0 and isfinite(smoothness)):
            raise UsageError(f"smoothness {smoothness}: expected a finite number > 0")
        if evidence is not None:
            raise UsageError("evidence is a setting of adaptivesl without l1 only")
        return self.solved()

    cdef dict cut_at(self, Descent descent, double cut):
        """What a snapshot hands out: the weights above `cut` in size."""
        cdef double* w = <double*>allocated(descent.columns.count)
        cdef int64_t j
        try:
            memcpy(w, descent.w, <size_t>descent.columns.count * 8)
            for j in range(descent.columns.features):
                if fabs(w[j]) <= cut:
                    w[j] = 0.0
            return self.certified(descent, w)
        finally:
            free(w)

    cdef dict certified(self, Descent descent, double* w):
        """What a snapshot hands out for these weights: loss and gradient over all examples."""
        cdef Columns columns = descent.columns
        cdef int64_t j, n = 0, rows = self.rows.rows
        cdef double total, penalty = 0.0, bias = 0.0
        cdef bint finite = True
        with nogil:
            total = descent.look(w)
            columns.mean_against(descent.slopes, descent.gradient)
            for j in range(columns.count):
                finite &= w[j] - w[j] == 0.0 and descent.gradient[j] - descent.gradient[j] == 0.0
                penalty += descent.penalty(j) * fabs(w[j])
                n += j < columns.features and w[j] != 0.0
        if not finite:
            raise self.divergence("the model left the finite numbers; scale the values, labels and "
                                  "importance weights")
        if columns.count > columns.features:
            bias = w[columns.features]
        ids, values = bytearray(8 * n), bytearray(8 * n)
        fill(columns, w, ids, values)
        # What overflows is not told.
        mean_loss = total / rows if rows and isfinite(total) else None
        return {
            "ids": bytes(ids),
            "weights": bytes(values),
            "bias": bias,
            "seen": columns.features,
            "t": rows,
            "certificate": {
                "violation": descent.violation(w) if rows else None,
                "objective": None if mean_loss is None else mean_loss + penalty,
                "recent_loss": mean_loss,
                "recent_examples": rows,
                "smoothness": None,
            },
        }

    # ---- states ----------------------------------------------------------------------------------

    def state(self):
        """Everything the next example depends on: the examples; from_state is the inverse."""
        return {"spec": dict(self.spec), "progress": self.tally, "rows": self.rows.state()}

    @staticmethod
    def from_state(dict state):
        """A learner that goes on exactly where state() was taken."""
        cdef BatchLearner new = BatchLearner(state["spec"])
        cdef Block rows
        try:
            rows = Block.from_bytes(state["rows"])
        except DataError as error:
            raise ModelError(f"the state holds damaged examples: {error}") from error
        if rows.first_extreme() >= 0:
            raise ModelError("the state holds an example beyond 1e50 in size")
        new.keep(rows, rows.rows)
        if new.tally != state["progress"]:
            raise ModelError("the state's examples and their sums do not fit")
        return new


cdef double cut_to(const double* w, int64_t n, int64_t count) except -1.0:
    """The cut that leaves at most `count` < n weights, the largest; ties fall together."""
    cdef double* sizes = <double*>allocated(n)
    cdef int64_t j
    cdef double cut
    with nogil:
        for j in range(n):
            sizes[j] = fabs(w[j])
        cut = kth_largest(sizes, n, count)
    free(sizes)
    return cut


cdef int fill(Columns columns, const double* w, bytearray ids, bytearray values) except -1:
    """Ids and weights of the non-zeros, by rising id."""
    cdef int64_t* id = <int64_t*><char*>ids
    cdef double* value = <double*><char*>values
    cdef int64_t j, n = 0
    for j in range(columns.features):
        if w[j] != 0.0:
            id[n] = columns.ids[j]
            value[n] = w[j]
            n += 1
    return 0
