# A loss is a scalar function of margin and label, with its slope; knows no features.
from libc.math cimport exp, fabs, log1p

# value and slope (derivative in the margin) at once: they share the exponential.
ctypedef void (*Loss)(double margin, double y, double* value, double* slope) noexcept nogil


cdef inline void logistic(double margin, double y, double* value, double* slope) noexcept nogil:
    """log(1 + exp(-ym)); exp only of a negative number, so nothing overflows."""
    cdef double z = y * margin
    cdef double e = exp(-fabs(z))
    if z > 0.0:
        value[0] = log1p(e)
        slope[0] = -y * e / (1.0 + e)
    else:
        value[0] = log1p(e) - z
        slope[0] = -y / (1.0 + e)


cdef inline void squared(double margin, double y, double* value, double* slope) noexcept nogil:
    """(m - y)^2 / 2"""
    cdef double r = margin - y
    value[0] = 0.5 * r * r
    slope[0] = r


cdef inline void hinge(double margin, double y, double* value, double* slope) noexcept nogil:
    """max(0, 1 - ym)"""
    cdef double z = 1.0 - y * margin
    value[0] = z if z > 0.0 else 0.0
    slope[0] = -y if z > 0.0 else 0.0


cdef inline void squared_hinge(
    double margin, double y, double* value, double* slope
) noexcept nogil:
    """max(0, 1 - ym)^2 / 2"""
    cdef double z = 1.0 - y * margin
    if z < 0.0:
        z = 0.0
    value[0] = 0.5 * z * z
    slope[0] = -y * z


cdef Loss loss_named(str name) except NULL
cdef double curvature(str name) except -1.0
