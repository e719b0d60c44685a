# Sorting ids and what belongs to them in place: for millions of them fresh memory is what costs.
from libc.stdint cimport int64_t

cdef int sort_columns(int64_t* ids, double* weights, int64_t count) except -1
