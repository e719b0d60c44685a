# Recent: the last ROWS examples, kept as two generations so that nothing is ever shifted: the young
# one fills up, then takes the place of the old one.
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from streamlearn.engine.block cimport Block

cdef int64_t ROWS = 1000             # enough to rank ten values of L; 1.2 MB at 73 features a row
cdef int64_t FEATURES = 1 << 19      # bounds the memory when rows are long: 16 MB in all


cdef class Recent:
    """The last examples learned, about a thousand, fewer when they are very long."""

    def __cinit__(self):
        self.old = Block()
        self.young = Block()

    cdef int push(self, Block block, int64_t first, int64_t stop, const double* slopes) except -1:
        """Remember rows first .. stop-1 with their slopes, however they are cut."""
        cdef int64_t upto, room
        while first < stop:
            if self.young.rows >= ROWS or self.young.features >= FEATURES:
                self.old, self.young = self.young, self.old
                self.young.clear()
            room = FEATURES - self.young.features
            upto = first
            while (upto < stop and self.young.rows + upto - first < ROWS
                   and block.offsets[upto] - block.offsets[first] < room):
                upto += 1
            self.young.append(block, first, upto)
            memcpy(self.young.slopes + self.young.rows - (upto - first), slopes, (upto - first) * 8)
            slopes += upto - first
            first = upto
        return 0

    cdef int64_t first(self, Block block) noexcept nogil:
        """The first row of a generation that still counts as recent."""
        cdef int64_t many = self.old.rows + self.young.rows - ROWS
        return many if block is self.old and many > 0 else 0

    def __len__(self):
        return self.old.rows + self.young.rows - self.first(self.old)

    def state(self):
        """Both generations, for a checkpoint."""
        return [self.old.state(), self.young.state()]

    def restore(self, state):
        self.old, self.young = (Block.from_bytes(arrays) for arrays in state)
