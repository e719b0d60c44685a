"""One pass over a file by the peers that are Python packages; each in a process of its own.

    peers.py sklearn FILE LOSS              load all, then fit
    peers.py chunks FILE LOSS IDS           load and partial_fit, 16 MB of text at a time
    peers.py river FILE ROWS                the first rows only: it is slow; prints its seconds,
                                            since start-up must not be scaled with the rows
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from typing import Any

L1 = 1e-5
CHUNK = 16 << 20


def learner(loss: str) -> Any:
    from sklearn.linear_model import SGDClassifier, SGDRegressor

    kind, name = (
        (SGDRegressor, "squared_error") if loss == "squared" else (SGDClassifier, "log_loss")
    )
    return kind(loss=name, penalty="l1", alpha=L1, max_iter=1, tol=None, shuffle=False)


def narrow(X: Any) -> Any:
    """The learners take no indices of 64 bits, which the loader makes."""
    X.indices, X.indptr = X.indices.astype("int32"), X.indptr.astype("int32")
    return X


def sklearn(path: str, loss: str) -> None:
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(path)
    learner(loss).fit(narrow(X), y)


def chunks(path: str, loss: str, ids: str) -> None:
    from sklearn.datasets import load_svmlight_file

    model = learner(loss)
    classes = {} if loss == "squared" else {"classes": [-1.0, 1.0]}
    for offset in range(0, os.path.getsize(path), CHUNK):
        X, y = load_svmlight_file(
            path, n_features=int(ids), zero_based=False, offset=offset, length=CHUNK
        )
        if len(y):
            model.partial_fit(narrow(X), y, **classes)


def river(path: str, rows: str) -> None:
    from river import linear_model, optim

    model = linear_model.LogisticRegression(optim.FTRLProximal(l1=1.0))
    wall, cpu = time.perf_counter(), time.process_time()
    with open(path) as file:
        for line in itertools.islice(file, int(rows)):
            label, *items = line.split()
            x = {k: float(v) for k, v in (item.split(":") for item in items)}
            model.learn_one(x, float(label) > 0)
    json.dump({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}, sys.stdout)


if __name__ == "__main__":
    {"sklearn": sklearn, "chunks": chunks, "river": river}[sys.argv[1]](*sys.argv[2:])
