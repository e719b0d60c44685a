# Learner: the one object that learns. It owns every slot and scalar; nothing the next example
# depends on lives anywhere else, so that cutting a stream into blocks, or stopping and going on,
# cannot change a bit of the result.
from libc.math cimport ceil, floor, isfinite, sqrt
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from streamlearn.engine.block cimport Block, grown
from streamlearn.engine.conversion cimport Conversion, strongest
from streamlearn.engine.learn cimport Rows, kernel_named
from streamlearn.engine.algorithms cimport frozen, suffix
from streamlearn.engine.algorithms.reading cimport Reading
from streamlearn.engine.loss cimport curvature, loss_named
from streamlearn.engine.recent cimport Recent
from streamlearn.engine.smoothness cimport choose_smoothness
from streamlearn.engine.solving cimport solve
from streamlearn.engine.slots cimport Slots, find, id_in_order, slot_in_order, touched
from streamlearn.engine.window cimport Window

from streamlearn.engine.learn import FIELDS
from streamlearn.errors import Divergence, ModelError, UsageError

ZERO_LOSS = {"logistic": 0.6931471805599453, "hinge": 1.0, "squared_hinge": 0.5, "squared": -1.0}
WARMUP_SIZE = 100          # examples that the size of |x|^2 is estimated from
WARMUP_LABELS = 1000       # examples that the scale of regression labels is estimated from
WARMUP_FEATURES = 1 << 20  # ... or fewer, when rows are very long
MOST_EXAMPLES = 1 << 60    # of a state; whatever counts on from there does not overflow


