# The conversion of every coordinate that was ever touched, the choice of L, and the certificate.
# A pure read: slots are looked at through `reading`, which settles a copy.
from cpython.object cimport PyObject
from libc.math cimport copysign, fabs, isfinite, rint, sqrt
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memmove, memset

from streamlearn.engine cimport exact
from streamlearn.engine.algorithms.reading cimport Reading
from streamlearn.engine.block cimport Block
from streamlearn.engine.loss cimport Loss
from streamlearn.engine.recent cimport Recent, newest_kept
from streamlearn.engine.slots cimport Slots, find, id_of, spread, touched
from streamlearn.engine.sorting cimport sort_columns
from streamlearn.engine.together cimport Hand, both

from streamlearn.errors import Divergence

cdef enum:
    STEPS = 10                 # L is looked for at L_hat * 2^k, k = -6 .. 3
    LOWEST = -6
    POWER_STEPS = 12           # of the power iteration: within a step of 2 of the largest, surely

# L when nothing curves: no feature among the recent rows, and no ridge.
cdef double LEAST = 1e-30

# Of a weight: a value is below 1e50 in size, and a model's margins must be finite.
cdef double LARGEST = 1e200

# Costs are counted in units of this share of the loss: far below any difference that matters.
cdef double UNIT = 2.0 ** -40

# Costs are counted of all features up to so many, and of a share of them beyond: each of them would
# be converted ten times, which took longer than to learn it, to tell apart costs of 1 % or more.
cdef int64_t ENOUGH = 1 << 17

# Slots, from which on two hands are faster than one.
cdef int64_t MANY = 1 << 17

cdef extern from *:
    """
    #include <stdint.h>
    #include <sys/mman.h>
    /* The pages that lie within these bytes may be huge: fewer faults when they are first used. */
    static void streamlearn_in_huge_pages(char* start, size_t size) {
        uintptr_t page = 4096, first = ((uintptr_t)start + page - 1) & ~(page - 1);
        if (size >= ((size_t)8 << 20))
            madvise((void*)first, ((uintptr_t)start + size - first) & ~(page - 1), MADV_HUGEPAGE);
    }
    """
    void streamlearn_in_huge_pages(char* start, size_t size) noexcept

cdef extern from "Python.h":
    PyObject* PyBytes_FromStringAndSize(const char*, Py_ssize_t)
    char* PyBytes_AS_STRING(PyObject*)
    int _PyBytes_Resize(PyObject**, Py_ssize_t)
    void Py_XDECREF(PyObject*)


cdef int falling(const void* a, const void* b) noexcept nogil:
    cdef double x = (<const double*>a)[0], y = (<const double*>b)[0]
    return (x < y) - (x > y)


cdef double strongest(bytearray strengths, int64_t count, double cut) except -1.0:
    """The cut that leaves at most `count` of the strengths above it; ties fall together."""
    cdef double* sorted = <double*><char*>strengths
    cdef int64_t n = len(strengths) // 8
    if n <= count:
        return cut
    qsort(sorted, <size_t>n, 8, falling)
    return sorted[count]


