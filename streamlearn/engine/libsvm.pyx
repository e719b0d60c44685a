# Parser: `label[:weight] id:value ...` to a block, without the GIL and in one walk over the bytes.
#
# Legal oddities are read: tabs, CRLF, '+1', '.5', '5.', exponents, ids in any order, qid:n, spaces
# behind a colon, comments, blank lines. Everything else is located, never guessed at.
from libc.math cimport fabs, floor
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memchr, memmove

from streamlearn.engine.block cimport Block, EXTREME, EXTREME_NORM, TINY, drop_tiny, first_repeat
from streamlearn.engine.number cimport (
    NUMBER_BAD, NUMBER_OK, NUMBER_RANGE, TEN, read_number, read_short_item, unlikely,
)

from streamlearn.errors import UsageError


COMPLAINTS = {
    FAULT_LABEL: "bad label {token} (expected a number)",
    FAULT_LABEL_RANGE: "label {token} is not a finite number",
    FAULT_LABEL_UNKNOWN: "label {token} is not one of -1,+1 or 0,1; name your two classes with "
                         "--labels NEG,POS, or use --multiclass for more of them, --loss squared "
                         "for regression",
    FAULT_LABEL_MIXED: "label {token}: 0 and -1 both stand for the negative class in this input; "
                       "name your two classes with --labels NEG,POS",
    FAULT_WEIGHT: "bad importance weight {token} (expected a finite number >= 0)",
    FAULT_ID: "bad feature id in {token} (expected a whole number from 0 to 2^63-1)",
    FAULT_ID_RANGE: "feature id in {token} is too large (ids go up to 2^63-1)",
    FAULT_COLON: "no ':' behind feature id {token} (expected id:value)",
    FAULT_VALUE: "bad value {token} for feature {feature} (expected a number)",
    FAULT_VALUE_RANGE: "value {token} for feature {feature} is not a finite number",
    FAULT_REPEATED: "feature id in {token} stands twice in the row (expected each id once)",
    FAULT_EXTREME: "{token}: a row must stay below 1e50 in size to be learned from; scale the data",
    FAULT_QID: "bad query id {token} (expected qid:n with a whole number)",
    FAULT_CLASS: "label {token} names no class: with --multiclass labels are whole numbers up to "
                 "2^53 in size; use --loss squared for regression",
    FAULT_CLASSES: "label {token} is one class more than the {limit} there may be; so many look "
                   "like regression (--loss squared); if they are classes, raise --max-classes",
}

# Bytes, 3 us of parsing: to give the GIL away for less is to wait for it when others want it too.
cdef Py_ssize_t BRIEF = 4096
cdef double LARGEST_CLASS = 9007199254740992.0     # 2^53: up to here a double tells them all apart


cdef inline bint blank(unsigned char c) noexcept nogil:
    """Space, tab, CR, VT, FF: what may stand between the words of a line."""
    return c == 32 or c == 9 or c == 13 or c == 11 or c == 12


cdef inline bint ends_word(unsigned char c) noexcept nogil:
    return c == 10 or blank(c)


cdef inline bint ends_item(unsigned char c) noexcept nogil:
    """A comment may follow an item at once."""
    return c == 10 or blank(c) or c == c"#"


cdef int map_label(LabelRule* rule, double raw, double* y) noexcept nogil:
    """Turn a label of the file into y: itself, or -1 / +1 by the rule."""
    cdef int64_t place
    if rule.classes:
        if fabs(raw) > LARGEST_CLASS or raw != floor(raw):
            return FAULT_CLASS
        y[0] = raw + 0.0                        # -0 is 0
        place = place_of(rule, y[0])
        rule.fresh = place == rule.count or rule.known[place] != y[0]
        if rule.fresh and rule.fixed:
            return FAULT_LABEL_UNKNOWN
        if rule.fresh and rule.count >= rule.limit:
            return FAULT_CLASSES
    elif not rule.binary:
        y[0] = raw
    elif raw == rule.positive:
        y[0] = 1.0
    elif rule.named:
        if raw != rule.negative:
            return FAULT_LABEL_UNKNOWN
        y[0] = -1.0
    elif raw == -1.0 or raw == 0.0:
        if (rule.seen_zero and raw == -1.0) or (rule.seen_minus and raw == 0.0):
            return FAULT_LABEL_MIXED
        if raw == 0.0:
            rule.seen_zero = True
        else:
            rule.seen_minus = True
        rule.negative = raw + 0.0               # -0 is 0
        y[0] = -1.0
    else:
        return FAULT_LABEL_UNKNOWN
    return FAULT_NONE


