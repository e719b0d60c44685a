"""Us and the peers on the same files, in one run: the sides take turns, medians and ratios count.

    rcv1     200,000 rows, 47,236 ids with Zipf frequencies, 73 non-zeros a row: 225 MB
    wide     100,000 rows, 16.6 million ids, 100 non-zeros a row, heavy-tailed
    dense    50,000 rows of 1,000 values, regression

Wall and processor time and peak memory are those of the whole command, start-up included. Peers
that are not installed are left out and named: vowpalwabbit, scikit-learn, river from PyPI;
liblinear-train from the path. --json keeps the figures; --plot draws bars; `compare A B` shows two
runs side by side.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads import dense, rcv1_like, vw_form, wide

PYTHON = [sys.executable, "-P"]  # what is installed, not the sources in the folder we are in
STREAMLEARN = [*PYTHON, "-m", "streamlearn"]
QUIET = ["--progress", "none", "-o", os.devnull]

PARSE = """
import sys
from streamlearn.engine.block import Block
from streamlearn.engine.libsvm import Parser
from streamlearn.sources import open_source
from streamlearn.training import BadLines, parse
for block in parse(open_source(sys.argv[1]), Parser("any"), BadLines(), Block()):
    pass
"""
SKLEARN = """
import sys
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import SGDClassifier, SGDRegressor
X, y = load_svmlight_file(sys.argv[1])
X.indices, X.indptr = X.indices.astype("int32"), X.indptr.astype("int32")  # it takes no others
kind = SGDRegressor if sys.argv[2] == "squared" else SGDClassifier
loss = "squared_error" if sys.argv[2] == "squared" else "log_loss"
kind(loss=loss, penalty="l1", alpha=1e-5, max_iter=1, tol=None, shuffle=False).fit(X, y)
"""
RIVER = """
import itertools, sys
from river import linear_model, optim
model = linear_model.LogisticRegression(optim.FTRLProximal(l1=1.0))
for line in itertools.islice(open(sys.argv[1]), int(sys.argv[2])):
    label, *items = line.split()
    x = {k: float(v) for k, v in (item.split(":") for item in items)}
    model.learn_one(x, float(label) > 0)
