# BatchLearner: keeps every row; solves over all of them when a snapshot is asked for.
from libc.stdint cimport int64_t
from streamlearn.engine.block cimport Block
from streamlearn.engine.descent cimport Descent
from streamlearn.engine.learn cimport Progress
from streamlearn.engine.loss cimport Loss

cdef class BatchLearner:
    cdef readonly dict spec
    cdef Block rows
    cdef Loss loss
    cdef Progress tally
    cdef Descent solution                 # of the rows there are, or None

    cdef int keep(self, Block block, int64_t stop) except -1
    cdef Descent solved(self)
    cdef int run_grades(self, Descent descent) except -1
    cdef object divergence(self, str what)
    cdef Descent checked(self, object smoothness, object evidence)
    cdef dict cut_at(self, Descent descent, double cut)
    cdef dict certified(self, Descent descent, double* w)
