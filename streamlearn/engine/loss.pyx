# The table of losses by name, and a door for the tests.
from streamlearn.errors import UsageError

from streamlearn.engine cimport loss as losses


cdef Loss loss_named(str name) except NULL:
    if name == "logistic":
        return losses.logistic
    if name == "squared":
        return losses.squared
    if name == "hinge":
        return losses.hinge
    if name == "squared_hinge":
        return losses.squared_hinge
    raise UsageError(f"unknown loss {name!r}")


cdef double curvature(str name) except -1.0:
    """sup of the second derivative in the margin; hinge has none and is given 1, a heuristic."""
    return 0.25 if name == "logistic" else 1.0


def evaluate(str name, double margin, double y):
    """(value, slope) of a loss at one margin."""
    cdef double value, slope
    loss_named(name)(margin, y, &value, &slope)
    return value, slope
