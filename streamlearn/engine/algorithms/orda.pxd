# orda: optimal dual averaging (ORDA) and its forerunner SSG. Three words a coordinate; serves x.
#
# Three sequences: z averages dually (ORDA: from the weighted gradient sum G; SSG: by gradient
# mapping), y mixes x and z and predicts, x is a proximal step from y. x and z of every feature move
# at each example: O(features seen), not O(non-zeros).
#     theta = 2/(k+2), nu = 2/(k+1), kappa = theta nu, M = l2/theta^2 + Gamma
#     y = [(1-theta)(l2 + theta^2 Gamma) x + (theta (1-theta) l2 + theta^3 Gamma) z]
#         / [theta^2 Gamma + (1 - theta^2) l2]
#     x' = S_{l1/M}((1 - l2/M) y - g/M)
#     ORDA: G' = G + g/nu,  z' = -S_l1(kappa G') / (l2 + kappa Gamma)
#     SSG:  z' = (1 - r) z + r y - (y - x')/theta,  r = theta l2 / (l2 + theta^2 Gamma)
from libc.stdint cimport int64_t
from streamlearn.engine.algorithms.everyone cimport Everyone, nth
from streamlearn.engine.algorithms.reading cimport Reading, plain
from streamlearn.engine.lazy cimport shrink

cdef struct OrdaSlot:
    int64_t last         # examples seen at the last touch, and one more
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


cdef inline double mixed(const Orda* a, const OrdaSlot* slot, bint penalised) noexcept nogil:
    """y of a coordinate"""
    cdef double z = slot.G
    if not a.ssg:
        z = -shrink(a.kappa_before * slot.G, a.l1 if penalised else 0.0) * a.z_scale
    return a.of_x * slot.x + a.of_z * z


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
    """After the example, t already advanced: the features that were not in it move too."""
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
    plain(out, slot.x, a.l1 if penalised else 0.0)
