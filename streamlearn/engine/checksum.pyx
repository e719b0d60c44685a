# Checksum: four lanes of 64 bits, each taking every fourth word. Opens no file.
#
# A step is one-to-one in the lane and in the word, and so is the end in each lane: a change within
# one word is always found. It takes two multiplications: after one alone the highest bit of a word
# would be a single bit of the lane, which a single bit of the next word undoes. Four lanes at a
# time run several times as fast as zlib.crc32.
from libc.stdint cimport uint64_t
from libc.string cimport memcpy, memset

# Odd, so that multiplying is one-to-one; the bits are those of the square roots of 2 and 3.
cdef uint64_t STEP = 0x6A09E667F3BCC909
cdef uint64_t END = 0xBB67AE8584CAA73B


cdef inline uint64_t stepped(uint64_t lane, uint64_t word) noexcept nogil:
    lane += word * STEP
    return ((lane << 29) | (lane >> 35)) * END


cdef void begin_sum(Sum* sum) noexcept nogil:
    cdef int i
    memset(sum, 0, sizeof(Sum))
    for i in range(4):
        sum.lanes[i] = END * <uint64_t>(2 * i + 1)


cdef void add_stripes(Sum* sum, const unsigned char* p, size_t count) noexcept nogil:
    """Whole stripes of 32 bytes."""
    cdef uint64_t a = sum.lanes[0], b = sum.lanes[1], c = sum.lanes[2], d = sum.lanes[3]
    cdef uint64_t[4] words
    while count:
        memcpy(words, p, 32)
        a = stepped(a, words[0])
        b = stepped(b, words[1])
        c = stepped(c, words[2])
        d = stepped(d, words[3])
        p += 32
        count -= 32
    sum.lanes[0], sum.lanes[1], sum.lanes[2], sum.lanes[3] = a, b, c, d


cdef void add_bytes(Sum* sum, const unsigned char* p, size_t count) noexcept nogil:
    """The next bytes; how they are cut into pieces changes nothing."""
    cdef size_t have = sum.size % 32, missing = 32 - have
    sum.size += count
    if have:
        if count < missing:
            memcpy(sum.rest + have, p, count)
            return
        memcpy(sum.rest + have, p, missing)
        add_stripes(sum, sum.rest, 32)
        p += missing
        count -= missing
    add_stripes(sum, p, count - count % 32)
    memcpy(sum.rest, p + (count - count % 32), count % 32)


cdef uint64_t end_sum(Sum* sum) noexcept nogil:
    """The checksum of all bytes so far; more may follow."""
    cdef Sum last = sum[0]
    cdef uint64_t found = sum.size
    cdef int i
    memset(last.rest + sum.size % 32, 0, 32 - sum.size % 32)
    add_stripes(&last, last.rest, 32)
    for i in range(4):
        found = (found ^ last.lanes[i]) * END
        found ^= found >> 32
    return found


cdef class Checksum:
    """The checksum of bytes that come in pieces."""
    cdef Sum sum

    def __cinit__(self):
        begin_sum(&self.sum)

    def update(self, const unsigned char[::1] piece):
        """The next bytes."""
        cdef size_t count = piece.shape[0]
        if count:
            with nogil:
                add_bytes(&self.sum, &piece[0], count)

    @property
    def value(self):
        """Of all bytes so far."""
        return end_sum(&self.sum)
