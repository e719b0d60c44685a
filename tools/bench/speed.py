"""Us and the peers on the same files, in one run: the sides take turns, medians and ratios count.

    rcv1        200,000 rows, 47,236 ids with Zipf frequencies, 73 non-zeros a row: 225 MB
    wide        100,000 rows, 16.6 million ids, 100 non-zeros a row, heavy-tailed
    dense       50,000 rows of 1,000 values, regression
    real        files of the folder DATA (default: ../shared/data), if it is there
    callgrind   instructions a feature, on short cuts of the first three

Nothing named is all of them. Wall and processor time and peak memory are those of the whole
command, start-up included; but "learn only" is the time of learning alone, from parsed blocks in
memory. Before each run a gigabyte is touched and given back, so that no side pays for memory that
the host of a virtual machine had taken away. Peers that are not installed are left out and named:
vowpalwabbit, scikit-learn and river from PyPI; liblinear-train from the path. At the end every goal
is shown, met or MISSED.

For figures that count, let nothing else run, and give two cores:

    sh tools/bench/run --folder DATA --json now.json --plot now.png

That takes about a quarter of an hour. In pieces, with the goals shown from all of them:

    sh tools/bench/run rcv1 --folder DATA --json rcv1.json        --side narrows it further
    sh tools/bench/run wide --folder DATA --json wide.json
    sh tools/bench/run goals rcv1.json wide.json

Did a change pay? Times are told from noise by the spread of both runs; instructions, which hardly
move, are flagged beyond 1 %:

    sh tools/bench/run compare before.json now.json

--quick is a trial of all this on small files; its figures are those of starting Python.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from callgrind import count, show_instructions
from comparing import compare
from goals import show_goals
from measuring import floor, middle, take_turns
from sides import HERE, PYTHON, Work, missing, sides, versions

MADE = ("rcv1", "wide", "dense")
PARTS = (*MADE, "real", "callgrind")
REAL = ("imdb_bow", "spamassassin", "a9a")
QUICK = {"rows": 2000, "repeats": 2}
LONGER = 5  # times, for a stream whose memory must not grow


def make(what: str, folder: Path, rows: int | None, times: int = 1) -> Work:
    """A file and its facts, made in a process that may be large."""
    words = [*PYTHON, str(HERE / "workloads.py"), what, str(folder), "--times", str(times)]
    words += ["--rows", str(rows)] if rows else []
    made = subprocess.run(words, check=True, stdout=subprocess.PIPE)
    return Work(name=Path(what).name.partition(".")[0], **json.loads(made.stdout))


def real_files() -> list[str]:
    folder = Path(os.environ.get("DATA", HERE.parents[2] / "shared" / "data"))
    found = [folder / f"{name}.train.svm.gz" for name in REAL]
    return [str(path) for path in found if path.exists()]


def machine() -> dict[str, Any]:
    names = {
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    }
    return {"processor": ", ".join(sorted(names)), "cores": len(os.sched_getaffinity(0))}


def measure(work: Work, args: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        taking = [
            side
            for side in sides(work, Path(scratch))
            if not args.side or any(fnmatch(side.name, pattern) for pattern in args.side)
        ]
        figures = take_turns(taking, args.repeats, args.patience, args.limit)
    return {
        "bytes": work.bytes, "rows": work.rows, "features": work.features, "width": work.width,
        "sides": figures,
    }  # fmt: skip


def show(name: str, found: dict[str, Any]) -> None:
    """A line for each side; the ratios are to averagesl, so more is slower than it."""
    base = middle(found["sides"]["averagesl"]) if "averagesl" in found["sides"] else None
    print(f"\n{name}: {found['bytes'] / 1e6:.0f} MB, {found['features'] / 1e6:.1f} M features")
    head = ("wall s", "(from", "to)", "cpu s", "MB/s", "ns/feat", "peak MB", "times", "runs")
    print(f"{'':<28} " + " ".join(f"{word:>8}" for word in head))
    for side, of in found["sides"].items():
        wall, peak = middle(of), max(of["memory"])
        longer = LONGER if "longer file" in side else 1
        small = "<" if peak <= 1.02 * found["floor"] else ""
        seconds = f"{'' if of['ended'] else '>'}{wall:.3f}"
        print(
            f"{side:<28} {seconds:>8} {min(of['wall']):>8.3f} {max(of['wall']):>8.3f} "
            f"{middle(of, 'cpu'):>8.3f} {longer * found['bytes'] / 1e6 / wall:>8.0f} "
            f"{1e9 * wall / found['features'] / longer:>8.1f} {small + f'{peak / 1e6:.0f}':>8} "
            f"{f'{wall / base:.2f}' if base else '':>8} {len(of['wall']):>8}",
            flush=True,
        )


def run(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    parts = args.parts or PARTS
    rows = QUICK["rows"] if args.quick else None
    found: dict[str, Any] = {"machine": machine(), "works": {}, "callgrind": {}}
    names = [name for name in MADE if name in parts]
    wanted = [(name, LONGER if name == "rcv1" else 1) for name in names]
    wanted += [(path, 1) for path in real_files() if "real" in parts]
    for what, times in wanted:
        work = make(what, folder, rows, times)
        of = found["works"][work.name] = measure(work, args)
        of["floor"] = floor()
        show(work.name, of)
    if "callgrind" in parts:
        with tempfile.TemporaryDirectory() as scratch:
            found["callgrind"] = count(
                names or list(MADE), lambda name, rows: make(name, folder, rows), Path(scratch)
            )
        show_instructions(found["callgrind"])
    found["versions"] = versions()  # asked late: it makes us larger, and so all that we start
    print(f"\n{found['machine']} {found['versions']}")
    gone = missing() + (["real files (set DATA)"] if "real" in parts and not real_files() else [])
    if gone:
        print(f"not here: {', '.join(gone)}")
    return found


def joined(paths: list[Path]) -> dict[str, Any]:
    """The files of several saved runs; sides that come twice are those of the later run."""
    works: dict[str, Any] = {}
    for path in paths:
        for name, of in json.loads(path.read_text())["works"].items():
            works.setdefault(name, {**of, "sides": {}})["sides"].update(of["sides"])
    return works


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts", nargs="*", help=f"{', '.join(PARTS)}; or compare A B; or goals A [B ...]"
    )
    parser.add_argument("--repeats", type=int, help="default: 5")
    parser.add_argument(
        "--patience", type=float, default=20.0, metavar="S",
        help="a side that took longer than this runs once (default: 20 seconds)",
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=float, default=120.0, metavar="S",
        help="one that is not done by then is stopped, and shown with > (default: 120 seconds)",
    )  # fmt: skip
    parser.add_argument(
        "--side", action="append", metavar="NAME", help="only these; * stands for anything"
    )
    parser.add_argument("--folder", type=Path, help="keeps the data files (default: a new one)")
    parser.add_argument("--json", type=Path, help="save the figures")
    parser.add_argument("--plot", metavar="PNG", help="draw bars")
    parser.add_argument("--quick", action="store_true", help="small files, two repeats: a trial")
    args = parser.parse_args()
    args.repeats = args.repeats or (QUICK["repeats"] if args.quick else 5)
    verb, rest = (args.parts or [""])[0], list(map(Path, args.parts[1:]))
    if verb == "compare" and len(rest) == 2:
        compare(*rest)
    elif verb == "goals" and rest:
        show_goals(joined(rest))
    elif unknown := set(args.parts) - set(PARTS):
        parser.error(f"{', '.join(sorted(unknown))}: expected {', '.join(PARTS)}")
    else:
        with tempfile.TemporaryDirectory() as scratch:
            found = run(args, args.folder or Path(scratch))
        if found["works"]:
            show_goals(found["works"])
        if args.json:
            args.json.write_text(json.dumps(found, indent=1) + "\n")
        if args.plot and found["works"]:
            from picture import draw  # large, so only now

            draw(found["works"], args.plot)


if __name__ == "__main__":
    main()
