# ftrl: FTRL-Proximal. Three words a coordinate; the newest iterate.
#     sigma = (sqrt(n + g^2) - sqrt n)/eta;  z += g - sigma w;  n += g^2
#     w = -S_{l1}(z) / ((beta + sqrt n)/eta + l2);  `growing` multiplies l1 and l2 by t
from libc.math cimport sqrt
from libc.stdint cimport int64_t
from streamlearn.engine.algorithms.reading cimport Reading, plain
from streamlearn.engine.lazy cimport shrink

cdef struct FtrlSlot:
    int64_t last         # examples seen at the last touch, and one more
    double z
    double n             # sum of g^2

cdef struct Ftrl:
    int64_t t            # examples learned
    double l1
    double l2
    double eta
    double beta
    bint growing
    double slope         # of the example in hand


cdef inline double weight(const Ftrl* a, const FtrlSlot* slot, bint penalised) noexcept nogil:
    cdef double grown = a.t if a.growing else 1.0
    cdef double z = shrink(slot.z, a.l1 * grown if penalised else 0.0)
    return -z / ((a.beta + sqrt(slot.n)) / a.eta + a.l2 * grown) if z != 0.0 else 0.0


cdef inline void update(const Ftrl* a, FtrlSlot* slot, double x, bint penalised) noexcept nogil:
    cdef double g = a.slope * x
    cdef double sigma = (sqrt(slot.n + g * g) - sqrt(slot.n)) / a.eta
    slot.z += g - sigma * weight(a, slot, penalised)     # the weight that predicted
    slot.n += g * g
    slot.last = a.t + 2


cdef inline void reading(
    const Ftrl* a, const FtrlSlot* slot, bint penalised, Reading* out
) noexcept nogil:
    cdef double share = 1.0 if a.growing else 1.0 / a.t if a.t else 0.0
    plain(out, weight(a, slot, penalised), a.l1 * share if penalised else 0.0)
