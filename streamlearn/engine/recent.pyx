# Recent: the last ROWS examples, kept as two generations so that nothing is ever shifted: the young
# one fills up, then takes the place of the old one.
#
# Late in a stream only one example in `stride` is kept: to copy each was a tenth of the time of
# learning text and a third of that of dense rows. What is kept then reaches back over an eighth of
# the stream at most.
from libc.stdint cimport int64_t

from streamlearn.engine.block cimport Block

cdef int64_t ROWS = 1000             # enough to rank ten values of L; 1.2 MB at 73 features a row
cdef int64_t FEATURES = 1 << 19      # bounds the memory when rows are long: 16 MB in all
cdef int64_t ALL = 1 << 14           # up to this many examples in a stream each is kept, then
cdef int64_t STRIDE = 16             # ... fewer with every doubling, but one in 16 at least


cdef int64_t stride(int64_t t) noexcept nogil:
    """Of the examples around number t those are kept whose number is a multiple of this."""
    cdef int64_t found = 1
    while found < STRIDE and t >= found * ALL:
        found *= 2
    return found


cdef int64_t newest_kept(int64_t t) noexcept nogil:
    """The number of the last example up to t that is kept."""
    return t - t % stride(t)         # strides change at multiples of the larger one


cdef class Recent:
    """The last examples learned, about a thousand, fewer when they are very long.

    Of a long stream it is a thousand of the last sixteen thousand.
    """

    def __cinit__(self):
        self.old = Block()
        self.young = Block()

    cdef int push(
        self, Block block, int64_t first, int64_t stop, const double* slopes, int64_t t
    ) except -1:
        """Remember rows first .. stop-1, t examples having come before, with their slopes."""
        cdef int64_t row
        for row in range(first, stop):
            t += 1
            if newest_kept(t) != t:
                continue
            if self.young.rows >= ROWS or self.young.features >= FEATURES:
                self.old, self.young = self.young, self.old
                self.young.clear()
            self.young.append(block, row, row + 1)
            self.young.slopes[self.young.rows - 1] = slopes[row - first]
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
