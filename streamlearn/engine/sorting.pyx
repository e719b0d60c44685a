# Sorting by radix, the highest digit first, each number going to its bucket in the place of another
# ("American flag"). Ids are distinct, so that it does not matter in which order they came.
from libc.stdint cimport int64_t

from streamlearn.engine.together cimport Hand, both

cdef enum:
    DIGIT = 8                            # bits; more are more places than a TLB knows
    BUCKETS = 1 << DIGIT
    FEW = 24                             # so many are put in order one by one
    SAMPLE = 63                          # ids that the middle one is taken from

cdef int64_t MANY = 1 << 17              # from here on two hands are faster than one


cdef class Sorting(Hand):
    """A stretch of columns to be sorted."""
    cdef int64_t* ids
    cdef double* weights
    cdef int64_t count

    cdef void work(self) noexcept nogil:
        sort_stretch(self.ids, self.weights, self.count)


cdef Sorting stretch(int64_t* ids, double* weights, int64_t first, int64_t stop):
    cdef Sorting part = Sorting()
    part.ids, part.weights, part.count = ids + first, weights + first, stop - first
    return part


cdef int sort_columns(int64_t* ids, double* weights, int64_t count) except -1:
    """Ids >= 0 by size, and the weights with them."""
    cdef int64_t middle
    if count < MANY:
        sort_stretch(ids, weights, count)
        return 0
    with nogil:
        middle = halve(ids, weights, count)
    both(stretch(ids, weights, 0, middle), stretch(ids, weights, middle, count))
    return 0


cdef int64_t halve(int64_t* ids, double* weights, int64_t count) noexcept nogil:
    """Put the smaller ids in front, more or less half of them; returns how many those are."""
    cdef int64_t[SAMPLE] some
    cdef double[SAMPLE] unused
    cdef int64_t i, k = count - 1, pivot
    for i in range(SAMPLE):
        some[i], unused[i] = ids[i * (count // SAMPLE)], 0.0
    insert(some, unused, SAMPLE)
    pivot = some[SAMPLE // 2]
    i = 0
    while True:
        while i <= k and ids[i] < pivot:
            i += 1
        while i <= k and ids[k] >= pivot:
            k -= 1
        if i > k:
            return i
        ids[i], ids[k] = ids[k], ids[i]
        weights[i], weights[k] = weights[k], weights[i]


cdef void sort_stretch(int64_t* ids, double* weights, int64_t count) noexcept nogil:
    cdef int64_t i, every = 0
    cdef int bits = 0
    for i in range(count):
        every |= ids[i]
    while every >> bits:
        bits += 1
    deal(ids, weights, count, bits)


cdef void deal(int64_t* ids, double* weights, int64_t count, int bits) noexcept nogil:
    """Sort ids that differ in their lowest `bits` bits only."""
    cdef int64_t[BUCKETS] heads
    cdef int64_t[BUCKETS] stops
    cdef int64_t i, id, other, bucket, place, begin = 0, last
    cdef double weight, other_weight
    cdef int shift, digit = DIGIT
    if count <= FEW:
        insert(ids, weights, count)
        return
    while (1 << digit) > count:                  # no more buckets than there are ids
        digit -= 1
    shift = max(bits - digit, 0)
    last = ((<int64_t>1) << (bits - shift)) - 1
    for bucket in range(last + 1):
        stops[bucket] = 0
    for i in range(count):
        stops[(ids[i] >> shift) & last] += 1
    for bucket in range(last + 1):
        heads[bucket] = begin
        begin += stops[bucket]
        stops[bucket] = begin
    for bucket in range(last + 1):
        while heads[bucket] < stops[bucket]:
            id, weight = ids[heads[bucket]], weights[heads[bucket]]
            place = (id >> shift) & last
            while place != bucket:               # to where it belongs; what was there goes on
                i = heads[place]
                heads[place] += 1
                other, other_weight = ids[i], weights[i]
                ids[i], weights[i] = id, weight
                id, weight = other, other_weight
                place = (id >> shift) & last
            ids[heads[bucket]], weights[heads[bucket]] = id, weight
            heads[bucket] += 1
    if shift:
        begin = 0
        for bucket in range(last + 1):
            if stops[bucket] - begin > 1:
                deal(ids + begin, weights + begin, stops[bucket] - begin, shift)
            begin = stops[bucket]


cdef void insert(int64_t* ids, double* weights, int64_t count) noexcept nogil:
    cdef int64_t i, k, id
    cdef double weight
    for i in range(1, count):
        id, weight = ids[i], weights[i]
        k = i
        while k > 0 and ids[k - 1] > id:
            ids[k], weights[k] = ids[k - 1], weights[k - 1]
            k -= 1
        ids[k], weights[k] = id, weight
