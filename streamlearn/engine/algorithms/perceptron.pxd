# perceptron: soft-threshold perceptron with margin and density bound. Two words; moves on mistakes.
#     if y m <= margin:  w_j <- S_threshold(w_j + eta y x_j)  for the features of the example
from libc.stdint cimport int64_t
from streamlearn.engine.algorithms.reading cimport Reading, plain
from streamlearn.engine.lazy cimport shrink

cdef struct PerceptronSlot:
    int64_t last         # examples seen at the last touch, and one more
    double w

cdef struct Perceptron:
    int64_t t            # examples learned
    double eta
    double threshold
    double margin
    double density       # at most this share of the features seen may be non-zero
    bint stops           # at the bound: stop for good; else refuse only new features
    bint stopped
    int64_t seen         # features
    int64_t nonzeros
    # of the example in hand:
    bint moves
    bint full            # the bound is reached
    double move


cdef inline void prepare(Perceptron* a, PerceptronSlot* slot) noexcept nogil:
    if slot.last <= 0:
        slot.last = 1
        a.seen += 1


cdef inline void step(Perceptron* a, double margin, double y, double importance) noexcept nogil:
    a.moves = y * margin <= a.margin and not a.stopped
    a.full = a.nonzeros >= a.density * a.seen
    a.move = a.eta * importance * y
    if a.moves and a.full and a.stops:
        a.stopped = True
        a.moves = False


cdef inline void update(
    Perceptron* a, PerceptronSlot* slot, double x, bint penalised
) noexcept nogil:
    cdef double before = slot.w
    if not a.moves or (penalised and a.full and before == 0.0):
        return
    slot.last = a.t + 2
    if not penalised:
        slot.w += a.move * x
        return
    slot.w = shrink(before + a.move * x, a.threshold)
    a.nonzeros += (slot.w != 0.0) - (before != 0.0)


cdef inline void reading(
    const Perceptron* a, const PerceptronSlot* slot, bint penalised, Reading* out
) noexcept nogil:
    plain(out, slot.w, 0.0)
