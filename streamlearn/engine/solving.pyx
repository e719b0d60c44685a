# Every slot becomes a weight, and adds to the certificate. Two hands share the slots, one from the
# lowest up, one from the highest down, until they meet: nothing depends on the order of the slots.
#
# An index that is a table by id is run through as it lies, if it is not too thin and many weights
# are expected: they need no sorting then. It is why slots are gathered before they are read, and
# fetched meanwhile.
from cpython.object cimport PyObject
from libc.math cimport INFINITY, copysign, fabs, isfinite
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy, memmove, memset

from streamlearn.engine cimport exact
from streamlearn.engine.algorithms.reading cimport Reading
from streamlearn.engine.block cimport Block
from streamlearn.engine.conversion cimport Conversion, weight_of
from streamlearn.engine.loss cimport Loss
from streamlearn.engine.slots cimport (
    PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock,
    PyThread_type_lock, Slots, id_of, streamlearn_fetch, touched,
)
from streamlearn.engine.sorting cimport sort_columns
from streamlearn.engine.together cimport Hand, both
from streamlearn.engine.window cimport Window

from streamlearn.errors import Divergence

cdef enum:
    BATCH = exact.MOST_NEAR          # places whose slots are fetched before any is read, at most
    FEW = 256                        # ... where each is a slot: they must stay in the first cache
    AHEAD = 24                       # features of the recent rows ahead of which a slot is fetched
    SAMPLE = 1000                    # slots from which it is told how many weights there will be
    PIECE = 1 << 15                  # places that a hand takes at a time
    THIN = 16                        # places a slot, beyond which to sort is faster than a walk

# Of a weight: a value is below 1e50 in size, and a model's margins must be finite.
cdef double LARGEST = 1e200

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


cdef struct Part:
    int64_t kept             # weights that are not zero
    int64_t seen             # slots that were touched
    double violation         # of the optimality conditions, the largest
    exact.Exact costs        # b|w| + l2/2 w^2
    exact.Exact owed         # those below zero, of a state that nobody learned
    double rest              # those that are not finite
    bint finite              # whether all weights and sums are


ctypedef char* Slot


cdef struct Batch:
    int64_t count
    int64_t[BATCH] ids
    Slot[BATCH] slots


cdef dict solve(Conversion c, Window window, Loss loss, double shift, double scale):
    """The exactly sparse weights, sorted by id, and the certificate.

    Labels were learned as (label - shift) * scale; weights are handed out unscaled.
    """
    cdef int64_t used = c.slots.used
    cdef Column ids = Column(used), weights = Column(used)
    cdef double penalty, mean, bias = 0.0, unit = 1.0 / scale
    cdef bint by_id = worth_a_walk(c)
    cdef Supply supply = Supply(
        min(c.slots.top + 1, c.slots.cells_room) if by_id else used, by_id)
    cdef Solving one = Solving(c, supply, ids, weights, unit)
    cdef Solving other = Solving(c, supply, ids, weights, unit)
    cdef Part all
    if used < MANY:
        with nogil:
            one.work()
    else:
        other.top = used
        both(one, other)
        ids.close_up(one.part.kept, used - other.part.kept, other.part.kept)
        weights.close_up(one.part.kept, used - other.part.kept, other.part.kept)
        add_part(&one.part, &other.part)
    all = one.part
    if c.bias != NULL and touched(c.bias):
        bias = solve_bias(c, &all, unit)
    if not all.finite:
        raise Divergence(c.t, 0, "the sums of learning have left the finite numbers by "
                         "now; scale the values and labels")
    if not c.slots.dense and not by_id:
        sort_columns(<int64_t*>ids.start, <double*>weights.start, all.kept)
    # Labels were scaled for the squared loss only: a gradient scales with them, a loss with
    # their square. What overflows is not told.
    mean_loss = None
    if len(window.recent):
        mean = window_loss(c, window, loss, shift, scale) / len(window.recent)
        mean_loss = mean * unit * unit
    penalty = (exact.value(&all.costs) - exact.value(&all.owed) + all.rest) * unit * unit
    if mean_loss is not None and not isfinite(mean_loss + penalty):
        mean_loss = None
    return {
        "ids": ids.taken(all.kept),
        "weights": weights.taken(all.kept),
        "bias": bias + shift if c.bias != NULL else 0.0,
        "seen": all.seen,
        "certificate": {
            "violation": all.violation * unit if c.has_gradient else None,
            "objective": None if mean_loss is None else mean_loss + penalty,
            "recent_loss": mean_loss,
            "recent_examples": len(window.recent),
            "smoothness": c.smoothness if c.converts else None,
        },
    }


