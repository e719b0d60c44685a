"""Model: an exactly sparse snapshot. Predicts, is saved, loaded and exported; learns nothing."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

from streamlearn import container
from streamlearn._version import __version__
from streamlearn.catalogue import LOSSES
from streamlearn.engine.block import Block
from streamlearn.engine.digits import probabilities
from streamlearn.engine.scorer import Scorer, is_sound
from streamlearn.errors import ModelError
from streamlearn.record import Record, field

if TYPE_CHECKING:
    import numpy as np

FORMAT = "streamlearn-model"
# What meets us in a file whose checksum is right and whose inside is not; the last where something
# nested a thousand deep is to be shown.
CONTRADICTIONS = (
    KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip
SUMS = ("examples", "weight", "loss", "errors")
CERTIFICATE = ("violation", "objective")
LARGEST = 1e200  # of a weight: a row is below 1e50 in size, and their product must be finite
COUNTERS = {"bad_lines", "blank_lines", "ignored_features"}


class Model(Record, frozen=True):
    """The weights that are not zero, and all that is needed to use and to judge them.

    ids and weights are little-endian int64 and float64 bytes, ids rising; use `weights_by_id`,
    `id_array` or `weight_array` for something friendlier.
    """

    settings: dict[str, Any]
    t: int
    bias: float
    ids: bytes
    weights: bytes
    seen: int  # features that ever occurred
    labels: tuple[float, float] | None  # (negative, positive) as written in the data
    normalize: str
    progress: dict[str, Any]
    certificate: dict[str, Any]
    counters: dict[str, int] = field(default_factory=dict)
    version: str = __version__

    # ---- looking ---------------------------------------------------------------------------------

    @property
    def loss(self) -> str:
        return self.settings["loss"]

    @property
    def classifies(self) -> bool:
        return LOSSES[self.loss].classifies

    @property
    def nonzeros(self) -> int:
        return len(self.ids) // 8

    @property
    def density(self) -> float:
        """Non-zero weights over features seen."""
        return self.nonzeros / self.seen if self.seen else 0.0

    @property
    def id_array(self) -> np.ndarray:
        import numpy as np

        return np.frombuffer(self.ids, dtype="<i8")

    @property
    def weight_array(self) -> np.ndarray:
        import numpy as np

        return np.frombuffer(self.weights, dtype="<f8")

    def weights_by_id(self) -> dict[int, float]:
        """{id: weight} of the weights that are not zero."""
        ids, weights = memoryview(self.ids).cast("q"), memoryview(self.weights).cast("d")
        return dict(zip(ids, weights, strict=True))

    # ---- predicting ------------------------------------------------------------------------------

    @cached_property
    def scorer(self) -> Scorer:
        return Scorer(self.ids, self.weights, self.bias)

    def warm(self) -> None:
        """Make now what the first prediction would have to wait for."""
        _ = self.scorer

    def block_margins(self, block: Block) -> memoryview[float]:
        """The margins of a block's rows, which it scales first where the model was taught so."""
        if self.normalize == "l2":
            block.normalize()
        return memoryview(self.scorer.margins(block)).cast("d")

    def margins(self, X: Any) -> np.ndarray:
        """w.x + bias for each row of a scipy sparse matrix or a dense array; columns are ids."""
        import numpy as np

        from streamlearn.arrays import to_block

        return np.array(self.block_margins(to_block(X)), dtype=float)

    def probabilities(self, X: Any) -> np.ndarray:
        """P(positive) of each row; logistic loss only."""
        import numpy as np

        if self.loss != "logistic":
            raise ModelError(f"a model learned with loss {self.loss} gives no probabilities")
        return np.frombuffer(probabilities(self.margins(X)), dtype=float)

    def predict(self, X: Any) -> np.ndarray:
        """The label of each row as the data wrote it, or the value for regression."""
        import numpy as np

        margins = self.margins(X)
        if self.labels is None:
            return margins
        negative, positive = self.labels
        return np.where(margins > 0.0, positive, negative)

    def label_of(self, margin: float) -> float:
        """The label that a margin stands for: positive only above 0."""
        if self.labels is None:
            return margin
        return self.labels[1] if margin > 0.0 else self.labels[0]

    # ---- files -----------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """The model file; equal models have equal bytes."""
        return b"".join(self.pieces())

    def pieces(self) -> list[bytes]:
        """The same without copies of ids and weights."""
        return container.pieces(
            FORMAT,
            {
                "streamlearn": self.version,
                "settings": self.settings,
                "normalize": self.normalize,
                "labels": list(self.labels) if self.labels else None,
                "t": self.t,
                "progress": self.progress,
                "counters": self.counters,
                "certificate": self.certificate,
                "seen": self.seen,
                "bias": self.bias,
                "ids": self.ids,
                "weights": self.weights,
            },
        )

    def save(self, path: str) -> None:
        """Write the model file, all or nothing."""
        container.write_file(path, self.pieces())

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "model") -> Model:
        """Read a model file's bytes, checking everything."""
        return cls.checked(container.unpack(data, FORMAT, name), name)

    @classmethod
    def load(cls, path: str) -> Model:
        """Read a model file; '-' is standard input."""
        return cls.checked(container.read_file(path, FORMAT), path)

    @classmethod
    def checked(cls, body: dict[str, Any], name: str) -> Model:
        """From the inside of a model file, checking everything."""
        if "classes" in body:
            raise ModelError(f"{name}: a model of many classes; read it with load_model")
        try:
            model = cls(
                settings=body["settings"],
                t=body["t"],
                bias=body["bias"],
                ids=body["ids"],
                weights=body["weights"],
                seen=body["seen"],
                labels=tuple(body["labels"]) if body["labels"] else None,
                normalize=body["normalize"],
                progress=body["progress"],
                certificate=body["certificate"],
                counters=body["counters"],
                version=body["streamlearn"],
            )
            sound = (
                is_sound(
                    memoryview(model.ids).cast("q"), memoryview(model.weights).cast("d"), LARGEST
                )
                and abs(model.bias) < LARGEST
                and model.loss in LOSSES
                and model.normalize in ("none", "l2")
                and (model.labels is None) == (not model.classifies)
                and (model.labels is None or are_labels(*model.labels))
                and min(model.t, model.seen, *(model.progress[k] for k in SUMS)) >= 0
                and all(is_figure(model.certificate[k]) for k in CERTIFICATE)
                and {*model.counters} >= COUNTERS
            )
        except CONTRADICTIONS as error:
            raise ModelError(f"{name}: not a whole model: {error}") from error
        if not sound:
            raise ModelError(f"{name}: the model contradicts itself; it was not written by us")
        return model


def is_figure(value: Any) -> bool:
    """Whether it is a number, or None for one that is not known."""
    return value is None or type(value) in (int, float)


def are_labels(negative: Any, positive: Any) -> bool:
    """Whether two classes can be written so."""
    return all(type(x) in (int, float) and math.isfinite(x) for x in (negative, positive))


def as_written(label: float) -> str:
    """A label as data writes it: the fewest digits, no needless point."""
    return repr(float(label)).removesuffix(".0")
