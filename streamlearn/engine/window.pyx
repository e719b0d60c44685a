# Window: ids are looked up once a snapshot, not at each of the thirty times that it runs through
# the recent rows. Features have numbers from 0, in the order that sums over them are added in.
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from streamlearn.engine.block cimport Block
from streamlearn.engine.recent cimport Recent
from streamlearn.engine.slots cimport (
    Slots, fetch_cell, find, streamlearn_fetch, touched,
)

cdef enum:
    FAR = 16                         # ids ahead of which the index, and
    NEAR = 24                        # of which the slot is fetched


cdef class Window:
    def __cinit__(self, Recent recent, Slots slots):
        cdef Slots places = Slots(8)                 # marks them; by id, then 1 + their numbers
        cdef Block block
        cdef int64_t begin, features = 0, layout = 0
        self.recent = recent
        for block in (recent.old, recent.young):
            features += block.features - block.offsets[recent.first(block)]
        self.memory = bytearray(24 * features)
        begin = recent.old.offsets[recent.first(recent.old)]
        self.of_old = <int64_t*><char*>self.memory - begin
        self.of_young = self.of_old + recent.old.features
        self.ids = self.of_young + recent.young.features
        self.slots = <char**>(self.ids + features)
        for block in (recent.old, recent.young):
            begin = block.offsets[recent.first(block)]
            places.reserve(block.ids + begin, block.features - begin, block.max_id,
                           self.numbers_of(block) + begin)
            with nogil:
                self.mark(places, block, begin)
            if block is recent.old:
                layout = places.layout
        if places.dense:
            self.number(places)
        else:                                        # as reserve() has numbered them
            self.count = places.used
            memcpy(self.ids, places.ids, <size_t>(8 * self.count))
        for block in (recent.old, recent.young):
            if places.dense or (block is recent.old and layout != places.layout):
                with nogil:
                    self.look_up(places, block, block.offsets[recent.first(block)])
        self.find_slots(slots)

    cdef void mark(self, Slots places, Block block, int64_t begin) noexcept nogil:
        cdef const int64_t* found = block.ids if places.dense else self.numbers_of(block)
        cdef int64_t k
        for k in range(begin, block.features):
            (<int64_t*>(places.base + 8 * found[k]))[0] = 1

    cdef void number(self, Slots places) noexcept nogil:
        """By rising id."""
        cdef int64_t i
        for i in range(places.used):
            if touched(places.base + 8 * i):
                self.ids[self.count] = i
                self.count += 1
                (<int64_t*>(places.base + 8 * i))[0] = self.count

    cdef void look_up(self, Slots places, Block block, int64_t begin) noexcept nogil:
        cdef int64_t* numbers = self.numbers_of(block)
        cdef int64_t k, number
        for k in range(begin, block.features):
            number = find(places, block.ids[k])
            if places.dense:
                number = (<int64_t*>(places.base + 8 * number))[0] - 1
            numbers[k] = number

    cdef int64_t* numbers_of(self, Block block) noexcept nogil:
        """To be indexed as the block's ids; rows that are recent no more have none."""
        return self.of_old if block is self.recent.old else self.of_young

    cdef void find_slots(self, Slots slots) noexcept:
        """Those that were touched. Numbers first: to see what is in a slot takes a fetch."""
        cdef int64_t i, number
        with nogil:
            for i in range(self.count):
                if not slots.dense and i + FAR < self.count:
                    fetch_cell(slots, self.ids[i + FAR])
                number = find(slots, self.ids[i])
                self.slots[i] = slots.base + number * slots.size if number >= 0 else NULL
            for i in range(self.count):
                if i + NEAR < self.count:
                    streamlearn_fetch(self.slots[i + NEAR])
                if self.slots[i] != NULL and not touched(self.slots[i]):
                    self.slots[i] = NULL