cdef double window_loss(
    Conversion c, Window window, Loss loss, double shift, double scale
) except? -1.0:
    """The sum of the losses of the recent rows under the weights served."""
    cdef bytearray memory = bytearray(8 * window.count)
    cdef double* weights = <double*><char*>memory
    cdef const int64_t* numbers
    cdef double margin, value, slope, bias = 0.0, total = 0.0
    cdef int64_t row, k, i
    cdef Reading reading
    cdef Block block
    with nogil:
        if c.bias != NULL and touched(c.bias):
            c.kernel.read(c.algorithm, c.bias + c.offset, False, &reading)
            bias = weight_of(c, &reading, False)
        for i in range(window.count):
            if i + AHEAD < window.count:
                streamlearn_fetch(window.slots[i + AHEAD])
            if window.slots[i] != NULL:
                c.kernel.read(c.algorithm, window.slots[i] + c.offset, True, &reading)
                weights[i] = weight_of(c, &reading, True)
    for block in (window.recent.old, window.recent.young):
        numbers = window.numbers_of(block)
        with nogil:
            for row in range(window.recent.first(block), block.rows):
                margin = bias
                for k in range(block.offsets[row], block.offsets[row + 1]):
                    margin += block.values[k] * weights[numbers[k]]
                loss(margin, (block.labels[row] - shift) * scale, &value, &slope)
                total += block.weights[row] * value
    return total


# ---- one hand ------------------------------------------------------------------------------------

cdef class Solving(Hand):
    """Weights for the columns: from their begin upwards, or from `top` downwards if that is set."""

    cdef Conversion conversion
    cdef Supply supply
    cdef Column ids, weights
    cdef double unit                 # of the weights that are handed out
    cdef int64_t top
    cdef Part part

    def __init__(self, Conversion conversion, Supply supply, Column ids, Column weights,
                 double unit):
        self.conversion, self.supply, self.ids, self.weights = conversion, supply, ids, weights
        self.unit = unit
        memset(&self.part, 0, sizeof(Part))
        self.part.finite = True

    cdef void work(self) noexcept nogil:
        cdef Batch[2] batches
        cdef int64_t first, stop, at, many = BATCH if self.supply.by_id else FEW
        cdef int64_t step = -many if self.top else many
        cdef int now = 0
        batches[0].count = batches[1].count = 0
        while self.supply.take(self.top > 0, &first, &stop):
            at = (stop - 1) // many * many if self.top else first
            while first <= at < stop:
                # these are fetched while those before them are solved
                gather(self.conversion.slots, self.supply.by_id, at, min(at + many, stop),
                       &batches[now])
                now = 1 - now
                self.solve_batch(&batches[now], &batches[1 - now])
                at += step
        self.solve_batch(&batches[1 - now], &batches[now])

    cdef void solve_batch(self, Batch* batch, const Batch* next) noexcept nogil:
        cdef int64_t[BATCH] ids
        cdef double[BATCH] weights
        cdef int64_t kept = weights_of(
            self.conversion, &self.part, batch, next, self.unit, ids, weights)
        cdef int64_t to = self.part.kept
        self.part.kept += kept
        if self.top:
            to = self.top - self.part.kept
        memcpy(<int64_t*>self.ids.start + to, ids, <size_t>(8 * kept))
        memcpy(<double*>self.weights.start + to, weights, <size_t>(8 * kept))
        batch.count = 0


cdef int64_t weights_of(
    Conversion c, Part* part, const Batch* batch, const Batch* next, double unit, int64_t* ids,
    double* weights
) noexcept nogil:
    """The weights of a batch that are not zero, and their ids; returns how many.

    Slots of the next one are fetched one by one meanwhile: all at once were waited for.
    """
    cdef Reading[BATCH] readings
    cdef Slot[BATCH] slots
    cdef int64_t i, n = 0, kept = 0
    cdef exact.Near costs = 0
    cdef double w, cost, off, poison = 0.0, violation = part.violation
    cdef bint finite = True
    for i in range(batch.count):                 # no branch: a slot not touched is overwritten
        slots[n] = batch.slots[i] + c.offset
        ids[n] = batch.ids[i]
        n += touched(batch.slots[i])
    c.kernel.read_all(c.algorithm, slots, n, readings)
    part.seen += n
    for i in range(n, next.count):
        streamlearn_fetch(next.slots[i])
    for i in range(n):
        if i < next.count:
            streamlearn_fetch(next.slots[i])
        w = weight_of(c, &readings[i], True)
        poison += poison_of(&readings[i])
        cost = cost_of(&readings[i], w, c.l2)
        if not exact.add_near(&costs, cost):
            add_far(part, cost)
        off = violation_of(&readings[i], w)
        violation = off if off > violation else violation
        w *= unit
        finite &= fabs(w) < LARGEST
        ids[kept], weights[kept] = ids[i], w
        kept += w != 0.0
    exact.add_near_sum(&part.costs, costs)
    part.violation = violation
    part.finite &= finite and poison == 0.0
    return kept