"""
RIVER_ROWS = 2000


@dataclass
class Side:
    """One command on one file."""

    name: str
    words: list[str]
    scale: float = 1.0  # to the whole file, for one that saw a part of it


@dataclass
class Run:
    """What a command took."""

    wall: float
    cpu: float
    memory: int  # bytes


def timed(words: list[str]) -> Run:
    begin = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    complaint = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    if status:
        raise SystemExit(f"{' '.join(words)[:200]}: {complaint.decode()[-500:]}")
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def sides(path: Path, loss: str, wide_ids: bool, rows: int) -> list[Side]:
    """Everybody who can take part."""
    fit = [*STREAMLEARN, "fit", "--loss", loss, *QUIET]
    found = [
        Side("parse only", [*PYTHON, "-c", PARSE, str(path)]),
        Side("averagesl", [*fit, "--algo", "averagesl", str(path)]),
        Side("adaptivesl", [*fit, "--algo", "adaptivesl", str(path)]),
        Side("averagesl, 1 thread", [*fit, "--algo", "averagesl", "--threads", "1", str(path)]),
        Side("adaptivesl, 1 thread", [*fit, "--algo", "adaptivesl", "--threads", "1", str(path)]),
        Side("wc -l", ["wc", "-l", str(path)]),
    ]
    if importlib.util.find_spec("vowpalwabbit"):
        vw = [*PYTHON, "-m", "vowpalwabbit", "--quiet", "-b", "24" if wide_ids else "18", "-d",
              str(vw_form(path))]  # fmt: skip
        kind = ["--loss_function", "logistic"] if loss == "logistic" else []
        found += [Side("VW --ftrl", [*vw, "--ftrl", *kind]), Side("VW", [*vw, *kind])]
    if importlib.util.find_spec("sklearn"):
        found.append(Side("scikit-learn", [*PYTHON, "-c", SKLEARN, str(path), loss]))
    if importlib.util.find_spec("river") and loss == "logistic":
        words = [*PYTHON, "-c", RIVER, str(path), str(RIVER_ROWS)]
        found.append(Side("river (a part)", words, rows / RIVER_ROWS))
    if shutil.which("liblinear-train") and loss == "logistic":
        words = ["liblinear-train", "-q", "-s", "6", str(path), os.devnull]
        found.append(Side("liblinear -s 6", words))
    return found


WORKLOADS: dict[str, tuple[Callable[[Path], Path], str, bool, int]] = {
    "rcv1": (rcv1_like, "logistic", False, 200_000),
    "wide": (wide, "logistic", True, 100_000),
    "dense": (dense, "squared", False, 50_000),
}


def measure(name: str, folder: Path, repeats: int) -> dict[str, Any]:
    """Every side `repeats` times, taking turns; slow peers once."""
    make, loss, wide_ids, rows = WORKLOADS[name]
    path = make(folder)
    runs: dict[str, list[Run]] = {}
    scales = {}
    for number in range(repeats):
        for side in sides(path, loss, wide_ids, rows):
            before = runs.setdefault(side.name, [])
            scales[side.name] = side.scale
            if number and before[0].wall > 20.0:
                continue
            before.append(timed(side.words))
    figures = {
        side: {
            "wall": statistics.median(run.wall for run in taken) * scales[side],
            "fastest": min(run.wall for run in taken) * scales[side],
            "slowest": max(run.wall for run in taken) * scales[side],
            "cpu": statistics.median(run.cpu for run in taken) * scales[side],
            "memory": max(run.memory for run in taken),
            "runs": len(taken),
        }
        for side, taken in runs.items()
    }
    return {"bytes": path.stat().st_size, "sides": figures}


def show(name: str, found: dict[str, Any]) -> None:
    base = found["sides"]["averagesl"]["wall"]
    print(f"\n{name}: {found['bytes'] / 1e6:.0f} MB")
    head = ("wall s", "(from", "to)", "cpu s", "MB/s", "MB", "times")
    print(f"{'':<22} " + " ".join(f"{word:>8}" for word in head))
    for side, of in found["sides"].items():
        print(
            f"{side:<22} {of['wall']:>8.2f} {of['fastest']:>8.2f} {of['slowest']:>8.2f} "
            f"{of['cpu']:>8.2f} {found['bytes'] / 1e6 / of['wall']:>8.0f} "
            f"{of['memory'] / 1e6:>8.0f} {of['wall'] / base:>8.2f}"
        )


def compare(old: Path, new: Path) -> None:
    """Two saved runs: the change, and whether it is beyond the spread of either."""
    a, b = json.loads(old.read_text()), json.loads(new.read_text())
    for name in a.keys() & b.keys():
        for side in a[name]["sides"].keys() & b[name]["sides"].keys():
            x, y = a[name]["sides"][side], b[name]["sides"][side]
            apart = x["slowest"] < y["fastest"] or y["slowest"] < x["fastest"]
            noise = "" if apart else " (within the noise)"
            print(
                f"{name:<8} {side:<22} {x['wall']:.2f} -> {y['wall']:.2f} s, "
                f"{y['wall'] / x['wall']:.2f} times{noise}"
            )


def plot(found: dict[str, Any], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(found), figsize=(6 * len(found), 4), squeeze=False)
    for axis, (name, of) in zip(axes[0], found.items(), strict=True):
        named = [(side, f["wall"]) for side, f in of["sides"].items() if side != "wc -l"]
        named.sort(key=lambda pair: -pair[1])
        ours = ("averagesl", "adaptivesl", "parse only")
        colours = ["tab:blue" if side.startswith(ours) else "tab:grey" for side, _ in named]
        axis.barh([side for side, _ in named], [wall for _, wall in named], color=colours)
        axis.set_xscale("log")
        axis.set_xlabel("seconds")
        axis.set_title(f"{name}, {of['bytes'] / 1e6:.0f} MB")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", nargs="*", help=f"{', '.join(WORKLOADS)} (default: all)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="keeps the data files (default: a new one)")
    parser.add_argument("--json", type=Path, help="save the figures")
    parser.add_argument("--plot", metavar="PNG", help="draw bars")
    args = parser.parse_args()
    if args.work[:1] == ["compare"]:
        compare(*map(Path, args.work[1:]))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        found = {}
        for name in args.work or WORKLOADS:
            found[name] = measure(name, folder, args.repeats)
            show(name, found[name])
    missing = [m for m in ("vowpalwabbit", "sklearn", "river") if not importlib.util.find_spec(m)]
    missing += [] if shutil.which("liblinear-train") else ["liblinear-train"]
    if missing:
        print(f"\nnot here: {', '.join(missing)}")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    if args.plot:
        plot(found, args.plot)


if __name__ == "__main__":
    main()
