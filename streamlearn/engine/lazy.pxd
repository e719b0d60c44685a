# Closed forms for a coordinate that slept: its value after a gap, and the sum over the gap.
# Pure functions of numbers; they know no slots.
#
# In the variable u_t = n_t w_t, n_t = t - 1 + t0, SGD with steps 1/(l2 (t + t0)) moves an untouched
# coordinate by u <- u - c sgn(u), c = l1/l2: no step size, no ridge. `clip` stops at zero (forward-
# backward); without it the subgradient overshoots and alternates between r and r - c for ever.
from libc.math cimport copysign, fabs, floor, log1p, sqrt
from libc.stdint cimport int64_t

cdef extern from *:
    """
    /* max(x, 0). The compiler makes a branch of the ternary, mispredicted at every tenth weight. */
    #ifdef __SSE2__
    #include <emmintrin.h>
    static inline double streamlearn_positive(double x) {
        return _mm_cvtsd_f64(_mm_max_sd(_mm_set_sd(x), _mm_setzero_pd()));
    }
    #else
    static inline double streamlearn_positive(double x) { return x > 0.0 ? x : 0.0; }
    #endif
    """
    double positive "streamlearn_positive"(double) noexcept nogil


cdef inline double shrink(double v, double k) noexcept nogil:
    """S_k(v) = sign(v) max(|v| - k, 0), without a branch, which none can foretell near zero."""
    return copysign(positive(fabs(v) - k), v) + 0.0             # -0 + 0 is 0


cdef inline double harmonic_tail(double x) noexcept nogil:
    """h(X) of H(x) = ln X + gamma + h(X), X = x + 1/2; needs X >= 32 for 1e-17."""
    cdef double i = 1.0 / (x * x)
    return i * (1.0 / 24 - i * (7.0 / 960 - i * (31.0 / 8064 - i * (127.0 / 30720))))


cdef inline double harmonic(double a, double b) noexcept nogil:
    """sum of 1/(a+k), k = 1 .. b-a, for real a >= 0 and whole b - a; exact in short and long."""
    cdef double total = 0.0
    cdef int k
    if b - a <= 8.0:
        for k in range(1, <int>(b - a + 0.5) + 1):
            total += 1.0 / (a + k)
        return total
    while a < 32.0:
        if a > b - 0.5:
            return total
        a += 1.0
        total += 1.0 / a
    # log1p keeps full relative accuracy when the gap is short against a.
    return total + log1p((b - a) / (a + 0.5)) + harmonic_tail(b + 0.5) - harmonic_tail(a + 0.5)


cdef inline double alternating_from(double x) noexcept nogil:
    """sum over i >= 1 of (-1)^(i+1) / (x+i), for x >= 0"""
    cdef double total = 0.0, sign = 1.0, i
    while x < 40.0:
        x += 1.0
        total += sign / x
        sign = -sign
    x += 0.5
    i = 1.0 / (x * x)
    return total + sign * 0.5 / x * (
        1.0 - i * (1.0 / 4 - i * (5.0 / 16 - i * (61.0 / 64 - i * (1385.0 / 256))))
    )


cdef inline double alternating(double n, int64_t a, int64_t b) noexcept nogil:
    """sum over j = a .. b of (-1)^(j-a) / (n+j), n + a > 0"""
    cdef double total = 0.0, sign = 1.0
    cdef int64_t j
    if b - a < 8:
        for j in range(a, b + 1):
            total += sign / (n + j)
            sign = -sign
        return total
    sign = 1.0 if (b - a + 1) % 2 == 0 else -1.0
    return alternating_from(n + a - 1) - sign * alternating_from(n + b)


cdef inline double after_gap(double u, int64_t steps, double c, bint subgradient) noexcept nogil:
    """u after some untouched steps."""
    cdef double size, q, r
    if not subgradient or c == 0.0:
        return shrink(u, steps * c)
    size = fabs(u)
    q = floor(size / c)
    if steps <= q:
        return copysign(size - steps * c, u)
    r = size - q * c
    if r <= 0.0:
        return 0.0
    return copysign(r if (steps - <int64_t>q) % 2 == 0 else c - r,
                    u if (steps - <int64_t>q) % 2 == 0 else -u)


