# Window: ids are looked up once a snapshot, not at each of the thirty times that it runs through
# the recent rows. Features have numbers from 0, in the order that sums over them are added in.
from libc.stdint cimport int64_t

from streamlearn.engine.block cimport Block
from streamlearn.engine.recent cimport Recent
from streamlearn.engine.slots cimport (
    Slots, fetch_cell, find, id_of, streamlearn_fetch, touched,
)

cdef enum:
    FAR = 16                         # ids ahead of which the index, and
    NEAR = 8                         # of which the slot is fetched


cdef class Window:
    def __cinit__(self, Recent recent, Slots slots):
        cdef Slots places = Slots(8)                 # 1 + number of each feature
        cdef Block block
        cdef int64_t begin, k, i, number, features = 0
        cdef int64_t* numbers
        self.recent = recent
        for block in (recent.old, recent.young):
            begin = block.offsets[recent.first(block)]
            features += block.features - begin
            places.reserve(block.ids + begin, block.features - begin, block.max_id, NULL)
            with nogil:
                for k in range(begin, block.features):
                    number = find(places, block.ids[k])
                    (<int64_t*>(places.base + 8 * number))[0] = 1
        self.memory = bytearray(24 * features)
        begin = recent.old.offsets[recent.first(recent.old)]
        self.of_old = <int64_t*><char*>self.memory - begin
        self.of_young = self.of_old + recent.old.features
        self.ids = self.of_young + recent.young.features
        self.slots = <char**>(self.ids + features)
        with nogil:
            for i in range(places.used):
                if touched(places.base + 8 * i):
                    self.ids[self.count] = id_of(places, i)
                    self.count += 1
                    (<int64_t*>(places.base + 8 * i))[0] = self.count
        for block in (recent.old, recent.young):
            numbers = self.numbers_of(block)
            begin = block.offsets[recent.first(block)]
            with nogil:
                for k in range(begin, block.features):
                    number = find(places, block.ids[k])
                    numbers[k] = (<int64_t*>(places.base + 8 * number))[0] - 1
        self.find_slots(slots)

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
