# Two pieces of work at once, each without the GIL. What they do, and to what, is for others to say.
from streamlearn.engine.slots cimport PyThread_type_lock

cdef class Hand:
    """One piece of work; it must not raise."""
    cdef PyThread_type_lock done
    cdef void work(self) noexcept nogil


cdef int both(Hand one, Hand other) except -1
