# The solvers of (1/m) sum importance * loss(<w,x>) + l1 |w|_1 over all examples (scd, detcd) and
# of least squares with at most s non-zeros (grades). All start at w = 0 and draw on nothing but
# their arguments, so the same rows give the same bits.
#
# A step of coordinate descent is w_j <- S_{l1/kappa_j}(w_j - g_j/kappa_j), with kappa_j =
# kappa mean(importance x_ij^2); it never raises the objective. Margins and slopes of the rows are
# kept up to date: scd costs O(non-zeros of the column) a step. detcd keeps the whole gradient up to
# date too and looks at each coordinate: O(columns + non-zeros of the rows that the column is in),
# at most those of the data. A step of grades costs O(non-zeros).
from libc.math cimport INFINITY, copysign, fabs
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free

from streamlearn.engine.columns cimport Columns, allocated
from streamlearn.engine.lazy cimport shrink
from streamlearn.engine.loss cimport curvature, loss_named

cdef extern from *:
    """
    /* Floor of z / 2^64 * n: one of n numbers, as even as 64 bits allow. */
    #define streamlearn_scaled(z, n) ((int64_t)((unsigned __int128)(z) * (uint64_t)(n) >> 64))
    """
    int64_t streamlearn_scaled(uint64_t z, int64_t n) noexcept nogil

# detcd takes its gradient anew when the steps have cost this many passes over the data: a
# sixteenth more work, and rounding does not pile up. Squared loss, 5 million steps on ten nearly
# equal columns: without it the objective ends 2e-9 of itself higher. scd, which keeps margins only,
# does without: 2e-13 there.
cdef int64_t PASSES = 16

# With gamma above the largest eigenvalue the loss of grades never grows; a millionfold is no doubt.
cdef double GROWN = 1e6


