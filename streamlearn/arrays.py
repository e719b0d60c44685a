"""From scipy sparse matrices and dense arrays to blocks. The column number is the feature id."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamlearn.engine.block import Block
from streamlearn.errors import DataError


def to_block(X: Any, y: Any = None, weights: Any = None) -> Block:
    """A block of the rows of X; labels default to 0. Explicit zeros are dropped."""
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
    labels = np.zeros(rows) if y is None else np.ascontiguousarray(y, dtype=np.float64)
    if labels.shape != (rows,):
        raise DataError(f"y has shape {labels.shape}; expected one label for each of {rows} rows")
    return Block.from_arrays(
        np.ascontiguousarray(matrix.indptr, dtype=np.int64),
        np.ascontiguousarray(matrix.indices, dtype=np.int64),
        np.ascontiguousarray(matrix.data, dtype=np.float64),
        labels,
        None if weights is None else np.ascontiguousarray(weights, dtype=np.float64),
    )
