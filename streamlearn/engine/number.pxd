# Digits to the exactly rounded double, as Python's float() gives it; knows nothing of lines.
from libc.stdint cimport int32_t, int64_t, uint64_t

# Outcome of reading one number.
cdef enum NumberCode:
    NUMBER_OK = 0
    NUMBER_BAD = 1        # not a decimal number
    NUMBER_RANGE = 2      # nan, inf, or too large for a double

cdef double[23] TEN       # 10^0 .. 10^22, the powers of ten that a double holds exactly

cdef int hard_number(
    const unsigned char* start, uint64_t mantissa, int64_t exponent, int64_t digits, double* out
) noexcept nogil

cdef int not_a_number(const unsigned char** cursor) noexcept nogil


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
        value = <double>mantissa
        value = value / ten[-exponent] if exponent < 0 else value * ten[exponent]
        out[0] = -value if negative else value
        return NUMBER_OK
    return hard_number(start, mantissa, exponent, digits, out)
