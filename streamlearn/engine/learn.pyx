# THE loop, and the table of kernels made from it: one compiled copy an algorithm, none a loss.
#
# An algorithm is a static type (its hooks are inlined; an indirect call a coordinate would cost
# 12-50 %), a loss a function pointer called once an example (which costs nothing).
from libc.math cimport fabs
from libc.stdint cimport int64_t

from streamlearn.engine.algorithms cimport adaptive, frozen, linear, sgd, suffix
from streamlearn.engine.algorithms.reading cimport Reading
from streamlearn.engine.algorithms.schedule cimport (
    close_step, open_step, scaled_margin, take_slope,
)
from streamlearn.errors import UsageError

cdef extern from *:
    """
    #define streamlearn_prefetch(p) __builtin_prefetch((p), 1, 3)
    """
    void streamlearn_prefetch(const void*) noexcept nogil

ctypedef fused Algorithm:
    Sgd
    Linear
    Suffix
    Frozen
    Adaptive

# A margin of this size has left the world: no label is as large, and squares soon overflow.
cdef double DIVERGED = 1e60


# ---- the hooks: what each algorithm does at each point of the loop -------------------------------

cdef inline void begin(Algorithm* a, double norm) noexcept nogil:
    """Before anything of the example is read."""
    if Algorithm is Sgd or Algorithm is Linear or Algorithm is Suffix:
        open_step(&a.step, norm)


cdef inline void prepare(Algorithm* a, char* slot, double x) noexcept nogil:
    """Each feature, before any weight is read."""
    if Algorithm is Adaptive:
        adaptive.prepare(a, <adaptive.AdaptiveSlot*>slot, x)


cdef inline void ready(Algorithm* a) noexcept nogil:
    """Once, between prepare and weight."""
    if Algorithm is Adaptive:
        adaptive.ready(a)


cdef inline double weight(Algorithm* a, char* slot, bint penalised) noexcept nogil:
    """Each feature: catch up with the time slept, and read the weight."""
    if Algorithm is Sgd:
        return sgd.read(a, <sgd.SgdSlot*>slot)
    elif Algorithm is Linear:
        return linear.read(a, <linear.LinearSlot*>slot)
    elif Algorithm is Suffix:
        return suffix.read(a, <suffix.SuffixSlot*>slot, penalised)
    elif Algorithm is Frozen:
        return frozen.read(a, <frozen.FrozenSlot*>slot)
    else:
        return adaptive.read(a, <adaptive.AdaptiveSlot*>slot, penalised)


cdef inline double margin_of(Algorithm* a, double total) noexcept nogil:
    """From the sum of x * weight to the margin."""
    if Algorithm is Sgd or Algorithm is Linear or Algorithm is Suffix:
        return scaled_margin(&a.step, total)
    else:
        return total


cdef inline void step(Algorithm* a, double slope, double importance) noexcept nogil:
    """Once, the loss known: slope = importance * loss'."""
    if Algorithm is Sgd or Algorithm is Linear or Algorithm is Suffix:
        take_slope(&a.step, slope, importance)
    else:
        a.slope = slope


cdef inline void update(Algorithm* a, char* slot, double x, bint penalised) noexcept nogil:
    """Each feature: move the weight, add to the sums."""
    if Algorithm is Sgd:
        sgd.update(a, <sgd.SgdSlot*>slot, x, penalised)
    elif Algorithm is Linear:
        linear.update(a, <linear.LinearSlot*>slot, x, penalised)
    elif Algorithm is Suffix:
        suffix.update(a, <suffix.SuffixSlot*>slot, x, penalised)
    elif Algorithm is Frozen:
        frozen.update(a, <frozen.FrozenSlot*>slot, x)
    else:
        adaptive.update(a, <adaptive.AdaptiveSlot*>slot, x)


cdef inline void end(Algorithm* a) noexcept nogil:
    """The example is learned: advance time."""
    if Algorithm is Frozen:
        a.t += 1
        a.count += a.count >= 0
    elif Algorithm is Adaptive:
        a.W += a.t
        a.t += 1
    else:
        if Algorithm is Linear:
            a.W += a.step.n
        close_step(&a.step)
        if Algorithm is Suffix:
            suffix.roll(a)


