# orda: optimal dual averaging (ORDA) and its forerunner SSG. Three words a coordinate; serves x.
#
# Three sequences: z averages dually (ORDA: from the weighted gradient sum G; SSG: by gradient
# mapping), y mixes x and z and predicts, x is a proximal step from y.
#     theta = 2/(k+2), nu = 2/(k+1), kappa = theta nu, M = l2/theta^2 + Gamma
#     y = [(1-theta)(l2 + theta^2 Gamma) x + (theta (1-theta) l2 + theta^3 Gamma) z]
#         / [theta^2 Gamma + (1 - theta^2) l2]
#     x' = S_{l1/M}((1 - l2/M) y - g/M)
#     ORDA: G' = G + g/nu,  z' = -S_l1(kappa G') / (l2 + kappa Gamma)
#     SSG:  z' = (1 - r) z + r y - (y - x')/theta,  r = theta l2 / (l2 + theta^2 Gamma)
#
# x and z of every feature move at each example. ORDA settles that when a feature is next seen: G is
# fixed asleep, the mix is (1 - l2/M) y = (1-theta) x + (theta - l2/M) z whatever Gamma, and the
# factors 1 - theta = k/(k+2) telescope, so that v = k (k+1) x only gains and loses:
#     v' = S_{l1 (k+1)(k+2)/M}(v + (k+1)(k+2)(theta - l2/M) z)
# SSG cannot: its z depends on every x before it, and so each example costs O(features seen).
from libc.math cimport ceil, fabs, fmax, sqrt
from libc.stdint cimport int64_t
from streamlearn.engine.algorithms.everyone cimport Everyone, nth
from streamlearn.engine.algorithms.reading cimport Reading, plain
from streamlearn.engine.lazy cimport shrink, smooth_sum

cdef struct OrdaSlot:
    int64_t last         # the time for which x is valid, and one more
    double x
    double G             # ORDA: sum of g/nu; SSG: z itself

cdef struct Orda:
    int64_t t            # examples learned: k of the example in hand
    double l1
    double l2
    double Gamma
    bint ssg
    # of the example in hand:
    double theta
    double of_x          # y = of_x x + of_z z
    double of_z
    double kappa_before  # z = -S_l1(kappa_before G) * z_scale
    double z_scale
    double M
    double slope

# What moves a sleeping v, seen from the side that z is on.
cdef struct Pull:
    double l2
    double Gamma
    double G             # |G|, or 0 once z is 0 for good
    double fade          # l1 in z, or 0 then
    double drop          # l1 in x: -l1 where v is on the other side


cdef inline void begin(Orda* a) noexcept nogil:
    cdef double k = a.t, theta = 2.0 / (k + 2.0), square = theta * theta
    cdef double under = square * a.Gamma + (1.0 - square) * a.l2
    a.theta = theta
    a.of_x = a.of_z = 0.0
    if under > 0.0:
        a.of_x = (1.0 - theta) * (a.l2 + square * a.Gamma) / under
        a.of_z = (theta * (1.0 - theta) * a.l2 + square * theta * a.Gamma) / under
    a.kappa_before = 4.0 / (k * (k + 1.0)) if a.t else 0.0
    a.z_scale = 1.0 / (a.l2 + a.kappa_before * a.Gamma)
    a.M = a.l2 / square + a.Gamma


# ---- asleep --------------------------------------------------------------------------------------

cdef inline double gain(const void* of, double k) noexcept nogil:
    """(k+1)(k+2) [(theta - l2/M) |z| - drop/M], |z| = (|G| - fade/kappa)/(l2/kappa + Gamma)"""
    cdef const Pull* p = <const Pull*>of
    cdef double q = 0.25 * p.l2, kk = k * (k + 1.0)
    cdef double z = (p.G - 0.25 * p.fade * kk) / (q * kk + p.Gamma)
    return (k + 1.0) / (q * (k + 2.0) * (k + 2.0) + p.Gamma) * (
        2.0 * (q * k * (k + 2.0) + p.Gamma) * z - p.drop * (k + 2.0)
    )


cdef inline double gains(const Pull* p, int64_t first, int64_t stop) noexcept nogil:
    """Their sum; the poles, at -2 and -1/2 plus or minus i sqrt(4 Gamma/l2), are never near."""
    return smooth_sum(gain, p, first, stop, 4.0 * (p.Gamma / p.l2))