cdef int add_class(LabelRule* rule, double label) noexcept nogil:
    """A class that was not known is known from now on."""
    cdef int64_t place = place_of(rule, label)
    cdef double* known = rule.known
    if (rule.count & (rule.count - 1)) == 0:           # full at each power of two
        known = <double*>realloc(known, <size_t>(2 * rule.count + 1) * 8)
        if known == NULL:
            return FAULT_MEMORY
        rule.known = known
    memmove(known + place + 1, known + place, <size_t>(rule.count - place) * 8)
    known[place] = label
    rule.count += 1
    rule.fresh = False
    return FAULT_NONE


cdef const unsigned char* item_start(const unsigned char* p, int64_t item) noexcept nogil:
    """Where item number `item` of a legal line starts."""
    while blank(p[0]):
        p += 1
    while not ends_word(p[0]):                          # the label
        p += 1
    while True:
        while blank(p[0]):
            p += 1
        if p[0] != c"q":
            if item == 0:
                return p
            item -= 1
        while p[0] != c":":
            p += 1
        p += 1
        while blank(p[0]):
            p += 1
        while not ends_word(p[0]):
            p += 1


cdef struct Items:
    int64_t n            # items of the block so far, this row's included
    int64_t last         # the id read last, -1 at the start of a row
    bint rising          # the ids of the row rise
    int64_t tiny         # values of the row that count as zero
    double norm          # |x|^2 of the row


cdef const unsigned char* short_items(
    const unsigned char* p, const unsigned char* safe, const double* ten, int64_t* ids,
    double* values, Items* row
) noexcept nogil:
    """Read plain items, one space between, for as long as there are; most rows are all plain.

    A loop of its own so that everything it touches stays in registers.
    """
    cdef Items r = row[0]
    cdef uint64_t id = 0
    cdef double value = 0.0
    cdef const unsigned char* next
    p += p[0] == 32
    while p < safe:
        next = read_short_item(p, ten, &id, &value)
        if next == NULL or not (next[0] == 32 or next[0] == 10):
            break
        ids[r.n] = <int64_t>id
        values[r.n] = value
        r.n += 1
        r.norm += value * value
        r.rising &= <int64_t>id > r.last
        r.last = <int64_t>id
        r.tiny += value == 0.0
        # Branches, not sums, here and in read_short_item: where the next item starts is what the
        # next turn waits for, and a branch is foretold while a sum has to be waited for.
        if unlikely(next[0] == 10):
            p = next
            break
        p = next + 1
    row[0] = r
    return p


def count_lines(const unsigned char[::1] text):
    """How many newlines there are."""
    cdef int64_t found = 0
    cdef const unsigned char* p
    cdef const unsigned char* end
    if text.shape[0] == 0:
        return 0
    p = &text[0]
    end = p + text.shape[0]
    with nogil:
        p = <const unsigned char*>memchr(p, 10, end - p)
        while p != NULL:
            found += 1
            p = <const unsigned char*>memchr(p + 1, 10, end - p - 1)
    return found


cdef int check_end(const unsigned char* text, Py_ssize_t size) except -1:
    if size > 0 and text[size - 1] != 10:
        raise ValueError("parse needs whole lines: the last byte must be a newline")
    return 0


cdef bytes word_at(const unsigned char* where):
    """The word there, or the first 40 bytes of it, for a complaint."""
    cdef const unsigned char* tail = where
    while not ends_word(tail[0]) and tail - where < 40:
        tail += 1
    return where[:tail - where]