cdef class Descent:
    """All vectors of a run; the weights stay zero until a solver is called."""

    def __cinit__(self, Columns columns, str loss, double l1):
        cdef double kappa = curvature(loss)
        cdef int64_t j
        self.columns = columns
        self.block = columns.block
        self.loss = loss_named(loss)
        self.l1 = l1
        self.nonzeros = -1
        self.w = <double*>allocated(columns.count)
        self.curvatures = <double*>allocated(columns.count)
        self.gradient = <double*>allocated(columns.count)
        self.margins = <double*>allocated(self.block.rows)
        self.slopes = <double*>allocated(self.block.rows)
        with nogil:
            for j in range(columns.count):
                self.curvatures[j] = kappa * columns.mean_square(j)

    def __dealloc__(self):
        free(self.w)
        free(self.curvatures)
        free(self.gradient)
        free(self.margins)
        free(self.slopes)

    @property
    def bytes(self):
        """Memory held beside the columns."""
        return 24 * self.columns.count + 16 * self.block.rows

    cdef double penalty(self, int64_t j) noexcept nogil:
        """The bias is spared."""
        return self.l1 if j < self.columns.features else 0.0

    cdef double target(self, int64_t j, double g) noexcept nogil:
        """Where a step along coordinate j with slope g ends; needs kappa_j > 0."""
        cdef double kappa = self.curvatures[j]
        return shrink(self.w[j] - g / kappa, self.penalty(j) / kappa)

    cdef double look(self, const double* w) noexcept nogil:
        """Margins and slopes of all rows under w; returns the sum of importance * loss."""
        cdef double total = 0.0, value, slope
        cdef int64_t row
        self.columns.times(w, self.margins)
        for row in range(self.block.rows):
            self.loss(self.margins[row], self.block.labels[row], &value, &slope)
            self.slopes[row] = self.block.weights[row] * slope
            total += self.block.weights[row] * value
        return total

    cdef double move(self, int64_t row, double change) noexcept nogil:
        """Change the margin of a row; returns the change of its slope."""
        cdef double before = self.slopes[row], value, slope
        self.margins[row] += change
        self.loss(self.margins[row], self.block.labels[row], &value, &slope)
        self.slopes[row] = self.block.weights[row] * slope
        return self.slopes[row] - before

    # ---- coordinate descent ----------------------------------------------------------------------

    cdef void scd(self, int64_t iterations, uint64_t seed) noexcept nogil:
        """Coordinates drawn evenly, with return, by splitmix64."""
        cdef const int64_t* offsets = self.columns.offsets
        cdef int64_t i, j, k
        cdef double new, step
        if self.columns.count == 0:
            return
        self.look(self.w)
        for i in range(iterations):
            j = streamlearn_scaled(splitmix64(seed, <uint64_t>i), self.columns.count)
            if self.curvatures[j] == 0.0:          # in examples without importance only
                continue
            new = self.target(j, self.columns.mean_along(self.slopes, j))
            step = new - self.w[j]
            self.w[j] = new
            if step != 0.0:
                for k in range(offsets[j], offsets[j + 1]):
                    self.move(self.columns.rows[k], step * self.columns.values[k])

    cdef void detcd(self, int64_t iterations) noexcept nogil:
        """Always the coordinate of the largest guaranteed decrease; ties to the lower id."""
        cdef const int64_t* offsets = self.columns.offsets
        cdef int64_t many = offsets[self.columns.count], cost = PASSES * many, j, _
        cdef double new = 0.0
        for _ in range(iterations):
            if cost >= PASSES * many:
                self.look(self.w)
                self.columns.mean_against(self.slopes, self.gradient)
                cost = 0
            j = self.steepest(&new)
            if j < 0:                              # nothing moves: optimal to the last digit
                return
            cost += self.step_along(j, new - self.w[j])
            self.w[j] = new

    cdef int64_t steepest(self, double* new) noexcept nogil:
        """The coordinate of the largest decrease and its new weight; -1: none decreases."""
        cdef int64_t j, chosen = -1
        cdef double best = 0.0, gain, w, g, to, step, penalty
        for j in range(self.columns.count):
            w, g, penalty = self.w[j], self.gradient[j], self.penalty(j)
            if self.curvatures[j] == 0.0 or (w == 0.0 and fabs(g) <= penalty):
                continue
            to = self.target(j, g)
            step = to - w
            gain = -(g * step + self.curvatures[j] * step * step / 2.0
                     + penalty * (fabs(to) - fabs(w)))
            if gain > best:
                best, chosen, new[0] = gain, j, to
        return chosen

    cdef int64_t step_along(self, int64_t j, double step) noexcept nogil:
        """Move the margins of a column's rows and the gradient with them; returns the cost."""
        cdef const int64_t* offsets = self.columns.offsets
        cdef const int64_t* begins = self.block.offsets
        cdef const int64_t* numbers = self.columns.numbers
        cdef const double* values = self.block.values
        cdef double* gradient = self.gradient
        cdef double change, m = <double>self.block.rows
        cdef int64_t k, n, row, cost = 0
        for k in range(offsets[j], offsets[j + 1]):
            row = self.columns.rows[k]
            change = self.move(row, step * self.columns.values[k]) / m
            if change == 0.0:                      # a flat stretch of the loss
                continue
            for n in range(begins[row], begins[row + 1]):
                gradient[numbers[n]] += change * values[n]
            if self.columns.count > self.columns.features:
                gradient[self.columns.features] += change
            cost += begins[row + 1] - begins[row] + 1
        return cost

    # ---- gradient descent with sparsification ----------------------------------------------------

    cdef int64_t grades(self, int64_t iterations, double* sizes) noexcept nogil:
        """w <- H_s(w - g/gamma); 0, or the step after which it had diverged. sizes is scratch."""
        cdef double start = self.look(self.w)
        cdef int64_t i, j
        for i in range(iterations):
            self.columns.mean_against(self.slopes, self.gradient)
            for j in range(self.columns.count):
                self.w[j] -= self.gradient[j] / self.gamma
            keep_largest(self.w, self.columns.features, self.nonzeros, sizes)
            if not self.look(self.w) <= GROWN * start:
                return i + 1
        return 0

    # ---- the certificate -------------------------------------------------------------------------

    cdef double violation(self, const double* w) noexcept nogil:
        """How far from optimal w is at its worst coordinate; the gradient must be that of w.

        With l1: at zero |g| <= l1, elsewhere g = -l1 sgn(w). With at most s non-zeros: g = 0 where
        w is not zero; elsewhere |g| <= gamma times the smallest weight kept, or else the next step
        would take the coordinate in, and g = 0 while there is room.
        """
        cdef double worst = 0.0, off, smallest = INFINITY, slack = self.l1
        cdef int64_t j, kept = 0
        if self.nonzeros >= 0:
            for j in range(self.columns.features):
                if w[j] != 0.0:
                    kept += 1
                    smallest = min(smallest, fabs(w[j]))
            slack = self.gamma * smallest if kept >= self.nonzeros else 0.0
        for j in range(self.columns.count):
            if j == self.columns.features:         # the bias: always free
                off = fabs(self.gradient[j])
            elif w[j] == 0.0:
                off = fabs(self.gradient[j]) - slack
            else:
                off = fabs(self.gradient[j] + copysign(self.l1, w[j]))
            worst = max(worst, off)
        return worst


cdef uint64_t splitmix64(uint64_t seed, uint64_t i) noexcept nogil:
    """Number i = 0, 1, ... of the splitmix64 stream that starts at seed."""
    cdef uint64_t z = seed + (i + 1) * <uint64_t>0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
    return z ^ (z >> 31)


cdef void keep_largest(double* w, int64_t n, int64_t many, double* sizes) noexcept nogil:
    """H_s: all but the `many` largest |w_j| become zero; ties stay by rising j."""
    cdef int64_t j, spare = many
    cdef double cut
    if many >= n:
        return
    for j in range(n):
        sizes[j] = fabs(w[j])
    cut = kth_largest(sizes, n, many)              # the largest that must go, or its equal
    for j in range(n):
        spare -= fabs(w[j]) > cut
    for j in range(n):
        if fabs(w[j]) > cut:
            continue
        if fabs(w[j]) == cut and spare > 0:
            spare -= 1
        else:
            w[j] = 0.0


cdef double kth_largest(double* values, int64_t n, int64_t k) noexcept nogil:
    """The value that k others precede in falling order (k < n); shuffles them. O(n) on average."""
    cdef int64_t low = 0, high = n - 1, i, j
    cdef double pivot
    while low < high:
        pivot = values[low + (high - low) // 2]
        i, j = low, high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    return values[k]
