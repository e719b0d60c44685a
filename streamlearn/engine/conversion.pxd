# The sparse online-to-batch conversion: (point, gradient, L, penalty) -> an exactly sparse weight.
from libc.stdint cimport int64_t
from streamlearn.engine cimport exact
from streamlearn.engine.algorithms.reading cimport Reading
from streamlearn.engine.block cimport Block
from streamlearn.engine.lazy cimport shrink
from streamlearn.engine.learn cimport AnyAlgorithm, Kernel
from streamlearn.engine.loss cimport Loss
from streamlearn.engine.recent cimport Recent
from streamlearn.engine.slots cimport Slots


cdef inline double converted(
    double point, double gradient, double smoothness, double penalty
) noexcept nogil:
    """argmin <g,w> + (L/2)(w - point)^2 + b|w|  =  S_{b/L}(point - g/L)"""
    return shrink(point - gradient / smoothness, penalty / smoothness)


cdef double strongest(bytearray strengths, int64_t count, double cut) except -1.0


cdef struct Part:
    int64_t first            # slots first .. stop-1
    int64_t stop
    double unit              # of the weights that are handed out
    int64_t kept             # weights that are not zero
    int64_t seen             # slots that were touched
    double violation         # of the optimality conditions, the largest
    exact.Exact costs        # b|w| + l2/2 w^2
    double rest              # those that are not finite
    bint finite              # whether all weights and sums are


cdef class Conversion:
    cdef Slots slots
    cdef char* bias
    cdef Kernel kernel
    cdef AnyAlgorithm* algorithm
    cdef int64_t offset              # where the algorithm's part of a slot begins
    cdef bint has_gradient           # False: no averaged gradient is kept
    cdef bint converts               # False: the point itself is served
    cdef bint at_last                # the point is the newest iterate, not the mean
    cdef double smoothness           # L; each coordinate has L * scale
    cdef double l2                   # the ridge
    # the recent rows' part in the averaged gradient, for the choice of L
    cdef int64_t from_age            # rows of these ages (0: the newest) are in it
    cdef int64_t to_age
    cdef bint grows                  # row weights are newest - age, else 1
    cdef double newest
    cdef double total                # sum of all row weights
    cdef int64_t t                   # examples learned
    cdef double cut                  # only coordinates stronger than this are kept

    cdef double weight(self, const Reading* reading, bint penalised) noexcept nogil
    cdef double strength(self, const Reading* reading, double w) noexcept nogil
    cdef void weights(
        self, const Reading* reading, const double* candidates, double* out) noexcept nogil
    cdef double margin(self, Block block, int64_t row) noexcept nogil
    cdef void without(self, Reading* reading, double share, double weight) noexcept nogil
    cdef void add_costs(
        self, const Reading* reading, const double* candidates, double units,
        double* costs) noexcept nogil
    cdef double recent_gradient(self, Recent recent, Slots sums, double* bias) except -1.0
    cdef double largest_curvature(self, Recent recent, double curvature) except -1.0
    cdef int choose_smoothness(self, Recent recent, Loss loss, double curvature) except -1
    cdef bytearray strengths(self)
    cdef double solve_one(self, Part* part, char* slot, bint penalised) noexcept nogil
    cdef void solve_part(self, Part* part, int64_t* id, double* weight) noexcept nogil
    cdef dict solve(self, Recent recent, Loss loss, double shift, double scale)