cdef bint is_settled(const LabelRule* rule) noexcept nogil:
    return rule.named or rule.seen_zero or rule.seen_minus


cdef class Parser:
    """Reads libsvm text into blocks and counts lines over calls.

    labels: "any" for regression, "binary" for {-1,+1} and {0,1}, a pair (negative, positive), or
    "classes" for whole numbers, each a class. The known ones come first; more may follow up to
    `limit` in all (None: no bound), unless they are `fixed`.
    """

    def __init__(self, labels="binary", known=(), limit=None, bint fixed=False):
        self.rule.classes = labels == "classes"
        self.rule.binary = labels not in ("any", "classes")
        self.rule.positive = 1.0
        self.rule.negative = -1.0
        if isinstance(labels, (tuple, list)):
            negative, positive = labels
            if negative == positive:
                raise UsageError(f"labels {negative:g},{positive:g}: two classes need two labels")
            self.rule.named = True
            self.rule.negative, self.rule.positive = negative, positive
        elif labels not in ("any", "binary", "classes"):
            raise UsageError(f"labels {labels!r}: use 'any', 'binary', 'classes' or a pair of "
                             "numbers")
        self.rule.limit = 0x7FFFFFFFFFFFFFFF if limit is None else limit
        for label in known:
            self.know(label)
        self.rule.fixed = fixed
        self.token = b""

    def __dealloc__(self):
        free(self.rule.known)

    cdef int know(self, double label) except -1:
        """One of the classes that are there before any line is read."""
        cdef double y = 0.0
        cdef int fault = map_label(&self.rule, label, &y)
        if not fault and self.rule.fresh:
            fault = add_class(&self.rule, y)
        if fault == FAULT_MEMORY:
            raise MemoryError("no memory for a class")
        if fault:
            raise UsageError(COMPLAINTS[fault].format(token=f"{label:.17g}", limit=self.rule.limit))
        return 0

    @property
    def classes(self):
        """The classes known so far, rising; None unless labels are classes."""
        if not self.rule.classes:
            return None
        return tuple([int(self.rule.known[i]) for i in range(self.rule.count)])

    @property
    def labels(self):
        """The (negative, positive) labels in force: as given, or as the data showed them so far."""
        return (self.rule.negative, self.rule.positive) if self.rule.binary else None

    @property
    def settled(self):
        """True when the data, or the user, has said how the negative class is written."""
        return bool(is_settled(&self.rule))

    def settle(self, double negative):
        """Go on from an earlier run whose data wrote the negative class so."""
        self.rule.seen_zero = negative == 0.0
        self.rule.seen_minus = negative == -1.0
        self.rule.negative = negative

    def unsettle(self):
        """Forget how the data wrote the negative class: what showed it was refused."""
        if not self.rule.named:
            self.rule.seen_zero = self.rule.seen_minus = False
            self.rule.negative = -1.0

    def read_labels(self, Block block):
        """Turn the labels of a block made from arrays into y, in place, by the rule for text.

        Returns the first row that cannot be learned from, `fault` and `token` telling why, or -1.
        """
        cdef int64_t row
        cdef double raw = 0.0
        self.fault = FAULT_NONE
        for row in range(block.rows):
            raw = block.labels[row]
            self.fault = map_label(&self.rule, raw, &block.labels[row])
            if not self.fault and self.rule.fresh:
                self.fault = add_class(&self.rule, block.labels[row])
            if self.fault:
                break
        else:
            row = block.first_extreme()
            if row < 0:
                return -1
            raw = block.labels[row]
            self.fault = FAULT_EXTREME
        self.token = f"{raw:.12g}".encode()
        return row

    def start_file(self, int64_t before=0):
        """The next bytes are the first of another file, or stand behind so many of its lines."""
        self.line = before

    def count(self, int64_t lines, int64_t blank):
        """Lines of this file that were read elsewhere, and how many of them have no row."""
        self.line += lines
        self.blank += blank

    def parse(
        self, const unsigned char[::1] buffer, Py_ssize_t start, Py_ssize_t stop, Block block,
        bint append=False
    ):
        """Parse whole lines of buffer[start:stop] into the block, cleared first unless `append`.

        buffer[stop - 1] must be a newline. Returns where parsing ended: stop, or behind a faulty
        line; then `fault`, `line`, `column` and `token` tell about it, and the rows before it are
        in the block.
        """
        cdef const unsigned char* where = NULL
        cdef int64_t used
        if not append:
            block.clear()
        self.fault = FAULT_NONE
        if stop <= start:
            return start
        self.prepare(buffer, start, stop, block)
        if stop - start < BRIEF:
            used = self.parse_lines(&buffer[start], &buffer[start] + (stop - start), block, &where)
        else:
            with nogil:
                used = self.parse_lines(
                    &buffer[start], &buffer[start] + (stop - start), block, &where)
        if self.fault == FAULT_MEMORY:
            raise MemoryError(f"no memory to check line {self.line}")
        if self.fault:
            self.token = word_at(where)
        return start + used

    def parse_texts(self, list texts, list before, Block block):
        """Parse texts behind what the block holds, the GIL given away once for all of them.

        texts[i] is whole lines, or nothing, that stand behind before[i] others of their file.
        Returns for each: rows of the block behind it, its blank lines, whether the labels were
        settled before it. The last one is the first with a `fault`, `parse` goes on at `reached`;
        or one for which there was no memory is missing, unless it is the first: MemoryError.
        """
        cdef const unsigned char[::1] view
        cdef const unsigned char* where = NULL
        cdef Py_ssize_t size = 0, count = len(texts), i, n
        cdef Text* all = <Text*>malloc(<size_t>(count + 1) * sizeof(Text))
        if all == NULL:
            raise MemoryError("no memory to read so many texts")
        try:
            for i in range(count):
                view = texts[i]
                all[i].size = view.shape[0]
                all[i].start = &view[0] if all[i].size else NULL
                all[i].before = before[i]
                check_end(all[i].start, all[i].size)
                size += all[i].size
            self.make_room(size, block)
            if size < BRIEF:
                n = self.parse_each(all, count, block, &where)
            else:
                with nogil:
                    n = self.parse_each(all, count, block, &where)
            if self.fault == FAULT_MEMORY:
                n -= 1
                if n == 0:
                    raise MemoryError(f"no memory to check line {self.line}")
                block.cut(all[n - 1].rows)
                self.fault = FAULT_NONE
            if self.fault:
                self.token = word_at(where)
            return [(all[i].rows, all[i].blank, bool(all[i].settled)) for i in range(n)]
        finally:
            free(all)

    cdef Py_ssize_t parse_each(
        self, Text* all, Py_ssize_t count, Block block, const unsigned char** where
    ) noexcept nogil:
        """One text after the other, up to the first with a fault; returns how many those are."""
        cdef Py_ssize_t n = 0
        cdef int64_t blank
        self.fault = FAULT_NONE
        while n < count and not self.fault:
            self.line, blank = all[n].before, self.blank
            all[n].settled = is_settled(&self.rule)
            if all[n].size:
                self.reached = self.parse_lines(
                    all[n].start, all[n].start + all[n].size, block, where)
            all[n].rows, all[n].blank = block.rows, self.blank - blank
            n += 1
        return n

    def parse_past(
        self, const unsigned char[::1] buffer, Py_ssize_t start, Py_ssize_t stop, Block block
    ):
        """Parse behind what the block holds, past faulty lines; returns how many those were."""
        cdef const unsigned char* where = NULL
        cdef int64_t bad = 0
        if stop <= start:
            return 0
        self.prepare(buffer, start, stop, block)
        with nogil:
            while start < stop and self.fault != FAULT_MEMORY:
                self.fault = FAULT_NONE
                start += self.parse_lines(
                    &buffer[start], &buffer[start] + (stop - start), block, &where)
                bad += self.fault != FAULT_NONE
        if self.fault == FAULT_MEMORY:
            raise MemoryError(f"no memory to check the ids of line {self.line}")
        self.fault = FAULT_NONE
        return bad

    cdef int prepare(
        self, const unsigned char[::1] buffer, Py_ssize_t start, Py_ssize_t stop, Block block
    ) except -1:
        """Check the bounds, and make room."""
        if stop > buffer.shape[0] or start < 0:
            raise ValueError("parse needs whole lines that are in the buffer")
        check_end(&buffer[start], stop - start)
        return self.make_room(stop - start, block)

    cdef int make_room(self, Py_ssize_t size, Block block) except -1:
        """For all that so many bytes can hold: there are no bounds to check inside."""
        block.numbered = 0
        # An item takes 4 bytes or more ("1:1 "), a row 2 ("1\n").
        return block.reserve(block.rows + size // 2 + 1, block.features + size // 4 + 1)

    def complaint(self):
        """A sentence for the fault of the last parse: what is wrong, what is accepted."""
        token = repr(self.token.decode("utf-8", "replace"))
        if self.fault == FAULT_LABEL_UNKNOWN and self.rule.named:
            return (f"label {token} is neither {self.rule.negative:g} nor {self.rule.positive:g}, "
                    "the two given by --labels")
        if self.fault == FAULT_LABEL_UNKNOWN and self.rule.classes:
            return f"label {token} is none of the {self.rule.count} classes given by --labels"
        return COMPLAINTS[self.fault].format(
            token=token, feature=self.feature, limit=self.rule.limit)

    cdef int64_t parse_lines(
        self, const unsigned char* start, const unsigned char* end, Block block,
        const unsigned char** where
    ) noexcept nogil:
        """The one walk over the bytes, behind what the block holds; returns how many were used."""
        cdef const unsigned char* p = start
        cdef const unsigned char* safe = end - 32    # up to here 32 bytes can be read
        cdef const unsigned char* line_start
        cdef const unsigned char* mark
        cdef int64_t* ids = block.ids
        cdef double* values = block.values
        cdef int64_t row = block.rows, first, largest = block.max_id, repeat, worst
        cdef Items items
        cdef uint64_t id
        cdef unsigned int digit
        cdef double raw, y, weight, value
        cdef bint rule_taken = False
        cdef LabelRule rule
        cdef int code = FAULT_NONE, status
        cdef double[23] ten = TEN

        items.n = block.features
        block.offsets[row] = items.n
        while p < end:
            self.line += 1
            line_start = p
            rule_taken = False
            while blank(p[0]):
                p += 1
            if p[0] == 10 or p[0] == c"#":
                self.blank += 1
                p = <const unsigned char*>memchr(p, 10, end - p) + 1
                continue

            # label[:weight]
            mark = p
            status = read_number(&p, ten, &raw)
            if status != NUMBER_OK:
                code = FAULT_LABEL_RANGE
                if status == NUMBER_BAD or not (ends_item(p[0]) or p[0] == c":"):
                    code = FAULT_LABEL
                break
            weight = 1.0
            if p[0] == c":":
                p += 1
                mark = p
                status = read_number(&p, ten, &weight)
                if status != NUMBER_OK or weight < 0.0 or not ends_item(p[0]):
                    code = FAULT_WEIGHT
                    break
            elif not ends_item(p[0]):
                code = FAULT_LABEL
                break
            mark = line_start
            rule = self.rule
            rule_taken = True
            code = map_label(&self.rule, raw, &y)
            if code:
                while blank(mark[0]):
                    mark += 1
                break

            # id:value ...
            first = items.n
            items.last = -1
            items.rising = True
            items.norm = 0.0
            items.tiny = 0
            while True:
                p = short_items(p, safe, ten, ids, values, &items)
                while blank(p[0]):
                    p += 1
                digit = <unsigned int>p[0] - 48
                mark = p
                if digit > 9:
                    if p[0] == 10:
                        break
                    if p[0] == c"#":
                        p = <const unsigned char*>memchr(p, 10, end - p)
                        break
                    if p[0] == c"q" and p[1] == c"i" and p[2] == c"d" and p[3] == c":":
                        p += 4
                        if p[0] == c"-" or p[0] == c"+":
                            p += 1
                        if <unsigned int>p[0] - 48 > 9:
                            code = FAULT_QID
                            break
                        while <unsigned int>p[0] - 48 < 10:
                            p += 1
                        if not ends_item(p[0]):
                            code = FAULT_QID
                            break
                        continue
                    code = FAULT_ID
                    break
                id = digit
                p += 1
                digit = <unsigned int>p[0] - 48
                while digit < 10:
                    id = 10 * id + digit
                    p += 1
                    digit = <unsigned int>p[0] - 48
                if p[0] != c":":
                    code = FAULT_COLON if ends_item(p[0]) else FAULT_ID
                    break
                if p - mark > 18 and not fits(mark, p):
                    code = FAULT_ID_RANGE
                    break
                p += 1
                while blank(p[0]):
                    p += 1
                mark = p
                status = read_number(&p, ten, &value)
                if status != NUMBER_OK or not ends_item(p[0]):
                    code = FAULT_VALUE
                    if status == NUMBER_RANGE and ends_item(p[0]):
                        code = FAULT_VALUE_RANGE
                    self.feature = <int64_t>id
                    break
                ids[items.n] = <int64_t>id
                values[items.n] = value
                items.norm += value * value
                items.rising &= <int64_t>id > items.last
                items.last = <int64_t>id
                items.tiny += fabs(value) < TINY
                items.n += 1
            if code:
                break
            if not items.rising:
                repeat = first_repeat(ids + first, items.n - first)
                if repeat == -2:
                    code = FAULT_MEMORY
                    break
                if repeat >= 0:
                    code = FAULT_REPEATED
                    mark = item_start(line_start, repeat)
                    break
            if not (items.norm < EXTREME_NORM and fabs(y) < EXTREME and weight < EXTREME):
                code = FAULT_EXTREME
                mark = line_start
                while blank(mark[0]):
                    mark += 1
                if fabs(y) < EXTREME and weight < EXTREME:
                    worst = -1
                    for repeat in range(first, items.n):
                        if fabs(values[repeat]) >= EXTREME:
                            worst = repeat - first
                            break
                        if worst < 0 and fabs(values[repeat]) >= 0.1 * EXTREME:
                            worst = repeat - first
                    if worst >= 0:
                        mark = item_start(line_start, worst)
                break
            if self.rule.fresh:                               # only a legal line makes a class
                code = add_class(&self.rule, y)
                if code:
                    break
            self.unsorted += not items.rising
            if items.tiny:                                    # an explicit zero is no feature
                self.zeros += items.tiny
                items.n = drop_tiny(ids, values, first, items.n)
                items.norm = 0.0
                for repeat in range(first, items.n):
                    items.norm += values[repeat] * values[repeat]
            if items.rising and items.n > first:
                largest = max(largest, ids[items.n - 1])
            else:
                for repeat in range(first, items.n):
                    largest = max(largest, ids[repeat])
            p += 1
            block.labels[row] = y
            block.weights[row] = weight
            block.norms[row] = items.norm
            block.slopes[row] = 0.0
            block.lines[row] = self.line
            row += 1
            block.offsets[row] = items.n

        block.rows = row
        block.features = block.offsets[row]
        block.max_id = largest
        if code:
            self.fault = code
            if rule_taken:
                self.rule = rule              # a refused line says nothing of the labels
            self.column = mark - line_start + 1
            where[0] = mark
            return <const unsigned char*>memchr(line_start, 10, end - line_start) + 1 - start
        return p - start


cdef bint fits(const unsigned char* p, const unsigned char* end) noexcept nogil:
    """Whether the digits from p to end are at most 2^63 - 1."""
    cdef uint64_t id = 0
    while p < end and p[0] == 48:
        p += 1
    if end - p > 19:
        return False
    while p < end:
        id = 10 * id + (p[0] - 48)           # 19 digits cannot wrap 64 bits
        p += 1
    return id <= <uint64_t>9223372036854775807
