# Digits to the exactly rounded double, as Python's float() gives it; knows nothing of lines.
from libc.stdint cimport int32_t, int64_t, uint64_t

# Outcome of reading one number.
cdef enum NumberCode:
    NUMBER_OK = 0
    NUMBER_BAD = 1        # not a decimal number
    NUMBER_RANGE = 2      # nan, inf, or too large for a double

cdef double[23] TEN       # 10^0 .. 10^22, the powers of ten that a double holds exactly

# The leading 128 bits of 5^q, q = -342 .. 324: exact for 0 .. 55, rounded up for -1 .. -27, cut off
# elsewhere.
cdef uint64_t five_high(int q) noexcept nogil
cdef uint64_t five_low(int q) noexcept nogil

cdef int hard_number(
    const unsigned char* start, uint64_t mantissa, int64_t exponent, int64_t digits, double* out
) noexcept nogil

cdef int not_a_number(const unsigned char** cursor) noexcept nogil


cdef extern from *:
    """
    /* Eight bytes at once; little-endian, so that the first character is the lowest byte. */
    static inline unsigned long long streamlearn_load8(const unsigned char* p) {
        unsigned long long word;
        __builtin_memcpy(&word, p, 8);
    #if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
    #endif
        return word;
    }
    #define streamlearn_ctz(x) __builtin_ctzll(x)
    #define streamlearn_unlikely(x) __builtin_expect(!!(x), 0)
    """
    bint unlikely "streamlearn_unlikely"(bint) noexcept nogil
    uint64_t load8 "streamlearn_load8"(const unsigned char*) noexcept nogil
    int ctz "streamlearn_ctz"(uint64_t) noexcept nogil


cdef inline int count_digits(const unsigned char* p, uint64_t* word) noexcept nogil:
    """How many of the next 8 bytes, which must be readable, are digits from the start: 0 .. 8.

    A byte xor '0' is below 10 for a digit; adding 0x76 to any other sets its top bit.
    """
    cdef uint64_t other
    word[0] = load8(p) ^ <uint64_t>0x3030303030303030
    other = ((word[0] + <uint64_t>0x7676767676767676) | word[0]) & <uint64_t>0x8080808080808080
    return ctz(other) >> 3 if other else 8


cdef inline uint64_t join_digits(uint64_t word, int count) noexcept nogil:
    """The number that 1 to 8 digits of count_digits make: pairs, then fours, then eight."""
    word <<= 64 - 8 * count
    word = word * 10 + (word >> 8)
    return (((word & <uint64_t>0x000000FF000000FF) * <uint64_t>0x000F424000000064)
            + (((word >> 16) & <uint64_t>0x000000FF000000FF) * <uint64_t>0x0000271000000001)) >> 32


cdef inline const unsigned char* read_short_item(
    const unsigned char* p, const double* ten, uint64_t* id, double* value
) noexcept nogil:
    """Read a plain `id:value` of at most 8 digits in each part; NULL for anything else.

    Where a part has more digits, what is read ends before one: the caller looks at what follows.
    Most items are so. 32 bytes from p must be readable. No loop over digits, hence no branch that
    depends on how many there are: 2.5 times as fast as one digit at a time. Exact, since the
    mantissa is below 10^9.
    """
    cdef uint64_t word, whole = 0, part
    cdef int count = count_digits(p, &word)
    cdef bint negative = False
    if count == 0 or p[count] != c":":
        return NULL
    id[0] = join_digits(word, count)
    p += count + 1
    if unlikely(p[0] == c"-"):
        negative = True
        p += 1
    if p[1] == c"." and <unsigned int>p[0] - 48 < 10:
        whole = p[0] - 48
        p += 2
        count = count_digits(p, &word)
        if count == 0:
            return NULL
        part = join_digits(word, count)
        # The sum is a whole number below 10^9, hence exact; only the division rounds.
        value[0] = (<double><int64_t>whole * ten[count] + <double><int64_t>part) / ten[count]
    elif p[1] <= 32 and <unsigned int>p[0] - 48 < 10:
        # A branch that is foretold where all values are 1: the next item waits for no counting.
        count = 1
        value[0] = p[0] - 48
    else:
        count = count_digits(p, &word)
        if count == 0:
            return NULL
        value[0] = <double><int64_t>join_digits(word, count)
    if negative:
        value[0] = -value[0]
    return p + count


cdef inline int read_number(
    const unsigned char** cursor, const double* ten, double* out
) noexcept nogil:
    """Read [+-] digits [. digits] [e [+-] digits] at the cursor and move it behind.

    The caller's text ends in a newline, which is no part of a number: no bounds to check.
    """
    cdef const unsigned char* p = cursor[0]
    cdef const unsigned char* start = p
    cdef const unsigned char* mark
    cdef uint64_t mantissa = 0
    cdef unsigned int digit
    cdef int64_t digits, exponent = 0, written = 0
    cdef bint negative = p[0] == c"-", below
    cdef double value

    if negative or p[0] == c"+":
        p += 1
    mark = p
    digit = <unsigned int>p[0] - 48
    while digit < 10:
        mantissa = 10 * mantissa + digit
        p += 1
        digit = <unsigned int>p[0] - 48
    digits = p - mark
    if p[0] == c".":
        p += 1
        mark = p
        digit = <unsigned int>p[0] - 48
        while digit < 10:
            mantissa = 10 * mantissa + digit
            p += 1
            digit = <unsigned int>p[0] - 48
        exponent = mark - p
        digits -= exponent
    if digits == 0:
        return not_a_number(cursor)
    if (p[0] | 32) == c"e":
        mark = p + 1
        below = mark[0] == c"-"
        if below or mark[0] == c"+":
            mark += 1
        digit = <unsigned int>mark[0] - 48
        if digit > 9:
            return NUMBER_BAD
        while digit < 10:
            if written < 100000000:         # far beyond any double; keeps the sum in range
                written = 10 * written + digit
            mark += 1
            digit = <unsigned int>mark[0] - 48
        p = mark
        exponent += -written if below else written
    cursor[0] = p
    # Clinger: mantissa and power of ten are both exact doubles, so one operation rounds once.
    if digits <= 19 and mantissa <= <uint64_t>1 << 53 and -22 <= exponent <= 22:
        value = <double><int64_t>mantissa
        value = value / ten[-exponent] if exponent < 0 else value * ten[exponent]
        out[0] = -value if negative else value
        return NUMBER_OK
    return hard_number(start, mantissa, exponent, digits, out)
