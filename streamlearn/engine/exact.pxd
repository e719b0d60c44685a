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
    typedef unsigned __int128 streamlearn_near;
    /* All ones, or 0 for x = 0. The compiler must not know: it would make a branch of it. */
    static inline uint64_t streamlearn_mask(uint64_t x) {
        uint64_t mask = -(uint64_t)(x != 0);
        __asm__("" : "+r"(mask));
        return mask;
    }
    """
    uint64_t streamlearn_mask(uint64_t) noexcept nogil
    const uint64_t WORD "STREAMLEARN_WORD"
    ctypedef unsigned long long Near "streamlearn_near"      # a sum of numbers of like size

cdef enum:
    WORDS = 67                           # 2047 + 53 bits, and one word for what is carried
    NEAREST = 960                        # the least e of a number in a Near: from 2^-63
    NEAR_SPAN = 65                       # ... to below 8
    MOST_NEAR = 1024                     # numbers that a Near takes in before it overflows

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


cdef inline bint add_near(Near* sum, double x) noexcept nogil:
    """The same in a fifth of the time, for 0 and numbers of usual size; False for any other x."""
    cdef uint64_t bits, m, shift, some, hidden = (<uint64_t>1) << 52
    memcpy(&bits, &x, 8)
    some = streamlearn_mask(bits << 1)                    # no branch on which weights are zero
    m = ((bits & (hidden - 1)) | hidden) & some
    shift = ((bits >> 52) - NEAREST) & some
    if shift > NEAR_SPAN:                                 # the negative ones, too
        return False
    sum[0] += <Near>m << shift
    return True


cdef inline void add_near_sum(Exact* sum, Near near) noexcept nogil:
    cdef int i
    for i in range(4):
        sum.words[NEAREST // 32 + i] += <uint64_t>near & WORD
        near >>= 32


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
