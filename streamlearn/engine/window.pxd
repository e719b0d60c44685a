# Window: the features of the recent rows, each numbered once for all that a snapshot asks of them.
from libc.stdint cimport int64_t
from streamlearn.engine.block cimport Block
from streamlearn.engine.recent cimport Recent
from streamlearn.engine.slots cimport Slots

cdef class Window:
    cdef Recent recent
    cdef readonly int64_t count      # distinct features
    cdef int64_t* ids                # of each of them
    cdef char** slots                # where the learner keeps it; NULL: never touched
    cdef int64_t* of_old             # numbers of the features of a generation, by their places in
    cdef int64_t* of_young           # its block
    cdef object memory               # what those four point into

    cdef int64_t* numbers_of(self, Block block) noexcept nogil
    cdef void mark(self, Slots places, Block block, int64_t begin) noexcept nogil
    cdef void number(self, Slots places) noexcept nogil
    cdef void look_up(self, Slots places, Block block, int64_t begin) noexcept nogil
    cdef void find_slots(self, Slots slots) noexcept
