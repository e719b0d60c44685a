# Packed blocks: the rows of a block as bytes with a checksum, and back. Opens no file.
#
# A record is ten numbers of 64 bits (see Head) and six columns, each at a multiple of 8 bytes and
# as narrow as its numbers allow without changing one of them: text comes out smaller than it went
# in. Labels are as they were written, so that a record serves every loss and way to read labels.
from libc.math cimport fabs
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from streamlearn.engine.block cimport Block, EXTREME, EXTREME_NORM, TINY, first_repeat
from streamlearn.engine.checksum cimport Sum, add_bytes, begin_sum, end_sum

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize

from streamlearn.errors import DataError


cdef struct Head:
    uint64_t checksum      # of all bytes behind it
    uint64_t size          # bytes behind the head
    uint64_t position      # where its text starts in that of the source
    uint64_t text          # bytes of text
    uint64_t lines         # lines of text
    uint64_t blank         # of them without a row
    uint64_t rows
    uint64_t features
    uint64_t first_line    # the one of the first row
    uint64_t widths        # bytes a number of each column, a byte each

HEAD_BYTES = sizeof(Head)

# The columns, in their order.
cdef enum:
    LENGTHS, LINES, IDS, LABELS, WEIGHTS, VALUES, COLUMNS

ctypedef fused Whole:
    uint16_t
    uint32_t
    uint64_t

ctypedef fused Real:
    float
    double


cdef struct Plan:
    int[6] widths
    size_t[6] starts       # from the start of the record
    size_t size            # of the whole record


cdef int lay_out(Plan* plan, uint64_t rows, uint64_t features) noexcept nogil:
    """Where each column starts."""
    cdef size_t place = sizeof(Head)
    cdef int column
    for column in range(COLUMNS):
        plan.starts[column] = place
        place += plan.widths[column] * (features if column in (IDS, VALUES) else rows)
        place = (place + 7) & ~<size_t>7
    plan.size = place
    return 0


# ---- to bytes ------------------------------------------------------------------------------------


cdef int whole_width(uint64_t largest) noexcept nogil:
    return 2 if largest < 1 << 16 else 4 if largest < <uint64_t>1 << 32 else 8


cdef int real_width(const double* from_, int64_t count) noexcept nogil:
    """0: all are 1. 4: each is a float."""
    cdef int64_t i
    cdef int other = 0, wide = 0
    for i in range(count):
        other |= from_[i] != 1.0
        wide |= <double><float>from_[i] != from_[i]
    return 8 if wide else 4 if other else 0


cdef void put_whole(char* to, const int64_t* from_, int64_t count, int width) noexcept nogil:
    cdef int64_t i
    if width == 2:
        for i in range(count):
            (<uint16_t*>to)[i] = <uint16_t>from_[i]
    elif width == 4:
        for i in range(count):
            (<uint32_t*>to)[i] = <uint32_t>from_[i]
    else:
        memcpy(to, from_, count * 8)


cdef void put_real(char* to, const double* from_, int64_t count, int width) noexcept nogil:
    cdef int64_t i
    if width == 4:
        for i in range(count):
            (<float*>to)[i] = <float>from_[i]
    elif width == 8:
        memcpy(to, from_, count * 8)


