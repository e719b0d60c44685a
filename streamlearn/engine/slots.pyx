# Slots: growth without copies (mremap), huge pages, and the change between dense and scattered.
#
# Dense costs nothing to look up but memory for every id below the largest, and fresh memory costs
# more than anything else here. The rule: stay dense while the largest id is below 2^20 or below 4
# times the ids seen; else keep an exact index, and come back to dense when the ids have filled half
# of their range. The index is a hash table; or, while the largest id is below 32 times the ids
# seen, a table by id: 4 bytes for each there may be, one look instead of two, and never made anew.
# Where a slot lives never changes what is learned.
#
# A thread that parses ahead may look up numbers ahead, too: the index, behind a lock, is all that
# it touches. Slots are laid out by the thread that learns; when they get other numbers, those that
# were looked up before are of an old layout and count for nothing.
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy, memset

from streamlearn.engine.algorithms.everyone cimport Keyed
from streamlearn.engine.block cimport Block, grown

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <stdint.h>
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
        if (want >= ((size_t)8 << 20)) madvise(base, want, MADV_HUGEPAGE);
        return base;
    }
    /* A fresh page that is read before it is written gets its memory by a second fault, for which
       the other processors are interrupted: 10 % of learning with millions of features. Older
       kernels make no huge page of it, either. So each is written to: what it holds, zero. */
    static void streamlearn_touch(char* first, char* stop) {
        for (first += -(uintptr_t)first & 4095; first < stop; first += 4096)
            *(volatile char*)first = 0;
    }
    #define streamlearn_fetch_to_write(p) __builtin_prefetch((p), 1)
    static void streamlearn_unmap(void* base, size_t had) { if (base) munmap(base, had); }
    """
    char* streamlearn_map(char* old, size_t had, size_t want) noexcept nogil
    void streamlearn_unmap(void* base, size_t had) noexcept nogil
    void streamlearn_touch(char* first, char* stop) noexcept nogil
    void streamlearn_fetch_to_write(const void*) noexcept nogil

cdef int64_t SMALL = 1 << 20
cdef int64_t SPARSE = 4         # dense -> scattered beyond this many cells an id
cdef int64_t FULL = 2           # scattered -> dense within this many
cdef int64_t BY_ID = 32         # hash table -> table by id within this many
cdef int64_t HASHED = 64        # ... and back beyond this many
cdef int64_t MOST = 0xFFFFFFFE  # slots that the index can tell apart
cdef int64_t TOUCHED = 1 << 22  # bytes that get their memory at once, wherever slots will be used

cdef enum:
    FAR = 64                    # ids ahead of which the index, and
    NEAR = 32                   # of which the id found there, is fetched
    FARTHER = 96                # where the index is a table by id
    DIGIT = 11                  # bits sorted by at a time


cdef void* mapped(void* old, int64_t had, int64_t want) except NULL:
    """So many bytes for the index, the new ones zero."""
    cdef char* base = streamlearn_map(<char*>old, <size_t>had, <size_t>want)
    if base == NULL:
        raise MemoryError("no memory for the feature index; --max-features bounds the model")
    return base


cdef class Slots:
    """Zero-initialised slots of a fixed size, found by feature id."""

    def __cinit__(self, int64_t size):
        self.size = size
        self.dense = True
        self.layout = 1
        self.top = -1
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError("no memory for a lock")
        self.grow(1024)

    def __dealloc__(self):
        streamlearn_unmap(self.base, <size_t>(self.room * self.size))
        self.forget_index()
        if self.lock != NULL:
            PyThread_free_lock(self.lock)

    cdef void hold(self) noexcept:
        """Keep others from the index. To wait, without the GIL: whoever has the lock may want that.

        Not before it must wait: it may take long until the GIL is ours again.
        """
        if not PyThread_acquire_lock(self.lock, 0):
            with nogil:
                PyThread_acquire_lock(self.lock, 1)

    cdef void release(self) noexcept nogil:
        PyThread_release_lock(self.lock)

    cdef void forget_index(self) noexcept:
        streamlearn_unmap(self.cells, <size_t>self.cells_room * 4)
        streamlearn_unmap(self.ids, <size_t>self.ids_room * 8)
        forget(self.order, self.sorted)
        self.cells, self.ids, self.order = NULL, NULL, NULL
        self.cells_room = self.ids_room = self.sorted = self.given = 0
        self.by_id, self.top = False, -1

    @property
    def bytes(self):
        """Memory mapped for slots and index."""
        return self.room * self.size + 4 * self.cells_room + 8 * self.ids_room

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
        if room * self.size <= TOUCHED:
            streamlearn_touch(base + self.room * self.size, base + room * self.size)
        self.base = base
        self.room = room
        return 0

    cdef int use(self, int64_t count) except -1:
        """So many slots, one behind the other, may be read and written from now on."""
        self.grow(count)
        if count > self.used:
            streamlearn_touch(self.base + self.used * self.size, self.base + count * self.size)
            self.used = count
        return 0

    def seen(self):
        """How many coordinates were ever touched: those whose first word is not zero."""
        cdef int64_t i, count = 0
        with nogil:
            for i in range(self.used):
                count += touched(self.base + i * self.size)
        return count

    cdef int reserve(
        self, const int64_t* ids, int64_t count, int64_t max_id, int64_t* numbers
    ) except -1:
        """Make every one of these ids, at most max_id, have a slot; for whoever holds the index.

        Where slots are scattered afterwards, their numbers are written, if asked for.
        """
        if not self.dense and self.used >= self.next_look:      # amortised: each at twice the size
            self.next_look = 2 * self.used
            self.gather()
        if self.dense and max_id >= self.room:
            if max_id >= SMALL and max_id // SPARSE >= self.seen() + count:
                self.scatter()
            else:
                self.grow(max_id + 1)
        if self.dense:
            self.used = max(self.used, max_id + 1)
            return 0
        self.number_all(ids, count, max_id, numbers)
        return self.use(self.given)

    cdef int look_up(self, Block block) except -1:
        """The numbers of a block's ids, from a thread that does not learn; slots come later."""
        self.hold()
        try:
            block.numbered = 0
            if self.dense or block.features == 0:
                return 0
            if block.numbers_room < block.features:
                block.numbers = <int64_t*>grown(block.numbers, block.feature_capacity)
                block.numbers_room = block.feature_capacity
            self.number_all(block.ids, block.features, block.max_id, block.numbers)
            block.numbered, block.numbered_by = self.layout, <void*>self
            block.numbered_to = self.given
        finally:
            self.release()
        return 0

    cdef int number_all(
        self, const int64_t* ids, int64_t count, int64_t max_id, int64_t* numbers
    ) except -1:
        cdef int64_t done = 0
        self.choose_index(max_id)
        while done < count:
            with nogil:
                done += self.find_or_add(
                    ids + done, count - done, numbers + done if numbers != NULL else NULL)
            if done < count:
                # by hash there is no room for one more; by id there may be none for all the rest
                self.make_room(self.given + (count - done if self.by_id else 1))
        return 0

    cdef int choose_index(self, int64_t max_id) except -1:
        """A table by id or by hash, whichever is right for ids up to this one."""
        self.top = max(self.top, max_id)
        if self.top < BY_ID * self.given or (self.by_id and self.top < HASHED * self.given):
            self.table_by_id()
        elif self.by_id:
            self.hash_again()
        return 0

    cdef int table_by_id(self) except -1:
        """A cell for each id up to the top, and some more, so that it is seldom asked for."""
        cdef int64_t room = self.top + 1 + self.top // 8, i
        cdef uint32_t* table
        if self.by_id:
            if self.top >= self.cells_room:
                self.cells = <uint32_t*>mapped(self.cells, self.cells_room * 4, room * 4)
                streamlearn_touch(<char*>(self.cells + self.cells_room),
                                  <char*>(self.cells + room))
                self.cells_room = room
            return 0
        table = <uint32_t*>mapped(NULL, 0, room * 4)
        streamlearn_touch(<char*>table, <char*>(table + room))
        streamlearn_unmap(self.cells, <size_t>self.cells_room * 4)
        self.cells, self.cells_room, self.by_id = table, room, True
        with nogil:
            for i in range(self.given):
                if i + FAR < self.given:
                    streamlearn_fetch(&table[self.ids[i + FAR]])
                table[self.ids[i]] = <uint32_t>(i + 1)
        return 0

    cdef int hash_again(self) except -1:
        """An id came that is far beyond the others."""
        cdef uint32_t* table = self.cells
        cdef int64_t room = self.cells_room
        self.cells, self.cells_room, self.by_id = NULL, 0, False
        try:
            self.make_room(self.given + 1)
        except MemoryError:
            self.cells, self.cells_room, self.by_id = table, room, True
            raise
        streamlearn_unmap(table, <size_t>room * 4)
        return 0

    cdef int make_room(self, int64_t want) except -1:
        """For so many ids in all; by doubling, so that it is seldom asked for."""
        cdef int64_t room = 1024
        if want > MOST:
            raise MemoryError("more features than 2^32; --max-features bounds the model")
        while room < want:
            room *= 2
        if self.ids_room < room:
            self.ids = <int64_t*>mapped(self.ids, self.ids_room * 8, room * 8)
            self.ids_room = room
        if not self.by_id and self.cells_room < 2 * room:
            self.rehash(2 * room)
        return 0

    cdef int64_t find_or_add(
        self, const int64_t* ids, int64_t count, int64_t* numbers
    ) noexcept nogil:
        """One walk over the ids, the memory of those to come fetched ahead.

        Returns how many are done: fewer than count when there may be no room for the next.
        """
        if self.by_id:
            return self.look_by_id(ids, min(count, self.ids_room - self.given), numbers)
        return self.look_by_hash(ids, count, numbers)

    cdef int64_t look_by_id(
        self, const int64_t* ids, int64_t count, int64_t* numbers
    ) noexcept nogil:
        """Without branches: whether an id is new cannot be foretold."""
        cdef uint32_t* cells = self.cells
        cdef int64_t i
        cdef uint32_t given = <uint32_t>self.given, number
        for i in range(count):
            if i + FARTHER < count:
                streamlearn_fetch_to_write(&cells[ids[i + FARTHER]])
            number = cells[ids[i]]
            self.ids[given] = ids[i]
            given += number == 0
            number = number if number else given
            cells[ids[i]] = number
            if numbers != NULL:
                numbers[i] = <int64_t>number - 1
        self.given = given
        return count

    cdef int64_t look_by_hash(
        self, const int64_t* ids, int64_t count, int64_t* numbers
    ) noexcept nogil:
        cdef uint32_t* cells = self.cells
        cdef int64_t* known = self.ids
        cdef int64_t i, cell, mask = self.cells_room - 1, given = self.given
        cdef int64_t room = min(self.ids_room, self.cells_room // 2)
        for i in range(count):
            if i + FAR < count:
                streamlearn_fetch(&cells[spread(ids[i + FAR]) & mask])
                cell = spread(ids[i + NEAR]) & mask
                streamlearn_fetch(&known[<int64_t>cells[cell] - 1])      # -1 does no harm
            cell = spread(ids[i]) & mask
            while cells[cell] and known[cells[cell] - 1] != ids[i]:
                cell = (cell + 1) & mask
            if not cells[cell]:
                if given == room:
                    count = i
                    break
                known[given] = ids[i]
                given += 1
                cells[cell] = <uint32_t>given
            if numbers != NULL:
                numbers[i] = <int64_t>cells[cell] - 1
        self.given = given
        return count

    cdef int sort(self) except -1:
        """Bring `order` up to date, for a walk by rising id wherever the slots live."""
        if self.dense or self.sorted == self.used:
            return 0
        forget(self.order, self.sorted)
        self.order, self.sorted = NULL, 0
        self.order = by_id(self.ids, self.used)
        self.sorted = self.used
        return 0

    cdef int rehash(self, int64_t cells) except -1:
        """A hash table of this many cells (a power of two), where the old one was: no memory is
        fresh but the new part."""
        cdef int64_t had = 4 * self.cells_room, mask = cells - 1, cell, i
        cdef uint32_t* table = <uint32_t*>mapped(self.cells, had, cells * 4)
        self.cells, self.cells_room = table, cells
        with nogil:
            memset(table, 0, <size_t>(4 * cells))      # the fresh part, too: see streamlearn_touch
            for i in range(self.given):
                if i + FAR < self.given:
                    streamlearn_fetch(&table[spread(self.ids[i + FAR]) & mask])
                cell = spread(self.ids[i]) & mask
                while table[cell]:
                    cell = (cell + 1) & mask
                table[cell] = <uint32_t>(i + 1)
        return 0

    cdef int scatter(self) except -1:
        """From dense to scattered: the touched slots move together, the index is made."""
        cdef char* old = self.base
        cdef int64_t had = self.room, span = self.used, i, n = 0, count = self.seen()
        self.base, self.room, self.used = NULL, 0, 0
        try:
            self.grow(count + 1)
            self.make_room(count + 1)
        except MemoryError:
            streamlearn_unmap(self.base, <size_t>(self.room * self.size))
            self.forget_index()
            self.base, self.room, self.used = old, had, span
            raise
        with nogil:
            for i in range(span):
                if touched(old + i * self.size):
                    memcpy(self.base + n * self.size, old + i * self.size, <size_t>self.size)
                    self.find_or_add(&i, 1, NULL)
                    n += 1
            streamlearn_unmap(old, <size_t>(had * self.size))
        self.dense = False
        self.used = n
        self.layout += 1
        self.next_look = 2 * (n + SMALL // FULL)
        return 0

    cdef int gather(self) except -1:
        """From scattered to dense, once the ids seen have filled enough of their range."""
        cdef char* old = self.base
        cdef int64_t had = self.room, count = self.used, i, top = self.top
        if top >= FULL * count:
            return 0
        self.base, self.room = NULL, 0
        try:
            self.grow(top + 1)
        except MemoryError:
            self.base, self.room = old, had
            raise
        with nogil:
            for i in range(count):
                memcpy(self.base + self.ids[i] * self.size, old + i * self.size,
                       <size_t>self.size)
            streamlearn_unmap(old, <size_t>(had * self.size))
        self.forget_index()
        self.dense = True
        self.layout += 1
        self.used = top + 1
        return 0


cdef Keyed* by_id(const int64_t* ids, int64_t count) except NULL:
    """ids[0], ids[1], ... with their places, by rising id; count > 0. To be let go by `forget`."""
    cdef int64_t bytes = count * <int64_t>sizeof(Keyed), i, top = 0
    cdef Keyed* pairs = <Keyed*>mapped(NULL, 0, bytes)
    cdef Keyed* spare
    cdef int shift = 0
    try:
        spare = <Keyed*>mapped(NULL, 0, bytes)
    except MemoryError:
        forget(pairs, count)
        raise
    with nogil:
        for i in range(count):
            pairs[i].id = ids[i]
            pairs[i].number = i
            top |= ids[i]
        while shift < 63 and top >> shift:
            deal(pairs, spare, count, shift)
            pairs, spare = spare, pairs
            shift += DIGIT
        forget(spare, count)
    return pairs


cdef void forget(Keyed* pairs, int64_t count) noexcept nogil:
    streamlearn_unmap(pairs, <size_t>count * sizeof(Keyed))


cdef void deal(const Keyed* pairs, Keyed* to, int64_t count, int shift) noexcept nogil:
    """One pass of a radix sort: by DIGIT bits of the ids, those alike as they came."""
    cdef int64_t[1 << DIGIT] places
    cdef int64_t i, begin = 0, many
    cdef int64_t digits = (1 << DIGIT) - 1
    for i in range(digits + 1):
        places[i] = 0
    for i in range(count):
        places[(pairs[i].id >> shift) & digits] += 1
    for i in range(digits + 1):
        many = places[i]
        places[i] = begin
        begin += many
    for i in range(count):
        many = (pairs[i].id >> shift) & digits
        to[places[many]] = pairs[i]
        places[many] += 1
