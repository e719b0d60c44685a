# The choice of L: an upper bound from the recent rows, and how low it may go, judged on the same.
# A pure read, as the conversion is that it is made for.
from libc.math cimport fabs, rint, sqrt
from libc.stdint cimport int64_t, uint64_t

from streamlearn.engine.algorithms.reading cimport Reading
from streamlearn.engine.block cimport Block
from streamlearn.engine.conversion cimport Conversion, converted
from streamlearn.engine.loss cimport Loss
from streamlearn.engine.recent cimport newest_kept
from streamlearn.engine.slots cimport id_of, spread, streamlearn_fetch, touched
from streamlearn.engine.together cimport Hand, both
from streamlearn.engine.window cimport Window

cdef enum:
    STEPS = 10                 # L is looked for at L_hat * 2^k, k = -6 .. 3
    LOWEST = -6
    POWER_STEPS = 12           # of the power iteration: within a step of 2 of the largest, surely
    NEAR = 24                  # features ahead of which a slot is fetched

# L when nothing curves: no feature among the recent rows, and no ridge.
cdef double LEAST = 1e-30

# Costs are counted in units of this share of the loss: far below any difference that matters.
cdef double UNIT = 2.0 ** -40

# To a number below a third of this in size it is added, and taken off again, to round it.
cdef double TURN = 1.5 * 2.0 ** 52

# Slots, from which on two hands are faster than one.
cdef int64_t MANY = 1 << 17

# Costs are counted of all features up to so many, and of a share of them beyond: each of them would
# be converted ten times, which took longer than to learn it, to tell apart costs of 1 % or more.
cdef int64_t ENOUGH = 1 << 17


cdef struct Trial:
    double[STEPS] candidates
    double units                     # that one unit of cost is worth
    uint64_t apart                   # of the ids, those whose hash has none of these bits
    double part                      # weight of the recent rows in the averaged gradient


cdef struct Pair:
    double v
    double y


cdef double largest_curvature(
    Window window, double curvature, bint with_bias
) except -1.0:
    """Largest eigenvalue of kappa * mean(x x') over the recent rows, by power iteration."""
    cdef bytearray memory = bytearray(16 * (window.count + 1))
    cdef Pair* bias = <Pair*><char*>memory
    cdef Pair* pairs = bias + 1
    cdef int64_t* numbers
    cdef Block block
    cdef int64_t round, row, k, i, rows = len(window.recent)
    cdef double dot, length = 0.0
    if rows == 0:
        return 0.0
    bias.v = 1.0 if with_bias else 0.0
    for i in range(window.count):
        # positive, since most data is, and uneven: no symmetry can hide the top
        pairs[i].v = 0.5 + (spread(window.ids[i]) >> 11) * 1.1102230246251565e-16 / 2.0
    for round in range(POWER_STEPS + 1):
        # y <- sum of a x x' v; in the first round only scale the start to unit length
        if round == 0:
            for i in range(-1, window.count):
                pairs[i].y = pairs[i].v
        else:
            for block in (window.recent.old, window.recent.young):
                numbers = window.numbers_of(block)
                with nogil:
                    for row in range(window.recent.first(block), block.rows):
                        dot = bias.v
                        for k in range(block.offsets[row], block.offsets[row + 1]):
                            dot += block.values[k] * pairs[numbers[k]].v
                        dot *= block.weights[row]
                        for k in range(block.offsets[row], block.offsets[row + 1]):
                            pairs[numbers[k]].y += dot * block.values[k]
                        if with_bias:
                            bias.y += dot
        with nogil:
            # v <- y / |y|
            length = 0.0
            for i in range(-1, window.count):
                length += pairs[i].y * pairs[i].y
            length = sqrt(length)
            if length > 0.0:
                for i in range(-1, window.count):
                    pairs[i].v = pairs[i].y / length
                    pairs[i].y = 0.0
        if length == 0.0:
            return 0.0
    return curvature * length / rows


