# forward: tg, and fobos with steps of its own. Three words a coordinate; the last iterate.
#
# An untouched coordinate shrinks by (1 - eta_t l2) and loses eta_t l1 in size. With P the running
# product of the factors and Q the running sum of eta l1 / P, v = w/P only loses Q: one subtraction
# settles any gap. tg thresholds every K-th step, by K times as much, and only where |w| <= theta.
from libc.math cimport fabs
from libc.stdint cimport int64_t
from streamlearn.engine.algorithms.reading cimport Reading, plain
from streamlearn.engine.algorithms.schedule cimport rate
from streamlearn.engine.lazy cimport shrink

cdef struct ForwardSlot:
    int64_t last         # examples seen at the last touch, and one more
    double v             # w / P
    double Q             # Q of the time for which v is valid

cdef struct Forward:
    int64_t t            # examples learned
    double l1
    double l2
    double eta
    int steps            # which schedule
    int64_t every        # K
    double theta
    double P
    double Q
    # of the example in hand:
    double rate          # eta_t
    double P_next
    double move


cdef inline void begin(Forward* a) noexcept nogil:
    a.rate = rate(a.steps, a.eta, a.t + 1)
    a.P_next = a.P * (1.0 - a.rate * a.l2)


cdef inline double settled(const Forward* a, const ForwardSlot* slot) noexcept nogil:
    if fabs(slot.v) * a.P > a.theta:
        return slot.v
    return shrink(slot.v, a.Q - slot.Q)


cdef inline double read(const Forward* a, ForwardSlot* slot, bint penalised) noexcept nogil:
    if penalised:
        slot.v = settled(a, slot)
        slot.Q = a.Q
    return slot.v * a.P


cdef inline void step(Forward* a, double slope) noexcept nogil:
    a.move = -a.rate * slope / a.P_next


cdef inline void update(const Forward* a, ForwardSlot* slot, double x) noexcept nogil:
    # The threshold of this step is owed, like that of every step slept.
    slot.v += a.move * x
    slot.last = a.t + 2


cdef inline void end(Forward* a) noexcept nogil:
    a.t += 1
    a.P = a.P_next
    if a.t % a.every == 0:
        a.Q += a.rate * a.l1 * a.every / a.P


cdef inline bint due(const Forward* a) noexcept nogil:
    """P has become so small that v and Q might overflow; about never."""
    return a.P < 1e-100


cdef inline void turn(const Forward* a, ForwardSlot* slot, bint penalised) noexcept nogil:
    slot.v = (settled(a, slot) if penalised else slot.v) * a.P
    slot.Q = 0.0


cdef inline void turned(Forward* a) noexcept nogil:
    a.P = 1.0
    a.Q = 0.0


cdef inline void reading(
    const Forward* a, const ForwardSlot* slot, bint penalised, Reading* out
) noexcept nogil:
    if penalised:
        plain(out, settled(a, slot) * a.P, a.l1)
    else:
        plain(out, slot.v * a.P, 0.0)
