# Block: a reused batch of parsed examples in CSR form. Plain memory, no numpy; knows no learner.
from libc.stdint cimport int64_t

# Products of a value, a slope and an importance weight are squared and summed; kept between these
# sizes they neither underflow to zero nor overflow (1e50^3 squared is 1e300).
cdef extern from *:
    """
    #define STREAMLEARN_TINY 1e-50
    #define STREAMLEARN_EXTREME 1e50
    #define STREAMLEARN_EXTREME_NORM 1e100
    """
    const double TINY "STREAMLEARN_TINY"                  # smaller values count as zero
    const double EXTREME "STREAMLEARN_EXTREME"            # of values, labels, importance weights
    const double EXTREME_NORM "STREAMLEARN_EXTREME_NORM"  # of |x|^2

cdef int64_t first_repeat(const int64_t* ids, int64_t count) noexcept nogil
cdef int64_t drop_tiny(int64_t* ids, double* values, int64_t first, int64_t stop) noexcept nogil

cdef void* grown(void* old, int64_t count) except NULL

cdef class Block:
    cdef readonly int64_t rows            # examples held
    cdef readonly int64_t features        # non-zeros held, over all rows
    cdef readonly int64_t max_id          # no id is larger; -1 when there is none
    cdef int64_t row_capacity, feature_capacity
    cdef double* labels
    cdef double* weights                  # importance, 1 unless given
    cdef double* norms                    # |x|^2 of each row
    cdef double* slopes                   # importance * loss' of each row, once it was learned
    cdef int64_t* lines                   # line (or row number) each example came from
    cdef int64_t* offsets                 # rows + 1 of them
    cdef int64_t* ids
    cdef double* values
    # slot numbers of the ids, if somebody has looked them up: see Slots.look_up
    cdef int64_t* numbers
    cdef int64_t numbers_room
    cdef int64_t numbered                 # in which laying out of slots; 0: not looked up
    cdef void* numbered_by
    cdef int64_t numbered_to              # all numbers are below this

    cdef int reserve(self, int64_t rows, int64_t features) except -1
    cdef int append(self, Block other, int64_t first, int64_t stop) except -1
    cdef void scan(self) noexcept nogil
    cdef int64_t first_extreme(self) noexcept nogil
    cdef object too_large(self, int64_t row, int64_t t)
