"""Repeats experiments of the papers with streamlearn itself, and prints our figures beside theirs.

    sh tools/reproduce/run aaai1                     one experiment, all its trials, on all cores
    sh tools/reproduce/run aaai1 tpami5 --quick      a look: a tenth of the trials
    sh tools/reproduce/run all --report report.html  everything, as one self-contained page
    sh tools/reproduce/run kept --report report.html the page from the results that are kept

Results are kept as text and PNG in tools/reproduce/results (a quick look only where --results
says). Settings are those of conf/paper/*.toml, which `streamlearn fit --config` takes too.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from reproduce import archive
from reproduce.plain import in_text
from reproduce.registry import Experiment, experiments
from reproduce.report import page
from reproduce.trials import MissingData, Run, cores

NO_INPUT = 66


def parser(known: dict[str, Experiment]) -> argparse.ArgumentParser:
    width = max(map(len, known))
    listed = "\n".join(
        f"    {e.name:<{width}}  {e.title}" + (f" (--data: {e.data})" if e.data else "")
        for e in known.values()
    )
    made = argparse.ArgumentParser(
        prog="sh tools/reproduce/run",
        description=f"{__doc__}\n{listed}\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "names",
        nargs="+",
        metavar="NAME",
        choices=[*known, "all", "kept"],
        help="an experiment, all, or kept: what is kept, without running",
    )
    made.add_argument("--quick", action="store_true", help="a tenth of the trials")
    made.add_argument("--data", type=Path, metavar="DIR", help="where the real data sets are")
    made.add_argument("--report", type=Path, metavar="HTML", help="write one self-contained page")
    made.add_argument("--results", type=Path, metavar="DIR", help="where results are kept")
    made.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="keep each finished trial there; the next run goes on from them. Take a new one "
        "when sources or settings have changed",
    )
    made.add_argument(
        "--workers",
        type=int,
        default=cores(),
        metavar="N",
        help="trials at a time (default: the cores)",
    )
    return made


def main(words: list[str] | None = None) -> int:
    known = experiments()
    args = parser(known).parse_args(words)
    folder = args.results or archive.FOLDER
    entries: list[archive.Entry] = []
    missing: list[str] = []
    for name in known if {"all", "kept"} & {*args.names} else dict.fromkeys(args.names):
        if "kept" in args.names:
            entry = archive.load(name, folder)
        else:
            run = Run(args.quick, args.data, max(1, args.workers), args.keep)
            try:
                entry = repeat(known[name], run)
            except MissingData as error:
                missing.append(f"{name}: {error}")
                print(missing[-1], file=sys.stderr)
                continue
            if not args.quick or args.results:
                archive.save(entry, folder)
        if entry is None:
            missing.append(f"{name}: has not been run")
            continue
        entries.append(entry)
        print(in_text(entry.title, archive.origin_line(entry.origin), entry.result), flush=True)
    if args.report:
        args.report.write_text(page(entries, missing), encoding="utf-8")
        print(f"{args.report}: {len(entries)} experiments", file=sys.stderr)
    return NO_INPUT if missing and not entries else 0


def repeat(experiment: Experiment, run: Run) -> archive.Entry:
    begin = time.monotonic()
    result = experiment.run(run)
    origin = archive.origin(run.quick, round(time.monotonic() - begin, 1))
    return archive.Entry(experiment.name, experiment.title, origin, result)
