# Learner: owns slots and scalars; learns blocks, hands out snapshots, goes into and out of a state.
from libc.stdint cimport int64_t
from streamlearn.engine.block cimport Block
from streamlearn.engine.conversion cimport Conversion
from streamlearn.engine.learn cimport AnyAlgorithm, Kernel, Progress, Rows, Task
from streamlearn.engine.recent cimport Recent
from streamlearn.engine.slots cimport Slots
from streamlearn.engine.window cimport Window

cdef class Learner:
    cdef readonly dict spec
    cdef Slots slots
    cdef char* bias
    cdef Kernel kernel, second_kernel
    cdef AnyAlgorithm algorithm, second      # `second` is the frozen point of optimalsl
    cdef bint two_phases
    cdef int64_t second_offset               # where its part of a slot begins
    cdef Task task
    cdef Progress tally
    cdef Block pending                       # examples that wait for the warm-up to end, or None
    cdef int64_t warmup
    cdef Recent recent
    cdef Block admitted                      # scratch, with max_features
    cdef int64_t* numbers                    # scratch: slot numbers of a scattered block
    cdef int64_t numbers_room
    cdef double* margins                     # of the rows that the last learn() ran through
    cdef double* slopes                      # of the same rows
    cdef int64_t heard                       # how many those are
    cdef int64_t heard_room
    cdef int64_t next_freeze
    cdef readonly int64_t ignored            # features dropped by max_features
    cdef int64_t known                       # features admitted, with max_features
    cdef object broken                       # the sentence of the divergence, once it happened

    cdef int64_t time(self) noexcept nogil
    cdef int begin_learning(self) except -1
    cdef int listen(self, int64_t many) except -1
    cdef int learn_rows(self, Block block, int64_t first, int64_t stop) except -1
    cdef int find_slots(self, Block block, int64_t begin, int64_t many, Rows* rows) except -1
    cdef dict stored(self)
    cdef int run(self, Block block, Rows* rows) except -1
    cdef int take(self, Block block, int64_t stop) except -1
    cdef Block admit(self, Block block, int64_t stop)
    cdef int freeze(self) except -1
    cdef Learner settled(self)
    cdef Conversion conversion(self)
    cdef Conversion prepared(self, object smoothness, object evidence, Window window)
    cdef dict solved(self, Conversion c, Window window)
