# THE loop, and the table of kernels made from it: one compiled copy an algorithm, none a loss.
#
# An algorithm is a static type (its hooks are inlined; an indirect call a coordinate would cost
# 12-50 %), a loss a function pointer called once an example (which costs nothing).
from libc.math cimport fabs
from libc.stdint cimport int64_t

from streamlearn.engine.algorithms cimport (
    adagrad, adaptive, ball, dual, epoch, forward, frozen, ftrl, linear, mirror, orda, perceptron,
    sgd, suffix,
)
from streamlearn.engine.algorithms.everyone cimport nth
from streamlearn.engine.algorithms.reading cimport Reading
from streamlearn.engine.algorithms.schedule cimport (
    close_step, open_step, scaled_margin, take_slope,
)
from streamlearn.engine.block cimport EXTREME
from streamlearn.engine.slots cimport touched

from streamlearn.errors import UsageError

cdef extern from *:
    """
    #define streamlearn_prefetch(p) __builtin_prefetch((p), 1, 3)
    """
    void streamlearn_prefetch(const void*) noexcept nogil

ctypedef fused Algorithm:
    Sgd
    Linear
    Suffix
    Frozen
    Adaptive
    Forward
    Dual
    Adagrad
    Ftrl
    Epoch
    Perceptron
    Orda
    Mirror
    Ball

# Bytes of slots that are in the cache anyway: to fetch them ahead took a fifth of the time.
cdef int64_t NEAR = 1 << 17

# A margin of this size has left the world: no label is as large, and squares soon overflow.
cdef double DIVERGED = 1e60


# ---- the hooks: what each algorithm does at each point of the loop -------------------------------

cdef inline void begin(Algorithm* a, double norm) noexcept nogil:
    """Before anything of the example is read."""
    if Algorithm is Sgd or Algorithm is Linear or Algorithm is Suffix:
        open_step(&a.step, norm)
    elif Algorithm is Forward:
        forward.begin(a)
    elif Algorithm is Orda:
        orda.begin(a)


cdef inline bint prepares(Algorithm* a) noexcept nogil:
    """Whether features must be looked at before any weight is read."""
    if Algorithm is Dual:
        return dual.prepares(a)
    else:
        return Algorithm is Adaptive or Algorithm is Perceptron


cdef inline void prepare(Algorithm* a, char* slot, double x) noexcept nogil:
    """Each feature, before any weight is read."""
    if Algorithm is Adaptive:
        adaptive.prepare(a, <adaptive.AdaptiveSlot*>slot, x)
    elif Algorithm is Dual:
        dual.prepare(a, <dual.DualSlot*>slot, True)
    elif Algorithm is Perceptron:
        perceptron.prepare(a, <perceptron.PerceptronSlot*>slot)


cdef inline void ready(Algorithm* a, char* bias) noexcept nogil:
    """Once, between prepare and weight."""
    if Algorithm is Adaptive:
        if bias != NULL:
            adaptive.prepare(a, <adaptive.AdaptiveSlot*>bias, 1.0)
        adaptive.ready(a)
    elif Algorithm is Dual:
        if bias != NULL and dual.prepares(a):
            dual.prepare(a, <dual.DualSlot*>bias, False)


cdef inline double weight(Algorithm* a, char* slot, bint penalised) noexcept nogil:
    """Each feature: catch up with the time slept, and read the weight."""
    if Algorithm is Sgd:
        return sgd.read(a, <sgd.SgdSlot*>slot)
    elif Algorithm is Linear:
        return linear.read(a, <linear.LinearSlot*>slot)
    elif Algorithm is Suffix:
        return suffix.read(a, <suffix.SuffixSlot*>slot, penalised)
    elif Algorithm is Frozen:
        return frozen.read(a, <frozen.FrozenSlot*>slot)
    elif Algorithm is Adaptive:
        return adaptive.read(a, <adaptive.AdaptiveSlot*>slot, penalised)
    elif Algorithm is Forward:
        return forward.read(a, <forward.ForwardSlot*>slot, penalised)
    elif Algorithm is Dual:
        return dual.weight(a, <dual.DualSlot*>slot, penalised)
    elif Algorithm is Adagrad:
        return adagrad.weight(a, <adagrad.AdagradSlot*>slot, penalised)
    elif Algorithm is Ftrl:
        return ftrl.weight(a, <ftrl.FtrlSlot*>slot, penalised)
    elif Algorithm is Epoch:
        return epoch.read(a, <epoch.EpochSlot*>slot, penalised)
    elif Algorithm is Orda:
        return orda.read(a, <orda.OrdaSlot*>slot, penalised)
    elif Algorithm is Mirror:
        return mirror.weight(a, <mirror.MirrorSlot*>slot, penalised)
    elif Algorithm is Ball:
        return (<ball.BallSlot*>slot).w
    else:
        return (<perceptron.PerceptronSlot*>slot).w


