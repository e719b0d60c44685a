# Contest: which classes there are, and progressive validation of the one with the largest margin.
from libc.stdint cimport int64_t
from streamlearn.engine.block cimport Block
from streamlearn.engine.learn cimport Progress
from streamlearn.engine.libsvm cimport LabelRule
from streamlearn.engine.loss cimport Loss

# A row, while the classes show their margins of it one after the other.
cdef struct Bout:
    double best                  # the largest margin so far
    double winner                # the class that has it
    double loss                  # sum of the losses of each class against the rest
    int64_t rivals               # classes so far

cdef class Contest:
    cdef LabelRule known
    cdef readonly dict first     # class: examples taken in before its first one; -1: declared
    cdef Progress tally
    cdef bytearray labels        # of rows that wait to be judged, as float64
    cdef bytearray weights
    cdef Bout* bouts
    cdef Loss loss
    cdef double zero_loss

    cdef int64_t waiting(self) noexcept
    cdef list meet(self, Block block, int64_t rows)
    cdef int begin(self, int64_t rows) except -1
    cdef int enter(self, double label, const double* margins, int64_t rows) except -1
    cdef int finish(self, int64_t rows) except -1
