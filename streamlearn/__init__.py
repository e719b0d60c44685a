"""streamlearn: learn exactly sparse linear models from a stream, one example at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamlearn._version import __version__

if TYPE_CHECKING:
    from streamlearn.model import Model
    from streamlearn.training import Training

__all__ = ["Model", "Training", "__version__"]


def __getattr__(name: str) -> Any:
    """Import on first use: `streamlearn --help` must not pay for what it does not need."""
    if name == "Model":
        from streamlearn.model import Model

        return Model
    if name == "Training":
        from streamlearn.training import Training

        return Training
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
