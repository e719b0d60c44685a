# Scorer: the weights of a model, found by id, and the dot product with each row of a block.
from libc.stdint cimport int64_t

from streamlearn.engine.block cimport Block
from streamlearn.engine.slots cimport Slots, find

from streamlearn.errors import ModelError


cdef class Scorer:
    """Predicts with sparse weights given as bytes (int64 ids, float64 weights)."""

    def __cinit__(self, ids, weights, double bias):
        cdef const int64_t[::1] id
        cdef const double[::1] w
        cdef int64_t i, count = len(ids) // 8
        cdef Weighted* slot
        if len(ids) != len(weights) or len(ids) % 8:
            raise ModelError("a model needs as many weights as ids")
        self.bias = bias
        self.slots = Slots(sizeof(Weighted))
        if count == 0:
            return
        id = memoryview(ids).cast("q")
        w = memoryview(weights).cast("d")
        if min(id) < 0:
            raise ModelError("a model holds a negative feature id")
        self.slots.reserve(&id[0], count, max(id))
        for i in range(count):
            slot = <Weighted*>(self.slots.base + find(self.slots, id[i]) * sizeof(Weighted))
            slot.known = 1
            slot.w = w[i]

    def margins(self, Block block):
        """The margin of each row, as float64 bytes."""
        out = bytearray(8 * block.rows)
        cdef double* margin = <double*><char*>out
        cdef int64_t row, k, number
        cdef double total
        cdef const char* base = self.slots.base
        with nogil:
            for row in range(block.rows):
                total = self.bias
                for k in range(block.offsets[row], block.offsets[row + 1]):
                    number = find(self.slots, block.ids[k])
                    if number >= 0:
                        total += block.values[k] * (<const Weighted*>base)[number].w
                margin[row] = total
        return out
