# The choice of L, the smoothness that a conversion goes by.
from streamlearn.engine.conversion cimport Conversion
from streamlearn.engine.loss cimport Loss
from streamlearn.engine.window cimport Window

cdef int choose_smoothness(
    Conversion c, Window window, Loss loss, double curvature) except -1
