# Columns: a block turned by counting sort, O(non-zeros) and one sort of the distinct ids. Costs
# 24 bytes a non-zero beside the block, 16 bytes a row where there is a bias.
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from streamlearn.engine.block cimport Block
from streamlearn.engine.slots cimport Slots, find, id_in_order, slot_in_order, touched

cdef enum:
    SIZE = 16                    # of a slot while ids are numbered: {touched, column}


cdef void* allocated(int64_t count) except NULL:
    """Zeroed memory for this many words, and for one when there is none."""
    cdef void* new = calloc(<size_t>max(count, 1), 8)
    if new == NULL:
        raise MemoryError(f"no memory for {count} numbers; a method that sees all examples at "
                          "once holds them all")
    return new


cdef class Columns:
    """The examples of a block by column."""

    def __cinit__(self, Block block, bint bias):
        self.block = block
        self.numbers = <int64_t*>allocated(block.features)
        self.number()
        # A bias that no example has is no coordinate.
        self.count = self.features + (bias and block.rows > 0)
        self.turn()

    def __dealloc__(self):
        free(self.ids)
        free(self.numbers)
        free(self.offsets)
        free(self.rows)
        free(self.values)

    @property
    def bytes(self):
        """Memory held beside the block."""
        return 16 * self.count + 8 * self.block.features + 16 * self.offsets[self.count]

    cdef int number(self) except -1:
        """Give every id that occurs a column, in the order of the ids."""
        cdef Slots slots = Slots(SIZE)
        cdef Block block = self.block
        cdef int64_t row, k, top, i, n = 0
        cdef int64_t* slot
        for row in range(block.rows):        # row by row, so that the index sees what is touched
            top = -1
            for k in range(block.offsets[row], block.offsets[row + 1]):
                top = max(top, block.ids[k])
            slots.reserve(block.ids + block.offsets[row],
                          block.offsets[row + 1] - block.offsets[row], top, NULL)
            for k in range(block.offsets[row], block.offsets[row + 1]):
                slot = <int64_t*>(slots.base + find(slots, block.ids[k]) * SIZE)
                self.features += slot[0] == 0
                slot[0] = 1
        self.ids = <int64_t*>allocated(self.features)
        slots.sort()
        with nogil:
            for i in range(slots.used):
                slot = <int64_t*>slot_in_order(slots, i)
                if touched(<char*>slot):
                    slot[1] = n
                    self.ids[n] = id_in_order(slots, i)
                    n += 1
            for k in range(block.features):
                slot = <int64_t*>(slots.base + find(slots, block.ids[k]) * SIZE)
                self.numbers[k] = slot[1]
        return 0

    cdef int turn(self) except -1:
        """From rows to columns."""
        cdef Block block = self.block
        cdef int64_t row, k, j, place, many = block.features
        cdef int64_t* ends
        if self.count > self.features:
            many += block.rows
        self.offsets = <int64_t*>allocated(self.count + 1)
        self.rows = <int64_t*>allocated(many)
        self.values = <double*>allocated(many)
        with nogil:
            # Count column j at j + 2, so that placing its non-zeros leaves the start at j + 1.
            ends = self.offsets + 1
            for k in range(block.features):
                if self.numbers[k] + 1 < self.count:
                    ends[self.numbers[k] + 1] += 1
            for j in range(1, self.count):
                ends[j] += ends[j - 1]
            for row in range(block.rows):
                for k in range(block.offsets[row], block.offsets[row + 1]):
                    place = ends[self.numbers[k]]
                    ends[self.numbers[k]] += 1
                    self.rows[place] = row
                    self.values[place] = block.values[k]
                if self.count > self.features:
                    place = ends[self.features]
                    ends[self.features] += 1
                    self.rows[place] = row
                    self.values[place] = 1.0
        return 0

    cdef void times(self, const double* w, double* out) noexcept nogil:
        """X w, one number a row; columns of weight zero cost nothing."""
        cdef int64_t row, j, k
        for row in range(self.block.rows):
            out[row] = 0.0
        for j in range(self.count):
            if w[j] != 0.0:
                for k in range(self.offsets[j], self.offsets[j + 1]):
                    out[self.rows[k]] += w[j] * self.values[k]

    cdef double mean_along(self, const double* slopes, int64_t j) noexcept nogil:
        """Entry j of X' slopes / m."""
        cdef double total = 0.0
        cdef int64_t k
        for k in range(self.offsets[j], self.offsets[j + 1]):
            total += slopes[self.rows[k]] * self.values[k]
        return total / self.block.rows

    cdef void mean_against(self, const double* slopes, double* out) noexcept nogil:
        """X' slopes / m, one number a column."""
        cdef int64_t j
        for j in range(self.count):
            out[j] = self.mean_along(slopes, j)

    cdef double mean_square(self, int64_t j) noexcept nogil:
        """Mean of importance * x^2 in column j."""
        cdef double total = 0.0
        cdef int64_t k
        for k in range(self.offsets[j], self.offsets[j + 1]):
            total += self.block.weights[self.rows[k]] * self.values[k] * self.values[k]
        return total / self.block.rows
