# adaptive: dual averaging in a diagonal, scale-free metric, averaged with weight t, thresholded in
# units of evidence; the learner behind adaptivesl.
#
# A coordinate with gradient sums S = sum g, Q = sum g^2 and largest value M has the iterate
#     w = -sgn(S) (|S| - threshold)_+ / h,      h = (c/eta) M (delta M + sqrt Q),  delta = 1
# threshold = z (sqrt Q + M), z standard deviations of its own gradient sum; or l1 * t when an l1
# weight is asked for. c is the root mean square of |x/M|: no step size, no unit of x is left.
from libc.math cimport copysign, fabs, sqrt
from libc.stdint cimport int64_t
from streamlearn.engine.algorithms.reading cimport Reading
from streamlearn.engine.lazy cimport positive

cdef struct AdaptiveSlot:    # 64 bytes: one cache line a visit
    int64_t last         # examples seen at the last touch, it included
    double S             # sum of g
    double Q             # sum of g^2
    double M             # largest |x|
    double A             # sum of t w_t
    double G             # sum of t g_t
    double h             # metric at the last touch
    double root          # sqrt(Q), kept because three passes need it

cdef struct Adaptive:
    int64_t t            # examples learned
    double N             # sum over examples of |x/M|^2, bias included
    double W             # sum of t
    double evidence      # z
    double l1            # > 0: the threshold is l1 * t instead
    double eta
    # of the example in hand:
    double metric        # sqrt(N / t) / eta
    double slope         # importance * loss'


cdef inline double excess(const Adaptive* a, const AdaptiveSlot* slot) noexcept nogil:
    """|S| beyond the threshold at the time in hand; positive where the weight is not zero"""
    if a.l1 > 0.0:
        return fabs(slot.S) - a.l1 * a.t
    return fabs(slot.S) - a.evidence * (slot.root + slot.M)


cdef inline double asleep(const Adaptive* a, const AdaptiveSlot* slot) noexcept nogil:
    """sum of i w_i over i = last .. t-1, everything in the slot constant"""
    cdef double first = slot.last, stop = a.t, size
    if a.l1 > 0.0:
        if slot.S == 0.0:                   # perhaps never seen: h is 0 then
            return 0.0
        # w_i = -sgn(S) (|S| - l1 i)/h while positive: |S| sum i - l1 sum i^2, i = first .. stop-1
        if stop > first and a.l1 * (stop - 1.0) > fabs(slot.S):
            stop = <double><int64_t>(fabs(slot.S) / a.l1) + 1.0
        if stop <= first:
            return 0.0
        size = (fabs(slot.S) * 0.5 * (first + stop - 1.0) * (stop - first)
                - a.l1 * (squares(stop) - squares(first)))
    else:
        size = excess(a, slot)
        if size <= 0.0:
            return 0.0
        size *= 0.5 * (first + stop - 1.0) * (stop - first)
    return -copysign(size / slot.h, slot.S)


cdef inline double squares(double n) noexcept nogil:
    """sum of i^2, i < n"""
    return n * (n - 1.0) * (2.0 * n - 1.0) / 6.0


cdef inline void prepare(Adaptive* a, AdaptiveSlot* slot, double x) noexcept nogil:
    """Settle the gap, then let the coordinate learn its unit."""
    cdef double size = fabs(x)
    slot.A += asleep(a, slot)
    if size > slot.M:
        slot.M = size
        a.N += 1.0
    else:
        size /= slot.M
        a.N += size * size


cdef inline void ready(Adaptive* a) noexcept nogil:
    a.metric = sqrt(a.N / (a.t + 1)) / a.eta


cdef inline double metric(const Adaptive* a, const AdaptiveSlot* slot) noexcept nogil:
    return a.metric * slot.M * (slot.M + slot.root)


cdef inline double read(const Adaptive* a, AdaptiveSlot* slot, bint penalised) noexcept nogil:
    cdef double size = excess(a, slot) if penalised else fabs(slot.S)
    cdef double h = metric(a, slot), w
    if h == 0.0:                            # only zeros were seen, or what squares to zero
        return 0.0
    w = -copysign(positive(size) / h, slot.S)
    slot.A += a.t * w
    return w


cdef inline void update(const Adaptive* a, AdaptiveSlot* slot, double x) noexcept nogil:
    cdef double g = a.slope * x
    slot.S += g
    slot.Q += g * g
    slot.G += a.t * g
    slot.root = sqrt(slot.Q)
    slot.h = metric(a, slot)
    slot.last = a.t + 1


cdef inline void reading(
    const Adaptive* a, const AdaptiveSlot* slot, bint penalised, Reading* out
) noexcept nogil:
    cdef double size = excess(a, slot) if penalised else fabs(slot.S)
    cdef double t = a.t
    out.last = -copysign(size / slot.h, slot.S) if size > 0.0 and slot.h > 0.0 else 0.0
    if a.W > 0.0:
        out.mean = (slot.A + (asleep(a, slot) if penalised else 0.0)) / a.W
        out.gradient = slot.G / a.W
    else:
        out.mean = out.gradient = 0.0
    out.scale = metric(a, slot) / t if t > 0 else 0.0
    out.penalty = 0.0
    if penalised and t > 0:
        out.penalty = a.l1 if a.l1 > 0.0 else a.evidence * (slot.root + slot.M) / t
