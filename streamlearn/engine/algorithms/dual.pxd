# dual: regularised dual averaging. The weight is a function of S = sum of g and of t alone, so that
# nothing has to be caught up. Two words a coordinate; the newest iterate. Or three, and the mean of
# all iterates (l1 and l1l2 only): while S sleeps, |w| is smooth in t until it meets 0 for good.
#
#     w = -S_threshold(S) * scale, clipped at bound:
#     l1       threshold l1 t + gamma enhanced sqrt(t)   scale 1/(gamma sqrt t)
#     l1l2     threshold l1 t                            scale 1/(l2 t + damping)
#     box      0                                         1/(gamma sqrt t), |w| <= radius
#     l2ball   0                                         min(1/(gamma sqrt t), radius/|S|)
#     l1ball   the one that makes |w|_1 <= radius        1/(gamma sqrt t)
#     kl       w = radius exp(-S/(gamma t)) / Z over the features seen
#
# l1ball and kl look at every feature after each example: O(features seen), not O(non-zeros).
from libc.math cimport ceil, copysign, exp, fabs, fmax, log, log1p, sqrt
from libc.stdint cimport int64_t
from streamlearn.engine.algorithms.ball cimport ball_threshold
from streamlearn.engine.algorithms.everyone cimport BEYOND, Everyone, nth
from streamlearn.engine.algorithms.reading cimport Reading, plain
from streamlearn.engine.lazy cimport shrink, smooth_sum

cdef enum Regularizer:
    L1 = 0
    L1L2 = 1
    BOX = 2
    L2BALL = 3
    L1BALL = 4
    KL = 5

cdef struct DualSlot:
    int64_t last         # examples seen at the last touch, and one more
    double S             # sum of g
    double A             # sum of w before the last touch; only there when the mean is served

cdef struct Dual:
    int64_t t            # examples learned
    int64_t kind         # a Regularizer
    bint averages        # whether slots have their third word
    double l1
    double l2
    double gamma
    double enhanced
    double damping
    double radius
    double squares       # |S|^2 over the features, kept by increments
    double peak          # the largest it was since it was summed afresh
    double log_total     # kl: log of the sum of exp(-S/(gamma t)) over the features seen
    # what a weight is made of now:
    double threshold
    double scale
    double bias_scale
    double bound
    double slope         # of the example in hand

cdef struct Asleep:
    const Dual* of
    double S             # |S|


cdef inline void refresh(Dual* a) noexcept nogil:
    """Threshold and scale for the time t; l1ball sets its threshold after this."""
    cdef double root = a.gamma * sqrt(<double>a.t)
    a.threshold = 0.0
    a.bound = BEYOND
    a.scale = a.bias_scale = 1.0 / root if a.t else 0.0
    if a.t == 0:
        return
    if a.kind == L1:
        a.threshold = a.l1 * a.t + a.enhanced * root
    elif a.kind == L1L2:
        a.threshold = a.l1 * a.t
        a.scale = a.l2 * a.t + a.damping
        a.scale = a.bias_scale = 1.0 / a.scale if a.scale > 0.0 else 0.0
    elif a.kind == BOX:
        a.bound = a.radius
    elif a.kind == L2BALL and a.squares * a.scale * a.scale > a.radius * a.radius:
        a.scale = a.radius / sqrt(a.squares)


cdef inline double weight(const Dual* a, const DualSlot* slot, bint penalised) noexcept nogil:
    cdef double w
    if not penalised:
        return -slot.S * a.bias_scale
    if a.kind == KL:
        w = -slot.S / (a.gamma * a.t) if a.t else 0.0
        return a.radius * exp(w - a.log_total)
    w = -shrink(slot.S, a.threshold) * a.scale
    if fabs(w) > a.bound:
        return a.bound if w > 0.0 else -a.bound
    return w


cdef inline void join(Dual* a, DualSlot* slot) noexcept nogil:
    """kl only: a new feature joins the simplex before it is read."""
    if slot.last <= 0:
        slot.last = 1
        # log(e^total + 1), without overflow
        a.log_total = fmax(a.log_total, 0.0) + log1p(exp(-fabs(a.log_total)))


