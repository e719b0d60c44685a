# Slots: growth without copies (mremap), huge pages, and the change between dense and scattered.
#
# Dense costs nothing to look up but memory for every id below the largest. The rule: stay dense
# while the largest id is below 2^20 or below 16 times the ids seen; else keep an exact index, and
# come back to dense when the ids have filled up to an eighth. Where a slot lives never changes what
# is learned.
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc, qsort, realloc
from libc.string cimport memcpy

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <string.h>
    #include <sys/mman.h>
    /* Zeroed pages that cost nothing until touched; moved, not copied, when they grow. */
    static char* streamlearn_map(char* old, size_t had, size_t want) {
        char* base = old
            ? mremap(old, had, want, MREMAP_MAYMOVE)
            : mmap(NULL, want, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
        if (base == MAP_FAILED) return NULL;
        /* A large model misses the TLB at every visit without huge pages: 144 against 42 ns. */
        if (want >= ((size_t)32 << 20)) madvise(base, want, MADV_HUGEPAGE);
        return base;
    }
    static void streamlearn_unmap(char* base, size_t had) { if (base) munmap(base, had); }
    """
    char* streamlearn_map(char* old, size_t had, size_t want) noexcept nogil
    void streamlearn_unmap(char* base, size_t had) noexcept nogil

cdef int64_t SMALL = 1 << 20
cdef int64_t SPARSE = 16        # dense -> scattered beyond this many cells an id
cdef int64_t FULL = 8           # scattered -> dense within this many


cdef struct Keyed:
    int64_t id
    int64_t number


cdef int by_id(const void* a, const void* b) noexcept nogil:
    cdef int64_t x = (<const Keyed*>a).id, y = (<const Keyed*>b).id
    return (x > y) - (x < y)


cdef class Slots:
    """Zero-initialised slots of a fixed size, found by feature id."""

    def __cinit__(self, int64_t size):
        self.size = size
        self.dense = True
        self.grow(1024)

    def __dealloc__(self):
        streamlearn_unmap(self.base, <size_t>(self.room * self.size))
        free(self.keys)
        free(self.places)
        free(self.ids)
        free(self.order)

    @property
    def bytes(self):
        """Memory mapped for slots and index."""
        cells = 0 if self.dense else 16 * (self.mask + 1) + 8 * self.ids_room
        return self.room * self.size + cells

    cdef int grow(self, int64_t slots) except -1:
        """Room for this many slots, to the next power of two."""
        cdef int64_t room = 1024
        cdef char* base
        while room < slots:
            room *= 2
        if room <= self.room:
            return 0
        base = streamlearn_map(self.base, <size_t>(self.room * self.size),
                               <size_t>(room * self.size))
        if base == NULL:
            raise MemoryError(f"no memory for {room} features of {self.size} bytes; "
                              "--max-features bounds the model")
        self.base = base
        self.room = room
        return 0

    def seen(self):
        """How many coordinates were ever touched: those whose first word is not zero."""
        cdef int64_t i, count = 0
        with nogil:
            for i in range(self.used):
                count += touched(self.base + i * self.size)
        return count

    cdef int reserve(self, const int64_t* ids, int64_t count, int64_t max_id) except -1:
        """Make every one of these ids, at most max_id, have a slot."""
        cdef int64_t i
        if self.dense and max_id >= self.room:
            if max_id >= SMALL and max_id // SPARSE >= self.seen() + count:
                self.scatter()
            else:
                self.grow(max_id + 1)
        if self.dense:
            if max_id >= self.used:
                self.used = max_id + 1
            return 0
        for i in range(count):
            if find(self, ids[i]) < 0:
                self.add(ids[i])
        if self.used >= self.next_look:         # amortised: each look at twice the size
            self.next_look = 2 * self.used
            self.gather()
        return 0

    cdef int index(self, const int64_t* ids, int64_t count, int64_t* numbers) except -1:
        """Slot numbers of ids that are known to be here."""
        cdef int64_t i
        with nogil:
            for i in range(count):
                numbers[i] = find(self, ids[i])
        return 0

    cdef int64_t add(self, int64_t id) except -1:
        """Give a new id the next slot (scattered only)."""
        cdef uint64_t cell
        cdef int64_t place
        if 2 * (<uint64_t>self.used + 1) > self.mask:
            self.rehash(2 * (self.mask + 1))
        if self.used == self.ids_room:
            self.widen_ids(2 * self.ids_room)
        self.grow(self.used + 1)
        place = self.used
        cell = spread(id) & self.mask
        while self.keys[cell] >= 0:
            cell = (cell + 1) & self.mask
        self.keys[cell] = id
        self.places[cell] = place
        self.ids[place] = id
        self.used += 1
        return place

    def widen_ids(self, int64_t room):
        cdef int64_t* ids = <int64_t*>realloc(self.ids, <size_t>room * 8)
        if ids == NULL:
            raise MemoryError("no memory for the feature index; --max-features bounds the model")
        self.ids = ids
        self.ids_room = room

    cdef int sort(self) except -1:
        """Bring `order` up to date, so that sums run by rising id wherever the slots live."""
        cdef Keyed* pairs
        cdef int64_t i
        if self.dense or self.sorted == self.used:
            return 0
        pairs = <Keyed*>malloc(<size_t>self.used * sizeof(Keyed))
        free(self.order)
        self.order = <int64_t*>malloc(<size_t>self.used * 8)
        self.sorted = 0
        if pairs == NULL or self.order == NULL:
            free(pairs)
            raise MemoryError("no memory to sort the features; --max-features bounds the model")
        with nogil:
            for i in range(self.used):
                pairs[i].id = self.ids[i]
                pairs[i].number = i
            qsort(pairs, <size_t>self.used, sizeof(Keyed), by_id)
            for i in range(self.used):
                self.order[i] = pairs[i].number
        free(pairs)
        self.sorted = self.used
        return 0

    cdef int rehash(self, uint64_t cells) except -1:
        """Build the table anew with this many cells (a power of two)."""
        cdef int64_t* keys = <int64_t*>malloc(cells * 8)
        cdef int64_t* places = <int64_t*>malloc(cells * 8)
        cdef uint64_t cell
        cdef int64_t i
        if keys == NULL or places == NULL:
            free(keys)
            free(places)
            raise MemoryError("no memory for the feature index; --max-features bounds the model")
        free(self.keys)
        free(self.places)
        self.keys, self.places, self.mask = keys, places, cells - 1
        for cell in range(cells):
            keys[cell] = -1
        for i in range(self.used):
            cell = spread(self.ids[i]) & self.mask
            while keys[cell] >= 0:
                cell = (cell + 1) & self.mask
            keys[cell] = self.ids[i]
            places[cell] = i
        return 0

    cdef int scatter(self) except -1:
        """From dense to scattered: the touched slots move together, the index is made."""
        cdef char* old = self.base
        cdef int64_t had = self.room, span = self.used, i, n = 0, count = self.seen()
        cdef uint64_t cells = 4096
        self.base, self.room = NULL, 0
        try:
            self.grow(count + 1)
        except MemoryError:
            self.base, self.room = old, had
            raise
        self.widen_ids(max(count + 1, 1024))
        for i in range(span):
            if touched(old + i * self.size):
                memcpy(self.base + n * self.size, old + i * self.size, self.size)
                self.ids[n] = i
                n += 1
        streamlearn_unmap(old, <size_t>(had * self.size))
        self.used = n
        self.sorted = 0
        self.dense = False
        while cells < 4 * <uint64_t>(n + 1):
            cells *= 2
        self.rehash(cells)
        self.next_look = 2 * (n + SMALL // FULL)
        return 0

    cdef int gather(self) except -1:
        """From scattered to dense, once the ids seen have filled enough of their range."""
        cdef char* old = self.base
        cdef int64_t had = self.room, count = self.used, i, top = -1
        for i in range(count):
            if self.ids[i] > top:
                top = self.ids[i]
        if self.dense or top >= FULL * count:
            return 0
        self.base, self.room = NULL, 0
        try:
            self.grow(top + 1)
        except MemoryError:
            self.base, self.room = old, had
            raise
        for i in range(count):
            memcpy(self.base + self.ids[i] * self.size, old + i * self.size, self.size)
        streamlearn_unmap(old, <size_t>(had * self.size))
        free(self.keys)
        free(self.places)
        free(self.ids)
        self.keys = self.places = self.ids = NULL
        self.dense = True
        self.used = top + 1
        return 0
