# sgd: the last iterate of SGD with lazy l1; no average. Two words a coordinate.
from libc.stdint cimport int64_t
from streamlearn.engine.algorithms.reading cimport Reading, plain
from streamlearn.engine.algorithms.schedule cimport Schedule, stepped
from streamlearn.engine.lazy cimport after_gap

cdef struct SgdSlot:
    int64_t last         # the time for which u is valid
    double u

cdef struct Sgd:
    Schedule step


cdef inline double read(Sgd* a, SgdSlot* slot) noexcept nogil:
    cdef int64_t gap = a.step.t + 1 - slot.last
    if gap > 0 and slot.u != 0.0:
        slot.u = after_gap(slot.u, gap, a.step.c, a.step.subgradient)
    return slot.u


cdef inline void update(Sgd* a, SgdSlot* slot, double x, bint penalised) noexcept nogil:
    slot.u = stepped(&a.step, slot.u, x, penalised)
    slot.last = a.step.t + 2


cdef inline void reading(
    const Sgd* a, const SgdSlot* slot, bint penalised, Reading* out
) noexcept nogil:
    cdef double c = a.step.c if penalised else 0.0
    cdef double n = a.step.t + a.step.t0
    cdef double u = after_gap(slot.u, a.step.t + 1 - slot.last, c, a.step.subgradient)
    plain(out, u / n if n > 0.0 else 0.0, c * a.step.l2)