cdef class Learner:
    """Learns one example after the other; `spec` says how (see the catalogue for its making).

    spec keys: kernel and its scalars; warmup (None, "t0", "damping", "Gamma", "epoch" or "labels":
    what the first examples wait for); two_phases; point ("last", "mean"); converts; loss; l1, l2;
    alpha, phase_one_alpha, total (0: unknown); evidence; smoothness (None: chosen at each
    snapshot); bias; max_features (0: no bound); sweeps (looks at all features after each
    example); shared (l1 and l2 are for the sum of losses, not the mean).
    """

    def __cinit__(self, dict spec):
        self.spec = spec
        self.kernel = kernel_named(spec["kernel"])
        self.two_phases = spec["two_phases"]
        self.second_offset = self.kernel.size
        size = self.kernel.size
        if self.two_phases:
            self.second_kernel = kernel_named("frozen")
            size += self.second_kernel.size
        self.slots = Slots(size)
        self.bias = NULL
        if spec["bias"]:
            self.bias = <char*>calloc(1, <size_t>size)
            if self.bias == NULL:
                raise MemoryError("no memory for a learner")
        self.recent = Recent()
        self.admitted = Block()
        self.task.all.size = size
        self.task.bias = self.bias
        self.task.loss = loss_named(spec["loss"])
        self.task.label_scale = 1.0
        self.task.zero_loss = ZERO_LOSS[spec["loss"]]
        self.set_algorithm()
        if spec["warmup"] is not None:
            self.warmup = WARMUP_LABELS if spec["warmup"] == "labels" else WARMUP_SIZE
        self.pending = Block() if self.warmup else None

    def __dealloc__(self):
        free(self.bias)
        free(self.numbers)
        free(self.margins)
        free(self.slopes)

    # ---- setting up ------------------------------------------------------------------------------

    def set_algorithm(self):
        """Scalars of the algorithm at the start: zero, but for what the spec says."""
        cdef dict spec = self.spec
        cdef int64_t total = spec["total"], tail = 0
        memset(&self.algorithm, 0, sizeof(self.algorithm))
        memset(&self.second, 0, sizeof(self.second))
        self.set_scalars(spec["scalars"])
        if total:
            tail = max(1, <int64_t>floor(spec["alpha"] * total + 0.5))
        if self.two_phases:
            self.second.frozen.alpha = spec["alpha"]
            self.second.frozen.l1 = spec["l1"]
            self.second.frozen.l2 = spec["l2"]
            self.second.frozen.count = -1
            self.next_freeze = total - tail if total else 1
            if total:                          # phase one has a horizon of its own
                total = self.next_freeze
                tail = max(1, <int64_t>floor(spec["phase_one_alpha"] * total + 0.5))
        if spec["kernel"] == "suffix":
            self.algorithm.suffix.alpha = spec["phase_one_alpha" if self.two_phases else "alpha"]
            self.algorithm.suffix.total = total
            self.algorithm.suffix.start0 = self.algorithm.suffix.start1 = 1
            self.algorithm.suffix.next_start = max(total - tail + 1, 1) if total else 1
            suffix.roll(&self.algorithm.suffix)
        if self.two_phases and self.next_freeze == 0:
            self.second.frozen.count = 0
            self.next_freeze = <int64_t>0x7FFFFFFFFFFFFFFF

    def set_scalars(self, dict changes):
        """Change scalars of the algorithm by name; those of its step are a dict of their own."""
        values = self.kernel.scalars(&self.algorithm)
        for name, value in changes.items():
            if isinstance(value, dict):
                values[name] = {**values[name], **value}
            else:
                values[name] = value
        if isinstance(values.get("step"), dict):
            values["step"]["curvature"] = curvature(self.spec["loss"])
        self.kernel.set_scalars(&self.algorithm, values)

    cdef int64_t time(self) noexcept nogil:
        return self.tally.examples

    @property
    def t(self):
        """Examples taken in, the waiting ones included."""
        return self.tally.examples + (self.pending.rows if self.pending is not None else 0)

    @property
    def progress(self):
        """Sums of the progressive validation, the loss in units of the labels as given."""
        cdef Learner settled = self.settled()
        sums = dict(settled.tally)
        for name in ("loss", "baseline"):
            sums[name] /= settled.task.label_scale * settled.task.label_scale
        return sums

    @property
    def memory(self):
        """Bytes mapped for slots and index."""
        return self.slots.bytes

    # ---- learning --------------------------------------------------------------------------------

    def learn(self, Block block):
        """Learn every row in order. Raises Divergence with the example's number and line."""
        cdef int64_t extreme = block.first_extreme()
        if self.broken is not None:
            raise self.broken
        self.heard = 0
        self.take(block, block.rows if extreme < 0 else extreme)
        if extreme >= 0:
            raise block.too_large(extreme, self.t)

    cdef int take(self, Block block, int64_t stop) except -1:
        """Rows 0 .. stop-1: to those that wait while the warm-up goes on, to the loop after it."""
        cdef int64_t first = 0, last
        if self.spec["max_features"]:
            block = self.admit(block, stop)
        if self.pending is not None:
            last = min(stop, self.warmup - self.pending.rows)
            while first < last and self.pending.features < WARMUP_FEATURES:
                self.pending.append(block, first, first + 1)
                first += 1
            if self.pending.rows < self.warmup and self.pending.features < WARMUP_FEATURES:
                return 0
            self.begin_learning()
        self.learn_rows(block, first, stop)
        return 0

    cdef int begin_learning(self) except -1:
        """The warm-up is over: set what it was for, and learn the examples that waited."""
        cdef Block waiting = self.pending
        cdef int64_t i
        cdef double norm = 0.0
        self.pending = None
        if waiting.rows == 0:
            return 0
        if self.spec["warmup"] == "labels":
            self.scale_labels(waiting)
        else:
            for i in range(waiting.rows):
                norm += waiting.norms[i] + (self.bias != NULL)
            self.set_scalars(self.sized(curvature(self.spec["loss"]) * norm / waiting.rows))
        self.learn_rows(waiting, 0, waiting.rows)
        return 0

    def sized(self, double bend):
        """The scalars that wait for bend = curvature * mean |x|^2, the largest safe 1/step."""
        kind, l2 = self.spec["warmup"], self.spec["l2"]
        if kind == "t0":
            # The first step is 1/bend. Times must stay whole numbers in a double: below 2^52.
            return {"step": {"t0": min(bend / l2, 4e15)}}
        if kind == "epoch":
            # steps of 1/bend or less; eta * length = 4/l2 in every epoch
            eta = 1.0 / l2 if bend <= l2 else 1.0 / bend
            return {"eta": eta, "length": <int64_t>min(ceil(4.0 / (l2 * eta)), 4e18)}
        return {kind: bend}

    def scale_labels(self, Block waiting):
        """Learn (label - mean) / sd from now on."""
        cdef int64_t i
        cdef double mean = 0.0, spread = 0.0, weight = 0.0
        cdef bint alike = True
        for i in range(waiting.rows):
            weight += waiting.weights[i]
            mean += waiting.weights[i] * waiting.labels[i]
            alike &= waiting.labels[i] == waiting.labels[0]
        if weight == 0.0:
            return                         # nothing to be learned from any of them
        mean = waiting.labels[0] if alike else mean / weight
        for i in range(waiting.rows):
            spread += waiting.weights[i] * (waiting.labels[i] - mean) ** 2
        spread = sqrt(spread / weight)
        if spread == 0.0:                  # alike, or apart by less than a square can tell
            spread = 1.0
        self.task.label_shift = mean if self.bias != NULL else 0.0
        self.task.label_scale = 1.0 / spread

    cdef int learn_rows(self, Block block, int64_t first, int64_t stop) except -1:
        """Find the slots of all ids once, then run the loop."""
        cdef Rows rows
        cdef int64_t begin, many
        if first >= stop:
            return 0
        begin = block.offsets[first]
        many = block.offsets[stop] - begin
        self.find_slots(block, begin, many, &rows)
        rows.offsets = block.offsets
        rows.values = block.values
        rows.labels = block.labels
        rows.weights = block.weights
        rows.norms = block.norms
        self.task.all.slots = self.slots.base
        self.task.all.used = self.slots.used
        self.task.all.order = self.slots.order if self.spec["sweeps"] else NULL
        while first < stop:
            rows.first = first
            rows.stop = stop
            if self.two_phases and stop - first > self.next_freeze - self.time():
                rows.stop = first + self.next_freeze - self.time()
            self.run(block, &rows)
            first = rows.stop
            if self.two_phases and self.time() == self.next_freeze:
                self.freeze()
        return 0

    cdef int find_slots(self, Block block, int64_t begin, int64_t many, Rows* rows) except -1:
        """A slot for each feature from `begin` on, by the numbers that were looked up if any."""
        cdef Slots slots = self.slots
        if self.numbers_room < block.features:
            free(self.numbers)
            self.numbers_room = 0
            self.numbers = <int64_t*>malloc(<size_t>block.features * 8)
            if self.numbers == NULL:
                raise MemoryError("no memory for the features of a block")
            self.numbers_room = block.features
        slots.hold()
        try:
            if (block.numbered == slots.layout and block.numbered_by == <void*>slots
                    and slots.used < slots.next_look):
                slots.use(block.numbered_to)
                rows.numbers = block.numbers
                return 0
            slots.reserve(block.ids + begin, many, block.max_id, self.numbers + begin)
            rows.numbers = block.ids if slots.dense else self.numbers
        finally:
            if self.spec["sweeps"]:
                slots.sort()
            slots.release()
        return 0

    def look_up(self, Block block):
        """Find the slots of a block ahead of its turn; may run beside learn(), in one thread."""
        if not self.spec["max_features"]:
            self.slots.look_up(block)

    cdef int run(self, Block block, Rows* rows) except -1:
        """The loop over a stretch of rows, for one phase or both."""
        cdef Task task = self.task
        cdef int64_t reached, second, before = self.time()
        cdef bint both = self.two_phases and self.second.frozen.count >= 0
        self.listen(rows.stop - rows.first)
        rows.slopes = self.slopes + self.heard
        rows.margins = self.margins + self.heard
        with nogil:
            reached = self.kernel.learn(&self.algorithm, &task, rows, &self.tally)
        second = reached
        if both:
            task.all.slots += self.second_offset
            if task.bias != NULL:
                task.bias += self.second_offset
            rows.stop, reached = reached, rows.stop
            with nogil:
                second = self.second_kernel.learn(&self.second, &task, rows, NULL)
            rows.stop, reached = reached, rows.stop
        elif self.two_phases:
            self.second.frozen.t += reached - rows.first
        self.recent.push(block, rows.first, reached, rows.slopes, before)  # those that are averaged
        self.heard += reached - rows.first
        if second < rows.stop:
            self.broken = Divergence(
                before + second - rows.first + 1, block.lines[second],
                f"learning diverged with loss {self.spec['loss']}: the margin left the finite "
                "numbers")
            raise self.broken
        return 0

    cdef int listen(self, int64_t many) except -1:
        """Room for the margins and slopes of so many more rows."""
        cdef int64_t room = self.heard + many
        if room > self.heard_room:
            self.margins = <double*>grown(self.margins, room)
            self.slopes = <double*>grown(self.slopes, room)
            self.heard_room = room
        return 0

    cdef Block admit(self, Block block, int64_t stop):
        """Rows 0 .. stop-1 without the features that max_features keeps out; the first stay."""
        cdef int64_t bound = self.spec["max_features"], row, k, number, n
        cdef Block kept = self.admitted
        kept.clear()
        kept.append(block, 0, stop)
        n = 0
        for row in range(kept.rows):
            k = kept.offsets[row]
            kept.offsets[row] = n
            while k < block.offsets[row + 1]:
                number = find(self.slots, kept.ids[k])
                if number < 0 or not touched(self.slots.base + number * self.slots.size):
                    if self.known >= bound:
                        self.ignored += 1
                        k += 1
                        continue
                    self.known += 1
                    self.slots.reserve(&kept.ids[k], 1, kept.ids[k], NULL)
                    number = find(self.slots, kept.ids[k])
                    # Admitted, but not seen yet: all zero behind a stamp before all time.
                    (<int64_t*>(self.slots.base + number * self.slots.size))[0] = -1
                kept.ids[n] = kept.ids[k]
                kept.values[n] = kept.values[k]
                n += 1
                k += 1
        kept.offsets[kept.rows] = n
        kept.features = n
        kept.scan()
        return kept

    cdef int freeze(self) except -1:
        """Hand phase one's mean to phase two, which takes gradients there from now on."""
        cdef Reading reading
        cdef int64_t i
        cdef char* slot
        with nogil:
            for i in range(-1, self.slots.used):
                slot = self.bias if i < 0 else self.slots.base + i * self.slots.size
                if slot == NULL or not touched(slot):
                    continue
                self.kernel.read(&self.algorithm, slot, i >= 0, &reading)
                frozen.hand_in(<frozen.FrozenSlot*>(slot + self.second_offset), reading.mean)
        self.second.frozen.count_before = max(self.second.frozen.count, <int64_t>0)
        self.second.frozen.count = 0
        if self.spec["total"]:
            self.next_freeze = <int64_t>0x7FFFFFFFFFFFFFFF
        else:
            self.next_freeze *= 2            # the touched slots double too: O(1) a feature in all
        return 0

    # ---- snapshots -------------------------------------------------------------------------------

    cdef Conversion conversion(self):
        """How the state of now becomes weights, L and cut still open."""
        cdef Conversion c = Conversion()
        cdef bint second = self.two_phases and self.second.frozen.count >= 0
        c.slots = self.slots
        c.bias = self.bias
        c.kernel = self.second_kernel if second else self.kernel
        c.algorithm = &self.second if second else &self.algorithm
        c.offset = self.second_offset if second else 0
        c.at_last = self.spec["point"] == "last"
        c.has_gradient = c.kernel.has_gradient(c.algorithm)
        c.converts = c.has_gradient and self.spec["converts"]
        if self.two_phases and not second and self.spec["kernel"] == "adaptive":
            c.converts = False             # its gradient is in a metric of its own
        c.cut = 0.0
        # Which recent rows are in the averaged gradient, by age, and how much they weigh in it.
        c.t = self.time()
        c.from_age, c.to_age = 0, c.t
        c.newest = 1.0
        c.total = c.to_age
        if second:
            c.total = c.to_age = self.second.frozen.count
            if not frozen.serves_new(&self.second.frozen):
                c.total = self.second.frozen.count_before
                c.from_age, c.to_age = c.to_age, c.to_age + <int64_t>c.total
        elif self.spec["kernel"] == "linear":
            c.grows = True
            c.newest = self.algorithm.linear.step.n
            c.total = self.algorithm.linear.W
        elif self.spec["kernel"] == "suffix":
            c.total = c.to_age = suffix.length(&self.algorithm.suffix)
        return c

    cdef Learner settled(self):
        """Self, or a copy for which the warm-up is over with the examples there are."""
        cdef Learner copy
        if self.pending is None or self.pending.rows == 0:
            return self
        copy = Learner.from_state(self.state())
        copy.begin_learning()
        return copy

    def snapshot(self, smoothness=None, evidence=None, max_nonzeros=None):
        """The exactly sparse model of now, as a dict; changes nothing.

        smoothness overrides L; evidence (adaptive only) asks for the sparser model that this much
        evidence would keep; max_nonzeros keeps the strongest weights.
        """
        cdef Learner settled = self.settled()
        cdef Conversion c
        cdef Window window
        if max_nonzeros is not None and max_nonzeros < 0:
            raise UsageError(f"max_nonzeros {max_nonzeros}: expected a whole number >= 0")
        settled.slots.hold()
        try:
            window = Window(settled.recent, settled.slots)
            c = settled.prepared(smoothness, evidence, window)
            if max_nonzeros is not None:
                c.cut = strongest(c.strengths(), max_nonzeros, c.cut)
            return settled.solved(c, window)
        finally:
            settled.slots.release()

    cdef Conversion prepared(self, object smoothness, object evidence, Window window):
        """The conversion with its L and the cut that `evidence` asks for. Without a window it makes
        its own, if it needs one: those of all classes at once would be much memory."""
        cdef Conversion c
        if self.broken is not None:
            raise self.broken
        if smoothness is not None and not (smoothness > 0.0 and isfinite(smoothness)):
            raise UsageError(f"smoothness {smoothness}: expected a finite number > 0")
        c = self.conversion()
        if smoothness is None:
            smoothness = self.spec["smoothness"]
        c.l2 = self.spec["l2"]
        if self.spec["shared"] and self.time():       # the penalty is one for the whole run
            c.l2 /= self.time()
        if smoothness is not None:
            c.smoothness = smoothness
        elif c.converts:
            if window is None:
                window = Window(self.recent, self.slots)
            choose_smoothness(c, window, self.task.loss, curvature(self.spec["loss"]))
        if evidence is not None:
            if self.spec["kernel"] != "adaptive" or self.spec["l1"] > 0.0:
                raise UsageError("evidence is a setting of adaptivesl without l1 only")
            if not isfinite(evidence):
                raise UsageError(f"evidence {evidence}: expected a finite number")
            if evidence < self.spec["evidence"]:
                raise UsageError(
                    f"evidence {evidence:g} is below {self.spec['evidence']:g}, with which this "
                    "state was learned; a snapshot can only be sparser")
            if evidence > self.spec["evidence"]:
                if self.spec["evidence"] == 0.0:
                    raise UsageError("a state learned with evidence 0 has no path; learn with more")
                c.cut = evidence / self.spec["evidence"]
        return c

    cdef dict solved(self, Conversion c, Window window):
        """The snapshot that a prepared conversion makes."""
        result = solve(c, window, self.task.loss, self.task.label_shift, self.task.label_scale)
        result["t"] = self.tally.examples
        return result

    # ---- states ----------------------------------------------------------------------------------

    def state(self):
        """Everything the next example depends on, by name; from_state is the inverse."""
        if self.broken is not None:
            raise self.broken
        self.slots.hold()
        try:
            return self.stored()
        finally:
            self.slots.release()

    cdef dict stored(self):
        cdef int64_t i, n = 0, words = self.slots.size // 8, w, seen = self.slots.seen()
        cdef int64_t* cells
        cdef char* slot
        fields = self.fields()
        ids = bytearray(8 * seen)
        columns = [bytearray(8 * seen) for _ in fields]
        cdef int64_t* id_cells = <int64_t*><char*>ids
        self.slots.sort()
        for i in range(self.slots.used):
            if touched(slot_in_order(self.slots, i)):
                id_cells[n] = id_in_order(self.slots, i)
                n += 1
        for w in range(words):
            cells = <int64_t*><char*>(<bytearray>columns[w])
            n = 0
            for i in range(self.slots.used):
                slot = slot_in_order(self.slots, i)
                if touched(slot):
                    cells[n] = (<int64_t*>slot)[w]
                    n += 1
        return {
            "spec": dict(self.spec),
            "scalars": self.kernel.scalars(&self.algorithm),
            "second": self.second.frozen if self.two_phases else None,
            "progress": self.tally,
            "label_shift": self.task.label_shift,
            "label_scale": self.task.label_scale,
            "next_freeze": self.next_freeze,
            "ignored": self.ignored,
            "known": self.known,
            "ids": bytes(ids),
            "slots": {name: bytes(c) for name, c in zip(fields, columns, strict=True)},
            "bias": self.bias[:self.slots.size] if self.bias != NULL else None,
            "pending": self.pending.state() if self.pending is not None else None,
            "recent": self.recent.state(),
        }

    def fields(self):
        names = list(FIELDS[self.spec["kernel"]])
        if self.two_phases:
            names += ["frozen_" + name for name in FIELDS["frozen"]]
        return names

    @staticmethod
    def from_state(dict state):
        """A learner that goes on exactly where state() was taken."""
        cdef Learner new = Learner(state["spec"])
        cdef int64_t i, w, number, count = len(state["ids"]) // 8
        cdef const int64_t[::1] ids
        cdef const int64_t[::1] column
        new.kernel.set_scalars(&new.algorithm, state["scalars"])
        for name, value in new.spec["scalars"].items():
            # Flags and whole numbers are settings: no example changes them, and some divide.
            if isinstance(value, int) and state["scalars"][name] != value:
                raise ModelError(f"the state's {name} is not that of its settings")
        check_finite(state["scalars"])
        if new.two_phases:
            new.second.frozen = state["second"]
        new.tally = state["progress"]
        if not 0 <= new.tally.examples <= MOST_EXAMPLES:
            raise ModelError(f"the state has learned {new.tally.examples} examples")
        clocks = [state["scalars"].get("step", state["scalars"])["t"]]
        if new.two_phases:
            clocks.append(new.second.frozen.t)
        if {*clocks} != {new.tally.examples}:
            raise ModelError(f"the state's clocks differ from its {new.tally.examples} examples")
        new.task.label_shift = state["label_shift"]
        new.task.label_scale = state["label_scale"]
        if not (isfinite(new.task.label_shift) and 1e-100 < new.task.label_scale < 1e300):
            raise ModelError("the state's labels have no scale")
        new.next_freeze = state["next_freeze"]
        if new.two_phases and new.next_freeze <= new.tally.examples:
            raise ModelError("the state's next freeze lies in the past")
        new.ignored = state["ignored"]
        new.known = state["known"]
        if count:
            ids = memoryview(state["ids"]).cast("q")
            top = max(ids)
            if min(ids) < 0:
                raise ModelError("the state holds a negative feature id")
            new.slots.reserve(&ids[0], count, top, NULL)
            for w, name in enumerate(new.fields()):
                if len(state["slots"][name]) != 8 * count:
                    raise ModelError(f"the state holds {count} ids but not as many {name!r}")
                column = memoryview(state["slots"][name]).cast("q")
                for i in range(count):
                    number = find(new.slots, ids[i])
                    (<int64_t*>(new.slots.base + number * new.slots.size))[w] = column[i]
        if new.bias != NULL:
            if len(state["bias"]) != new.slots.size:
                raise ModelError("the state's bias has not the size of a slot")
            column = memoryview(state["bias"]).cast("q")
            for w in range(new.slots.size // 8):
                (<int64_t*>new.bias)[w] = column[w]
        new.pending = None if state["pending"] is None else Block.from_bytes(state["pending"])
        if new.pending is not None and new.pending.first_extreme() >= 0:
            raise ModelError("an example that waits in the state is beyond 1e50 in size")
        new.recent.restore(state["recent"])
        return new


cdef int check_finite(dict scalars) except -1:
    """Every number of a state is finite, and time begins at 0 or later."""
    for name, value in scalars.items():
        if isinstance(value, dict):
            check_finite(value)
        elif isinstance(value, float) and not (isfinite(value) and (name != "t0" or value >= 0.0)):
            raise ModelError(f"the state's {name} is {value}")
    return 0
