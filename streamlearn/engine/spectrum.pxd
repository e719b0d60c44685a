# The largest eigenvalue of X' diag(importance) X / m; knows no loss and no weights.
from streamlearn.engine.columns cimport Columns

cdef double largest_eigenvalue(Columns columns) except -1.0
