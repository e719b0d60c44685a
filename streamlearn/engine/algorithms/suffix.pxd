# suffix: SGD whose iterates and gradients are averaged with equal weights over the tail of the run.
#
# Horizon known: the tail starts at a fixed time. Unknown: two buckets, S0 since the start before
# last and S1 since the last; starts grow by 1/(1 - alpha), so that S0 always holds a fraction
# between alpha and alpha (2 - alpha) of the run. Which bucket a coordinate's sums belong to follows
# from its time stamp: nothing is flushed at a start.
from libc.math cimport ceil
from libc.stdint cimport int64_t
from streamlearn.engine.algorithms.reading cimport Reading
from streamlearn.engine.algorithms.schedule cimport Schedule, stepped
from streamlearn.engine.lazy cimport after_gap, gap_sum_w

cdef struct SuffixSlot:
    int64_t last         # the time for which u is valid; sums cover the times before it
    double u
    double S0
    double S1
    double G0
    double G1

cdef struct Suffix:
    Schedule step
    double alpha
    int64_t total        # the horizon, 0 when unknown
    int64_t start0       # S0 holds the times from here
    int64_t start1       # S1 holds the times from here
    int64_t next_start


cdef inline void roll(Suffix* a) noexcept nogil:
    """After the step: the next time may be the start of a new bucket."""
    if a.step.t + 1 < a.next_start:
        return
    a.start0 = a.start1
    a.start1 = a.next_start
    if a.total:
        a.next_start = <int64_t>0x7FFFFFFFFFFFFFFF
    else:
        a.next_start = <int64_t>ceil(a.start1 / (1.0 - a.alpha))
        if a.next_start <= a.start1:
            a.next_start = a.start1 + 1


cdef inline double span(
    const Suffix* a, const SuffixSlot* slot, int64_t start, int64_t now, double c
) noexcept nogil:
    """sum of w over the times from max(start, last) to now - 1, the coordinate asleep"""
    cdef int64_t first = start - slot.last if start > slot.last else 0
    return gap_sum_w(slot.u, slot.last - 1 + a.step.t0, first, now - 1 - slot.last, c,
                     a.step.subgradient)


cdef inline void settle(const Suffix* a, SuffixSlot* slot, int64_t now, double c) noexcept nogil:
    """Bring sums and u to the time now."""
    cdef double asleep
    if slot.last == now and now > a.start1:          # wide awake, and no bucket began
        return
    if slot.last > a.start1:
        asleep = span(a, slot, a.start1, now, c)
        slot.S0 += asleep
        slot.S1 += asleep
    elif slot.last > a.start0:
        slot.S0 = slot.S1 + span(a, slot, a.start0, now, c)
        slot.S1 = span(a, slot, a.start1, now, c)
        slot.G0 = slot.G1
        slot.G1 = 0.0
    else:
        slot.S0 = span(a, slot, a.start0, now, c)
        slot.S1 = span(a, slot, a.start1, now, c)
        slot.G0 = slot.G1 = 0.0
    slot.u = after_gap(slot.u, now - slot.last, c, a.step.subgradient)
    slot.last = now


cdef inline double read(Suffix* a, SuffixSlot* slot, bint penalised) noexcept nogil:
    cdef double w
    settle(a, slot, a.step.t + 1, a.step.c if penalised else 0.0)
    w = slot.u / a.step.n if a.step.n > 0.0 else 0.0
    slot.S0 += w
    slot.S1 += w
    return slot.u


cdef inline void update(Suffix* a, SuffixSlot* slot, double x, bint penalised) noexcept nogil:
    slot.G0 += a.step.slope * x
    slot.G1 += a.step.slope * x
    slot.u = stepped(&a.step, slot.u, x, penalised)
    slot.last = a.step.t + 2


cdef inline bint serves_suffix(const Suffix* a) noexcept nogil:
    """Whether S1, a known suffix that has begun, is served; else S0: all so far, or two buckets."""
    return a.total and a.start1 <= a.step.t


cdef inline int64_t length(const Suffix* a) noexcept nogil:
    """How many iterates the served window holds."""
    return a.step.t + 1 - (a.start1 if serves_suffix(a) else a.start0)


cdef inline void reading(
    const Suffix* a, const SuffixSlot* slot, bint penalised, Reading* out
) noexcept nogil:
    cdef SuffixSlot copy = slot[0]
    cdef double c = a.step.c if penalised else 0.0
    cdef double n = a.step.t + a.step.t0
    cdef double many = length(a)
    settle(a, &copy, a.step.t + 1, c)
    out.last = copy.u / n if n > 0.0 else 0.0
    if many > 0.0:
        out.mean = (copy.S1 if serves_suffix(a) else copy.S0) / many
        out.gradient = (copy.G1 if serves_suffix(a) else copy.G0) / many + a.step.l2 * out.mean
    else:
        out.mean = out.last
        out.gradient = 0.0
    out.scale = 1.0
    out.penalty = c * a.step.l2
