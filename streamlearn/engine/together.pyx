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

    cdef bint start(self) except -1:
        """Have the work done in a thread of its own; False where there is none to be had."""
        with nogil:
            PyThread_acquire_lock(self.done, 1)
        try:
            start_new_thread(self.run, ())
        except (RuntimeError, MemoryError):
            PyThread_release_lock(self.done)
            return False
        return True

    cdef void wait(self) noexcept:
        """Until the work that was started is done."""
        with nogil:
            PyThread_acquire_lock(self.done, 1)
        PyThread_release_lock(self.done)

    def run(self):
        """The whole life of its thread."""
        with nogil:
            self.work()
            PyThread_release_lock(self.done)


cdef int both(Hand one, Hand other) except -1:
    """Have both pieces done, at once where a thread is to be had."""
    cdef bint started = other.start()
    with nogil:
        one.work()
        if not started:
            other.work()
    other.wait()
    return 0
