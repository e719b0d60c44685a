# frozen: a fixed point that only collects loss gradients, the second phase of optimalsl.
# Two points: the one at work, and the finished one before it; phase one hands in new points.
from libc.stdint cimport int64_t
from streamlearn.engine.algorithms.reading cimport Reading

cdef struct FrozenSlot:
    double w             # the point at work
    double G             # sum of g at w, over `count` examples
    double w_before      # the finished point
    double G_before

cdef struct Frozen:
    int64_t t            # examples learned
    int64_t count        # gradients taken at w; -1 while no point was handed in
    int64_t count_before
    double alpha         # a point is served once its gradients make up this share of the run
    double l1
    double l2
    double slope         # of the example in hand


cdef inline double read(const Frozen* a, const FrozenSlot* slot) noexcept nogil:
    return slot.w


cdef inline void update(const Frozen* a, FrozenSlot* slot, double x) noexcept nogil:
    slot.G += a.slope * x


cdef inline bint serves_new(const Frozen* a) noexcept nogil:
    return a.count_before <= 0 or a.count >= a.alpha * a.t


cdef inline void hand_in(FrozenSlot* slot, double point) noexcept nogil:
    slot.w_before = slot.w
    slot.G_before = slot.G
    slot.w = point
    slot.G = 0.0


cdef inline void reading(
    const Frozen* a, const FrozenSlot* slot, bint penalised, Reading* out
) noexcept nogil:
    cdef bint new = serves_new(a)
    cdef int64_t count = a.count if new else a.count_before
    out.mean = out.last = slot.w if new else slot.w_before
    if count > 0:
        out.gradient = (slot.G if new else slot.G_before) / count + a.l2 * out.mean
    else:
        out.gradient = 0.0
    out.scale = 1.0
    out.penalty = a.l1 if penalised else 0.0
