# Texts: whole lines from several places on their way into one block.
from streamlearn.engine.block cimport Block
from streamlearn.engine.libsvm cimport Parser, Text
from streamlearn.engine.together cimport Hand


cdef class Texts(Hand):
    cdef Parser parser
    cdef list texts                       # held for as long as they are read
    cdef Block block
    cdef Text* all
    cdef Py_ssize_t count                 # texts
    cdef Py_ssize_t size                  # bytes of all of them
    cdef Py_ssize_t read                  # texts that were read
    cdef const unsigned char* where       # the first fault
    cdef bint started                     # in a thread of its own
