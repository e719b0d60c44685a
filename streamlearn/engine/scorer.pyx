# Scorer: the weights of a model, found by id, and the dot product with each row of a block.
#
# The weights stay where they are, by rising id. Where an id's weight lies is told by a bit for each
# id there may be and, for each 64 of them, the number of weights below: 16 bytes, one look, and for
# millions of weights still in the cache. Where ids are so thin that this would take more memory
# than a hash table, that is it.
from libc.math cimport INFINITY, fabs
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free

from streamlearn.engine.block cimport Block
from streamlearn.engine.slots cimport Slots, fetch_cell, find, streamlearn_fetch

from streamlearn.errors import ModelError

cdef enum:
    AHEAD = 16                 # features whose weights are being fetched; a power of two
    FARTHER = 32               # ... and whose cells of the hash table are
    BRIEF = 512                # features
    THIN = 256                 # ids a weight, beyond which they are hashed: classes may be many
    SMALL = 1 << 20            # ... but not below this id: there Slots has a place for every id


def is_sound(const int64_t[::1] ids, const double[::1] weights, double largest=INFINITY):
    """Whether each id has one weight, smaller than `largest` in size, and ids rise from 0 on."""
    cdef int64_t i, count = ids.shape[0], before = -1
    cdef bint sound = count == weights.shape[0]
    with nogil:
        for i in range(count if sound else 0):
            sound &= ids[i] > before and fabs(weights[i]) < largest
            before = ids[i]
    return sound


cdef inline int64_t ones(uint64_t x) noexcept nogil:
    """How many bits are set: of pairs, of fours, of bytes, and the sum of the bytes."""
    x -= (x >> 1) & <uint64_t>0x5555555555555555
    x = (x & <uint64_t>0x3333333333333333) + ((x >> 2) & <uint64_t>0x3333333333333333)
    x = (x + (x >> 4)) & <uint64_t>0x0F0F0F0F0F0F0F0F
    return <int64_t>((x * <uint64_t>0x0101010101010101) >> 56)


cdef class Scorer:
    """Predicts with sparse weights given as bytes (int64 ids, float64 weights)."""

    def __cinit__(self, ids, weights, double bias):
        cdef const int64_t[::1] id
        cdef int64_t count
        self.bias = bias
        self.top = -1
        if not (ids or weights):
            return
        id, self.weights = memoryview(ids).cast("q"), memoryview(weights).cast("d")
        count = id.shape[0]
        if not is_sound(id, self.weights):
            raise ModelError("a model needs rising ids, none negative, each with a finite weight")
        self.top = id[count - 1]
        if self.top < SMALL or self.top // THIN < count:
            self.stretches = <Stretch*>calloc(<size_t>(self.top // 64 + 1), sizeof(Stretch))
            if self.stretches == NULL:
                raise MemoryError("no memory for the index of a model")
            with nogil:
                self.mark(&id[0], count)
        else:
            self.slots = Slots(8)       # numbers are given as ids come: the places of their weights
            self.slots.reserve(&id[0], count, self.top, NULL)

    def __dealloc__(self):
        free(self.stretches)

    cdef void mark(self, const int64_t* ids, int64_t count) noexcept nogil:
        """A bit for each id, and all counts."""
        cdef int64_t i, n = 0
        for i in range(count):
            self.stretches[ids[i] >> 6].known |= <uint64_t>1 << (ids[i] & 63)
        for i in range(self.top // 64 + 1):
            self.stretches[i].before = n
            n += ones(self.stretches[i].known)

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

    cdef int64_t place(self, int64_t id) noexcept nogil:
        """Where the weight of an id is, or -1."""
        cdef const Stretch* here
        cdef uint64_t bit
        if id > self.top:
            return -1
        if self.stretches == NULL:
            return find(self.slots, id)
        here = &self.stretches[id >> 6]
        bit = <uint64_t>1 << (id & 63)
        return here.before + ones(here.known & (bit - 1)) if here.known & bit else -1

    cdef void score(self, Block block, double* margin) noexcept nogil:
        cdef const double* weights
        cdef const int64_t* ids = block.ids
        cdef int64_t[AHEAD] places                 # of the features at hand and those ahead
        cdef int64_t row, k, number, stop = block.features
        cdef double total
        if self.top < 0:
            for row in range(block.rows):
                margin[row] = self.bias
            return
        weights = &self.weights[0]
        for k in range(min(AHEAD, stop)):
            places[k] = self.place(ids[k])
        for row in range(block.rows):
            total = self.bias
            for k in range(block.offsets[row], block.offsets[row + 1]):
                number = places[k & (AHEAD - 1)]
                if k + AHEAD < stop:
                    places[k & (AHEAD - 1)] = self.place(ids[k + AHEAD])
                    streamlearn_fetch(&weights[places[k & (AHEAD - 1)]])  # -1 does no harm
                    if self.stretches == NULL and k + FARTHER < stop:
                        fetch_cell(self.slots, ids[k + FARTHER])
                if number >= 0:
                    total += block.values[k] * weights[number]
            margin[row] = total
