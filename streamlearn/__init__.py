"""streamlearn: learn exactly sparse linear models from a stream, one example at a time."""

from streamlearn._version import __version__

__all__ = ["__version__"]
