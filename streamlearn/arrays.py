"""From scipy sparse matrices and dense arrays to blocks. The column number is the feature id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from streamlearn.engine.block import Block
from streamlearn.errors import DataError


def to_block(X: Any, y: Any = None, weights: Any = None) -> Block:
    """A block of the rows of X; labels default to 0. Explicit zeros are dropped."""
    matrix, labels, weights = checked(X, y, weights)
    return Block.from_arrays(
        np.ascontiguousarray(matrix.indptr, dtype=np.int64),
        np.ascontiguousarray(matrix.indices, dtype=np.int64),
        np.ascontiguousarray(matrix.data, dtype=np.float64),
        labels,
        weights,
    )


def to_bytes(X: Any, y: Any, weights: Any, rows: int) -> Iterator[dict[str, bytes]]:
    """The same rows as they go over the wire, so many at a time."""
    matrix, labels, weights = checked(X, y, weights)
    for first in range(0, matrix.shape[0], rows):
        part = matrix[first : first + rows]
        columns = {
            "offsets": part.indptr.astype("<i8"),
            "ids": part.indices.astype("<i8"),
            "values": part.data.astype("<f8"),
            "labels": labels[first : first + rows].astype("<f8"),
        }
        if weights is not None:
            columns["weights"] = weights[first : first + rows].astype("<f8")
        yield {name: column.tobytes() for name, column in columns.items()}


def checked(X: Any, y: Any, weights: Any) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """X in canonical CSR form, and one label (and importance weight) for each of its rows."""
    import scipy.sparse

    if scipy.sparse.issparse(X):
        matrix = X.tocsr()
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
    else:
        dense = np.atleast_2d(np.asarray(X, dtype=np.float64))
        if dense.ndim != 2:
            raise DataError(f"X has {dense.ndim} dimensions; expected rows and columns")
        matrix = scipy.sparse.csr_array(dense)
    rows = matrix.shape[0]
    labels = np.zeros(rows) if y is None else np.ascontiguousarray(np.atleast_1d(y), np.float64)
    if labels.shape != (rows,):
        raise DataError(f"y has shape {labels.shape}; expected one label for each of {rows} rows")
    if weights is not None:
        weights = np.ascontiguousarray(np.atleast_1d(weights), dtype=np.float64)
        if weights.shape != (rows,):
            raise DataError(f"weights have shape {weights.shape}; expected one for each row")
    return matrix, labels, weights
