# The sparse online-to-batch conversion: (point, gradient, L, penalty) -> an exactly sparse weight.
from libc.math cimport fabs
from libc.stdint cimport int64_t
from streamlearn.engine.algorithms.reading cimport Reading
from streamlearn.engine.lazy cimport shrink
from streamlearn.engine.learn cimport AnyAlgorithm, Kernel
from streamlearn.engine.slots cimport Slots


cdef inline double converted(
    double point, double gradient, double smoothness, double penalty
) noexcept nogil:
    """argmin <g,w> + (L/2)(w - point)^2 + b|w|  =  S_{b/L}(point - g/L)"""
    return shrink(point - gradient / smoothness, penalty / smoothness)


cdef class Conversion:
    cdef Slots slots
    cdef char* bias
    cdef Kernel kernel
    cdef AnyAlgorithm* algorithm
    cdef int64_t offset              # where the algorithm's part of a slot begins
    cdef bint has_gradient           # False: no averaged gradient is kept
    cdef bint converts               # False: the point itself is served
    cdef bint at_last                # the point is the newest iterate, not the mean
    cdef double smoothness           # L; each coordinate has L * scale
    cdef double l2                   # the ridge
    # the recent rows' part in the averaged gradient, for the choice of L
    cdef int64_t from_age            # rows of these ages (0: the newest) are in it
    cdef int64_t to_age
    cdef bint grows                  # row weights are newest - age, else 1
    cdef double newest
    cdef double total                # sum of all row weights
    cdef int64_t t                   # examples learned
    cdef double cut                  # only coordinates stronger than this are kept

    cdef bytearray strengths(self)


cdef inline double weight_of(
    Conversion c, const Reading* reading, bint penalised
) noexcept nogil:
    """The weight handed out."""
    cdef double w = reading.last if c.at_last else reading.mean
    if c.converts:
        w = converted(w, reading.gradient, c.smoothness * reading.scale, reading.penalty)
    if penalised and c.cut > 0.0 and strength_of(c, reading, w) <= c.cut:
        return 0.0
    return w


cdef inline double strength_of(Conversion c, const Reading* reading, double w) noexcept nogil:
    """|L point - g| in units of the penalty; |w| where there is none."""
    cdef double point = reading.last if c.at_last else reading.mean
    if not c.converts or reading.penalty <= 0.0:
        return fabs(w)
    return fabs(c.smoothness * reading.scale * point - reading.gradient) / reading.penalty


cdef double strongest(bytearray strengths, int64_t count, double cut) except -1.0
