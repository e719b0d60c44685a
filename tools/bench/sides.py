"""Who takes part: the commands that are measured on a file, ours and the peers'.

Every peer gets the form of data it likes best, made beforehand, the same loss, and one pass; but
liblinear goes on until it has converged, and river sees a part.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from measuring import Side

PYTHON = [sys.executable, "-P"]  # what is installed, not the sources in the folder we are in
STREAMLEARN = [*PYTHON, "-m", "streamlearn"]
HERE = Path(__file__).parent
ALGORITHMS = ("averagesl", "adaptivesl")
RIVER_ROWS = 2000
PACKAGES = {"vowpalwabbit": "vowpalwabbit", "sklearn": "scikit-learn", "river": "river"}
LIBLINEAR = "liblinear-train"


@dataclass(frozen=True)
class Work:
    """A file, and what is in it; `long` is one with its rows several times."""

    name: str
    path: str
    vw: str
    long: str
    rows: int
    features: int
    width: int
    bytes: int

    @property
    def loss(self) -> str:
        return "squared" if self.name == "dense" else "logistic"


def sides(work: Work, scratch: Path) -> list[Side]:
    """Everybody who can take part; what they must leave behind is left in the scratch folder."""
    found = [*limits(work), *ours(work, scratch)]
    if importlib.util.find_spec("vowpalwabbit"):
        found += vowpal_wabbit(work, scratch)
    peer = [*PYTHON, str(HERE / "peers.py")]
    if importlib.util.find_spec("sklearn"):
        words = [work.path, work.loss]
        found.append(Side("scikit-learn, load and fit", [*peer, "sklearn", *words]))
        words.append(str(work.width))
        found.append(Side("scikit-learn, partial_fit", [*peer, "chunks", *words]))
    if shutil.which(LIBLINEAR) and work.loss == "logistic":
        words = [LIBLINEAR, "-q", "-s", "6", work.path, os.devnull]
        found.append(Side("liblinear -s 6", words))
    if importlib.util.find_spec("river") and work.loss == "logistic":
        rows = min(RIVER_ROWS, work.rows)
        words = [*peer, "river", work.path, str(rows)]
        name = f"river, {rows:,d} rows scaled"
        found.append(Side(name, words, scale=work.rows / rows, tells=True))
    return found


def limits(work: Work) -> list[Side]:
    """What bounds us: reading, parsing, and learning from memory."""
    limit = [*PYTHON, str(HERE / "limits.py")]
    return [
        Side("cat", ["cat", work.path]),
        Side("wc -l", ["wc", "-l", work.path]),
        Side("parse only", [*limit, "parse", work.path, work.loss]),
        *(
            Side(f"learn only, {algo}", [*limit, "learn", work.path, work.loss, algo], tells=True)
            for algo in ALGORITHMS
        ),
    ]


def fit(work: Work, algo: str) -> list[str]:
    return [*STREAMLEARN, "fit", "--loss", work.loss, "--algo", algo, "--progress", "none"]


def ours(work: Work, scratch: Path) -> list[Side]:
    nowhere = ["-o", os.devnull]
    found = [Side(algo, [*fit(work, algo), *nowhere, work.path]) for algo in ALGORITHMS]
    found += [
        Side(f"{algo}, 1 thread", [*fit(work, algo), *nowhere, "--threads", "1", work.path])
        for algo in ALGORITHMS
    ]
    model = str(scratch / f"{work.name}.sl")
    found.append(
        Side(
            "predict",
            [*STREAMLEARN, "predict", "-m", model, work.path],
            before=[[*fit(work, ALGORITHMS[0]), "-o", model, work.path]],
        )
    )
    for algo in ALGORITHMS:
        folder = scratch / f"{work.name}-{algo}"
        folder.mkdir()
        words = [*fit(work, algo), *nowhere, "--cache-dir", str(folder), work.path]
        found.append(Side(f"{algo}, from its cache", words, before=[words]))
    if work.long != work.path:
        found += [
            Side(f"{algo}, longer file", [*fit(work, algo), *nowhere, work.long])
            for algo in ALGORITHMS
        ]
    return found


def vowpal_wabbit(work: Work, scratch: Path) -> list[Side]:
    """The wheel of PyPI as a command; it tells how many examples it has learned, which is checked.

    So many bits as the ids need, and no fewer than its default: nobody's features collide. Unless
    it is told to write a model it makes none; `fit` always does.
    """
    bits = max(18, work.width.bit_length())
    kind = ["--loss_function", work.loss]
    base = [*PYTHON, "-m", "vowpalwabbit", "-b", str(bits), *kind, "-d", work.vw]
    done = f"number of examples = {work.rows}\n"
    found = []
    for name, more in (("VW --ftrl", ["--ftrl"]), ("VW", [])):
        kept = ["--cache_file", str(scratch / f"{work.name}{len(more)}.cache")]
        found += [
            Side(name, [*base, *more], says=done),
            Side(
                f"{name}, with a model",
                [*base, *more, "-f", str(scratch / f"{work.name}.vw-model")],
                says=done,
            ),
            Side(
                f"{name}, from its cache",
                [*base, *more, *kept],
                before=[[*base, *more, *kept]],
                says=done,
            ),
        ]
    return found


def versions() -> dict[str, str]:
    """Who is here, for the record."""
    names = ("streamlearn", "numpy", *PACKAGES.values())
    here = {d.metadata["Name"].lower() for d in importlib.metadata.distributions()}
    return {name: importlib.metadata.version(name) for name in names if name in here}


def missing() -> list[str]:
    """Peers that are not here."""
    gone = [package for module, package in PACKAGES.items() if not importlib.util.find_spec(module)]
    if not shutil.which(LIBLINEAR):
        gone.append(f"{LIBLINEAR} (Debian: liblinear-tools)")
    return gone