# ---- the loop ------------------------------------------------------------------------------------

cdef int64_t learn_rows(
    Algorithm* a, const Task* task, const Rows* rows, Progress* progress
) noexcept nogil:
    """Learn rows in order; stop at one that would leave the finite numbers and return it."""
    cdef const int64_t* numbers = rows.numbers
    cdef const double* values = rows.values
    cdef char* slots = task.slots
    cdef char* bias = task.bias
    cdef int64_t size = task.size, row, k, first, stop, next_stop
    cdef double total, margin, y, value, slope, importance
    for row in range(rows.first, rows.stop):
        first = rows.offsets[row]
        stop = rows.offsets[row + 1]
        if row + 1 < rows.stop:
            next_stop = rows.offsets[row + 2]
            for k in range(stop, next_stop):
                streamlearn_prefetch(slots + numbers[k] * size)
        importance = rows.weights[row]
        y = (rows.labels[row] - task.label_shift) * task.label_scale

        begin(a, rows.norms[row] + (bias != NULL))
        if Algorithm is Adaptive:
            for k in range(first, stop):
                prepare(a, slots + numbers[k] * size, values[k])
            if bias != NULL:
                prepare(a, bias, 1.0)
        ready(a)
        total = weight(a, bias, False) if bias != NULL else 0.0
        for k in range(first, stop):
            total += values[k] * weight(a, slots + numbers[k] * size, True)
        margin = margin_of(a, total)
        if not fabs(margin) < DIVERGED:
            return row

        task.loss(margin, y, &value, &slope)
        step(a, importance * slope, importance)
        for k in range(first, stop):
            update(a, slots + numbers[k] * size, values[k], True)
        if bias != NULL:
            update(a, bias, 1.0, False)
        end(a)
        if progress != NULL:
            note(progress, margin, y, value, importance)
    return rows.stop


cdef inline void note(
    Progress* p, double margin, double y, double value, double importance
) noexcept nogil:
    p.examples += 1
    p.weight += importance
    p.loss += importance * value
    p.errors += importance * ((margin > 0.0) != (y > 0.0))
    p.positive += y > 0.0
    p.run = p.run + 1 if y == p.last_label else 1
    p.last_label = y
    if p.run > p.longest_run:
        p.longest_run = p.run


cdef void read_slot(
    const Algorithm* a, const char* slot, bint penalised, Reading* out
) noexcept nogil:
    """What a coordinate says of itself now; changes nothing."""
    if Algorithm is Sgd:
        sgd.reading(a, <const sgd.SgdSlot*>slot, penalised, out)
    elif Algorithm is Linear:
        linear.reading(a, <const linear.LinearSlot*>slot, penalised, out)
    elif Algorithm is Suffix:
        suffix.reading(a, <const suffix.SuffixSlot*>slot, penalised, out)
    elif Algorithm is Frozen:
        frozen.reading(a, <const frozen.FrozenSlot*>slot, penalised, out)
    else:
        adaptive.reading(a, <const adaptive.AdaptiveSlot*>slot, penalised, out)


# ---- the table -----------------------------------------------------------------------------------

cdef Kernel kernel_named(str name) except *:
    cdef Kernel k
    if name == "sgd":
        k.learn, k.read = <Learn>learn_rows[Sgd], <Read>read_slot[Sgd]
        k.size = sizeof(sgd.SgdSlot)
    elif name == "linear":
        k.learn, k.read = <Learn>learn_rows[Linear], <Read>read_slot[Linear]
        k.size = sizeof(linear.LinearSlot)
    elif name == "suffix":
        k.learn, k.read = <Learn>learn_rows[Suffix], <Read>read_slot[Suffix]
        k.size = sizeof(suffix.SuffixSlot)
    elif name == "frozen":
        k.learn, k.read = <Learn>learn_rows[Frozen], <Read>read_slot[Frozen]
        k.size = sizeof(frozen.FrozenSlot)
    elif name == "adaptive":
        k.learn, k.read = <Learn>learn_rows[Adaptive], <Read>read_slot[Adaptive]
        k.size = sizeof(adaptive.AdaptiveSlot)
    else:
        raise UsageError(f"no kernel {name!r}")
    return k
