"""streamlearn: learn exactly sparse linear models from a stream, one example at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamlearn._version import __version__

if TYPE_CHECKING:
    from streamlearn.client import Client
    from streamlearn.model import Model
    from streamlearn.multiclass import MulticlassModel, load_model
    from streamlearn.training import Training

__all__ = ["Client", "Model", "MulticlassModel", "Training", "__version__", "load_model"]


def __getattr__(name: str) -> Any:
    """Import on first use: `streamlearn --help` must not pay for what it does not need."""
    if name == "Client":
        from streamlearn.client import Client

        return Client
    if name == "Model":
        from streamlearn.model import Model

        return Model
    if name in ("MulticlassModel", "load_model"):
        from streamlearn import multiclass

        return getattr(multiclass, name)
    if name == "Training":
        from streamlearn.training import Training

        return Training
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
