# linear: SGD whose iterate w_t and gradient g_t are averaged with weight n_t = t - 1 + t0.
# The weighted sum of iterates is the plain sum of u: no logarithm, no suffix, no horizon.
from libc.math cimport copysign, fabs
from libc.stdint cimport int64_t
from streamlearn.engine.algorithms.reading cimport Reading
from streamlearn.engine.algorithms.schedule cimport Schedule, stepped
from streamlearn.engine.lazy cimport after_gap, gap_sum_u

cdef struct LinearSlot:
    int64_t last         # the time for which u is valid
    double u
    double A             # sum of u_t, t < last
    double G             # sum of n_t g_t, t < last

cdef struct Linear:
    Schedule step
    double W             # sum of n_t


cdef inline double read(Linear* a, LinearSlot* slot) noexcept nogil:
    """Settle the gap, add the iterate in hand to the sum, and return its u."""
    cdef int64_t gap = a.step.t + 1 - slot.last
    cdef double c = a.step.c, u = slot.u, size = fabs(u) - gap * c
    if size > 0.0:
        # The common case, still descending: sum_{j<gap} (U - jc) = gap (U + U_gap + c) / 2. It
        # holds for no gap too, and to ask first whether there is one would be a second branch.
        slot.A += copysign(0.5 * gap * (fabs(u) + size + c), u)
        u = copysign(size, u)
    elif u != 0.0:
        slot.A += gap_sum_u(u, 0, gap - 1, c, a.step.subgradient)
        u = after_gap(u, gap, c, a.step.subgradient)
    slot.u = u
    slot.A += u
    return u


cdef inline void update(Linear* a, LinearSlot* slot, double x, bint penalised) noexcept nogil:
    slot.G += a.step.n * a.step.slope * x
    slot.u = stepped(&a.step, slot.u, x, penalised)
    slot.last = a.step.t + 2


cdef inline void reading(
    const Linear* a, const LinearSlot* slot, bint penalised, Reading* out
) noexcept nogil:
    cdef double c = a.step.c if penalised else 0.0
    cdef double n = a.step.t + a.step.t0
    cdef int64_t gap = a.step.t + 1 - slot.last
    cdef double u = after_gap(slot.u, gap, c, a.step.subgradient)
    out.last = u / n if n > 0.0 else 0.0
    if a.W > 0.0:
        out.mean = (slot.A + gap_sum_u(slot.u, 0, gap - 1, c, a.step.subgradient)) / a.W
        out.gradient = slot.G / a.W + a.step.l2 * out.mean
    else:
        out.mean = out.last
        out.gradient = 0.0
    out.scale = 1.0
    out.penalty = c * a.step.l2