def pack(Block block, uint64_t position, uint64_t text, uint64_t lines, uint64_t blank):
    """The record of a block: its rows, and the place of its text in the source."""
    cdef Head head
    cdef Plan plan
    cdef Block scratch = Block()       # its offsets and lines hold lengths and distances here
    cdef int64_t i, rows = block.rows, longest = 0
    cdef char* to
    cdef Sum sum
    scratch.reserve(rows + 1, 0)
    head.position, head.text, head.lines, head.blank = position, text, lines, blank
    head.rows, head.features = rows, block.features
    head.first_line = block.lines[0] if rows else 0
    for i in range(rows):
        scratch.offsets[i] = block.offsets[i + 1] - block.offsets[i]
        scratch.lines[i] = block.lines[i] - block.lines[0]
        longest = max(longest, scratch.offsets[i])
    plan.widths[LENGTHS] = whole_width(longest)
    plan.widths[LINES] = 0             # one after the other: so it is in most files
    if rows and scratch.lines[rows - 1] != rows - 1:
        plan.widths[LINES] = whole_width(scratch.lines[rows - 1])
    plan.widths[IDS] = whole_width(max(block.max_id, 0))
    plan.widths[LABELS] = max(4, real_width(block.labels, rows))
    plan.widths[WEIGHTS] = real_width(block.weights, rows)
    plan.widths[VALUES] = real_width(block.values, block.features)
    head.widths = 0
    for i in range(COLUMNS):
        head.widths |= <uint64_t>plan.widths[i] << (8 * i)
    lay_out(&plan, rows, block.features)
    head.size = plan.size - sizeof(Head)
    record = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>plan.size)
    to = PyBytes_AS_STRING(record)
    with nogil:
        memset(to, 0, plan.size)       # the gaps between columns too
        memcpy(to, &head, sizeof(Head))
        put_whole(to + plan.starts[LENGTHS], scratch.offsets, rows, plan.widths[LENGTHS])
        if plan.widths[LINES]:
            put_whole(to + plan.starts[LINES], scratch.lines, rows, plan.widths[LINES])
        put_whole(to + plan.starts[IDS], block.ids, block.features, plan.widths[IDS])
        put_real(to + plan.starts[LABELS], block.labels, rows, plan.widths[LABELS])
        put_real(to + plan.starts[WEIGHTS], block.weights, rows, plan.widths[WEIGHTS])
        put_real(to + plan.starts[VALUES], block.values, block.features, plan.widths[VALUES])
        begin_sum(&sum)
        add_bytes(&sum, <unsigned char*>to + 8, plan.size - 8)
        (<uint64_t*>to)[0] = end_sum(&sum)
    return record


# ---- and back ------------------------------------------------------------------------------------


cdef int64_t take_ids(Block block, const Whole* from_) noexcept nogil:
    """Widen the ids; returns a row that has one twice or a negative one, or -1."""
    cdef int64_t row, k, first, stop, negative = 0, largest = -1
    cdef int falls
    for k in range(block.features):
        block.ids[k] = <int64_t>from_[k]
        negative |= block.ids[k]
    for row in range(block.rows):
        first, stop = block.offsets[row], block.offsets[row + 1]
        falls = 0
        for k in range(first + 1, stop):
            falls |= from_[k] <= from_[k - 1]
        if falls:
            if first_repeat(block.ids + first, stop - first) != -1:
                return row
            for k in range(first, stop):
                largest = max(largest, block.ids[k])
        elif first < stop:
            largest = max(largest, block.ids[stop - 1])
    block.max_id = largest
    return 0 if negative < 0 else -1


cdef int64_t take_values(Block block, const Real* from_) noexcept nogil:
    """Widen the values, sum the norms in the parser's order; returns a row out of bounds, or -1.

    Two rows at a time: a sum must wait for each of its additions, two sums wait for them together.
    """
    cdef int64_t row, k, both
    cdef const double* v = block.values
    cdef const int64_t* at = block.offsets
    cdef double x, y
    cdef int tiny = 0
    for k in range(block.features):
        block.values[k] = <double>from_[k]
        tiny |= fabs(block.values[k]) < TINY
    for row in range(0, block.rows, 2):
        x = y = 0.0
        both = 0
        if row + 1 < block.rows:
            both = min(at[row + 1] - at[row], at[row + 2] - at[row + 1])
            for k in range(both):
                x += v[at[row] + k] * v[at[row] + k]
                y += v[at[row + 1] + k] * v[at[row + 1] + k]
            for k in range(at[row + 1] + both, at[row + 2]):
                y += v[k] * v[k]
            block.norms[row + 1] = y
        for k in range(at[row] + both, at[row + 1]):
            x += v[k] * v[k]
        block.norms[row] = x
        if not (x < EXTREME_NORM and y < EXTREME_NORM):   # nor are they with nan or inf among them
            return row
    return 0 if tiny else -1


cdef void take_ones(Block block) noexcept nogil:
    """Values that are all 1, and the norms that follow."""
    cdef int64_t k
    for k in range(block.features):
        block.values[k] = 1.0
    for k in range(block.rows):
        block.norms[k] = <double>(block.offsets[k + 1] - block.offsets[k])


cdef int64_t take_lengths(Block block, const Whole* from_) noexcept nogil:
    """Sum them to offsets; returns a row beyond the features that there are, or -1."""
    cdef int64_t row, at = 0
    for row in range(block.rows):
        block.offsets[row] = at
        if from_[row] > <uint64_t>(block.features - at):
            return row
        at += <int64_t>from_[row]
    block.offsets[block.rows] = at
    return -1 if at == block.features else block.rows


cdef void take_lines(Block block, const Whole* from_, int64_t first) noexcept nogil:
    cdef int64_t row
    for row in range(block.rows):
        block.lines[row] = first + <int64_t>from_[row]


