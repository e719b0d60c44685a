# adagrad: dual averaging with a step of its own for each coordinate (adagrad-rda). Three words.
#     w = -S_{l1 t}(S) / (l2 t + (delta + sqrt Q)/eta),  S = sum g, Q = sum g^2
from libc.math cimport sqrt
from libc.stdint cimport int64_t
from streamlearn.engine.algorithms.reading cimport Reading, plain
from streamlearn.engine.lazy cimport shrink

cdef struct AdagradSlot:
    int64_t last         # examples seen at the last touch, and one more
    double S             # sum of g
    double Q             # sum of g^2

cdef struct Adagrad:
    int64_t t            # examples learned
    double l1
    double l2
    double eta
    double delta
    double slope         # of the example in hand


cdef inline double weight(const Adagrad* a, const AdagradSlot* slot, bint penalised) noexcept nogil:
    cdef double s = shrink(slot.S, a.l1 * a.t if penalised else 0.0)
    return -s / (a.l2 * a.t + (a.delta + sqrt(slot.Q)) / a.eta) if s != 0.0 else 0.0


cdef inline void update(const Adagrad* a, AdagradSlot* slot, double x) noexcept nogil:
    cdef double g = a.slope * x
    slot.S += g
    slot.Q += g * g
    slot.last = a.t + 2


cdef inline void reading(
    const Adagrad* a, const AdagradSlot* slot, bint penalised, Reading* out
) noexcept nogil:
    plain(out, weight(a, slot, penalised), a.l1 if penalised else 0.0)
