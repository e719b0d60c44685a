# Parser: bytes of libsvm text to a block, or {code, line, column}. Opens no file, prints nothing.
from libc.stdint cimport int64_t
from streamlearn.engine.block cimport Block

# What can be wrong with a line.
cdef enum Fault:
    FAULT_NONE = 0
    FAULT_LABEL = 1            # the label is not a number
    FAULT_LABEL_RANGE = 2      # the label is nan, inf or overflows
    FAULT_LABEL_UNKNOWN = 3    # a number, but not one of the two classes
    FAULT_LABEL_MIXED = 4      # 0 and -1 both stand for the negative class
    FAULT_WEIGHT = 5           # the importance weight is not a number >= 0
    FAULT_ID = 6               # the feature id is not a whole number >= 0
    FAULT_ID_RANGE = 7         # the feature id is beyond 2^63 - 1
    FAULT_COLON = 8            # no ':' behind the feature id
    FAULT_VALUE = 9            # the value is not a number
    FAULT_VALUE_RANGE = 10     # the value is nan, inf or overflows
    FAULT_REPEATED = 11        # the id stands twice in the row
    FAULT_QID = 12             # qid: without a whole number
    FAULT_EXTREME = 13         # a number whose square would overflow when learned
    FAULT_MEMORY = 14          # none left to look for repeated ids, or for one more class
    FAULT_CLASS = 15           # a number, but not a whole one that can name a class
    FAULT_CLASSES = 16         # one class more than there may be

# How a label becomes y.
cdef struct LabelRule:
    bint binary                # False: any number is y
    bint named                 # True: negative and positive were given by the user
    double negative
    double positive
    bint seen_zero
    bint seen_minus
    bint classes               # True: any whole number is y, and names a class
    bint fixed                 # no class may come to the known ones
    bint fresh                 # the label in hand is none of them
    double* known              # rising
    int64_t count
    int64_t limit              # so many classes there may be


cdef inline int64_t place_of(const LabelRule* rule, double label) noexcept nogil:
    """Where a class stands among the known ones, or would stand."""
    cdef int64_t low = 0, high = rule.count, middle
    while low < high:
        middle = (low + high) // 2
        if rule.known[middle] < label:
            low = middle + 1
        else:
            high = middle
    return low


cdef int map_label(LabelRule* rule, double raw, double* y) noexcept nogil
cdef int add_class(LabelRule* rule, double label) noexcept nogil

# One of many texts to be read, and what became of it.
cdef struct Text:
    const unsigned char* start
    Py_ssize_t size
    int64_t before       # lines of its file that stand before it
    bint settled         # whether the labels were settled before it
    int64_t rows         # of the block, behind it
    int64_t blank        # lines of it without a row


cdef class Parser:
    cdef LabelRule rule
    cdef readonly int64_t line            # lines read so far; the faulty one after an error
    cdef readonly int64_t blank           # blank and comment-only lines
    cdef readonly int64_t zeros           # values written as 0
    cdef readonly int64_t unsorted        # rows whose ids do not rise
    cdef readonly int64_t fault           # code of the last parse; 0 when it was clean
    cdef readonly int64_t column
    cdef readonly int64_t feature         # id in hand when a value was faulty
    cdef readonly int64_t reached         # bytes read of the last of many texts
    cdef readonly bytes token

    cdef int know(self, double label) except -1
    cdef int prepare(
        self, const unsigned char[::1] buffer, Py_ssize_t start, Py_ssize_t stop, Block block
    ) except -1
    cdef int make_room(self, Py_ssize_t size, Block block) except -1
    cdef Py_ssize_t parse_each(
        self, Text* all, Py_ssize_t count, Block block, const unsigned char** where
    ) noexcept nogil
    cdef int64_t parse_lines(
        self, const unsigned char* start, const unsigned char* end, Block block,
        const unsigned char** where
    ) noexcept nogil
