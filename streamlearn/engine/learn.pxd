# THE loop: one example after the other through any algorithm and any loss. No Python, no memory
# of its own: everything the next example depends on is in the algorithm's struct or in a slot.
from libc.stdint cimport int64_t
from streamlearn.engine.algorithms.adaptive cimport Adaptive
from streamlearn.engine.algorithms.frozen cimport Frozen
from streamlearn.engine.algorithms.linear cimport Linear
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

# Where the weights are and what is minimised.
cdef struct Task:
    char* slots
    int64_t size                 # bytes from one slot to the next
    char* bias                   # its slot, or NULL
    Loss loss
    double label_shift           # y = (label - shift) * scale
    double label_scale

# Progressive validation: every margin here is from before its example was learned.
cdef struct Progress:
    int64_t examples
    double weight                # sum of importance
    double loss                  # sum of importance * loss
    double errors                # sum of importance over wrong signs
    int64_t positive             # examples with y > 0
    int64_t run                  # examples in a row with the label of the last one
    int64_t longest_run
    double last_label

ctypedef int64_t (*Learn)(AnyAlgorithm*, const Task*, const Rows*, Progress*) noexcept nogil
ctypedef void (*Read)(const AnyAlgorithm*, const char*, bint, Reading*) noexcept nogil

cdef struct Kernel:
    Learn learn                  # returns the row it stopped at: rows.stop, or the one refused
    Read read
    int64_t size                 # bytes of a slot

cdef Kernel kernel_named(str name) except *
