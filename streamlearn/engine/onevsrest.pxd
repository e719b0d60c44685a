# Many classes, each learned against the rest by a binary learner of its own.
from libc.stdint cimport int64_t
from streamlearn.engine.block cimport Block
from streamlearn.engine.contest cimport Contest
from streamlearn.engine.learner cimport Learner

cdef class OneVsRest:
    cdef readonly dict spec
    cdef Contest contest
    cdef dict members                    # class: its learner
    cdef Learner background              # has seen every row as one of the rest; or None
    cdef Block scratch                   # the rows in hand, relabelled for each class in turn
    cdef object broken                   # the divergence of one of them, once it happened

    cdef int teach(self, Learner learner, object label) except -1
    cdef int judge(self) except -1
    cdef OneVsRest settled(self)
    cdef Learner any(self)

cdef class BatchOneVsRest:
    cdef readonly dict spec
    cdef Contest contest
    cdef object declared
    cdef Block rows
    cdef bytearray labels                # of the rows, as float64; in `rows` they are changed
