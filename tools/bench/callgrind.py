"""Instructions a feature, counted by valgrind: a figure that does not move with the machine's load.

Two cuts of a file are run, one of them longer; their difference has no start-up in it. That of
`fit` has also what their snapshots differ in, which is much on short cuts, and may be less than
nothing: its steps are as many as it needs. Parsing and learning have no snapshot.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from sides import ALGORITHMS, HERE, PYTHON, Work, fit

SHORT, LONG = 2000, 4000  # rows


def instructions(words: list[str], scratch: Path) -> int:
    result = subprocess.run(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={scratch / 'callgrind.out'}",
         *words],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )  # fmt: skip
    found = re.search(r"Collected : (\d+)", result.stderr)
    if result.returncode or not found:
        raise SystemExit(f"valgrind {' '.join(words)[:200]}: {result.stderr[-500:]}")
    return int(found[1])


def count(
    names: list[str], make: Callable[[str, int], Work], scratch: Path
) -> dict[str, dict[str, float]]:
    """By file and by what is done: instructions for each feature. Nothing without valgrind."""
    if not shutil.which("valgrind"):
        print("\ncallgrind: valgrind is not here (Debian: valgrind)")
        return {}
    found: dict[str, dict[str, float]] = {}
    for name in names:
        short, long = make(name, SHORT), make(name, LONG)

        def difference(
            words: Callable[[Work], list[str]], short: Work = short, long: Work = long
        ) -> float:
            more = instructions(words(long), scratch) - instructions(words(short), scratch)
            return more / (long.features - short.features)

        found[name] = {"parse only": difference(lambda work: limit_words(work, "parse"))}
        for algo in ALGORITHMS:
            found[name] |= {
                f"parse and learn, {algo}": difference(
                    lambda work, algo=algo: limit_words(work, "stream", algo)
                ),
                f"fit, {algo}": difference(lambda work, algo=algo: fit_words(work, algo)),
            }
    return found


def limit_words(work: Work, what: str, *algo: str) -> list[str]:
    return [*PYTHON, str(HERE / "limits.py"), what, work.path, work.loss, *algo]


def fit_words(work: Work, algo: str) -> list[str]:
    return [*fit(work, algo), "--threads", "1", "-o", os.devnull, work.path]


def show_instructions(found: dict[str, dict[str, float]]) -> None:
    if found:
        print("\ninstructions a feature")
    for name, of in found.items():
        for what, number in of.items():
            print(f"{name:<8} {what:<28} {number:>9.1f}")
