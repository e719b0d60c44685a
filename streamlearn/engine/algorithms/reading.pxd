# Reading: what a coordinate says of itself at a snapshot. The conversion needs nothing else.
cdef struct Reading:
    double last          # the newest iterate w_{t+1}
    double mean          # the averaged iterate
    double gradient      # the averaged gradient with the ridge term, over the same weights
    double scale         # smoothness of this coordinate is L * scale
    double penalty       # weight of |w_j| in the objective


cdef inline void plain(Reading* out, double w, double penalty) noexcept nogil:
    """The reading of an algorithm that serves its iterate and averages nothing."""
    out.last = out.mean = w
    out.gradient = 0.0
    out.scale = 1.0
    out.penalty = penalty