cdef inline double margin_of(Algorithm* a, double total) noexcept nogil:
    """From the sum of x * weight to the margin."""
    if Algorithm is Sgd or Algorithm is Linear or Algorithm is Suffix:
        return scaled_margin(&a.step, total)
    else:
        return total


cdef inline void step(
    Algorithm* a, double slope, double importance, double margin, double y
) noexcept nogil:
    """Once, the loss known: slope = importance * loss'."""
    if Algorithm is Sgd or Algorithm is Linear or Algorithm is Suffix:
        take_slope(&a.step, slope, importance)
    elif Algorithm is Forward:
        forward.step(a, slope)
    elif Algorithm is Ball:
        ball.step(a, slope)
    elif Algorithm is Perceptron:
        perceptron.step(a, margin, y, importance)
    else:
        a.slope = slope


cdef inline void update(Algorithm* a, char* slot, double x, bint penalised) noexcept nogil:
    """Each feature: move the weight, add to the sums."""
    if Algorithm is Sgd:
        sgd.update(a, <sgd.SgdSlot*>slot, x, penalised)
    elif Algorithm is Linear:
        linear.update(a, <linear.LinearSlot*>slot, x, penalised)
    elif Algorithm is Suffix:
        suffix.update(a, <suffix.SuffixSlot*>slot, x, penalised)
    elif Algorithm is Frozen:
        frozen.update(a, <frozen.FrozenSlot*>slot, x)
    elif Algorithm is Adaptive:
        adaptive.update(a, <adaptive.AdaptiveSlot*>slot, x)
    elif Algorithm is Forward:
        forward.update(a, <forward.ForwardSlot*>slot, x)
    elif Algorithm is Dual:
        dual.update(a, <dual.DualSlot*>slot, x, penalised)
    elif Algorithm is Adagrad:
        adagrad.update(a, <adagrad.AdagradSlot*>slot, x)
    elif Algorithm is Ftrl:
        ftrl.update(a, <ftrl.FtrlSlot*>slot, x, penalised)
    elif Algorithm is Epoch:
        epoch.update(a, <epoch.EpochSlot*>slot, x, penalised)
    elif Algorithm is Orda:
        orda.update(a, <orda.OrdaSlot*>slot, x, penalised)
    elif Algorithm is Mirror:
        mirror.update(a, <mirror.MirrorSlot*>slot, x, penalised)
    elif Algorithm is Ball:
        ball.update(a, <ball.BallSlot*>slot, x)
    else:
        perceptron.update(a, <perceptron.PerceptronSlot*>slot, x, penalised)


cdef inline void end(Algorithm* a) noexcept nogil:
    """The example is learned: advance time."""
    if Algorithm is Frozen:
        a.t += 1
        a.count += a.count >= 0
    elif Algorithm is Adaptive:
        a.W += a.t
        a.t += 1
    elif Algorithm is Linear:
        a.W += a.step.n
        close_step(&a.step)
    elif Algorithm is Suffix:
        close_step(&a.step)
        suffix.roll(a)
    elif Algorithm is Sgd:
        close_step(&a.step)
    elif Algorithm is Forward:
        forward.end(a)
    elif Algorithm is Dual:
        dual.end(a)
    elif Algorithm is Epoch:
        epoch.end(a)
    else:
        a.t += 1


cdef inline void sweep(Algorithm* a, const Task* task) noexcept nogil:
    """After each example, for the few algorithms that must look at every feature."""
    if Algorithm is Dual:
        if a.kind >= dual.L2BALL:
            dual.sweep(a, &task.all)
    elif Algorithm is Orda:
        if a.ssg:
            orda.sweep(a, &task.all)
    elif Algorithm is Mirror:
        mirror.sweep(a, &task.all)
    elif Algorithm is Ball:
        ball.sweep(a, &task.all)
    elif Algorithm is Forward:
        if forward.due(a):
            turn_all(a, task)
    elif Algorithm is Epoch:
        if epoch.due(a):
            turn_all(a, task)


