"""MulticlassModel: a sparse model for each class against the rest; the largest margin wins.

Also `load_model`, which reads a model file of either kind. Learns nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from streamlearn import container
from streamlearn._version import __version__
from streamlearn.engine.block import Block
from streamlearn.errors import ModelError
from streamlearn.model import CONTRADICTIONS, FORMAT, SUMS, Model
from streamlearn.record import Record, field

if TYPE_CHECKING:
    import numpy as np

# What the file keeps for each class; all else is the same for all of them.
PART = ("bias", "ids", "weights", "certificate", "progress")
REST = (-1.0, 1.0)  # the labels of a part: the rest, the class
NOTHING: dict[str, Any] = {
    "labels": REST, "bias": 0.0, "ids": b"", "weights": b"",
    "certificate": {"violation": None, "objective": None},
}  # fmt: skip


class MulticlassModel(Record, frozen=True):
    """A binary model for each class against the rest, and all that is needed to use them.

    Each part is, byte for byte, what `fit` makes of the data with the label +1 for that class and
    -1 for all others.
    """

    settings: dict[str, Any]
    t: int
    seen: int  # features that ever occurred
    classes: tuple[int, ...]  # rising
    parts: tuple[Model, ...]  # one for each class
    normalize: str
    progress: dict[str, Any]
    counters: dict[str, int] = field(default_factory=dict)
    version: str = __version__

    # ---- looking ---------------------------------------------------------------------------------

    @property
    def loss(self) -> str:
        return self.settings["loss"]

    @property
    def nonzeros(self) -> int:
        """Of all classes together."""
        return sum(part.nonzeros for part in self.parts)

    @property
    def density(self) -> float:
        """Non-zero weights over features seen times classes."""
        cells = self.seen * len(self.parts)
        return self.nonzeros / cells if cells else 0.0

    @property
    def certificate(self) -> dict[str, Any]:
        """The largest violation of any class, and the mean of their objectives."""
        found = [part.certificate for part in self.parts]
        violations = [c["violation"] for c in found if c["violation"] is not None]
        objectives = [c["objective"] for c in found if c["objective"] is not None]
        whole = objectives and len(objectives) == len(found)
        return {
            "violation": max(violations, default=None),
            "objective": math.fsum(objectives) / len(objectives) if whole else None,
        }

    def part(self, label: int) -> Model:
        """The model of a class against the rest."""
        if label not in self.classes:
            raise ModelError(f"no class {label}; the model knows {shown_classes(self.classes)}")
        return self.parts[self.classes.index(label)]

    def weights_by_id(self) -> dict[int, dict[int, float]]:
        """{class: {id: weight}} of the weights that are not zero."""
        return {
            label: part.weights_by_id()
            for label, part in zip(self.classes, self.parts, strict=True)
        }

    # ---- predicting ------------------------------------------------------------------------------

    def warm(self) -> None:
        """Make now what the first prediction would have to wait for."""
        for part in self.parts:
            part.warm()

    def block_margins(self, block: Block) -> list[memoryview[float]]:
        """For each class, the margins of a block's rows."""
        if not self.parts:
            raise ModelError("the model knows no class, since it was learned from no examples")
        return [part.block_margins(block) for part in self.parts]

    def margins(self, X: Any) -> np.ndarray:
        """A row for each row of X, with the margin of each class, by rising class."""
        import numpy as np

        from streamlearn.arrays import to_block

        return np.array(self.block_margins(to_block(X)), dtype=float).T

    def probabilities(self, X: Any) -> np.ndarray:
        """As margins, each row normalised by `shares`; logistic loss only."""
        import numpy as np

        if self.loss != "logistic":
            raise ModelError(f"a model learned with loss {self.loss} gives no probabilities")
        return np.array([shares(row) for row in self.margins(X).tolist()])

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row: that of the largest margin, the smaller class where two tie."""
        import numpy as np

        return np.array(self.classes, dtype=np.int64)[self.margins(X).argmax(axis=1)]

    # ---- files -----------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """The model file; equal models have equal bytes."""
        return container.pack(
            FORMAT,
            {
                "streamlearn": self.version,
                "settings": self.settings,
                "normalize": self.normalize,
                "t": self.t,
                "progress": self.progress,
                "counters": self.counters,
                "seen": self.seen,
                "classes": [
                    {"label": label, **{name: getattr(part, name) for name in PART}}
                    for label, part in zip(self.classes, self.parts, strict=True)
                ],
            },
        )

    def save(self, path: str) -> None:
        """Write the model file, all or nothing."""
        container.write_file(path, self.to_bytes())

    @classmethod
    def checked(cls, body: dict[str, Any], name: str) -> MulticlassModel:
        """From the inside of a model file, checking everything."""
        try:
            shared = {key: value for key, value in body.items() if key != "classes"}
            Model.checked({**shared, **NOTHING}, name)  # what they share, also where there are none
            model = cls(
                settings=body["settings"],
                t=body["t"],
                seen=body["seen"],
                classes=tuple(part["label"] for part in body["classes"]),
                parts=tuple(
                    Model.checked({**shared, **part, "labels": REST}, name)
                    for part in body["classes"]
                ),
                normalize=body["normalize"],
                progress=body["progress"],
                counters=body["counters"],
                version=body["streamlearn"],
            )
            sound = (
                all(type(label) is int for label in model.classes)
                and all(a < b for a, b in pairwise(model.classes))
                and min(model.t, model.seen, *(model.progress[k] for k in SUMS)) >= 0
                and all(part.progress["positive"] >= 0 for part in model.parts)
            )
        except CONTRADICTIONS as error:
            raise ModelError(f"{name}: not a whole model: {error}") from error
        if not sound:
            raise ModelError(f"{name}: the model contradicts itself; it was not written by us")
        return model


AnyModel = Model | MulticlassModel


def load_model(path: str) -> AnyModel:
    """Read a model file of either kind; '-' is standard input."""
    return checked_model(container.read_file(path, FORMAT), path)


def model_from_bytes(data: bytes, name: str = "model") -> AnyModel:
    """The same from the bytes of a file."""
    return checked_model(container.unpack(data, FORMAT, name), name)


def checked_model(body: dict[str, Any], name: str) -> AnyModel:
    kind = MulticlassModel if "classes" in body else Model
    return kind.checked(body, name)


def shares(margins: Sequence[float]) -> list[float]:
    """1 / (1 + exp(-m)) of each class, divided by their sum."""
    # In logarithms, less the largest: however small all of them are, one is 1.
    logs = [-math.log1p(math.exp(-m)) if m > 0.0 else m - math.log1p(math.exp(m)) for m in margins]
    top = max(logs)
    sizes = [math.exp(log - top) for log in logs]
    total = math.fsum(sizes)
    return [size / total for size in sizes]


def shown_classes(classes: tuple[int, ...], most: int = 20) -> str:
    """The classes in words, the first of them when they are many."""
    words = ", ".join(map(str, classes[:most])) or "none"
    return words + (f", ... ({len(classes):,d} in all)" if len(classes) > most else "")