cdef double recent_gradient(Conversion c, Window window, double* sums, double* bias) except -1.0:
    """sum of a_t g_t over the recent rows of the averaged gradient; returns sum of a_t."""
    cdef Block block
    cdef int64_t* numbers
    cdef int64_t row, k, age, number = c.t + 1
    cdef double a, weight = 0.0
    bias[0] = 0.0
    for block in (window.recent.young, window.recent.old):
        numbers = window.numbers_of(block)
        with nogil:
            for row in range(block.rows - 1, window.recent.first(block) - 1, -1):
                number = newest_kept(number - 1)
                age = c.t - number
                if age < c.from_age or age >= c.to_age:
                    continue
                a = c.newest - age if c.grows else 1.0
                weight += a
                a *= block.slopes[row]
                bias[0] += a
                for k in range(block.offsets[row], block.offsets[row + 1]):
                    sums[numbers[k]] += a * block.values[k]
    return weight


cdef int choose_smoothness(
    Conversion c, Window window, Loss loss, double curvature
) except -1:
    """L = arg min over L_hat 2^k of the objective on the recent rows; ties to the smaller L.

    A row must not judge a gradient that it is part of: the smaller L, the more a model follows
    the noise of the rows it was made from. So the recent rows are taken out of the averaged
    gradient for this choice. While they are most of it, L is L_hat, which is safe.
    """
    cdef double top = largest_curvature(window, curvature, c.bias != NULL) + c.l2
    cdef double least = max(2.0 * c.l2, LEAST)
    cdef bytearray memory = bytearray(8 * (1 + STEPS) * window.count)
    cdef double* sums = <double*><char*>memory
    cdef double* weights = sums + window.count        # STEPS of each feature
    cdef double[STEPS] costs
    cdef double[STEPS] losses
    cdef double[STEPS] bias
    cdef double best, value, slope, bias_sum, units = 0.0
    cdef int64_t row, rows = len(window.recent)
    cdef int s, chosen = 0
    cdef Block block
    cdef Trial trial
    trial.part = recent_gradient(c, window, sums, &bias_sum)
    c.smoothness = max(top, least)
    if trial.part > 0.5 * c.total:
        return 0
    for s in range(STEPS):
        trial.candidates[s] = max(top * 2.0 ** (s + LOWEST), least)
        costs[s] = losses[s] = bias[s] = 0.0
    for block in (window.recent.old, window.recent.young):
        for row in range(window.recent.first(block), block.rows):
            loss(0.0, block.labels[row], &value, &slope)
            units += block.weights[row] * value
    trial.units = rows / (UNIT * units) if units > 0.0 else 1.0 / UNIT
    count_costs(c, &trial, costs)
    with nogil:
        if c.bias != NULL and touched(c.bias):
            value = weigh(c, &trial, c.bias, False, bias_sum, bias)
            add_costs(c, value, trial.units, bias, costs)
    weigh_window(c, &trial, window, sums, weights, costs)
    for block in (window.recent.old, window.recent.young):
        add_losses(window, block, loss, bias, weights, losses)
    for s in range(STEPS):
        value = losses[s] / max(rows, 1) + (trial.apart + 1) * costs[s] / trial.units
        if s == 0 or value < best:
            best, chosen = value, s
    c.smoothness = trial.candidates[chosen]
    return 0


cdef inline double weigh(
    Conversion c, const Trial* trial, const char* slot, bint penalised, double share, double* out
) noexcept nogil:
    """The weight under each L, none being cut, without rows whose gradients sum to `share`.

    Returns the penalty.
    """
    cdef Reading reading
    cdef double[STEPS] steps
    cdef double point, ridge
    cdef int s
    c.kernel.read(c.algorithm, slot + c.offset, penalised, &reading)
    point = reading.last if c.at_last else reading.mean
    ridge = c.l2 * reading.mean
    reading.gradient = (((reading.gradient - ridge) * c.total - share)
                        / (c.total - trial.part) + ridge)
    for s in range(STEPS):
        steps[s] = trial.candidates[s] * reading.scale
    for s in range(STEPS):
        out[s] = converted(point, reading.gradient, steps[s], reading.penalty)
    return reading.penalty


cdef inline void add_costs(
    Conversion c, double penalty, double units, const double* weights, double* costs
) noexcept nogil:
    """Count b|w| + l2/2 w^2 under each L in whole units, negative ones to take it out.

    Sums of whole numbers are exact, so that the order of the slots does not matter.
    """
    cdef int s
    for s in range(STEPS):
        costs[s] += whole(units * (penalty * fabs(weights[s])
                                   + 0.5 * c.l2 * weights[s] * weights[s]))