cdef inline int64_t z_ends(const Orda* a, double G, int64_t first, int64_t stop) noexcept nogil:
    """The first k from which z is 0 for good: l1 k (k+1)/4 >= |G|; within first .. stop."""
    cdef double k = stop
    if 0.25 * a.l1 * k * (k + 1.0) <= G:
        return stop
    k = ceil(0.5 * (sqrt(1.0 + 16.0 * (G / a.l1)) - 1.0))
    return first if k <= first else stop if k >= stop else <int64_t>k


cdef inline double rise(Pull* p, double v, int64_t first, int64_t stop) noexcept nogil:
    """v after the examples first .. stop-1 while z pulls it up, from either side of 0"""
    cdef double l1 = p.drop, reached
    cdef int64_t low = first, high = stop, k
    if v < 0.0:
        p.drop = -l1
        reached = v + gains(p, first, stop)
        if reached < 0.0:
            return reached
        while high - low > 1:            # v_low < 0 <= v_high
            k = low + (high - low) // 2
            if v + gains(p, first, k) < 0.0:
                low = k
            else:
                high = k
        v += gains(p, first, low)
        p.drop = l1
        v = fmax(v + gain(p, low), 0.0)  # the step that meets 0 or crosses it
        first = low + 1
    # A gain below 0 is followed by such only (k >= 1): up, then down, and v that met 0 stays there.
    return fmax(v + gains(p, first, stop), 0.0)


cdef inline void settle(const Orda* a, OrdaSlot* slot, int64_t now) noexcept nogil:
    """Bring x to the time now; G has not changed since."""
    cdef int64_t first = slot.last - 1, end
    cdef double side = -1.0 if slot.G > 0.0 else 1.0, v
    cdef Pull pull
    slot.last = now + 1
    if first >= now or (slot.x == 0.0 and slot.G == 0.0):
        return
    pull.l2, pull.Gamma = a.l2, a.Gamma
    pull.G, pull.fade, pull.drop = fabs(slot.G), a.l1, a.l1
    v = side * slot.x * first * (first + 1.0)
    end = z_ends(a, pull.G, first, now)
    if end > first:
        v = rise(&pull, v, first, end)
    if end < now:
        pull.G = pull.fade = 0.0
        pull.drop = a.l1
        v = shrink(v, -gains(&pull, end, now))
    slot.x = side * v / (now * (now + 1.0))


# ---- an example ----------------------------------------------------------------------------------

cdef inline double mixed(const Orda* a, const OrdaSlot* slot, bint penalised) noexcept nogil:
    """y of a coordinate"""
    cdef double z = slot.G
    if not a.ssg:
        z = -shrink(a.kappa_before * slot.G, a.l1 if penalised else 0.0) * a.z_scale
    return a.of_x * slot.x + a.of_z * z


cdef inline double read(const Orda* a, OrdaSlot* slot, bint penalised) noexcept nogil:
    if not a.ssg:
        settle(a, slot, a.t)
    return mixed(a, slot, penalised)


cdef inline void advance(const Orda* a, OrdaSlot* slot, double g, bint penalised) noexcept nogil:
    cdef double y = mixed(a, slot, penalised), pull
    slot.x = shrink((1.0 - a.l2 / a.M) * y - g / a.M, a.l1 / a.M if penalised else 0.0)
    if a.ssg:
        pull = a.theta * a.l2 / (a.l2 + a.theta * a.theta * a.Gamma)
        slot.G = (1.0 - pull) * slot.G + pull * y - (y - slot.x) / a.theta
    else:
        slot.G += 0.5 * g * (a.t + 1.0)


cdef inline void update(const Orda* a, OrdaSlot* slot, double x, bint penalised) noexcept nogil:
    advance(a, slot, a.slope * x, penalised)
    slot.last = a.t + 2


cdef inline void sweep(const Orda* a, const Everyone* all) noexcept nogil:
    """SSG, after the example, t already advanced: the features that were not in it move too."""
    cdef OrdaSlot* slot
    cdef Orda before = a[0]
    cdef int64_t i
    before.t -= 1
    for i in range(all.used):
        slot = <OrdaSlot*>nth(all, i)
        if slot.last and slot.last != a.t + 1 and (slot.x != 0.0 or slot.G != 0.0):
            advance(&before, slot, 0.0, True)


cdef inline void reading(
    const Orda* a, const OrdaSlot* slot, bint penalised, Reading* out
) noexcept nogil:
    cdef OrdaSlot copy = slot[0]
    if not a.ssg:
        settle(a, &copy, a.t)
    plain(out, copy.x, a.l1 if penalised else 0.0)
