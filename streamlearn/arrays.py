"""From scipy sparse matrices and dense arrays to blocks. The column number is the feature id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from streamlearn.engine.block import Block
from streamlearn.errors import DataError

NUMBERS = "biuf"  # kinds of numpy types that are real numbers


def to_block(X: Any, y: Any = None, weights: Any = None) -> Block:
    """A block of the rows of X; labels default to 0. Explicit zeros are dropped."""
    matrix, labels, weights = checked(X, y, weights)
    return Block.from_arrays(
        np.ascontiguousarray(matrix.indptr, dtype=np.int64),
        np.ascontiguousarray(matrix.indices, dtype=np.int64),
        np.ascontiguousarray(matrix.data, dtype=np.float64),
        np.zeros(matrix.shape[0]) if labels is None else labels,
        weights,
    )


def to_bytes(
    matrix: Any, labels: np.ndarray | None, weights: np.ndarray | None, rows: int, size: int
) -> Iterator[tuple[int, dict[str, bytes]]]:
    """Checked rows as they go over the wire, behind the number of the first of them.

    So many rows at a time, and no more than so many bytes, unless a single row has more.
    """
    count = matrix.shape[0]
    # 16 bytes for each id and its value; for each row an offset, a label and a weight
    before = 16 * matrix.indptr.astype(np.int64) + 24 * np.arange(count + 1)
    first = 0
    while first < count:
        fits = int(np.searchsorted(before, before[first] + size, "right")) - 1
        stop = max(first + 1, min(first + rows, fits))
        part = matrix[first:stop]
        columns = {
            "offsets": part.indptr.astype("<i8"),
            "ids": part.indices.astype("<i8"),
            "values": part.data.astype("<f8"),
        }
        for name, column in (("labels", labels), ("weights", weights)):
            if column is not None:
                columns[name] = column[first:stop].astype("<f8")
        yield first, {name: column.tobytes() for name, column in columns.items()}
        first = stop


def checked(
    X: Any, y: Any = None, weights: Any = None
) -> tuple[Any, np.ndarray | None, np.ndarray | None]:
    """X in canonical CSR form, and one label (and importance weight) for each of its rows."""
    matrix = rows_of(X)
    count = matrix.shape[0]
    return matrix, column_of("y", y, count), column_of("weights", weights, count)


def rows_of(X: Any) -> Any:
    """A matrix, or one row as a vector, in canonical CSR form."""
    import scipy.sparse

    if scipy.sparse.issparse(X):
        check_kind("X", X.dtype)
        matrix = (X.reshape(1, -1) if X.ndim == 1 else X).tocsr()
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        return matrix
    dense = numbers("X", X, "rows of numbers, a sparse matrix, or libsvm text")
    if dense.ndim == 1:
        dense = dense.reshape(1, -1) if dense.size else np.empty((0, 0))
    if dense.ndim != 2:
        raise DataError(f"X has {dense.ndim} dimensions; expected rows and columns")
    return scipy.sparse.csr_array(dense)


def column_of(what: str, given: Any, count: int) -> np.ndarray | None:
    if given is None:
        return None
    column = np.atleast_1d(numbers(what, given, "numbers"))
    if column.shape != (count,):
        raise DataError(f"{what} has shape {column.shape}; expected one for each of {count} rows")
    return np.ascontiguousarray(column)


def numbers(what: str, given: Any, accepted: str) -> np.ndarray:
    """An array of floats; numpy's own words for what cannot be one are no sentence for a user."""
    try:
        found = np.asarray(given)
        if found.ndim == 0 and found.dtype.kind == "O":
            raise TypeError(f"a {type(given).__name__} holds no rows")
        if found.dtype.kind != "O":  # objects may be numbers: Fraction, Decimal
            check_kind(what, found.dtype)
        return found.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{what}: {error}; expected {accepted}") from error


def check_kind(what: str, kind: np.dtype) -> None:
    if kind.kind not in NUMBERS:
        name = "text" if kind.kind in "US" else str(kind)
        raise DataError(f"{what} holds {name}; expected real numbers")
