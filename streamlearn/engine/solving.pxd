# Solving: every coordinate that was ever touched becomes a weight, sorted by id.
from streamlearn.engine.conversion cimport Conversion
from streamlearn.engine.loss cimport Loss
from streamlearn.engine.window cimport Window

cdef dict solve(Conversion c, Window window, Loss loss, double shift, double scale)
