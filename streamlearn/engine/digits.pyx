# From doubles to text: the fewest digits that read back as the same double, the nearest of those,
# laid out as Python's repr() does. And from margins to probabilities, which are mostly what is
# written. The other direction is number.pyx, whose powers of five are used here.
#
# The digits are found by R. Giulietti's Schubfach: of the multiples of 10^k, k so large that at
# least one and at most ten of them lie between the halfway points to the double's neighbours, only
# two or four come into question. All is scaled by 4 * 10^-k and rounded "to odd", which keeps every
# comparison exact in 64 bits.
from libc.math cimport exp
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy, memmove, memset

from streamlearn.engine.number cimport five_high, five_low

cdef extern from *:
    """
    typedef unsigned __int128 streamlearn_wide;
    """
    ctypedef unsigned long long wide "streamlearn_wide"

cdef extern from "Python.h":
    object PyUnicode_DecodeASCII(const char*, Py_ssize_t, const char*)

cdef enum:
    LONGEST = 25               # characters of a double and its newline


cdef inline uint64_t to_odd(uint64_t high, uint64_t low, uint64_t x) noexcept nogil:
    """floor(g x / 2^128), its last bit set where more than the error of g is cut off"""
    cdef wide product = <wide>high * x
    cdef wide below = <wide>low * x
    product += <uint64_t>(below >> 64)
    return <uint64_t>(product >> 64) | (<uint64_t>product > 1)


cdef uint64_t shortest(uint64_t fraction, int biased, int* exponent) noexcept nogil:
    """The digits d of fraction and biased exponent of a double: it is d * 10^exponent."""
    cdef uint64_t c = fraction, low, high, least, most, middle, tens, ones
    cdef bint closer = fraction == 0 and biased > 1     # the neighbour below is half as far
    cdef bint odd = fraction & 1                        # then halfway points read back as others
    cdef bint under, over
    cdef int q = -1074, k, h
    if biased:
        c |= <uint64_t>1 << 52
        q = biased - 1075
    # floor(log10 2^q), or of 3/4 2^q; and q + floor(log2 10^-k) + 1
    k = <int>((<int64_t>q * 1262611 - (524031 if closer else 0)) >> 22)
    h = q + <int>((<int64_t>-k * 1741647) >> 19) + 1
    high, low = five_high(-k), five_low(-k)
    if -k > 55 or -k < -27:                             # rounded up where it is not exact
        low += 1
        high += low == 0
    least = to_odd(high, low, (4 * c - 2 + closer) << h) + odd
    middle = to_odd(high, low, (4 * c) << h)
    most = to_odd(high, low, (4 * c + 2) << h) - odd
    ones = middle >> 2
    if ones >= 10:                                      # a digit fewer, if one alone will do
        tens = ones // 10
        under, over = least <= 40 * tens, 40 * tens + 40 <= most
        if under != over:
            exponent[0] = k + 1
            return tens + over
    under, over = least <= 4 * ones, 4 * ones + 4 <= most
    exponent[0] = k
    if under != over:
        return ones + over
    # both or none: the nearer, and of two alike the even one
    return ones + (middle + (ones & 1) > 4 * ones + 2)


cdef char* put_digits(char* to, uint64_t digits, int count) noexcept nogil:
    cdef int i
    for i in range(count - 1, -1, -1):
        to[i] = <char>(48 + digits % 10)
        digits //= 10
    return to + count


cdef char* put_word(char* to, const char* word) noexcept nogil:
    while word[0]:
        to[0] = word[0]
        to += 1
        word += 1
    return to


cdef char* put_point(char* to, int behind) noexcept nogil:
    """A point before the last digits, so many of them."""
    memmove(to - behind + 1, to - behind, behind)
    to[-behind] = c"."
    return to + 1


cdef char* put_number(char* to, double value) noexcept nogil:
    """repr(value); returns where it ends."""
    cdef uint64_t bits, fraction, digits, rest
    cdef int biased, exponent, count = 0, point
    memcpy(&bits, &value, 8)
    fraction = bits & ((<uint64_t>1 << 52) - 1)
    biased = <int>((bits >> 52) & 0x7FF)
    if biased == 0x7FF and fraction:
        return put_word(to, b"nan")
    if bits >> 63:
        to[0] = c"-"
        to += 1
    if biased == 0x7FF:
        return put_word(to, b"inf")
    if biased == 0 and fraction == 0:
        return put_word(to, b"0.0")
    digits = shortest(fraction, biased, &exponent)
    while digits % 10 == 0:
        digits //= 10
        exponent += 1
    rest = digits
    while rest:
        rest //= 10
        count += 1
    point = count + exponent                            # digits before the point
    if point > 16 or point < -3:
        to = put_digits(to, digits, count)
        if count > 1:
            to = put_point(to, count - 1)
        to[0] = c"e"
        to[1] = c"-" if point < 1 else c"+"
        exponent = 1 - point if point < 1 else point - 1
        return put_digits(to + 2, exponent, 3 if exponent > 99 else 2)
    if point <= 0:
        to = put_word(to, b"0.")
        memset(to, c"0", -point)
        return put_digits(to - point, digits, count)
    if point >= count:
        to = put_digits(to, digits, count)
        memset(to, c"0", point - count)
        return put_word(to + point - count, b".0")
    return put_point(put_digits(to, digits, count), count - point)


def lines(const double[::1] numbers):
    """repr() of each number, with a newline behind each."""
    cdef int64_t i, count = numbers.shape[0]
    cdef bytearray memory = bytearray(LONGEST * count)
    cdef char* start = memory
    cdef char* to = start
    with nogil:
        for i in range(count):
            to = put_number(to, numbers[i])
            to[0] = c"\n"
            to += 1
    return PyUnicode_DecodeASCII(start, to - start, NULL)


def probabilities(const double[::1] margins):
    """1 / (1 + exp(-m)) of each margin, without overflow, as float64 bytes."""
    cdef int64_t i, count = margins.shape[0]
    cdef bytearray found = bytearray(8 * count)
    cdef double* to = <double*><char*>found
    cdef double e
    with nogil:
        for i in range(count):
            if margins[i] >= 0.0:
                to[i] = 1.0 / (1.0 + exp(-margins[i]))
            else:
                e = exp(margins[i])
                to[i] = e / (1.0 + e)
    return found
