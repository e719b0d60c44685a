# Recent: a window on the last examples learned, for estimates that need data at snapshot time.
from libc.stdint cimport int64_t
from streamlearn.engine.block cimport Block

cdef int64_t newest_kept(int64_t t) noexcept nogil

cdef class Recent:
    cdef Block old, young

    cdef int push(
        self, Block block, int64_t first, int64_t stop, const double* slopes, int64_t t) except -1
    cdef int64_t first(self, Block block) noexcept nogil
