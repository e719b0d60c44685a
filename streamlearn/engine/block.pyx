# Block: memory for a batch of examples, the ways to fill it from arrays and to scale its rows.
from libc.math cimport fabs, isfinite, sqrt
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc, qsort, realloc
from libc.string cimport memcpy

from array import array

from streamlearn.errors import DataError, Divergence


cdef struct Place:
    int64_t id
    int64_t item


cdef int by_id(const void* a, const void* b) noexcept nogil:
    cdef const Place* x = <const Place*>a
    cdef const Place* y = <const Place*>b
    if x.id != y.id:
        return -1 if x.id < y.id else 1
    return -1 if x.item < y.item else 1


cdef int64_t first_repeat(const int64_t* ids, int64_t count) noexcept nogil:
    """The first item whose id stood before in the row: its index, -1: none, -2: no memory."""
    cdef Place* places
    cdef int64_t i, found = -1
    places = <Place*>malloc(<size_t>count * sizeof(Place))
    if places == NULL:
        return -2
    for i in range(count):
        places[i].id = ids[i]
        places[i].item = i
    qsort(places, <size_t>count, sizeof(Place), by_id)
    for i in range(1, count):
        if places[i].id == places[i - 1].id and (found < 0 or places[i].item < found):
            found = places[i].item
    free(places)
    return found


cdef int64_t drop_tiny(int64_t* ids, double* values, int64_t first, int64_t stop) noexcept nogil:
    """Close the row first .. stop-1 over the values that count as zero; returns its new end."""
    cdef int64_t k, n = first
    for k in range(first, stop):
        if fabs(values[k]) >= TINY:
            ids[n] = ids[k]
            values[n] = values[k]
            n += 1
    return n


cdef void* grown(void* old, int64_t count) except NULL:
    cdef void* new = realloc(old, <size_t>count * 8)
    if new == NULL:
        raise MemoryError(f"no memory for a block of {count} numbers")
    return new


cdef int copy_column(
    double* to, const double[::1] column, int64_t rows, str what
) except -1:
    """One number a row."""
    if column.shape[0] != rows:
        raise DataError(f"a block needs one {what} a row, not {column.shape[0]} for {rows}")
    if rows:
        memcpy(to, &column[0], rows * 8)
    return 0


