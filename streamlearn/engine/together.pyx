# Hands: the second one works in a thread that lives for as long as its piece takes.
#
# Nothing ends the wait for it, a signal neither: what it works on is not ours to let go before.
from _thread import start_new_thread

from streamlearn.engine.slots cimport (
    PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock,
)


cdef class Hand:
    def __cinit__(self):
        self.done = PyThread_allocate_lock()
        if self.done == NULL:
            raise MemoryError("no memory for a lock")

    def __dealloc__(self):
        if self.done != NULL:
            PyThread_free_lock(self.done)

    cdef void work(self) noexcept nogil:
        pass

    def run(self):
        """The whole life of its thread."""
        with nogil:
            self.work()
            PyThread_release_lock(self.done)


cdef int both(Hand one, Hand other) except -1:
    """Have both pieces done, at once where a thread is to be had."""
    with nogil:
        PyThread_acquire_lock(other.done, 1)
    try:
        start_new_thread(other.run, ())
    except (RuntimeError, MemoryError):      # no more threads here
        with nogil:
            one.work()
            other.work()
        PyThread_release_lock(other.done)
        return 0
    with nogil:
        one.work()
        PyThread_acquire_lock(other.done, 1)
        PyThread_release_lock(other.done)
    return 0