cdef class Conversion:
    """One snapshot in the making."""

    cdef double weight(self, const Reading* reading, bint penalised) noexcept nogil:
        """The weight handed out."""
        cdef double w = reading.last if self.at_last else reading.mean
        if self.converts:
            w = converted(w, reading.gradient, self.smoothness * reading.scale, reading.penalty)
        if penalised and self.cut > 0.0 and self.strength(reading, w) <= self.cut:
            return 0.0
        return w

    cdef double strength(self, const Reading* reading, double w) noexcept nogil:
        """|L point - g| in units of the penalty; |w| where there is none."""
        cdef double point = reading.last if self.at_last else reading.mean
        if not self.converts or reading.penalty <= 0.0:
            return fabs(w)
        return (fabs(self.smoothness * reading.scale * point - reading.gradient)
                / reading.penalty)

    cdef void weights(
        self, const Reading* reading, const double* candidates, double* out
    ) noexcept nogil:
        """The weight under each L of STEPS, none being cut."""
        cdef double point = reading.last if self.at_last else reading.mean
        cdef int s
        for s in range(STEPS):
            out[s] = converted(point, reading.gradient, candidates[s] * reading.scale,
                               reading.penalty)

    cdef void add_costs(
        self, const Reading* reading, const double* candidates, double units, double* costs
    ) noexcept nogil:
        """Count b|w| + l2/2 w^2 under each L of STEPS in whole units, negative ones to take it out.

        Sums of whole numbers are exact, so that the order of the slots does not matter.
        """
        cdef double[STEPS] weights
        cdef int s
        self.weights(reading, candidates, weights)
        for s in range(STEPS):
            costs[s] += rint(units * (reading.penalty * fabs(weights[s])
                                      + 0.5 * self.l2 * weights[s] * weights[s]))

    cdef double margin(self, Block block, int64_t row) noexcept nogil:
        """The margin of a row under the weights served."""
        cdef Reading reading
        cdef double x, total = 0.0
        cdef int64_t k, number
        cdef char* slot
        for k in range(block.offsets[row] - 1, block.offsets[row + 1]):
            if k < block.offsets[row]:
                slot, x = self.bias, 1.0
            else:
                number = find(self.slots, block.ids[k])
                slot = self.slots.base + number * self.slots.size if number >= 0 else NULL
                x = block.values[k]
            if slot == NULL or not touched(slot):
                continue
            self.kernel.read(self.algorithm, slot + self.offset, slot != self.bias, &reading)
            total += x * self.weight(&reading, slot != self.bias)
        return total

    cdef double largest_curvature(self, Recent recent, double curvature) except -1.0:
        """Largest eigenvalue of kappa * mean(x x') over the recent rows, by power iteration."""
        cdef Slots vectors = Slots(24)               # {touched, v, y} of each feature
        cdef double[3] bias
        cdef double* cell
        cdef Block block
        cdef int64_t round, row, k, i, begin, rows = 0
        cdef double dot, length, importance
        bias[0], bias[1], bias[2] = 1.0, 1.0, 0.0
        for block in (recent.old, recent.young):
            begin = block.offsets[recent.first(block)]
            vectors.reserve(block.ids + begin, block.features - begin, block.max_id, NULL)
            rows += block.rows - recent.first(block)
            with nogil:
                for k in range(begin, block.features):
                    cell = <double*>(vectors.base + find(vectors, block.ids[k]) * 24)
                    (<int64_t*>cell)[0] = 1
                    # positive, since most data is, and uneven: no symmetry can hide the top
                    cell[1] = 0.5 + (spread(block.ids[k]) >> 11) * 1.1102230246251565e-16 / 2.0
        if rows == 0:
            return 0.0
        length = 0.0
        for round in range(POWER_STEPS + 1):
            if round:
                for block in (recent.old, recent.young):
                    with nogil:
                        for row in range(recent.first(block), block.rows):
                            importance = block.weights[row]
                            dot = bias[1] if self.bias != NULL else 0.0
                            for k in range(block.offsets[row], block.offsets[row + 1]):
                                cell = <double*>(vectors.base + find(vectors, block.ids[k]) * 24)
                                dot += block.values[k] * cell[1]
                            dot *= importance
                            for k in range(block.offsets[row], block.offsets[row + 1]):
                                cell = <double*>(vectors.base + find(vectors, block.ids[k]) * 24)
                                cell[2] += dot * block.values[k]
                            bias[2] += dot
            with nogil:
                # v <- y / |y|; in the first round only scale the start to unit length
                length = 0.0
                for i in range(-1, vectors.used):
                    cell = &bias[0] if i < 0 else <double*>(vectors.base + i * 24)
                    if i < 0 and self.bias == NULL:
                        continue
                    if round == 0:
                        cell[2] = cell[1]
                    length += cell[2] * cell[2]
                length = sqrt(length)
                if length > 0.0:
                    for i in range(-1, vectors.used):
                        cell = &bias[0] if i < 0 else <double*>(vectors.base + i * 24)
                        cell[1] = cell[2] / length
                        cell[2] = 0.0
            if length == 0.0:
                return 0.0
        return curvature * length / rows

    cdef double recent_gradient(self, Recent recent, Slots sums, double* bias) except -1.0:
        """sum of a_t g_t over the recent rows of the averaged gradient; returns sum of a_t."""
        cdef Block block
        cdef int64_t row, k, age, number = self.t + 1
        cdef double a, weight = 0.0
        bias[0] = 0.0
        for block in (recent.young, recent.old):
            sums.reserve(block.ids, block.features, block.max_id, NULL)
            with nogil:
                for row in range(block.rows - 1, recent.first(block) - 1, -1):
                    number = newest_kept(number - 1)
                    age = self.t - number
                    if age < self.from_age or age >= self.to_age:
                        continue
                    a = self.newest - age if self.grows else 1.0
                    weight += a
                    a *= block.slopes[row]
                    bias[0] += a
                    for k in range(block.offsets[row], block.offsets[row + 1]):
                        (<double*>(sums.base + find(sums, block.ids[k]) * 8))[0] += (
                            a * block.values[k])
        return weight

    cdef int choose_smoothness(
        self, Recent recent, Loss loss, double curvature
    ) except -1:
        """L = arg min over L_hat 2^k of the objective on the recent rows; ties to the smaller L.

        A row must not judge a gradient that it is part of: the smaller L, the more a model follows
        the noise of the rows it was made from. So the recent rows are taken out of the averaged
        gradient for this choice. While they are most of it, L is L_hat, which is safe.
        """
        cdef double top = self.largest_curvature(recent, curvature) + self.l2
        cdef double[STEPS] candidates
        cdef double[STEPS] costs
        cdef double[STEPS] losses
        cdef double[STEPS] margins
        cdef double[STEPS] weights
        cdef double best, value, slope, part, bias_part, x, units = 0.0
        cdef double least = max(2.0 * self.l2, LEAST)
        cdef Slots parts = Slots(8)
        cdef Reading reading
        cdef int64_t i, row, k, number, rows = len(recent), seen = 0
        cdef uint64_t apart = 0              # of the ids, those whose hash has none of these bits
        cdef int s, chosen = 0
        cdef char* slot
        cdef Block block
        part = self.recent_gradient(recent, parts, &bias_part)
        self.smoothness = max(top, least)
        if part > 0.5 * self.total:
            return 0
        for s in range(STEPS):
            candidates[s] = max(top * 2.0 ** (s + LOWEST), least)
            costs[s] = losses[s] = 0.0
        for block in (recent.old, recent.young):
            for row in range(recent.first(block), block.rows):
                loss(0.0, block.labels[row], &value, &slope)
                units += block.weights[row] * value
        units = rows / (UNIT * units) if units > 0.0 else 1.0 / UNIT
        if self.slots.used > ENOUGH:
            seen = self.slots.seen()
            while seen // <int64_t>(2 * apart + 2) >= ENOUGH:
                apart = 2 * apart + 1
        with nogil:
            for i in range(-1, self.slots.used):
                if i >= 0 and spread(id_of(self.slots, i)) & apart:
                    continue
                slot = self.bias if i < 0 else self.slots.base + i * self.slots.size
                if slot == NULL or not touched(slot):
                    continue
                self.kernel.read(self.algorithm, slot + self.offset, i >= 0, &reading)
                self.without(&reading, bias_part if i < 0 else 0.0, part)
                self.add_costs(&reading, candidates, units, costs)
            for i in range(parts.used):          # as if all of their gradient were old, so far
                x = (<double*>(parts.base + i * 8))[0]
                if x == 0.0 or spread(id_of(parts, i)) & apart:
                    continue
                number = find(self.slots, id_of(parts, i))
                if number < 0 or not touched(self.slots.base + number * self.slots.size):
                    continue
                slot = self.slots.base + number * self.slots.size + self.offset
                self.kernel.read(self.algorithm, slot, True, &reading)
                self.without(&reading, 0.0, part)
                self.add_costs(&reading, candidates, -units, costs)
                self.kernel.read(self.algorithm, slot, True, &reading)
                self.without(&reading, x, part)
                self.add_costs(&reading, candidates, units, costs)
        for block in (recent.old, recent.young):
            with nogil:
                for row in range(recent.first(block), block.rows):
                    for s in range(STEPS):
                        margins[s] = 0.0
                    for k in range(block.offsets[row] - 1, block.offsets[row + 1]):
                        if k < block.offsets[row]:
                            slot, x, value = self.bias, 1.0, bias_part
                        else:
                            number = find(self.slots, block.ids[k])
                            slot = NULL
                            if number >= 0:
                                slot = self.slots.base + number * self.slots.size
                            x = block.values[k]
                            value = (<double*>(parts.base + find(parts, block.ids[k]) * 8))[0]
                        if slot == NULL or not touched(slot):
                            continue
                        self.kernel.read(self.algorithm, slot + self.offset, slot != self.bias,
                                         &reading)
                        self.without(&reading, value, part)
                        self.weights(&reading, candidates, weights)
                        for s in range(STEPS):
                            margins[s] += x * weights[s]
                    for s in range(STEPS):
                        loss(margins[s], block.labels[row], &value, &slope)
                        losses[s] += block.weights[row] * value
        for s in range(STEPS):
            value = losses[s] / max(rows, 1) + (apart + 1) * costs[s] / units
            if s == 0 or value < best:
                best, chosen = value, s
        self.smoothness = candidates[chosen]
        return 0

    cdef void without(self, Reading* reading, double share, double weight) noexcept nogil:
        """Take rows with gradient sum `share` and weight `weight` out of an averaged gradient."""
        cdef double ridge = self.l2 * reading.mean
        reading.gradient = (((reading.gradient - ridge) * self.total - share)
                            / (self.total - weight) + ridge)

    cdef bytearray strengths(self):
        """The strength of every weight that is not zero, as float64 bytes."""
        found = bytearray(8 * self.slots.used)
        cdef double* strengths = <double*><char*>found
        cdef Reading reading
        cdef double w
        cdef int64_t i, n = 0
        cdef char* slot
        with nogil:
            for i in range(self.slots.used):
                slot = self.slots.base + i * self.slots.size
                if touched(slot):
                    self.kernel.read(self.algorithm, slot + self.offset, True, &reading)
                    w = self.weight(&reading, True)
                    if w != 0.0:
                        strengths[n] = self.strength(&reading, w)
                        n += 1
        del found[8 * n:]
        return found

    cdef double solve_one(self, Part* part, char* slot, bint penalised) noexcept nogil:
        """The weight of a coordinate that was touched, and what it adds to the certificate."""
        cdef Reading reading
        cdef double w, cost, off
        self.kernel.read(self.algorithm, slot + self.offset, penalised, &reading)
        w = self.weight(&reading, penalised)
        if not (fabs(w * part.unit) < LARGEST and isfinite(reading.gradient)
                and isfinite(reading.penalty) and isfinite(reading.scale)):
            part.finite = False
        cost = reading.penalty * fabs(w) + 0.5 * self.l2 * w * w
        if cost >= 0.0 and isfinite(cost):
            exact.add(&part.costs, cost)
        else:                            # overflowed, or of a state that nobody learned
            part.rest += cost
        # 0 in g + b d|w|: at zero |g| <= b, elsewhere g = -b sgn(w)
        if w == 0.0:
            off = fabs(reading.gradient) - reading.penalty
        else:
            off = fabs(reading.gradient + copysign(reading.penalty, w))
        if off > part.violation:
            part.violation = off
        return w * part.unit

    cdef void solve_part(self, Part* part, int64_t* id, double* weight) noexcept nogil:
        """Some of the slots, their weights that are not zero from where the slots begin."""
        cdef int64_t i
        cdef double w
        cdef char* slot
        for i in range(part.first, part.stop):
            slot = self.slots.base + i * self.slots.size
            if touched(slot):
                part.seen += 1
                w = self.solve_one(part, slot, True)
                if w != 0.0:
                    id[part.first + part.kept] = id_of(self.slots, i)
                    weight[part.first + part.kept] = w
                    part.kept += 1

    cdef dict solve(self, Recent recent, Loss loss, double shift, double scale):
        """The exactly sparse weights, sorted by id, and the certificate.

        Labels were learned as (label - shift) * scale; weights are handed out unscaled. Nothing
        in it depends on the order of the slots, so that two hands may share them.
        """
        cdef int64_t used = self.slots.used, row
        cdef Column ids = Column(used), weights = Column(used)
        cdef Part all
        cdef double penalty, bias = 0.0, unit = 1.0 / scale
        cdef double total = 0.0, value, slope
        cdef Block block
        cdef Solving one, other
        all = part_of(0, used, unit)
        if self.bias != NULL and touched(self.bias):
            bias = self.solve_one(&all, self.bias, False)
        if used < MANY:
            with nogil:
                self.solve_part(&all, <int64_t*>ids.start, <double*>weights.start)
        else:
            one = Solving(self, ids, weights)
            other = Solving(self, ids, weights)
            one.part, other.part = part_of(0, used // 2, unit), part_of(used // 2, used, unit)
            both(one, other)
            ids.close_up(one.part.kept, other.part.first, other.part.kept)
            weights.close_up(one.part.kept, other.part.first, other.part.kept)
            for one in (one, other):
                add_part(&all, &one.part)
        if not all.finite:
            raise Divergence(self.t, 0, "the sums of learning have left the finite numbers by "
                             "now; scale the values and labels")
        if not self.slots.dense:
            sort_columns(<int64_t*>ids.start, <double*>weights.start, all.kept)
        for block in (recent.old, recent.young):
            with nogil:
                for row in range(recent.first(block), block.rows):
                    loss(self.margin(block, row), (block.labels[row] - shift) * scale,
                         &value, &slope)
                    total += block.weights[row] * value
        # Labels were scaled for the squared loss only: a gradient scales with them, a loss with
        # their square. What overflows is not told.
        mean_loss = total / len(recent) * unit * unit if len(recent) else None
        penalty = (exact.value(&all.costs) + all.rest) * unit * unit
        if mean_loss is not None and not isfinite(mean_loss + penalty):
            mean_loss = None
        return {
            "ids": ids.taken(all.kept),
            "weights": weights.taken(all.kept),
            "bias": bias + shift if self.bias != NULL else 0.0,
            "seen": all.seen,
            "certificate": {
                "violation": all.violation * unit if self.has_gradient else None,
                "objective": None if mean_loss is None else mean_loss + penalty,
                "recent_loss": mean_loss,
                "recent_examples": len(recent),
                "smoothness": self.smoothness if self.converts else None,
            },
        }


cdef class Column:
    """Bytes in the making: as many words as there may be, cut to those there are without a copy."""

    cdef PyObject* bytes
    cdef char* start

    def __cinit__(self, int64_t most):
        self.bytes = PyBytes_FromStringAndSize(NULL, 8 * most)
        if self.bytes == NULL:
            raise MemoryError("no memory for the weights of a snapshot")
        self.start = PyBytes_AS_STRING(self.bytes)
        streamlearn_in_huge_pages(self.start, <size_t>(8 * most))

    def __dealloc__(self):
        Py_XDECREF(self.bytes)

    cdef void close_up(self, int64_t count, int64_t first, int64_t more) noexcept:
        """Behind the first `count` words come the `more` words that begin at `first`."""
        memmove(self.start + 8 * count, self.start + 8 * first, <size_t>(8 * more))

    cdef bytes taken(self, int64_t count):
        if _PyBytes_Resize(&self.bytes, 8 * count) < 0:
            raise MemoryError("no memory for the weights of a snapshot")
        return <bytes>self.bytes


cdef Part part_of(int64_t first, int64_t stop, double unit) noexcept:
    cdef Part part
    memset(&part, 0, sizeof(Part))
    part.first, part.stop, part.unit, part.finite = first, stop, unit, True
    return part


cdef void add_part(Part* all, const Part* part) noexcept:
    all.kept += part.kept
    all.seen += part.seen
    all.violation = max(all.violation, part.violation)
    exact.add_sum(&all.costs, &part.costs)
    all.rest += part.rest
    all.finite = all.finite and part.finite


cdef class Solving(Hand):
    """A part of the slots for one hand."""

    cdef Conversion conversion
    cdef Column ids, weights
    cdef Part part

    def __init__(self, Conversion conversion, Column ids, Column weights):
        self.conversion, self.ids, self.weights = conversion, ids, weights

    cdef void work(self) noexcept nogil:
        self.conversion.solve_part(
            &self.part, <int64_t*>self.ids.start, <double*>self.weights.start)