cdef void turn_all(Algorithm* a, const Task* task) noexcept nogil:
    """Now and then: bring every slot over a border of time (an epoch, a rescaling)."""
    cdef int64_t i
    cdef char* slot
    for i in range(-1, task.all.used):
        slot = task.bias if i < 0 else nth(&task.all, i)
        if slot == NULL or not touched(slot):
            continue
        if Algorithm is Forward:
            forward.turn(a, <forward.ForwardSlot*>slot, i >= 0)
        elif Algorithm is Epoch:
            epoch.turn(a, <epoch.EpochSlot*>slot, i >= 0)
    if Algorithm is Forward:
        forward.turned(a)
    elif Algorithm is Epoch:
        epoch.turned(a)


# ---- the loop ------------------------------------------------------------------------------------

cdef int64_t learn_rows(
    Algorithm* a, const Task* task, const Rows* rows, Progress* progress
) noexcept nogil:
    """Learn rows in order; stop at one that would leave the finite numbers and return it."""
    cdef const int64_t* numbers = rows.numbers
    cdef const double* values = rows.values
    cdef char* slots = task.all.slots
    cdef char* bias = task.bias
    cdef int64_t size = task.all.size, row, k, first, stop, next_stop, ahead
    cdef double total, margin, y, value, slope, importance
    cdef bint far = task.all.used * size > NEAR
    for row in range(rows.first, rows.stop):
        first = rows.offsets[row]
        stop = rows.offsets[row + 1]
        next_stop = rows.offsets[row + 2] if far and row + 1 < rows.stop else stop
        importance = rows.weights[row]
        y = (rows.labels[row] - task.label_shift) * task.label_scale

        begin(a, rows.norms[row] + (bias != NULL))
        if prepares(a):
            for k in range(first, stop):
                prepare(a, slots + numbers[k] * size, values[k])
        ready(a, bias)
        total = weight(a, bias, False) if bias != NULL else 0.0
        for k in range(first, stop):
            total += values[k] * weight(a, slots + numbers[k] * size, True)
        margin = margin_of(a, total)
        if not (fabs(margin) < DIVERGED and fabs(y) < EXTREME):
            return row

        task.loss(margin, y, &value, &slope)
        slope *= importance
        rows.slopes[row - rows.first] = slope
        step(a, slope, importance, margin, y)
        ahead = stop
        for k in range(first, stop):
            if ahead < next_stop:
                streamlearn_prefetch(slots + numbers[ahead] * size)
                ahead += 1
            update(a, slots + numbers[k] * size, values[k], True)
        for k in range(ahead, next_stop):
            streamlearn_prefetch(slots + numbers[k] * size)
        if bias != NULL:
            update(a, bias, 1.0, False)
        end(a)
        sweep(a, task)
        if progress != NULL:
            rows.margins[row - rows.first] = margin
            note(progress, margin, y, value, importance)
            value = 0.5 * y * y if task.zero_loss < 0.0 else task.zero_loss
            progress.baseline += importance * value
    return rows.stop


cdef inline void read_slot(
    const Algorithm* a, const char* slot, bint penalised, Reading* out
) noexcept nogil:
    """What a coordinate says of itself now; changes nothing."""
    if Algorithm is Sgd:
        sgd.reading(a, <const sgd.SgdSlot*>slot, penalised, out)
    elif Algorithm is Linear:
        linear.reading(a, <const linear.LinearSlot*>slot, penalised, out)
    elif Algorithm is Suffix:
        suffix.reading(a, <const suffix.SuffixSlot*>slot, penalised, out)
    elif Algorithm is Frozen:
        frozen.reading(a, <const frozen.FrozenSlot*>slot, penalised, out)
    elif Algorithm is Adaptive:
        adaptive.reading(a, <const adaptive.AdaptiveSlot*>slot, penalised, out)
    elif Algorithm is Forward:
        forward.reading(a, <const forward.ForwardSlot*>slot, penalised, out)
    elif Algorithm is Dual:
        dual.reading(a, <const dual.DualSlot*>slot, penalised, out)
    elif Algorithm is Adagrad:
        adagrad.reading(a, <const adagrad.AdagradSlot*>slot, penalised, out)
    elif Algorithm is Ftrl:
        ftrl.reading(a, <const ftrl.FtrlSlot*>slot, penalised, out)
    elif Algorithm is Epoch:
        epoch.reading(a, <const epoch.EpochSlot*>slot, penalised, out)
    elif Algorithm is Orda:
        orda.reading(a, <const orda.OrdaSlot*>slot, penalised, out)
    elif Algorithm is Mirror:
        mirror.reading(a, <const mirror.MirrorSlot*>slot, penalised, out)
    elif Algorithm is Ball:
        ball.reading(a, <const ball.BallSlot*>slot, penalised, out)
    else:
        perceptron.reading(a, <const perceptron.PerceptronSlot*>slot, penalised, out)