cdef bint worth_a_walk(Conversion c) noexcept:
    """Whether to go by the index: a slot out of order takes longer, a weight needs no sorting."""
    cdef int64_t i, step = c.slots.used // SAMPLE + 1, all = 0, kept = 0
    cdef Reading reading
    cdef char* slot
    if not c.slots.by_id or c.slots.top >= THIN * c.slots.used:
        return False
    for i in range(0, c.slots.used, step):
        slot = c.slots.base + i * c.slots.size
        if touched(slot):
            c.kernel.read(c.algorithm, slot + c.offset, True, &reading)
            kept += weight_of(c, &reading, True) != 0.0
        all += 1
    return 4 * kept > all


cdef void gather(
    Slots slots, bint by_id, int64_t first, int64_t stop, Batch* batch
) noexcept nogil:
    """The slots of places first .. stop-1, those that were looked up ahead left out."""
    cdef int64_t place, n = 0
    cdef uint32_t number, used = <uint32_t>slots.used
    if not by_id:
        for place in range(first, stop):
            batch.ids[n] = id_of(slots, place)
            batch.slots[n] = slots.base + place * slots.size
            n += 1
    else:
        for place in range(first, stop):         # no branch: none can foretell which ids occur
            number = slots.cells[place] - 1      # of no slot: the largest there is
            batch.ids[n] = place
            batch.slots[n] = slots.base + <int64_t>number * slots.size
            n += number < used
    batch.count = n


cdef inline double poison_of(const Reading* reading) noexcept nogil:
    """0, or NaN if anything in it is not finite: sums of it need no branch, and no comparison."""
    return 0.0 * reading.gradient + 0.0 * reading.penalty + 0.0 * reading.scale


cdef inline double cost_of(const Reading* reading, double w, double l2) noexcept nogil:
    """b|w| + l2/2 w^2"""
    return reading.penalty * fabs(w) + 0.5 * l2 * w * w


cdef inline double violation_of(const Reading* reading, double w) noexcept nogil:
    """0 in g + b d|w|: at zero |g| <= b, elsewhere g = -b sgn(w)"""
    cdef double[2] offs                      # no branch on which it is
    offs[0] = fabs(reading.gradient) - reading.penalty
    offs[1] = fabs(reading.gradient + copysign(reading.penalty, w))
    return offs[w != 0.0]


cdef void add_far(Part* part, double cost) noexcept nogil:
    """A cost of unusual size."""
    if fabs(cost) < INFINITY:
        exact.add(&part.costs if cost >= 0.0 else &part.owed, cost)
    else:
        part.rest += cost


cdef double solve_bias(Conversion c, Part* part, double unit) noexcept nogil:
    cdef Reading reading
    cdef double w
    c.kernel.read(c.algorithm, c.bias + c.offset, False, &reading)
    w = weight_of(c, &reading, False)
    add_far(part, cost_of(&reading, w, c.l2))
    part.violation = max(part.violation, violation_of(&reading, w))
    part.finite = part.finite and fabs(w * unit) < LARGEST and poison_of(&reading) == 0.0
    return w * unit


cdef void add_part(Part* all, const Part* part) noexcept:
    all.kept += part.kept
    all.seen += part.seen
    all.violation = max(all.violation, part.violation)
    exact.add_sum(&all.costs, &part.costs)
    exact.add_sum(&all.owed, &part.owed)
    all.rest += part.rest
    all.finite = all.finite and part.finite


cdef class Supply:
    """Places 0 .. stop-1 for two hands, who take pieces from either end: ids, or else slots."""

    cdef int64_t first, stop
    cdef bint by_id
    cdef PyThread_type_lock lock

    def __cinit__(self, int64_t stop, bint by_id):
        self.stop, self.by_id = stop, by_id
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError("no memory for a lock")

    def __dealloc__(self):
        if self.lock != NULL:
            PyThread_free_lock(self.lock)

    cdef bint take(self, bint highest, int64_t* first, int64_t* stop) noexcept nogil:
        """A piece, if there is one left; all begin at a multiple of PIECE."""
        PyThread_acquire_lock(self.lock, 1)
        if highest:
            first[0], stop[0] = max(self.first, (self.stop - 1) // PIECE * PIECE), self.stop
            self.stop = first[0]
        else:
            first[0], stop[0] = self.first, min(self.first + PIECE, self.stop)
            self.first = stop[0]
        PyThread_release_lock(self.lock)
        return first[0] < stop[0]


# ---- what comes out ------------------------------------------------------------------------------

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
