# mirror: SMIDAS, mirror descent made sparse with the p-norm link. Two words a coordinate.
#
#     theta <- S_{eta l1}(theta - eta g);   w_j = sgn(theta_j) |theta_j|^(p-1) / ||theta||_p^(p-2)
#
# The norm changes at every step, because every feature shrinks: O(features seen) an example. In
# `touched` mode only the features of the example shrink. With top = max |theta| and r = |theta|/top
# the link is sgn(theta) top r^(p-1) / (sum r^p)^((p-2)/p), which neither over- nor underflows.
from libc.math cimport copysign, fabs, pow
from libc.stdint cimport int64_t
from streamlearn.engine.algorithms.everyone cimport Everyone, nth
from streamlearn.engine.algorithms.reading cimport Reading, plain
from streamlearn.engine.lazy cimport shrink

cdef struct MirrorSlot:
    int64_t last         # examples seen at the last touch, and one more
    double theta

cdef struct Mirror:
    int64_t t            # examples learned
    double l1
    double eta
    double p
    bint exact           # every feature shrinks, not only the touched
    double top           # max |theta|
    double unit          # top / (sum r^p)^((p-2)/p)
    double slope         # of the example in hand


cdef inline double weight(const Mirror* a, const MirrorSlot* slot, bint penalised) noexcept nogil:
    if not penalised:
        return slot.theta
    if slot.theta == 0.0:
        return 0.0
    return copysign(a.unit * pow(fabs(slot.theta) / a.top, a.p - 1.0), slot.theta)


cdef inline void update(const Mirror* a, MirrorSlot* slot, double x, bint penalised) noexcept nogil:
    slot.theta = shrink(slot.theta - a.eta * a.slope * x, a.eta * a.l1 if penalised else 0.0)
    slot.last = a.t + 2


cdef inline void sweep(Mirror* a, const Everyone* all) noexcept nogil:
    cdef MirrorSlot* slot
    cdef double total = 0.0
    cdef int64_t i
    a.top = 0.0
    for i in range(all.used):
        slot = <MirrorSlot*>nth(all, i)
        if a.exact and slot.theta != 0.0 and slot.last != a.t + 1:
            slot.theta = shrink(slot.theta, a.eta * a.l1)
        if fabs(slot.theta) > a.top:
            a.top = fabs(slot.theta)
    if a.top == 0.0:
        return
    for i in range(all.used):
        slot = <MirrorSlot*>nth(all, i)
        if slot.theta != 0.0:
            total += pow(fabs(slot.theta) / a.top, a.p)
    a.unit = a.top / pow(total, (a.p - 2.0) / a.p)


cdef inline void reading(
    const Mirror* a, const MirrorSlot* slot, bint penalised, Reading* out
) noexcept nogil:
    plain(out, weight(a, slot, penalised), a.l1 if penalised else 0.0)
