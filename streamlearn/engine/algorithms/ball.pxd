# ball: SGD projected on the l1 ball after each step (Duchi et al.). Two words a coordinate.
#
#     w <- Pi(w - eta_t g),  Pi(v) = S_c(v) with the c that makes |S_c(v)|_1 = radius
#
# A projection moves every non-zero weight: O(features seen) an example.
from libc.math cimport fabs
from libc.stdint cimport int64_t
from streamlearn.engine.algorithms.everyone cimport Everyone, nth
from streamlearn.engine.algorithms.reading cimport Reading, plain
from streamlearn.engine.algorithms.schedule cimport rate
from streamlearn.engine.lazy cimport shrink

cdef struct BallSlot:
    int64_t last         # examples seen at the last touch, and one more
    double w

cdef struct Ball:
    int64_t t            # examples learned
    double radius
    double eta
    int steps            # which schedule
    double move          # of the example in hand


cdef inline void step(Ball* a, double slope) noexcept nogil:
    a.move = -slope * rate(a.steps, a.eta, a.t + 1)


cdef inline void update(const Ball* a, BallSlot* slot, double x) noexcept nogil:
    slot.w += a.move * x
    slot.last = a.t + 2


cdef inline double ball_threshold(const Everyone* all, double budget) noexcept nogil:
    """The c with sum of (|v| - c)_+ = budget over the second words of slots; 0 inside the ball.

    Michelot's descent: those at or below the c of a round drop out, c only rises, and it stops at
    the answer.
    """
    cdef double c = 0.0, total, size
    cdef int64_t i, count
    while True:
        total = 0.0
        count = 0
        for i in range(all.used):
            size = fabs((<const BallSlot*>nth(all, i)).w)
            if size > c:
                total += size
                count += 1
        if count == 0 or (c == 0.0 and total <= budget):
            return c
        total = (total - budget) / count
        if total <= c:
            return c
        c = total


cdef inline void sweep(const Ball* a, const Everyone* all) noexcept nogil:
    cdef double c = ball_threshold(all, a.radius)
    cdef BallSlot* slot
    cdef int64_t i
    if c > 0.0:
        for i in range(all.used):
            slot = <BallSlot*>nth(all, i)
            slot.w = shrink(slot.w, c)


cdef inline void reading(
    const Ball* a, const BallSlot* slot, bint penalised, Reading* out
) noexcept nogil:
    plain(out, slot.w, 0.0)
