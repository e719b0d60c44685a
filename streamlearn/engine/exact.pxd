# Exact: a sum of numbers >= 0 that does not depend on the order in which they came.
#
# A double is m * 2^(e - 1075), m below 2^53. Words of 32 bits stand for all powers of two that a
# double can have; each takes in 2^31 numbers before it overflows.
from libc.math cimport ldexp
from libc.stdint cimport uint64_t
from libc.string cimport memcpy, memset

cdef extern from *:
    """
    #define STREAMLEARN_WORD 0xFFFFFFFFULL
    """
    const uint64_t WORD "STREAMLEARN_WORD"

cdef enum:
    WORDS = 67                           # 2047 + 53 bits, and one word for what is carried

cdef struct Exact:
    uint64_t[WORDS] words


cdef inline void clear(Exact* sum) noexcept nogil:
    memset(sum, 0, sizeof(Exact))


cdef inline void add(Exact* sum, double x) noexcept nogil:
    """|x|, which must be finite."""
    cdef uint64_t bits, low, high, hidden = (<uint64_t>1) << 52
    cdef int place, shift
    memcpy(&bits, &x, 8)
    place = <int>(bits >> 52) & 2047                      # e
    bits &= hidden - 1
    bits |= <uint64_t>(place != 0) << 52                  # the bit that is not written
    place += place == 0                                   # 0, or a denormal number
    shift = place & 31
    place >>= 5
    low = bits << shift                                   # the 84 bits of m << shift, in two words
    high = bits >> (63 - shift) >> 1
    sum.words[place] += low & WORD
    sum.words[place + 1] += low >> 32
    sum.words[place + 2] += high


cdef inline void add_sum(Exact* sum, const Exact* other) noexcept nogil:
    cdef int i
    for i in range(WORDS):
        sum.words[i] += other.words[i]


cdef inline double value(const Exact* sum) noexcept nogil:
    """The sum, rounded a few times at most."""
    cdef Exact carried = sum[0]
    cdef double total = 0.0
    cdef int i
    for i in range(WORDS - 1):
        carried.words[i + 1] += carried.words[i] >> 32
        carried.words[i] &= WORD
    for i in range(WORDS - 1, -1, -1):
        total += ldexp(<double>carried.words[i], 32 * i - 1075)
    return total
