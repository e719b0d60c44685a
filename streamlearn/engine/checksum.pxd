# Sum: a 64-bit checksum of bytes that come in pieces. Finds damage; no protection against malice.
from libc.stdint cimport uint64_t

cdef struct Sum:
    uint64_t[4] lanes
    uint64_t size              # bytes so far
    unsigned char[32] rest     # size % 32 bytes that fill no stripe yet

cdef void begin_sum(Sum* sum) noexcept nogil
cdef void add_bytes(Sum* sum, const unsigned char* p, size_t count) noexcept nogil
cdef uint64_t end_sum(Sum* sum) noexcept nogil
