# Schedule: time, step size and ridge of SGD with steps 1/(l2 (t + t0)), in the variable u = n w.
# Shared by sgd, linear and suffix; says nothing of averages. Also the steps of forward and ball.
from libc.stdint cimport int64_t
from streamlearn.engine.lazy cimport shrink
from libc.math cimport copysign, sqrt

cdef enum Steps:
    CONSTANT = 0         # eta
    ROOT = 1             # eta / sqrt(t)
    INVERSE = 2          # eta / t


cdef inline double rate(int steps, double eta, int64_t t) noexcept nogil:
    """The step size at example t = 1, 2, ..."""
    if steps == CONSTANT:
        return eta
    return eta / sqrt(<double>t) if steps == ROOT else eta / t


cdef struct Schedule:
    int64_t t            # examples learned
    double t0
    double l2
    double c             # l1 / l2
    double curvature     # kappa of the loss
    bint subgradient     # False: clip at zero
    bint capped          # shorten the steps that would overshoot
    # of the example in hand:
    double n             # t - 1 + t0, the divisor of u_t
    double norm          # |x|^2, bias included
    double slope         # importance * loss'
    double move          # what u moves by for each unit of x


cdef inline void open_step(Schedule* s, double norm) noexcept nogil:
    s.n = s.t + s.t0
    s.norm = norm


cdef inline double scaled_margin(Schedule* s, double total) noexcept nogil:
    """w = u/n; at n = 0 (the first example with t0 = 0) w is 0."""
    return total / s.n if s.n > 0.0 else 0.0


cdef inline void take_slope(Schedule* s, double slope, double importance) noexcept nogil:
    # cap: m = min(1, l2 (t + t0) / (kappa |x|^2)); the step past the minimum along x is cut there.
    cdef double bend = s.curvature * importance * s.norm
    cdef double room = s.l2 * (s.n + 1.0)
    s.slope = slope
    s.move = -slope / s.l2
    if s.capped and bend > room:
        s.move *= room / bend


cdef inline double stepped(Schedule* s, double u, double x, bint penalised) noexcept nogil:
    """u_{t+1} = S_c(u_t - g/l2), or u_t - g/l2 - c sgn(u_t) for the plain subgradient"""
    if not penalised:
        return u + s.move * x
    if s.subgradient:
        return u + s.move * x - (copysign(s.c, u) if u != 0.0 else 0.0)
    return shrink(u + s.move * x, s.c)


cdef inline void close_step(Schedule* s) noexcept nogil:
    s.t += 1
