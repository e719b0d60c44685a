# Scorer: the weights of a model, found by id, and the dot product with each row of a block.
from libc.math cimport INFINITY, fabs
from libc.stdint cimport int64_t

from streamlearn.engine.block cimport Block
from streamlearn.engine.slots cimport Slots, fetch_cell, find

from streamlearn.errors import ModelError


cdef enum:
    AHEAD = 16                 # ids
    BRIEF = 512                # features


def is_sound(const int64_t[::1] ids, const double[::1] weights, double largest=INFINITY):
    """Whether each id has one weight, smaller than `largest` in size, and ids rise from 0 on."""
    cdef int64_t i, count = ids.shape[0], before = -1
    cdef bint sound = count == weights.shape[0]
    with nogil:
        for i in range(count if sound else 0):
            sound &= ids[i] > before and fabs(weights[i]) < largest
            before = ids[i]
    return sound


cdef class Scorer:
    """Predicts with sparse weights given as bytes (int64 ids, float64 weights)."""

    def __cinit__(self, ids, weights, double bias):
        cdef const int64_t[::1] id
        cdef const double[::1] w
        cdef int64_t i, count
        cdef Weighted* slot
        self.bias = bias
        self.slots = Slots(sizeof(Weighted))
        if not (ids or weights):
            return
        id, w = memoryview(ids).cast("q"), memoryview(weights).cast("d")
        count = id.shape[0]
        if not is_sound(id, w):
            raise ModelError("a model needs rising ids, none negative, each with a finite weight")
        self.slots.reserve(&id[0], count, id[count - 1], NULL)
        with nogil:
            for i in range(count):
                slot = <Weighted*>(self.slots.base + find(self.slots, id[i]) * sizeof(Weighted))
                slot.known = 1
                slot.w = w[i]

    def margins(self, Block block):
        """The margin of each row, as float64 bytes."""
        out = bytearray(8 * block.rows)
        cdef double* margin = <double*><char*>out
        if block.features < BRIEF:                 # to wait for the GIL would take longer
            self.score(block, margin)
        else:
            with nogil:
                self.score(block, margin)
        return out

    cdef void score(self, Block block, double* margin) noexcept nogil:
        cdef int64_t row, k, number
        cdef double total
        cdef const char* base = self.slots.base
        cdef int64_t last = -1 if self.slots.dense else block.features - AHEAD
        for row in range(block.rows):
            total = self.bias
            for k in range(block.offsets[row], block.offsets[row + 1]):
                if k < last:                       # the index of a large model is in no cache
                    fetch_cell(self.slots, block.ids[k + AHEAD])
                number = find(self.slots, block.ids[k])
                if number >= 0:
                    total += block.values[k] * (<const Weighted*>base)[number].w
            margin[row] = total
