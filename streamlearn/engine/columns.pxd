# Columns: the rows of a block, column by column, for learners that need all examples at once.
# Knows the products of the matrix with vectors; no loss, no weights of its own.
from libc.stdint cimport int64_t
from streamlearn.engine.block cimport Block

cdef class Columns:
    cdef Block block              # the rows; must not change while the columns are in use
    cdef int64_t features         # columns of features: the ids that occur, rising
    cdef int64_t count            # the same and, if there is one, the bias: last, all ones
    cdef int64_t* ids             # id of each feature column
    cdef int64_t* numbers         # column of each non-zero, in the order of the block
    cdef int64_t* offsets         # count + 1 of them
    cdef int64_t* rows            # row of each non-zero, column by column, rising in a column
    cdef double* values

    cdef int number(self) except -1
    cdef int turn(self) except -1
    cdef void times(self, const double* w, double* out) noexcept nogil
    cdef void mean_against(self, const double* slopes, double* out) noexcept nogil
    cdef double mean_along(self, const double* slopes, int64_t j) noexcept nogil
    cdef double mean_square(self, int64_t j) noexcept nogil

cdef void* allocated(int64_t count) except NULL
