# Scorer: margins of blocks under a fixed sparse model. Learns nothing.
from libc.stdint cimport int64_t
from streamlearn.engine.block cimport Block
from streamlearn.engine.slots cimport Slots

cdef struct Weighted:
    int64_t known        # 1 where the model has a weight
    double w

cdef class Scorer:
    cdef Slots slots
    cdef double bias

    cdef void score(self, Block block, double* margin) noexcept nogil