cdef void read_slots(
    const Algorithm* a, char** slots, int64_t count, Reading* out
) noexcept nogil:
    cdef int64_t i
    for i in range(count):
        read_slot(a, slots[i], True, &out[i])


cdef bint has_gradient(const Algorithm* a) noexcept nogil:
    """Whether the averaged gradient of `reading` is one."""
    if Algorithm is Linear or Algorithm is Adaptive:
        return a.W > 0.0
    elif Algorithm is Suffix:
        return suffix.length(a) > 0
    elif Algorithm is Frozen:
        return (a.count if frozen.serves_new(a) else a.count_before) > 0
    else:
        return False


cdef object scalars(const Algorithm* a):
    return a[0]


cdef int set_scalars(Algorithm* a, dict values) except -1:
    a[0] = values
    return 0


# ---- the table -----------------------------------------------------------------------------------

cdef Kernel kernel_of(Algorithm* a, int64_t size):
    cdef Kernel k
    k.learn, k.read = <Learn>learn_rows[Algorithm], <Read>read_slot[Algorithm]
    k.read_all = <ReadAll>read_slots[Algorithm]
    k.has_gradient = <Has>has_gradient[Algorithm]
    k.scalars, k.set_scalars = <Get>scalars[Algorithm], <Set>set_scalars[Algorithm]
    k.size = size
    return k


# The words of a slot, by the name they have in a state file. All are 8 bytes; the first is the time
# stamp, 0 meaning never touched (frozen has none: it is the second part of another's slot).
FIELDS = {
    "sgd": ("last", "u"),
    "linear": ("last", "u", "A", "G"),
    "suffix": ("last", "u", "S0", "S1", "G0", "G1"),
    "frozen": ("w", "G", "w_before", "G_before"),
    "adaptive": ("last", "S", "Q", "M", "A", "G", "h", "root"),
    "forward": ("last", "v", "Q"),
    "dual": ("last", "S"),
    "dual_mean": ("last", "S", "A"),
    "adagrad": ("last", "S", "Q"),
    "ftrl": ("last", "z", "n"),
    "epoch": ("last", "w", "S", "mean"),
    "perceptron": ("last", "w"),
    "orda": ("last", "x", "G"),
    "mirror": ("last", "theta"),
    "ball": ("last", "w"),
}


cdef Kernel kernel_named(str name) except *:
    cdef AnyAlgorithm any
    cdef int64_t size = 8 * len(FIELDS[name]) if name in FIELDS else 0
    if name == "sgd":
        return kernel_of(&any.sgd, size)
    if name == "linear":
        return kernel_of(&any.linear, size)
    if name == "suffix":
        return kernel_of(&any.suffix, size)
    if name == "frozen":
        return kernel_of(&any.frozen, size)
    if name == "adaptive":
        return kernel_of(&any.adaptive, size)
    if name == "forward":
        return kernel_of(&any.forward, size)
    if name == "dual" or name == "dual_mean":
        return kernel_of(&any.dual, size)
    if name == "adagrad":
        return kernel_of(&any.adagrad, size)
    if name == "ftrl":
        return kernel_of(&any.ftrl, size)
    if name == "epoch":
        return kernel_of(&any.epoch, size)
    if name == "perceptron":
        return kernel_of(&any.perceptron, size)
    if name == "orda":
        return kernel_of(&any.orda, size)
    if name == "mirror":
        return kernel_of(&any.mirror, size)
    if name == "ball":
        return kernel_of(&any.ball, size)
    raise UsageError(f"no kernel {name!r}")