cdef inline double whole(double x) noexcept nogil:
    """rint(x); a call of it takes as long as a division."""
    return (x + TURN) - TURN if fabs(x) < TURN / 3.0 else rint(x)


cdef int weigh_window(
    Conversion c, const Trial* trial, Window window, const double* sums, double* weights,
    double* costs
) except -1:
    """The weights of the recent rows' features, and of those that are counted the costs.

    Those were counted as if all of their gradient were old.
    """
    cdef double[STEPS] before
    cdef double penalty
    cdef int64_t i
    with nogil:
        for i in range(window.count):
            if i + NEAR < window.count:
                streamlearn_fetch(window.slots[i + NEAR])
            if window.slots[i] == NULL:
                continue
            penalty = weigh(c, trial, window.slots[i], True, sums[i], weights + STEPS * i)
            if sums[i] != 0.0 and not spread(window.ids[i]) & trial.apart:
                add_costs(c, penalty, trial.units, weights + STEPS * i, costs)
                penalty = weigh(c, trial, window.slots[i], True, 0.0, before)
                add_costs(c, penalty, -trial.units, before, costs)
    return 0


cdef int add_losses(
    Window window, Block block, Loss loss, const double* bias,
    const double* weights, double* losses
) except -1:
    """The loss of each recent row of a generation under the weights of each L."""
    cdef const int64_t* numbers = window.numbers_of(block)
    cdef const double* of
    cdef double[STEPS] margins
    cdef double value, slope
    cdef int64_t row, k
    cdef int s
    with nogil:
        for row in range(window.recent.first(block), block.rows):
            for s in range(STEPS):
                margins[s] = bias[s]
            for k in range(block.offsets[row], block.offsets[row + 1]):
                of = weights + STEPS * numbers[k]
                for s in range(STEPS):
                    margins[s] += block.values[k] * of[s]
            for s in range(STEPS):
                loss(margins[s], block.labels[row], &value, &slope)
                losses[s] += block.weights[row] * value
    return 0


cdef int count_costs(Conversion c, Trial* trial, double* costs) except -1:
    """Of the slots, or of a share of them that leaves ENOUGH of those that were touched."""
    cdef int64_t used = c.slots.used
    cdef Counting one = Counting(c, 0, used), other = Counting(c, used // 2, used)
    cdef uint64_t apart = share_of(c.slots.seen() if c.slots.dense else used)
    cdef int s
    if used >= MANY:
        one.stop = other.first
    while True:
        trial.apart = apart
        for hand in (one, other):
            (<Counting>hand).begin(trial)
        if used >= MANY:
            both(one, other)
        else:
            with nogil:
                one.work()
        # Of scattered slots nearly all were touched: only now it is known how many.
        apart = share_of(one.seen + other.seen)
        if apart == trial.apart:
            break
    for s in range(STEPS):
        costs[s] += one.costs[s] + other.costs[s]
    return 0


cdef uint64_t share_of(int64_t seen) noexcept:
    cdef uint64_t apart = 0
    while seen // <int64_t>(2 * apart + 2) >= ENOUGH:
        apart = 2 * apart + 1
    return apart


cdef class Counting(Hand):
    """The costs of a part of the slots, as if none of their gradient were of a recent row."""

    cdef Conversion conversion
    cdef int64_t first, stop, seen
    cdef Trial trial
    cdef double[STEPS] costs

    def __init__(self, Conversion conversion, int64_t first, int64_t stop):
        self.conversion, self.first, self.stop = conversion, first, stop

    cdef void begin(self, const Trial* trial) noexcept:
        cdef int s
        self.trial, self.seen = trial[0], 0
        for s in range(STEPS):
            self.costs[s] = 0.0

    cdef void work(self) noexcept nogil:
        cdef char* slot = self.conversion.slots.base + self.first * self.conversion.slots.size
        cdef double[STEPS] weights
        cdef double penalty
        cdef int64_t i
        for i in range(self.first, self.stop):
            if touched(slot):
                self.seen += 1
                if not spread(id_of(self.conversion.slots, i)) & self.trial.apart:
                    penalty = weigh(self.conversion, &self.trial, slot, True, 0.0, weights)
                    add_costs(self.conversion, penalty, self.trial.units, weights, self.costs)
            slot += self.conversion.slots.size
