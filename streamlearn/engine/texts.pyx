# Texts: many of them read in one go, the GIL given away once for all; beside other work if begun.
from libc.stdlib cimport free, malloc

from streamlearn.engine.block cimport Block
from streamlearn.engine.libsvm cimport (
    BRIEF, FAULT_MEMORY, FAULT_NONE, Parser, Text, check_end, word_at,
)
from streamlearn.engine.together cimport Hand


cdef class Texts(Hand):
    """Texts to be read behind what a block holds, in their order.

    texts[i] is whole lines, or nothing, that stand behind before[i] others of their file. Parser
    and block are not to be used between `begin` and `marks`.
    """

    def __init__(self, Parser parser, list texts, list before, Block block):
        cdef const unsigned char[::1] view
        cdef Py_ssize_t i
        self.parser, self.texts, self.block = parser, texts, block
        self.count = len(texts)
        self.all = <Text*>malloc(<size_t>(self.count + 1) * sizeof(Text))
        if self.all == NULL:
            raise MemoryError("no memory to read so many texts")
        for i in range(self.count):
            view = texts[i]
            self.all[i].size = view.shape[0]
            self.all[i].start = &view[0] if self.all[i].size else NULL
            self.all[i].before = before[i]
            check_end(self.all[i].start, self.all[i].size)
            self.size += self.all[i].size
        parser.make_room(self.size, block)

    def __dealloc__(self):
        free(self.all)

    cdef void work(self) noexcept nogil:
        self.read = self.parser.parse_each(self.all, self.count, self.block, &self.where)

    def begin(self):
        """Read in a thread of its own, if there is one to be had."""
        self.started = self.start()

    def marks(self):
        """For each text: rows of the block behind it, its blank lines, whether the labels were
        settled before it.

        The last one is the first with a `fault` of the parser, which goes on at `reached`; or one
        for which there was no memory is missing, unless it is the first: MemoryError.
        """
        cdef Parser parser = self.parser
        cdef Py_ssize_t i
        if self.started:
            self.wait()
        elif self.size < BRIEF:
            self.work()
        else:
            with nogil:
                self.work()
        if parser.fault == FAULT_MEMORY:
            self.read -= 1
            if self.read == 0:
                raise MemoryError(f"no memory to check line {parser.line}")
            self.block.cut(self.all[self.read - 1].rows)
            parser.fault = FAULT_NONE
        if parser.fault:
            parser.token = word_at(self.where)
        return [(self.all[i].rows, self.all[i].blank, bool(self.all[i].settled))
                for i in range(self.read)]
