# THE loop: one example after the other through any algorithm and any loss. No Python, no memory
# of its own: everything the next example depends on is in the algorithm's struct or in a slot.
from libc.stdint cimport int64_t
from streamlearn.engine.algorithms.adagrad cimport Adagrad
from streamlearn.engine.algorithms.adaptive cimport Adaptive
from streamlearn.engine.algorithms.ball cimport Ball
from streamlearn.engine.algorithms.dual cimport Dual
from streamlearn.engine.algorithms.epoch cimport Epoch
from streamlearn.engine.algorithms.everyone cimport Everyone
from streamlearn.engine.algorithms.forward cimport Forward
from streamlearn.engine.algorithms.frozen cimport Frozen
from streamlearn.engine.algorithms.ftrl cimport Ftrl
from streamlearn.engine.algorithms.linear cimport Linear
from streamlearn.engine.algorithms.mirror cimport Mirror
from streamlearn.engine.algorithms.orda cimport Orda
from streamlearn.engine.algorithms.perceptron cimport Perceptron
from streamlearn.engine.algorithms.reading cimport Reading
from streamlearn.engine.algorithms.sgd cimport Sgd
from streamlearn.engine.algorithms.suffix cimport Suffix
from streamlearn.engine.loss cimport Loss

# One of them is live; which, the kernel knows.
cdef union AnyAlgorithm:
    Sgd sgd
    Linear linear
    Suffix suffix
    Frozen frozen
    Adaptive adaptive
    Forward forward
    Dual dual
    Adagrad adagrad
    Ftrl ftrl
    Epoch epoch
    Perceptron perceptron
    Orda orda
    Mirror mirror
    Ball ball

# Examples to learn: rows first .. stop-1 of CSR arrays, ids already turned into slot numbers.
cdef struct Rows:
    int64_t first
    int64_t stop
    const int64_t* offsets
    const int64_t* numbers       # slot number of each feature
    const double* values
    const double* labels
    const double* weights
    const double* norms
    # out, a number a row from `first` on:
    double* slopes               # importance * loss'
    double* margins              # from before the row was learned; with progress only

# Where the weights are and what is minimised.
cdef struct Task:
    Everyone all                 # the slots
    char* bias                   # the slot of the bias, or NULL
    Loss loss
    double label_shift           # y = (label - shift) * scale
    double label_scale
    double zero_loss             # loss at margin 0 where it does not depend on y, else -1

# Progressive validation: every margin here is from before its example was learned.
cdef struct Progress:
    int64_t examples
    double weight                # sum of importance
    double loss                  # sum of importance * loss
    double baseline              # sum of importance * loss of the zero model
    double errors                # sum of importance over wrong signs
    int64_t positive             # examples with y > 0
    int64_t run                  # examples in a row with the label of the last one
    int64_t longest_run
    double last_label


cdef inline void note(
    Progress* p, double margin, double y, double value, double importance
) noexcept nogil:
    """Count an example whose margin was taken before it was learned."""
    p.examples += 1
    p.weight += importance
    p.loss += importance * value
    p.errors += importance * ((margin > 0.0) != (y > 0.0))
    p.positive += y > 0.0
    p.run = p.run + 1 if y == p.last_label else 1
    p.last_label = y
    if p.run > p.longest_run:
        p.longest_run = p.run


ctypedef int64_t (*Learn)(AnyAlgorithm*, const Task*, const Rows*, Progress*) noexcept nogil
ctypedef void (*Read)(const AnyAlgorithm*, const char*, bint, Reading*) noexcept nogil
ctypedef void (*ReadAll)(const AnyAlgorithm*, char**, int64_t, Reading*) noexcept nogil
ctypedef bint (*Has)(const AnyAlgorithm*) noexcept nogil
ctypedef object (*Get)(const AnyAlgorithm*)
ctypedef int (*Set)(AnyAlgorithm*, dict) except -1

# An algorithm as the rest of the engine sees it.
cdef struct Kernel:
    Learn learn                  # returns the row it stopped at: rows.stop, or the one refused
    Read read
    ReadAll read_all             # of many slots, all penalised
    Has has_gradient             # whether an averaged gradient is there to convert with
    Get scalars                  # the struct as a dict, for a state
    Set set_scalars
    int64_t size                 # bytes of a slot

cdef Kernel kernel_named(str name) except *