cdef class Block:
    """A batch of examples: labels, importance weights, and sparse rows of (id, value)."""

    def __cinit__(self):
        self.max_id = -1
        self.reserve(16, 256)
        self.offsets[0] = 0

    def __dealloc__(self):
        free(self.labels)
        free(self.weights)
        free(self.norms)
        free(self.slopes)
        free(self.lines)
        free(self.offsets)
        free(self.ids)
        free(self.values)
        free(self.numbers)

    def __len__(self):
        return self.rows

    cdef int reserve(self, int64_t rows, int64_t features) except -1:
        """Make room for this many rows and features in all."""
        if rows > self.row_capacity:
            rows = max(rows, self.row_capacity + self.row_capacity // 2)
            self.labels = <double*>grown(self.labels, rows)
            self.weights = <double*>grown(self.weights, rows)
            self.norms = <double*>grown(self.norms, rows)
            self.slopes = <double*>grown(self.slopes, rows)
            self.lines = <int64_t*>grown(self.lines, rows)
            self.offsets = <int64_t*>grown(self.offsets, rows + 1)
            self.row_capacity = rows
        if features > self.feature_capacity:
            features = max(features, self.feature_capacity + self.feature_capacity // 2)
            self.ids = <int64_t*>grown(self.ids, features)
            self.values = <double*>grown(self.values, features)
            self.feature_capacity = features
        return 0

    def clear(self):
        """Forget the rows, keep the memory."""
        self.rows = self.features = self.numbered = 0
        self.max_id = -1

    def cut(self, int64_t rows):
        """Forget the rows behind the first ones; max_id stays a bound."""
        if 0 <= rows < self.rows:
            self.rows = rows
            self.features = self.offsets[rows]

    def extend(self, Block other):
        """Copy all rows of another block behind our own."""
        self.append(other, 0, other.rows)

    cdef int append(self, Block other, int64_t first, int64_t stop) except -1:
        """Copy rows first .. stop-1 of another block behind our own."""
        cdef int64_t begin = other.offsets[first]
        cdef int64_t many = other.offsets[stop] - begin
        cdef int64_t count = stop - first, i, shift
        self.reserve(self.rows + count, self.features + many)
        self.numbered = 0
        memcpy(self.labels + self.rows, other.labels + first, count * 8)
        memcpy(self.weights + self.rows, other.weights + first, count * 8)
        memcpy(self.norms + self.rows, other.norms + first, count * 8)
        memcpy(self.slopes + self.rows, other.slopes + first, count * 8)
        memcpy(self.lines + self.rows, other.lines + first, count * 8)
        memcpy(self.ids + self.features, other.ids + begin, many * 8)
        memcpy(self.values + self.features, other.values + begin, many * 8)
        shift = self.features - begin
        for i in range(1, count + 1):
            self.offsets[self.rows + i] = other.offsets[first + i] + shift
        self.rows += count
        self.features += many
        if other.max_id > self.max_id:
            self.max_id = other.max_id
        return 0

    cdef void scan(self) noexcept nogil:
        """Set what follows from ids and values: the norms and the largest id."""
        cdef int64_t row, k
        cdef double total
        self.max_id = -1
        for row in range(self.rows):
            total = 0.0
            for k in range(self.offsets[row], self.offsets[row + 1]):
                total += self.values[k] * self.values[k]
                if self.ids[k] > self.max_id:
                    self.max_id = self.ids[k]
            self.norms[row] = total

    def normalize(self):
        """Scale each row to unit length; an empty row stays as it is."""
        cdef int64_t row, k
        cdef double scale
        with nogil:
            for row in range(self.rows):
                # The length of a row with values beyond 1e154 overflows; the learner refuses it.
                if self.norms[row] > 0.0 and self.norms[row] < 1e300:
                    scale = 1.0 / sqrt(self.norms[row])
                    for k in range(self.offsets[row], self.offsets[row + 1]):
                        self.values[k] *= scale
                    self.norms[row] = 1.0

    cdef int64_t first_extreme(self) noexcept nogil:
        """The first row that cannot be learned from, its squares would overflow; or -1."""
        cdef int64_t row
        for row in range(self.rows):
            if not (self.norms[row] < EXTREME_NORM and fabs(self.labels[row]) < EXTREME
                    and self.weights[row] < EXTREME):
                return row
        return -1

    cdef object too_large(self, int64_t row, int64_t t):
        """The refusal of an extreme row, after t examples."""
        return Divergence(
            t + 1, self.lines[row],
            "a value, label or weight beyond 1e50 in size cannot be learned from; scale the "
            "data. Nothing of this example was learned")

    @staticmethod
    def from_arrays(
        const int64_t[::1] offsets, const int64_t[::1] ids, const double[::1] values,
        const double[::1] labels, weights=None, lines=None, norms=None, slopes=None
    ):
        """A block of its own from CSR arrays; labels are taken as they are."""
        cdef Block block = Block()
        cdef int64_t rows = labels.shape[0], many = ids.shape[0]
        cdef const int64_t[::1] places
        if offsets.shape[0] != rows + 1 or values.shape[0] != many:
            raise DataError("arrays of a block do not fit: need rows + 1 offsets, as many ids as "
                            "values")
        if rows and (offsets[0] != 0 or offsets[rows] != many):
            raise DataError("offsets of a block must run from 0 to the number of ids")
        cdef int64_t i, k, n = 0
        cdef double norm
        cdef bint rising
        for i in range(rows):                  # all of them, before any is followed
            if offsets[i + 1] < offsets[i]:
                raise DataError(f"offsets of a block must not fall: row {i}")
        block.reserve(rows, many)
        for i in range(rows):
            rising = True
            for k in range(offsets[i], offsets[i + 1]):
                if ids[k] < 0:
                    raise DataError(f"row {i}: negative feature id {ids[k]}; ids run from 0 to "
                                    "2^63 - 1")
                if not isfinite(values[k]):
                    raise DataError(f"row {i}: value {values[k]} of feature {ids[k]}; values must "
                                    "be finite")
                block.ids[n + k - offsets[i]] = ids[k]
                block.values[n + k - offsets[i]] = values[k]
                rising &= k == offsets[i] or ids[k] > ids[k - 1]
            if not rising:
                k = first_repeat(block.ids + n, offsets[i + 1] - offsets[i])
                if k == -2:
                    raise MemoryError(f"no memory to check the ids of row {i}")
                if k >= 0:
                    raise DataError(f"row {i}: feature id {block.ids[n + k]} stands twice")
            block.labels[i] = labels[i]
            block.weights[i] = 1.0
            block.slopes[i] = 0.0
            block.lines[i] = i + 1
            block.offsets[i] = n
            k = n + offsets[i + 1] - offsets[i]
            # Rows with a norm are those of a state, to be kept as they are: a value of a row that
            # was scaled to unit length may be as small as it likes.
            n = k if norms is not None else drop_tiny(block.ids, block.values, n, k)
        block.offsets[rows] = n
        block.rows, block.features = rows, n
        if weights is not None:
            copy_column(block.weights, weights, rows, "importance weight")
            for i in range(rows):
                if not (block.weights[i] >= 0.0 and isfinite(block.weights[i])):
                    raise DataError(f"row {i}: importance weight {block.weights[i]}; weights must "
                                    "be finite and >= 0")
        if lines is not None:
            places = lines
            if places.shape[0] != rows:
                raise DataError("a block needs one line number a row")
            for i in range(rows):
                block.lines[i] = places[i]
        block.scan()
        if norms is not None:              # of rows scaled to unit length: exactly 1
            scanned = (<char*>block.norms)[: rows * 8]
            copy_column(block.norms, norms, rows, "norm")
            for i in range(rows):
                norm = (<double*><char*>scanned)[i]
                if not fabs(block.norms[i] - norm) <= 1e-9 * (1.0 + norm):
                    raise DataError(f"row {i}: norm {block.norms[i]} is not that of its values")
        if slopes is not None:
            copy_column(block.slopes, slopes, rows, "slope")
        return block

    def arrays(self):
        """Copies as bytes: offsets, ids (int64), values, labels, weights (float64), lines."""
        return {
            "offsets": (<char*>self.offsets)[: (self.rows + 1) * 8],
            "ids": (<char*>self.ids)[: self.features * 8],
            "values": (<char*>self.values)[: self.features * 8],
            "labels": (<char*>self.labels)[: self.rows * 8],
            "weights": (<char*>self.weights)[: self.rows * 8],
            "norms": (<char*>self.norms)[: self.rows * 8],
            "lines": (<char*>self.lines)[: self.rows * 8],
        }

    def part(self, int64_t first, int64_t stop):
        """A block of its own with the rows first .. stop-1."""
        cdef Block block = Block()
        if not 0 <= first <= stop <= self.rows:
            raise IndexError(f"rows {first} to {stop} of {self.rows}")
        block.append(self, first, stop)
        return block

    def line(self, int64_t row):
        """The line that a row came from."""
        return self.lines[row]

    def label(self, int64_t row):
        """The label of a row, as learned."""
        return self.labels[row]

    def state(self):
        """arrays() without the lines: where an example came from changes nothing it teaches."""
        arrays = self.arrays()
        del arrays["lines"]
        arrays["slopes"] = (<char*>self.slopes)[: self.rows * 8]
        return arrays

    @staticmethod
    def from_bytes(arrays):
        """The inverse of arrays() and of state()."""
        kinds = {"offsets": "q", "ids": "q", "lines": "q"}
        # array, since Cython takes no typed view of empty bytes; memoryview, since bytes() of a
        # number that stands where bytes should would be as many bytes
        return Block.from_arrays(
            **{name: array(kinds.get(name, "d"), bytes(memoryview(data)))
               for name, data in arrays.items()})
