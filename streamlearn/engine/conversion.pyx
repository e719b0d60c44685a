# The strengths of weights, and the cut that leaves so many of them.
# A pure read: slots are looked at through `reading`, which settles a copy.
from libc.stdint cimport int64_t
from libc.stdlib cimport qsort

from streamlearn.engine.algorithms.reading cimport Reading
from streamlearn.engine.slots cimport touched


cdef int falling(const void* a, const void* b) noexcept nogil:
    cdef double x = (<const double*>a)[0], y = (<const double*>b)[0]
    return (x < y) - (x > y)


cdef double strongest(bytearray strengths, int64_t count, double cut) except -1.0:
    """The cut that leaves at most `count` of the strengths above it; ties fall together."""
    cdef double* sorted = <double*><char*>strengths
    cdef int64_t n = len(strengths) // 8
    if n <= count:
        return cut
    qsort(sorted, <size_t>n, 8, falling)
    return sorted[count]


cdef class Conversion:
    """One snapshot in the making."""

    cdef bytearray strengths(self):
        """The strength of every weight that is not zero, as float64 bytes."""
        found = bytearray(8 * self.slots.used)
        cdef double* strengths = <double*><char*>found
        cdef Reading reading
        cdef double w
        cdef int64_t i, n = 0
        cdef char* slot
        with nogil:
            for i in range(self.slots.used):
                slot = self.slots.base + i * self.slots.size
                if touched(slot):
                    self.kernel.read(self.algorithm, slot + self.offset, True, &reading)
                    w = weight_of(self, &reading, True)
                    if w != 0.0:
                        strengths[n] = strength_of(self, &reading, w)
                        n += 1
        del found[8 * n:]
        return found
