# Descent: solvers that see all examples at once. Knows columns and a loss; no ids, no settings.
from libc.stdint cimport int64_t, uint64_t
from streamlearn.engine.block cimport Block
from streamlearn.engine.columns cimport Columns
from streamlearn.engine.loss cimport Loss

cdef class Descent:
    cdef Columns columns
    cdef Block block
    cdef Loss loss
    cdef double l1
    cdef double gamma             # of grades: the inverse of its step
    cdef int64_t nonzeros         # of grades: how many features it may keep; -1: no bound
    cdef double* w                # the solution, one weight a column
    cdef double* curvatures       # kappa_j: bounds the second derivative along each column
    cdef double* gradient         # of the mean loss, one number a column
    cdef double* margins          # of each row
    cdef double* slopes           # importance * loss' of each row

    cdef double penalty(self, int64_t j) noexcept nogil
    cdef double target(self, int64_t j, double g) noexcept nogil
    cdef double look(self, const double* w) noexcept nogil
    cdef double move(self, int64_t row, double change) noexcept nogil
    cdef void scd(self, int64_t iterations, uint64_t seed) noexcept nogil
    cdef void detcd(self, int64_t iterations) noexcept nogil
    cdef int64_t steepest(self, double* new) noexcept nogil
    cdef int64_t step_along(self, int64_t j, double step) noexcept nogil
    cdef int64_t grades(self, int64_t iterations, double* sizes) noexcept nogil
    cdef double violation(self, const double* w) noexcept nogil

cdef void keep_largest(double* w, int64_t n, int64_t many, double* sizes) noexcept nogil
cdef double kth_largest(double* values, int64_t n, int64_t k) noexcept nogil