cdef void take_reals(double* to, const char* from_, int width, int64_t count) noexcept nogil:
    cdef int64_t i
    for i in range(count):
        to[i] = (1.0 if width == 0 else <double>(<const float*>from_)[i] if width == 4
                 else (<const double*>from_)[i])


cdef bint take_all(Block block, const char* from_, const Plan* plan, int64_t first) noexcept nogil:
    """Fill the block, room for which is made; False: no parser made these rows."""
    cdef const char* lengths = from_ + plan.starts[LENGTHS]
    cdef const char* lines = from_ + plan.starts[LINES]
    cdef const char* ids = from_ + plan.starts[IDS]
    cdef const char* values = from_ + plan.starts[VALUES]
    cdef int64_t row, wrong
    if plan.widths[LENGTHS] == 2:
        wrong = take_lengths(block, <const uint16_t*>lengths)
    elif plan.widths[LENGTHS] == 4:
        wrong = take_lengths(block, <const uint32_t*>lengths)
    else:
        wrong = take_lengths(block, <const uint64_t*>lengths)
    if wrong >= 0:
        return False
    if plan.widths[IDS] == 2:
        wrong = take_ids(block, <const uint16_t*>ids)
    elif plan.widths[IDS] == 4:
        wrong = take_ids(block, <const uint32_t*>ids)
    else:
        wrong = take_ids(block, <const uint64_t*>ids)
    if wrong >= 0:
        return False
    if plan.widths[VALUES] == 4:
        wrong = take_values(block, <const float*>values)
    elif plan.widths[VALUES] == 8:
        wrong = take_values(block, <const double*>values)
    else:
        take_ones(block)
    if wrong >= 0:
        return False
    if plan.widths[LINES] == 2:
        take_lines(block, <const uint16_t*>lines, first)
    elif plan.widths[LINES] == 4:
        take_lines(block, <const uint32_t*>lines, first)
    elif plan.widths[LINES] == 8:
        take_lines(block, <const uint64_t*>lines, first)
    else:
        for row in range(block.rows):
            block.lines[row] = first + row
    take_reals(block.labels, from_ + plan.starts[LABELS], plan.widths[LABELS], block.rows)
    take_reals(block.weights, from_ + plan.starts[WEIGHTS], plan.widths[WEIGHTS], block.rows)
    for row in range(block.rows):
        block.slopes[row] = 0.0
        if not (fabs(block.labels[row]) < EXTREME and 0.0 <= block.weights[row] < EXTREME):
            return False
    return True


cdef bint plausible(const Head* head, Plan* plan, size_t size) noexcept nogil:
    """Whether the numbers of a head fit the bytes; sets the plan."""
    cdef int column, width
    for column in range(COLUMNS):
        width = (head.widths >> (8 * column)) & 255
        plan.widths[column] = width
        if not (width == 8 or width == 4 or (width == 2 and column <= IDS)
                or (width == 0 and (column == LINES or column >= WEIGHTS))):
            return False
    # A row takes 6 bytes or more, a feature 2: then no product below can wrap.
    if head.rows > size or head.features > size or head.first_line >= <uint64_t>1 << 62:
        return False
    lay_out(plan, head.rows, head.features)
    return plan.size == size


def unpack(const unsigned char[::1] record, Block block):
    """Fill the block from a whole record; returns (position, text, lines, blank) as given to pack.

    Raises DataError for bytes that pack has not made.
    """
    cdef Head head
    cdef Plan plan
    cdef Sum sum
    cdef const unsigned char* from_
    cdef size_t size = record.shape[0]
    cdef bint good
    block.clear()
    if size < sizeof(Head):
        raise DataError("a record is cut short")
    from_ = &record[0]
    with nogil:
        memcpy(&head, from_, sizeof(Head))
        begin_sum(&sum)
        add_bytes(&sum, from_ + 8, size - 8)
        good = end_sum(&sum) == head.checksum
    if not good:
        raise DataError("the checksum does not fit")
    if head.size != size - sizeof(Head) or not plausible(&head, &plan, size):
        raise DataError("a record contradicts itself")
    block.reserve(head.rows, head.features)
    block.rows, block.features = head.rows, head.features
    with nogil:
        good = take_all(block, <const char*>from_, &plan, <int64_t>head.first_line)
    if not good:
        block.clear()
        raise DataError("a record holds rows that cannot be learned from")
    return head.position, head.text, head.lines, head.blank
