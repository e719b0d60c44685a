"""Payloads: text and arrays, as callers have them, as bodies of requests of a bearable size."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from os import PathLike
from typing import Any

from streamlearn.errors import DataError, UsageError

TEXT_BYTES = 1 << 18  # in a request
ROWS, ROW_BYTES = 4096, 1 << 20

Body = dict[str, Any]


def to_learn(data: Any, y: Any, weights: Any, limit: int) -> Iterator[Body]:
    """Bodies of `learn`: libsvm text or its lines, rows X with labels y, or a pair of both."""
    if y is None and isinstance(data, tuple) and len(data) == 2 and not is_text(data[0]):
        data, y = data
    text, data = text_in(data)
    if text is None:
        yield from row_bodies(data, y, weights, limit, labelled=True)
    elif y is not None or weights is not None:
        raise UsageError("learn: text has its labels and weights in it; leave y and weights out")
    else:
        yield from text_bodies(text, limit)


def to_predict(data: Any, limit: int) -> Iterator[Body]:
    """Bodies of `predict`: text or rows."""
    text, data = text_in(data)
    return row_bodies(data, None, None, limit) if text is None else text_bodies(text, limit)


def place_of(body: Body) -> str:
    """Where a body comes from, for messages: file and line, the row of an array, or the command."""
    if "rows" in body:
        return f"row {body.get('line', 1) - 1}"
    if "text" in body:
        return f"{body.get('name', 'batch')}:{body.get('line', 1)}"
    return str(body.get("do", "batch"))


def as_bytes(text: Any, what: str) -> bytes:
    """One piece of text; never an array, though those have bytes too."""
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")  # what is no number will be called a bad line
    if isinstance(text, bytes | bytearray | memoryview):
        return bytes(text)
    raise DataError(f"{what}: {type(text).__name__} is no text; expected str or bytes")


def is_text(data: Any) -> bool:
    return isinstance(data, str | bytes | bytearray | memoryview)


def text_in(data: Any) -> tuple[Iterator[bytes] | None, Any]:
    """Pieces of whole lines if data is text in some form, else None and the data."""
    if is_text(data):
        return iter([as_bytes(data, "text")]), None
    if isinstance(data, PathLike):
        raise DataError(f"{data}: a path is no data; open the file, or use: streamlearn send")
    if getattr(getattr(data, "dtype", None), "kind", "") in ("U", "S"):
        data = data.ravel().tolist()
    if isinstance(data, Iterator):  # an open file, a generator
        data = [*itertools.islice(data, 1)], data
        if not data[0] or is_text(data[0][0]):
            return joined(itertools.chain(*data)), None
        data = [*itertools.chain(*data)]
    if isinstance(data, list | tuple) and data and is_text(data[0]):
        return joined(data), None
    return None, data


def joined(lines: Iterable[Any]) -> Iterator[bytes]:
    """Lines in pieces of some size, each with its newline."""
    piece: list[bytes] = []
    size = 0
    for number, line in enumerate(lines, 1):
        text = as_bytes(line, f"line {number}")
        piece.append(text if text.endswith(b"\n") else text + b"\n")
        size += len(text)
        if size > TEXT_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
    yield b"".join(piece)


def text_bodies(pieces: Iterable[bytes], limit: int) -> Iterator[Body]:
    """Text cut behind newlines; only a single line may be larger than the limit."""
    line, most = 1, min(TEXT_BYTES, limit)
    for text in pieces:
        start = 0
        while start < len(text):
            stop = len(text)
            if stop - start > most:
                stop = text.rfind(b"\n", start, start + most) + 1
                if stop <= start:  # one very long line
                    stop = text.find(b"\n", start) + 1 or len(text)
            part = text[start:stop]
            yield {"text": part, "line": line}
            line += part.count(b"\n")
            start = stop


def row_bodies(
    X: Any, y: Any, weights: Any, limit: int, labelled: bool = False
) -> Iterator[Body]:
    """Rows of arrays, cut by number and size; only a single row may be larger than the limit."""
    from streamlearn.arrays import checked, to_bytes

    arrays = checked(X, y, weights)
    if labelled and y is None and arrays[0].shape[0]:
        raise UsageError("learn: rows without labels; expected learn(X, y), or text with labels")
    for first, rows in to_bytes(*arrays, ROWS, min(ROW_BYTES, limit)):
        yield {"rows": rows, "line": first + 1}