cdef inline double size_at(const void* of, double t) noexcept nogil:
    """|w| of the time t before it meets 0"""
    cdef const Asleep* p = <const Asleep*>of
    cdef const Dual* a = p.of
    if a.kind == L1:
        return (p.S / sqrt(t) - a.l1 * sqrt(t)) / a.gamma - a.enhanced
    return (p.S - a.l1 * t) / (a.l2 * t + a.damping)


cdef inline double asleep(const Dual* a, const DualSlot* slot) noexcept nogil:
    """sum of w over the times from the last touch to t - 1, l1 and l1l2"""
    cdef Asleep p
    cdef double extra = a.gamma * a.enhanced if a.kind == L1 else 0.0, root, R = 0.0
    cdef int64_t first = slot.last - 1, stop = a.t
    if first >= stop or slot.S == 0.0 or a.scale == 0.0:
        return 0.0
    p.of, p.S = a, fabs(slot.S)
    # |S| = l1 t + extra sqrt(t) at the time when w meets 0
    root = 2.0 * p.S / (extra + sqrt(extra * extra + 4.0 * a.l1 * p.S))
    if root * root < stop:
        stop = <int64_t>ceil(root * root)
    if a.kind == L1L2:
        R = (a.damping / a.l2) ** 2      # the pole is at -damping/l2
    return -copysign(smooth_sum(size_at, &p, first, stop, R), slot.S)


cdef inline bint prepares(const Dual* a) noexcept nogil:
    return a.averages or a.kind == KL


cdef inline void prepare(Dual* a, DualSlot* slot, bint penalised) noexcept nogil:
    """A pass of its own: within update it would slow those that do not average by 40 %."""
    if a.averages:
        slot.A += asleep(a, slot) + weight(a, slot, penalised)
    elif penalised:
        join(a, slot)


cdef inline void update(Dual* a, DualSlot* slot, double x, bint penalised) noexcept nogil:
    cdef double g = a.slope * x
    if penalised:
        a.squares += g * (2.0 * slot.S + g)
    slot.S += g
    slot.last = a.t + 2


cdef inline void end(Dual* a) noexcept nogil:
    a.t += 1
    refresh(a)


cdef inline void sweep(Dual* a, const Everyone* all) noexcept nogil:
    if a.kind == KL:
        log_sum(a, all)
    elif a.kind == L2BALL:
        sum_squares(a, all)
    elif a.kind == L1BALL:
        a.threshold = ball_threshold(all, a.radius / a.scale)


cdef inline void sum_squares(Dual* a, const Everyone* all) noexcept nogil:
    """Sum |S|^2 afresh when increments have cancelled so far that 1e-10 is in doubt; rarely."""
    cdef int64_t i
    if a.squares > a.peak:
        a.peak = a.squares
    if a.squares >= 1e-6 * a.peak:
        return
    a.squares = 0.0
    for i in range(all.used):
        a.squares += (<const DualSlot*>nth(all, i)).S ** 2
    a.peak = a.squares
    refresh(a)


cdef inline void log_sum(Dual* a, const Everyone* all) noexcept nogil:
    """log of the sum of exp(-S/(gamma t)), by the largest term so that nothing overflows"""
    cdef const DualSlot* slot
    cdef double top = -BEYOND, total = 0.0, unit = 1.0 / (a.gamma * a.t)
    cdef int64_t i
    for i in range(all.used):
        slot = <const DualSlot*>nth(all, i)
        if slot.last > 0 and -slot.S * unit > top:
            top = -slot.S * unit
    for i in range(all.used):
        slot = <const DualSlot*>nth(all, i)
        if slot.last > 0:
            total += exp(-slot.S * unit - top)
    a.log_total = top + log(total) if total > 0.0 else -BEYOND


cdef inline void reading(
    const Dual* a, const DualSlot* slot, bint penalised, Reading* out
) noexcept nogil:
    plain(out, weight(a, slot, penalised), a.l1 if penalised and a.kind <= L1L2 else 0.0)
    if a.averages and a.t:
        out.mean = (slot.A + asleep(a, slot)) / a.t
