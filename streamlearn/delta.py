"""What changed from one model to the next, so that followers need not be sent all of it."""

from __future__ import annotations

from collections.abc import Mapping
from reprlib import repr as short
from typing import Any

from streamlearn import container
from streamlearn.engine.checksum import crc32
from streamlearn.errors import ModelError
from streamlearn.model import CONTRADICTIONS, FORMAT, Model

APART = ("format", "version", "checksum", "ids", "weights")  # keys that do not go into the head


def difference(old: Model, new: Model) -> dict[str, Any]:
    """{from, t, head, gone, ids, weights, checksum}: what makes `new` of `old`.

    `head` is all of the new model but its weights; `ids` and `weights` are those that are new or
    not what they were; `checksum` is the crc32 of the new model's file.
    """
    import numpy as np  # costs a daemon that nobody follows 100 ms and 25 MB

    fresh = new.id_array
    place = np.searchsorted(old.id_array, fresh)
    place[place == old.nonzeros] = 0
    same = np.zeros(len(fresh), bool)
    if old.nonzeros:
        same = (old.id_array[place] == fresh) & (old.weight_array[place] == new.weight_array)
    data = new.to_bytes()
    head = container.unpack(data, FORMAT, "model")
    for name in APART:
        del head[name]
    return {
        "from": old.t,
        "t": new.t,
        "head": head,
        "gone": np.setdiff1d(old.id_array, fresh, assume_unique=True).tobytes(),
        "ids": fresh[~same].tobytes(),
        "weights": new.weight_array[~same].tobytes(),
        "checksum": crc32(data),
    }


def apply(old: Model, delta: Mapping[str, Any]) -> Model:
    """The model that a delta makes of the one it is from; a ModelError if it does not fit."""
    import numpy as np

    start = delta.get("from")
    if start != old.t:
        raise ModelError(f"a delta from example {short(start)} does not fit a model of {old.t}")
    try:
        gone, ids = (np.frombuffer(delta[name], "<i8") for name in ("gone", "ids"))
        kept = ~np.isin(old.id_array, np.concatenate([gone, ids]), assume_unique=True)
        every = np.concatenate([old.id_array[kept], ids])
        weights = np.concatenate([old.weight_array[kept], np.frombuffer(delta["weights"], "<f8")])
        order = np.argsort(every)
        data = container.pack(
            FORMAT,
            {**delta["head"], "ids": every[order].tobytes(), "weights": weights[order].tobytes()},
        )
        checksum = delta["checksum"]
    except (IndexError, *CONTRADICTIONS) as error:
        raise ModelError(f"a delta that makes no model: {error}") from error
    if crc32(data) != checksum:
        raise ModelError("a delta whose result has the wrong checksum")
    return Model.from_bytes(data, "delta")
