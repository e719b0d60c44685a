"""A model in the formats of other tools: pure functions from a Model to bytes, and their table.

Nothing here reads those formats, opens a file or prints. Each function's docstring is the format.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from streamlearn.errors import UsageError
from streamlearn.model import Model
from streamlearn.multiclass import MulticlassModel

SOLVERS = {
    "logistic": "L1R_LR",
    "hinge": "L1R_L2LOSS_SVC",
    "squared_hinge": "L1R_L2LOSS_SVC",
    "squared": "L2R_L2LOSS_SVR",
}
LIBLINEAR_LAST = 2**31 - 2  # nr_feature and one more for the bias are counted in a 32-bit int

VW_VERSION = "8.8.0"  # the header and the weights below are the same from there to 9.11
VW_CONSTANT = 11650396  # the feature that VW adds to every example
VW_LAST = 2**31 - 1
# Enough for VW_CONSTANT to keep a slot of its own, whatever smaller ids there are. VW's table is
# virtual memory: 256 MB at 24 bits, touched only where there is a weight.
VW_LEAST_BITS = VW_CONSTANT.bit_length()
VW_WIDE_BITS = 31  # from here on VW writes slots in 64 bits
FLOAT32_MAX = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]


def to_liblinear(model: Model) -> bytes:
    """A LIBLINEAR model file, for liblinear-predict.

        solver_type L1R_LR        L1R_L2LOSS_SVC for the hinge losses, L2R_L2LOSS_SVR for squared
        nr_class 2
        label P N                 w.x > 0 means P, the positive label; no such line for squared
        nr_feature n              the largest id
        bias 1                    the constant is feature n + 1, of this value in every row
        w
        <n + 1 lines>             the weights of the ids 1 ... n, zeros too, then the bias

    17 significant digits, so every weight is read back exactly. LIBLINEAR counts ids from 1 and
    its labels are 32-bit whole numbers; a model that has others is refused.
    """
    head = [f"solver_type {SOLVERS[model.loss]}", "nr_class 2"]
    if model.labels is not None:
        negative, positive = map(_int32_label, model.labels)
        head.append(f"label {positive} {negative}")
    return _liblinear(head, [model])


def classes_to_liblinear(model: MulticlassModel) -> bytes:
    """The same for many classes, of which the largest w.x wins.

        nr_class k
        label a b c ...           the classes, rising
        w
        <n + 1 lines>             k weights a line, one for each class, in that order

    Of two classes LIBLINEAR has one set of weights only: such a model is refused.
    """
    if len(model.classes) == 2:
        raise UsageError(
            "--to liblinear: of two classes LIBLINEAR has one set of weights, this model has two; "
            "learn it without --multiclass, with --labels NEG,POS"
        )
    labels = " ".join(str(_int32_label(label)) for label in model.classes)
    head = [f"solver_type {SOLVERS[model.loss]}", f"nr_class {len(model.classes)}"]
    return _liblinear([*head, f"label {labels}"], model.parts)


def _liblinear(head: list[str], parts: Sequence[Model]) -> bytes:
    """The file with a column of weights for each part."""
    weights: dict[int, list[float]] = {}
    for column, part in enumerate(parts):
        for id_, weight in part.weights_by_id().items():
            weights.setdefault(id_, [0.0] * len(parts))[column] = weight
    if 0 in weights:
        raise UsageError(
            "--to liblinear: the model has a weight for id 0; LIBLINEAR counts ids from 1"
        )
    last = max(weights, default=0)
    if last > LIBLINEAR_LAST:
        raise UsageError(
            f"--to liblinear: the model has a weight for id {last}; LIBLINEAR takes ids up to "
            f"{LIBLINEAR_LAST}"
        )
    head += [f"nr_feature {last}", "bias 1", "w", ""]
    lines, line = ["\n".join(head).encode()], 1
    zeros = b" ".join([b"0"] * len(parts)) + b"\n"
    for id_, row in sorted(weights.items()):
        lines.append(zeros * (id_ - line))
        lines.append(b" ".join(b"%.17g" % weight for weight in row) + b"\n")
        line = id_ + 1
    lines.append(b" ".join(b"%.17g" % part.bias for part in parts) + b"\n")
    return b"".join(lines)


def to_json(model: Model) -> bytes:
    """One strict JSON object on one line (RFC 8259: no NaN, no Infinity).

        {"format": "streamlearn-weights", "t": examples, "bias": b, "labels": [N, P] or null,
         "loss": ..., "normalize": "none" or "l2", "weights": {"id": w, ...}}

    Ids rise and are strings, since JSON has no other keys. Numbers have the fewest digits that read
    back as the same float. A margin is w.x + bias, of a row of unit length for "l2"; above 0 means
    the label P.
    """
    body = {
        "format": "streamlearn-weights",
        "t": model.t,
        "bias": model.bias,
        "labels": None if model.labels is None else list(model.labels),
        "loss": model.loss,
        "normalize": model.normalize,
        "weights": {str(id_): weight for id_, weight in model.weights_by_id().items()},
    }
    return json.dumps(body, allow_nan=False).encode() + b"\n"


def classes_to_json(model: MulticlassModel) -> bytes:
    """The same for many classes: in place of bias, labels and weights

        "classes": [{"label": c, "bias": b, "weights": {"id": w, ...}}, ...]

    by rising label. The largest margin wins, the smaller class where two tie.
    """
    body = {
        "format": "streamlearn-weights",
        "t": model.t,
        "loss": model.loss,
        "normalize": model.normalize,
        "classes": [
            {
                "label": label,
                "bias": part.bias,
                "weights": {str(id_): weight for id_, weight in part.weights_by_id().items()},
            }
            for label, part in zip(model.classes, model.parts, strict=True)
        ],
    }
    return json.dumps(body, allow_nan=False).encode() + b"\n"


def to_npz(model: Model) -> bytes:
    """A numpy .npz archive; np.load(file, allow_pickle=False) reads it.

        ids       int64, rising          weights   float64, as many
        bias      float64                labels    float64: negative, positive; empty for squared
        t         int64                  loss, normalize   text

    All but ids, weights and labels are arrays of no dimension: loaded["bias"].item().
    """
    import numpy as np

    stream = io.BytesIO()
    np.savez(
        stream,
        ids=model.id_array,
        weights=model.weight_array,
        bias=np.float64(model.bias),
        labels=np.array(model.labels or (), dtype=np.float64),
        t=np.int64(model.t),
        loss=np.str_(model.loss),
        normalize=np.str_(model.normalize),
    )
    return stream.getvalue()


def classes_to_npz(model: MulticlassModel) -> bytes:
    """The same for k classes: in place of labels and bias

        classes   int64, rising          bias      float64, one a class
        offsets   int64, k + 1 of them: ids and weights offsets[i] ... offsets[i + 1] - 1 are those
                  of class i

    so that scipy.sparse.csr_array((weights, ids, offsets)) has a row for each class.
    """
    import numpy as np

    stream = io.BytesIO()
    np.savez(
        stream,
        ids=np.concatenate([np.empty(0, np.int64), *(p.id_array for p in model.parts)]),
        weights=np.concatenate([np.empty(0), *(p.weight_array for p in model.parts)]),
        offsets=np.cumsum([0, *(part.nonzeros for part in model.parts)], dtype=np.int64),
        classes=np.array(model.classes, dtype=np.int64),
        bias=np.array([part.bias for part in model.parts], dtype=np.float64),
        t=np.int64(model.t),
        loss=np.str_(model.loss),
        normalize=np.str_(model.normalize),
    )
    return stream.getvalue()


def to_vw(model: Model) -> bytes:
    """A Vowpal Wabbit binary regressor, for `vw -t -i FILE`: its predictions are our margins.

    Little-endian; a text is its length with the closing NUL (u32), then itself and the NUL.

        text   version           8.8.0; the layout is the same up to 9.11
        text   id                empty
        byte   'm'
        f32    least label       predictions are clipped to least ... largest label: here the
        f32    largest label     whole range of f32, that is, not at all
        u32    bits              slots are ids modulo 2^bits
        u32    lda, u32 ngrams, u32 skips        all 0
        text   options           " --noconstant" if the bias is 0, else empty
        u32 4, u32 checksum      MurmurHash3 (32 bits) over each field from id to options, a text
                                 being two of them, each hash the seed of the next
        byte   0                 no training state follows
        (slot, f32 weight) ...   only the weights that are not zero; the slot is a u32 below 31
                                 bits, else a u64. The bias is the weight of slot 11650396.

    A row is `| id:value ...` in VW's text format, with all features in the default namespace. VW
    computes in 32 bits. It knows no label names: its -t --binary says 1 where we say the positive
    label; --link logistic gives the probability.

    bits is at least 24, and enough for the largest id of the model. An id of a row from 2^bits on
    falls on another's slot: leave such ids out, the model has no weight for them. The same holds
    for id 11650396 where there is a bias. VW's table takes 2^bits * 16 bytes of address space; with
    --sparse_weights it takes only what is used.
    """
    slots = model.weights_by_id()
    last = max(slots, default=0)
    if last > VW_LAST:
        raise UsageError(
            f"--to vw: the model has a weight for id {last}; VW's table of weights would not fit "
            f"a machine, ids up to {VW_LAST} are taken"
        )
    largest = max(map(abs, (model.bias, *slots.values())))
    if largest > FLOAT32_MAX:
        raise UsageError(
            f"--to vw: the model has a weight of size {largest:g}; VW's weights are 32-bit floats, "
            f"up to {FLOAT32_MAX:g}"
        )
    if model.bias:
        if VW_CONSTANT in slots:
            raise UsageError(
                f"--to vw: the model has a weight for id {VW_CONSTANT}, where VW keeps the bias "
                "whatever the number of bits; renumber that feature, or learn with --no-bias"
            )
        slots[VW_CONSTANT] = model.bias
    bits = max(VW_LEAST_BITS, last.bit_length())
    fields = [
        *_vw_text(""),
        b"m",
        struct.pack("<f", -FLOAT32_MAX),
        struct.pack("<f", FLOAT32_MAX),
        *(struct.pack("<I", number) for number in (bits, 0, 0, 0)),
        *_vw_text("" if model.bias else " --noconstant"),
    ]
    checksum = 0
    for part in fields:
        checksum = murmur3(part, checksum)
    entry = struct.Struct("<If" if bits < VW_WIDE_BITS else "<Qf")
    return b"".join(
        (
            *_vw_text(VW_VERSION),
            *fields,
            struct.pack("<II?", 4, checksum, False),
            *(entry.pack(slot, weight) for slot, weight in sorted(slots.items())),
        )
    )


def to_text(model: Model) -> bytes:
    """Lines of tab-separated text: `bias<TAB>b`, then `id<TAB>w` for each weight, rising by id.

    Numbers have the fewest digits that read back as the same float.
    """
    lines = [f"bias\t{model.bias!r}\n"]
    lines += [f"{id_}\t{weight!r}\n" for id_, weight in model.weights_by_id().items()]
    return "".join(lines).encode()


def classes_to_text(model: MulticlassModel) -> bytes:
    """The same for many classes: each line begins with `class<TAB>`, rising by class."""
    return b"".join(
        b"%d\t%s" % (label, line)
        for label, part in zip(model.classes, model.parts, strict=True)
        for line in to_text(part).splitlines(keepends=True)
    )


@dataclass(frozen=True)
class Format:
    """One entry of the table."""

    write: Callable[[Model], bytes]
    write_classes: Callable[[MulticlassModel], bytes] | None  # None: cannot be
    binary: bool  # not for a terminal
    tells_normalize: bool  # whether a reader can see that rows must be scaled first


FORMATS: dict[str, Format] = {
    "liblinear": Format(
        to_liblinear, classes_to_liblinear, binary=False, tells_normalize=False
    ),
    "json": Format(to_json, classes_to_json, binary=False, tells_normalize=True),
    "npz": Format(to_npz, classes_to_npz, binary=True, tells_normalize=True),
    "vw": Format(to_vw, None, binary=True, tells_normalize=False),
    "text": Format(to_text, classes_to_text, binary=False, tells_normalize=False),
}


def murmur3(data: bytes, seed: int) -> int:
    """MurmurHash3_x86_32 of Appleby, which VW calls uniform_hash."""
    whole = len(data) & ~3
    h = seed
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        h = (_rotate(h ^ _scramble(word), 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    h ^= _scramble(int.from_bytes(data[whole:], "little")) ^ len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h ^= h >> shift
        h = h * factor & 0xFFFFFFFF
    return h ^ h >> 16


def _scramble(word: int) -> int:
    return _rotate(word * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF


def _rotate(word: int, count: int) -> int:
    return (word << count | word >> (32 - count)) & 0xFFFFFFFF


def _vw_text(text: str) -> Iterable[bytes]:
    """The two fields of a text."""
    closed = text.encode() + b"\0"
    return struct.pack("<I", len(closed)), closed


def _int32_label(label: float) -> int:
    if label != int(label) or not -(2**31) <= label < 2**31:
        raise UsageError(
            f"--to liblinear: the model has the label {label:.17g}; LIBLINEAR takes 32-bit whole "
            "numbers only"
        )
    return int(label)
