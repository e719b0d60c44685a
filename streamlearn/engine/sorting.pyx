# Sorting by radix, the highest digit first, each number going to its bucket in the place of another
# ("American flag"). Ids are distinct, so that it does not matter in which order they came.
from libc.stdint cimport int64_t

cdef enum:
    DIGIT = 8                            # bits; more are more places than a TLB knows
    BUCKETS = 1 << DIGIT
    FEW = 24                             # so many are put in order one by one


cdef void sort_columns(int64_t* ids, double* weights, int64_t count) noexcept nogil:
    """Ids >= 0 by size, and the weights with them."""
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
    cdef int shift
    if count <= FEW:
        insert(ids, weights, count)
        return
    shift = max(bits - DIGIT, 0)
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
