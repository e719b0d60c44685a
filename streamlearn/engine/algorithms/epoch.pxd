# epoch: Epoch-GD. Constant steps within an epoch; the next starts at the mean, twice as long, with
# half the step. Four words a coordinate; serves the mean of the last finished epoch.
#
# Asleep within an epoch, with a = 1 - eta l2 and c = l1/l2:  |w_k| = (a^k (|w| + c) - c)_+
from libc.math cimport copysign, exp, expm1, fabs, floor, log, log1p
from libc.stdint cimport int64_t
from streamlearn.engine.algorithms.reading cimport Reading
from streamlearn.engine.lazy cimport shrink

cdef struct EpochSlot:
    int64_t last         # the time for which w is valid
    double w
    double S             # sum of w over the epoch, times before last
    double mean          # of the last finished epoch

cdef struct Epoch:
    int64_t t            # examples learned
    double l1
    double l2
    double eta           # step of this epoch
    int64_t length       # examples of this epoch
    int64_t done         # of these, learned
    int64_t finished     # epochs finished
    double slope         # of the example in hand


cdef inline double decayed(const Epoch* a, double w, int64_t steps, double c) noexcept nogil:
    cdef double size = exp(steps * log1p(-a.eta * a.l2)) * (fabs(w) + c) - c if steps else fabs(w)
    return copysign(size, w) if size > 0.0 else 0.0


cdef inline double asleep(const Epoch* a, double w, int64_t steps, double c) noexcept nogil:
    """sum of w_j, j = 0 .. steps-1"""
    cdef double rate = log1p(-a.eta * a.l2), many = steps, last
    if w == 0.0 or steps <= 0:
        return 0.0
    if c > 0.0:
        last = floor(log((fabs(w) + c) / c) / -rate) + 1.0      # as many are positive
        if last < many:
            many = last
    # sum a^j = (1 - a^n)/(1 - a), 1 - a = eta l2
    return copysign((fabs(w) + c) * -expm1(many * rate) / (a.eta * a.l2) - c * many, w)


cdef inline double read(const Epoch* a, EpochSlot* slot, bint penalised) noexcept nogil:
    cdef double c = a.l1 / a.l2 if penalised else 0.0
    cdef int64_t gap = a.t + 1 - slot.last
    if gap > 0 and slot.w != 0.0:
        slot.S += asleep(a, slot.w, gap, c)
        slot.w = decayed(a, slot.w, gap, c)
    slot.S += slot.w
    return slot.w


cdef inline void update(const Epoch* a, EpochSlot* slot, double x, bint penalised) noexcept nogil:
    cdef double w = (1.0 - a.eta * a.l2) * slot.w - a.eta * a.slope * x
    slot.w = shrink(w, a.eta * a.l1) if penalised else w
    slot.last = a.t + 2


cdef inline void end(Epoch* a) noexcept nogil:
    a.t += 1
    a.done += 1


cdef inline bint due(const Epoch* a) noexcept nogil:
    return a.done >= a.length


cdef inline double sum_now(const Epoch* a, const EpochSlot* slot, double c) noexcept nogil:
    return slot.S + asleep(a, slot.w, a.t + 1 - slot.last, c)


cdef inline void turn(const Epoch* a, EpochSlot* slot, bint penalised) noexcept nogil:
    slot.mean = sum_now(a, slot, a.l1 / a.l2 if penalised else 0.0) / a.length
    slot.w = slot.mean
    slot.S = 0.0
    slot.last = a.t + 1


cdef inline void turned(Epoch* a) noexcept nogil:
    a.length *= 2
    a.eta *= 0.5
    a.done = 0
    a.finished += 1


cdef inline void reading(
    const Epoch* a, const EpochSlot* slot, bint penalised, Reading* out
) noexcept nogil:
    cdef double c = a.l1 / a.l2 if penalised else 0.0
    out.last = decayed(a, slot.w, a.t + 1 - slot.last, c)
    if a.finished:
        out.mean = slot.mean
    else:
        out.mean = sum_now(a, slot, c) / a.done if a.done else 0.0
    out.gradient = 0.0
    out.scale = 1.0
    out.penalty = a.l1 if penalised else 0.0
