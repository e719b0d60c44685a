# Slots: where the state of each coordinate lives. One contiguous slot a coordinate, dense by id or
# behind an exact id -> slot index; all-zero means never seen. Knows nothing of what is in a slot.
from libc.stdint cimport int64_t, uint32_t, uint64_t

from streamlearn.engine.algorithms.everyone cimport Keyed
from streamlearn.engine.block cimport Block

cdef extern from *:
    """
    #define streamlearn_fetch(p) __builtin_prefetch(p)
    """
    void streamlearn_fetch(const void*) noexcept nogil

cdef extern from "pythread.h":
    ctypedef void* PyThread_type_lock
    PyThread_type_lock PyThread_allocate_lock()
    void PyThread_free_lock(PyThread_type_lock)
    int PyThread_acquire_lock(PyThread_type_lock, int) noexcept nogil
    void PyThread_release_lock(PyThread_type_lock) noexcept nogil

cdef class Slots:
    cdef char* base                  # slot number i starts at base + i * size
    cdef readonly int64_t size       # bytes a slot
    cdef readonly int64_t room       # slots mapped
    cdef readonly bint dense         # slot number = id; else by the index
    cdef readonly int64_t used       # scattered: slots in use; dense: largest id seen + 1
    cdef int64_t layout              # counts the times that slots got other numbers, from 1
    # scattered only: a cell is 1 + a slot number, or 0
    cdef uint32_t* cells
    cdef int64_t cells_room
    cdef readonly bint by_id         # each id has its cell; else open addressing, at most half full
    cdef int64_t top                 # no id is larger
    cdef int64_t* ids                # id of each slot
    cdef int64_t ids_room
    cdef int64_t given               # numbers given out: `used`, and those looked up ahead
    cdef PyThread_type_lock lock     # of the index; slots themselves belong to one thread
    cdef Keyed* order                # slots by rising id, as of the last sort()
    cdef int64_t sorted              # how many those are
    cdef int64_t next_look           # number of ids at which to ask whether to go dense again

    cdef int reserve(
        self, const int64_t* ids, int64_t count, int64_t max_id, int64_t* numbers) except -1
    cdef int look_up(self, Block block) except -1
    cdef void hold(self) noexcept
    cdef void release(self) noexcept nogil
    cdef int number_all(
        self, const int64_t* ids, int64_t count, int64_t max_id, int64_t* numbers) except -1
    cdef int choose_index(self, int64_t max_id) except -1
    cdef int table_by_id(self) except -1
    cdef int hash_again(self) except -1
    cdef int make_room(self, int64_t want) except -1
    cdef int64_t find_or_add(
        self, const int64_t* ids, int64_t count, int64_t* numbers) noexcept nogil
    cdef int64_t look_by_id(
        self, const int64_t* ids, int64_t count, int64_t* numbers) noexcept nogil
    cdef int64_t look_by_hash(
        self, const int64_t* ids, int64_t count, int64_t* numbers) noexcept nogil
    cdef void forget_index(self) noexcept
    cdef int grow(self, int64_t slots) except -1
    cdef int use(self, int64_t count) except -1
    cdef int scatter(self) except -1
    cdef int gather(self) except -1
    cdef int rehash(self, int64_t cells) except -1
    cdef int sort(self) except -1


cdef Keyed* by_id(const int64_t* ids, int64_t count) except NULL
cdef void forget(Keyed* pairs, int64_t count) noexcept nogil


cdef inline bint touched(const char* slot) noexcept nogil:
    """The first word of every slot is a time stamp; 0 means never seen."""
    return (<const int64_t*>slot)[0] != 0


cdef inline int64_t in_order(Slots slots, int64_t i) noexcept nogil:
    return i if slots.dense else slots.order[i].number


cdef inline char* slot_in_order(Slots slots, int64_t i) noexcept nogil:
    """The i-th slot by rising id, i < used; needs sort() before."""
    return slots.base + in_order(slots, i) * slots.size


cdef inline int64_t id_in_order(Slots slots, int64_t i) noexcept nogil:
    return i if slots.dense else slots.order[i].id


cdef inline int64_t id_of(Slots slots, int64_t number) noexcept nogil:
    return number if slots.dense else slots.ids[number]


cdef inline uint64_t spread(int64_t id) noexcept nogil:
    """A table cell for an id: ids that differ in any bit land apart (splitmix64's finaliser)."""
    cdef uint64_t z = <uint64_t>id
    z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
    return z ^ (z >> 31)


cdef inline void fetch_cell(Slots slots, int64_t id) noexcept nogil:
    """Have the cell of a scattered id, known or not, at hand when it is asked for."""
    cdef int64_t cell = id if slots.by_id else spread(id) & (slots.cells_room - 1)
    if cell < slots.cells_room:
        streamlearn_fetch(&slots.cells[cell])


cdef inline int64_t find(Slots slots, int64_t id) noexcept nogil:
    """The slot number of an id, or -1."""
    cdef int64_t cell
    if slots.dense:
        return id if id < slots.room else -1
    if slots.by_id:
        return <int64_t>slots.cells[id] - 1 if id < slots.cells_room else -1
    cell = spread(id) & (slots.cells_room - 1)
    while slots.cells[cell]:
        if slots.ids[slots.cells[cell] - 1] == id:
            return <int64_t>slots.cells[cell] - 1
        cell = (cell + 1) & (slots.cells_room - 1)
    return -1