cdef inline double gap_sum_u(
    double u, int64_t first, int64_t last, double c, bint subgradient
) noexcept nogil:
    """sum of u_j over offsets j = first .. last of a gap"""
    cdef double size = fabs(u), total = 0.0, q, r, sign
    cdef int64_t e = last, a, many
    if last < first:
        return 0.0
    q = 0.0
    if c > 0.0:
        q = size / c                    # the descent may end inside the gap; no branch on that,
        q = q if q < last else last     # which none can foretell
        e = <int64_t>q
        q = e
    if e >= first:
        total = (e - first + 1) * (size - 0.5 * c * (first + e))
    if subgradient and e < last:
        r = size - q * c
        if r > 0.0:
            a = first if first > e + 1 else e + 1
            many = last - a + 1
            sign = 1.0 if (a - e) % 2 == 0 else -1.0
            total += (r - 0.5 * c) * many
            if many % 2:
                total += sign * 0.5 * c
    return copysign(1.0, u) * total


cdef inline double gap_sum_w(
    double u, double n, int64_t first, int64_t last, double c, bint subgradient
) noexcept nogil:
    """sum of w_j = u_j / (n+j) over offsets j = first .. last; the divisor 0 means w = 0"""
    cdef double size = fabs(u), total = 0.0, q, r, sign
    cdef int64_t e = last, a
    if last < first or size == 0.0:
        return 0.0
    if n + first <= 0.0:
        first += 1
        if last < first:
            return 0.0
    q = 0.0
    if c > 0.0 and size <= last * c:
        q = floor(size / c)
        e = <int64_t>q
    if e >= first:
        # (U - jc)/(n+j) = (U + nc)/(n+j) - c
        total = (size + n * c) * harmonic(n + first - 1, n + e) - c * (e - first + 1)
    if subgradient and e < last:
        r = size - q * c
        if r > 0.0:
            a = first if first > e + 1 else e + 1
            sign = 1.0 if (a - e) % 2 == 0 else -1.0
            # r and r - c are (r - c/2) plus or minus c/2
            total += (r - 0.5 * c) * harmonic(n + a - 1, n + last)
            total += sign * 0.5 * c * alternating(n, a, last)
    return copysign(1.0, u) * total


# ---- sums of a smooth function, where no closed form is at hand ----------------------------------

ctypedef double (*Smooth)(const void* of, double k) noexcept nogil


cdef inline double integral(Smooth f, const void* of, double a, double b) noexcept nogil:
    """Gauss-Legendre with 10 points: 1e-13 or better while b is no farther from a than any pole."""
    cdef double* nodes = [
        0.14887433898163121, 0.43339539412924719, 0.67940956829902441, 0.86506336668898451,
        0.97390652851717172,
    ]
    cdef double* weights = [
        0.29552422471475287, 0.26926671930999636, 0.21908636251598204, 0.14945134915058059,
        0.06667134430868814,
    ]
    cdef double middle = 0.5 * (a + b), half = 0.5 * (b - a), total = 0.0
    cdef int i
    for i in range(5):
        total += weights[i] * (f(of, middle - half * nodes[i]) + f(of, middle + half * nodes[i]))
    return half * total


cdef inline double border(Smooth f, const void* of, double k) noexcept nogil:
    """What a sum that ends before k has beyond the integral up to k - 1/2.

    With d the central difference, 1/d - 1/(2 arsinh(d/2)) = -d/24 + 17 d^3/5760 - 367 d^5/967680;
    the next term is 1e-14 of f(k) where its poles are 64 away.
    """
    cdef double one = f(of, k) - f(of, k - 1.0)
    cdef double three = f(of, k + 1.0) - f(of, k - 2.0)
    cdef double five = f(of, k + 2.0) - f(of, k - 3.0)
    return (-1.0 / 24 * one + 17.0 / 5760 * (three - 3.0 * one)
            - 367.0 / 967680 * (five - 5.0 * three + 10.0 * one))


cdef inline double smooth_sum(
    Smooth f, const void* of, int64_t first, int64_t stop, double R
) noexcept nogil:
    """sum of f(k), k = first .. stop-1, in O(log(stop/first)).

    f must be smooth beyond the ends too, with poles no nearer to k than sqrt(k^2 + R).
    """
    cdef double total = 0.0, a, b, end = stop - 0.5
    while first < stop and (stop - first <= 32 or <double>first * first + R < 4096.0):
        total += f(of, first)
        first += 1
    if first >= stop:
        return total
    total += border(f, of, stop) - border(f, of, first)
    a = first - 0.5
    while a < end:
        b = a + sqrt(a * a + R)
        if b > end:
            b = end
        total += integral(f, of, a, b)
        a = b
    return total
