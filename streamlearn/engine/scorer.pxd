# Scorer: margins of blocks under a fixed sparse model. Learns nothing.
from libc.stdint cimport int64_t, uint64_t
from streamlearn.engine.block cimport Block
from streamlearn.engine.slots cimport Slots

# 64 ids: which of them have a weight, and how many weights the ids below them have.
cdef struct Stretch:
    uint64_t known
    int64_t before

cdef class Scorer:
    cdef double bias
    cdef const double[::1] weights   # the model's own, by rising id
    cdef int64_t top                 # no id of theirs is larger; -1: there are none
    # one of these two tells the place of an id's weight:
    cdef Stretch* stretches
    cdef Slots slots

    cdef void mark(self, const int64_t* ids, int64_t count) noexcept nogil
    cdef int64_t place(self, int64_t id) noexcept nogil
    cdef void score(self, Block block, double* margin) noexcept nogil
