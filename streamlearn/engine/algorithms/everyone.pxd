# Everyone: all slots at once, by rising id, for the algorithms that cannot leave the others alone.
# The order makes their sums the same wherever the slots live.
from libc.stdint cimport int64_t

cdef struct Keyed:
    int64_t id
    int64_t number           # of its slot

cdef struct Everyone:
    char* slots
    int64_t size
    int64_t used
    const Keyed* order       # slots by rising id; NULL: they are in order

cdef extern from *:
    """
    #define STREAMLEARN_BEYOND 1e300
    """
    const double BEYOND "STREAMLEARN_BEYOND"     # no bound; finite, since a state must be


cdef inline char* nth(const Everyone* all, int64_t i) noexcept nogil:
    return all.slots + (all.order[i].number if all.order != NULL else i) * all.size
