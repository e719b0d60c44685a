# The numbers that one rounding cannot settle: Eisel and Lemire's 128-bit product, and strtod for
# the rest. Fewer than one number in a thousand of usual data comes here.
from libc.string cimport memcpy

cdef extern from *:
    """
    #include <locale.h>
    #include <stdlib.h>
    typedef unsigned __int128 streamlearn_u128;
    static locale_t streamlearn_c_locale;
    static void streamlearn_open_locale(void) {
        streamlearn_c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    }
    /* Correctly rounded in glibc, and deaf to the process's locale. */
    static double streamlearn_strtod(const char* s) {
        return strtod_l(s, NULL, streamlearn_c_locale);
    }
    static inline int streamlearn_clz(unsigned long long x) { return __builtin_clzll(x); }
    """
    ctypedef unsigned long long u128 "streamlearn_u128"
    void streamlearn_open_locale() noexcept nogil
    double streamlearn_strtod(const char*) noexcept nogil
    int streamlearn_clz(unsigned long long) noexcept nogil

# Below 10^-342 times 64 bits all is zero; above 10^308 all overflows. To write the smallest double
# takes 10^324.
_LOW, _HIGH, _TOP = -342, 308, 324

cdef int64_t LOW = _LOW
cdef int64_t HIGH = _HIGH
cdef uint64_t[667] FIVE_HIGH      # the leading 128 bits of 5^q, q = LOW .. 324
cdef uint64_t[667] FIVE_LOW


def _fill_tables():
    """5^q to 128 bits, cut off; from 5^-1 to 5^-27 rounded up, where exact ties can occur."""
    cdef int i
    for i in range(23):
        TEN[i] = float(10 ** i)
    for i in range(_TOP - _LOW + 1):
        q = i + _LOW
        if q >= 0:
            power = 5 ** q
            shift = 128 - power.bit_length()
            bits = power << shift if shift >= 0 else power >> -shift
        else:
            power = 5 ** -q
            bits = (1 << (power.bit_length() + 127)) // power + (q >= -27)
        FIVE_HIGH[i] = bits >> 64
        FIVE_LOW[i] = bits & 0xFFFFFFFFFFFFFFFF


streamlearn_open_locale()
_fill_tables()


cdef uint64_t five_high(int q) noexcept nogil:
    return FIVE_HIGH[q - LOW]


cdef uint64_t five_low(int q) noexcept nogil:
    return FIVE_LOW[q - LOW]


cdef inline double as_double(uint64_t bits) noexcept nogil:
    cdef double value
    memcpy(&value, &bits, 8)
    return value


cdef bint eisel_lemire(uint64_t mantissa, int64_t exponent, double* out) noexcept nogil:
    """The double nearest to mantissa * 10^exponent, or False when 128 bits do not tell."""
    cdef int leading
    cdef uint64_t w, high, low, second, fraction
    cdef u128 product
    cdef int64_t power2
    cdef int upper, shift
    if mantissa == 0 or exponent < LOW:
        out[0] = 0.0
        return True
    if exponent > HIGH:
        out[0] = as_double(<uint64_t>0x7FF << 52)
        return True
    leading = streamlearn_clz(mantissa)
    w = mantissa << leading
    product = <u128>w * FIVE_HIGH[exponent - LOW]
    high = <uint64_t>(product >> 64)
    low = <uint64_t>product
    if (high & 0x1FF) == 0x1FF:             # the 9 bits below the 55 that matter are all set:
        second = <uint64_t>((<u128>w * FIVE_LOW[exponent - LOW]) >> 64)
        low += second                        # a carry from the lower half may reach them
        if low < second:
            high += 1
    if low == ~<uint64_t>0 and (exponent < -27 or exponent > 55):
        return False
    upper = high >> 63
    shift = upper + 9
    fraction = high >> shift                 # 54 bits: 53 and one to round by
    # floor(log2(10^exponent)) + 63, biased
    power2 = ((217706 * exponent) >> 16) + 63 + upper - leading + 1023
    if power2 <= 0:                          # subnormal
        if 1 - power2 >= 64:
            out[0] = 0.0
            return True
        fraction >>= 1 - power2
        fraction = (fraction + (fraction & 1)) >> 1
        out[0] = as_double(fraction)         # a carry into bit 52 is the first normal number
        return True
    # Halfway between two doubles exactly: possible only for small powers of five; to even then.
    if (low <= 1 and -4 <= exponent <= 23 and (fraction & 3) == 1
            and (fraction << shift) == high):
        fraction &= ~(<uint64_t>1)
    fraction = (fraction + (fraction & 1)) >> 1
    if fraction >= <uint64_t>1 << 53:
        fraction = <uint64_t>1 << 52
        power2 += 1
    if power2 >= 0x7FF:
        out[0] = as_double(<uint64_t>0x7FF << 52)
        return True
    out[0] = as_double((fraction & ~(<uint64_t>1 << 52)) | (<uint64_t>power2 << 52))
    return True


cdef int hard_number(
    const unsigned char* start, uint64_t mantissa, int64_t exponent, int64_t digits, double* out
) noexcept nogil:
    cdef double value
    if digits <= 19 and eisel_lemire(mantissa, exponent, &value):
        if start[0] == c"-":
            value = -value
    else:
        value = streamlearn_strtod(<const char*>start)   # 20 digits or more, or undecided
    if value - value != 0.0:
        return NUMBER_RANGE
    out[0] = value
    return NUMBER_OK


cdef bint spells(const unsigned char* p, const char* word) noexcept nogil:
    while word[0]:
        if (p[0] | 32) != word[0]:
            return False
        p += 1
        word += 1
    return True


cdef int not_a_number(const unsigned char** cursor) noexcept nogil:
    """Tell nan and inf, which float() would take, from plain garbage, and step behind them."""
    cdef const unsigned char* p = cursor[0]
    if p[0] == c"-" or p[0] == c"+":
        p += 1
    if spells(p, b"infinity"):
        cursor[0] = p + 8
        return NUMBER_RANGE
    if spells(p, b"nan") or spells(p, b"inf"):
        cursor[0] = p + 3
        return NUMBER_RANGE
    return NUMBER_BAD


def parse_number(bytes text):
    """The value of a number as the libsvm parser reads it, or None where it is refused."""
    cdef bytes ended = text + b"\n"
    cdef const unsigned char* start = ended
    cdef const unsigned char* p = start
    cdef double value = 0.0
    if read_number(&p, TEN, &value) != NUMBER_OK or p - start != len(text):
        return None
    return value
