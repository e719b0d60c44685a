"""Many algorithms on one stream, which is parsed once, and one table of how they did.

--algo names them; all is every one that streams. A parameter goes to the algorithms that take it;
several values (--l1 1e-4,1e-5) make one learner each; --set ALGO.PARAMETER=VALUE is for one
algorithm alone and wins. Each learner becomes what `fit` with its settings would make of it, bit
for bit. One that diverges says so in its row; the others go on.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from streamlearn import picture
from streamlearn._version import __version__
from streamlearn.catalogue import ALGORITHMS, LOSSES, PARAMETERS, STREAMING
from streamlearn.cli import learning
from streamlearn.cli import settings as table
from streamlearn.cli.fit import (
    bad_lines,
    caches_of,
    check_end,
    check_files,
    check_output,
    classes,
    costs,
    opened,
    shown,
)
from streamlearn.cli.stderr import say, warn
from streamlearn.comparison import Comparison, Contender, TestSet, ever_taken, line_up
from streamlearn.container import write_file
from streamlearn.errors import Divergence, UsageError, nearest
from streamlearn.meter import sorted_by_class
from streamlearn.record import replace

ALL = "all"


def several(setting: table.Setting) -> table.Setting:
    """The setting that takes a list of what it takes, with commas between."""

    def read(text: str) -> list[Any]:
        values = []
        for part in text.split(","):
            try:
                values.append(setting.read(part))
            except ValueError as error:
                raise ValueError(error if part == text else f"{part!r}: {error}") from None
        return list(dict.fromkeys(values))

    return replace(setting, read=read, metavar=f"{setting.metavar}[,...]", default=None)


def read_algos(text: str) -> list[str]:
    """Names with commas between; `all` stands for all that stream."""
    names = [
        name for part in text.split(",") for name in (STREAMING if part == ALL else (part,))
    ]
    return several(learning.FIT["algo"]).read(",".join(names))


ALGO = table.Setting("algo", read_algos, "the algorithms, with commas between; all is those that "
                     "stream", ALL, "NAME,...|all")
RUN = (ALGO, *(s for s in learning.RUN if s.name not in ("algo", "threads")))
LEARNING = tuple(several(s) for s in learning.LEARNING)
COMPARE = {s.name: s for s in (*RUN, *LEARNING, *table.READING, *table.CACHE)}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="data; none or - is stdin")
    parser.add_argument("--test", required=True, metavar="FILE", help="rows to judge models by")
    parser.add_argument("--json", action="store_true", help="a list of objects on stdout")
    parser.add_argument(
        "--plot", metavar="PNG",
        help="draw test loss against non-zeros, from snapshots at doubling numbers of examples",
    )
    parser.add_argument("--threads", metavar="N", help="learners at work at a time "
                        "(default: as many as there are processors)")
    table.add_flags(parser.add_argument_group("what is learned"), RUN)
    parameters = parser.add_argument_group(
        "parameters", f"each goes to the algorithms that take it. {costs()}"
    )
    parameters.add_argument(
        "--set", action="append", default=[], metavar="ALGO.PARAMETER=VALUE[,...]",
        help="for one algorithm alone; may be given again",
    )
    table.add_flags(parameters, LEARNING)
    table.add_flags(parser.add_argument_group("reading"), (*table.READING, *table.CACHE))


def run(args: argparse.Namespace) -> int:
    given = table.collect(args, COMPARE)
    files, passes = args.files or ["-"], given.get("passes", 1)
    loss = given.get("loss", learning.DEFAULT_LOSS)
    labels, normalize = given.get("labels"), given.get("normalize", "none")
    threads, many = read_threads(args.threads), classes(given)
    entrants = chosen(given, loss, args.set)
    check_files([*files, args.test], passes)
    caches = caches_of(given, [*files, args.test])
    for entrant in entrants:
        check_end(entrant.algo, files)
    if args.plot:
        check_output(args.plot, [*files, args.test])
        picture.check(args.plot)
    with ExitStack() as stack:
        bad = bad_lines(given, stack)
        test = TestSet.read(
            next(opened([args.test], 1, caches)), loss, labels, normalize, replace(bad),
            many.get("multiclass", False),
        )
        comparison = Comparison(
            entrants, test, labels, normalize, threads, bool(args.plot or args.json), **many
        )
        count = len(entrants)
        say(f"compare {__version__} loss={loss} normalize={normalize} "
            f"learners={count} threads={min(threads, count)}")
        begin = time.perf_counter()
        comparison.run(opened(files, passes, caches), bad)
    report_run(comparison, time.perf_counter() - begin)
    if args.plot:
        write_file(args.plot, drawn(comparison, args.plot))
    if args.json:
        print(json.dumps([facts(c) for c in comparison.contenders]))
    else:
        print("\n".join(table_lines(comparison.contenders)))
    return 0 if comparison.alive else Divergence.exit_code


# ---- what the user has said ----------------------------------------------------------------------


def read_threads(text: str | None) -> int:
    if text is None:
        return len(os.sched_getaffinity(0))
    try:
        return table.read_positive(text)
    except ValueError as error:
        raise UsageError(f"--threads {text}: {error}") from None


def chosen(given: dict[str, Any], loss: str, sets: Sequence[str]) -> list[Any]:
    """Those who take part. Of `all`, the ones that cannot are left out with a note."""
    algos = given.get("algo", list(STREAMING))
    shared = {
        name: value if isinstance(value, list) else [value]  # --bias is no list
        for name, value in given.items()
        if name in PARAMETERS
    }
    refused: dict[str, UsageError] | None = {} if set(algos) >= set(STREAMING) else None
    entrants = line_up(algos, loss, shared, read_sets(sets), refused)
    for algo, error in (refused or {}).items():
        say(f"note: {algo} takes no part: {error}")
    return entrants


def read_sets(sets: Sequence[str]) -> dict[str, dict[str, list[Any]]]:
    """{algorithm: {parameter: values}} from ALGO.PARAMETER=VALUE[,...]."""
    own: dict[str, dict[str, list[Any]]] = {}
    for text in sets:
        target, equals, value = text.partition("=")
        algo, dot, name = target.strip().partition(".")
        name = name.replace("-", "_")
        if not (equals and dot):
            raise UsageError(f"--set {text}: expected ALGO.PARAMETER=VALUE, as in sgd.l2=1e-4")
        if algo not in ALGORITHMS:
            raise UsageError(f"--set {text}: no such algorithm; {nearest(algo, ALGORITHMS)}")
        known = dict.fromkeys(ever_taken(algo, PARAMETERS["phase_one"].choices))
        if name not in known:
            raise UsageError(f"--set {text}: {algo} takes no such parameter; "
                             f"{nearest(name, known)}")
        try:
            own.setdefault(algo, {})[name] = COMPARE[name].read(value.strip())
        except ValueError as error:
            raise UsageError(f"--set {text}: {error}") from None
    return own


# ---- what came of it -----------------------------------------------------------------------------


def report_run(comparison: Comparison, seconds: float) -> None:
    """On stderr: how much there was, and everything that a user must know of it."""
    for contender in comparison.contenders:
        if contender.diverged is not None:
            warn(f"{name_of(contender)}: {contender.diverged}")
    counters = comparison.reader.counters
    if counters["bad_lines"]:
        say(f"{counters['bad_lines']:,d} bad lines left out")
    if not comparison.alive:
        return
    first = comparison.alive[0]
    if first.training.learner.t == 0:
        warn("no examples: the models are empty")
    if sorted_by_class(first.training.learner.progress):
        warn("the labels come in long runs, as if sorted by class; a stream must be shuffled")
    say(f"{first.training.learner.t:,d} examples with {first.features:,d} values in "
        f"{seconds:.2f} s; judged by {len(comparison.test.labels):,d}")


def varied(contender: Contender) -> str:
    return " ".join(f"{name}={shown(value)}" for name, value in contender.entrant.varied.items())


def name_of(contender: Contender) -> str:
    return f"{contender.entrant.algo} {varied(contender)}".rstrip()


def facts(contender: Contender) -> dict[str, Any]:
    """One object of --json; figures of a learner that diverged are null."""
    model, error = contender.model, contender.diverged
    loss = contender.entrant.settings["loss"]
    wanted = ("loss", "error" if LOSSES[loss].classifies else "rmse")
    return {
        "algo": contender.entrant.algo,
        "varied": contender.entrant.varied,
        **{name: finite(contender.figures.get(name)) for name in wanted},
        "nonzeros": model.nonzeros if model else None,
        "density": model.density if model else None,
        "violation": finite(model.certificate["violation"]) if model else None,
        "ns_a_feature": contender.ns_a_feature,
        "memory": contender.training.learner.memory,
        "examples": model.t if model else None,
        "diverged": error and {"example": error.example, "line": error.line, "what": error.what},
        "settings": contender.entrant.settings,
        "curve": [
            {name: finite(value) for name, value in point.items()} for point in contender.curve
        ],
    }


def finite(value: float | None) -> float | None:
    """JSON knows no infinity."""
    return value if value is not None and math.isfinite(value) else None


def table_lines(contenders: Sequence[Contender]) -> list[str]:
    """The table; columns are as wide as what stands in them."""
    classifies = LOSSES[contenders[0].entrant.settings["loss"]].classifies
    measure = "error" if classifies else "rmse"
    head = ["algo", "setting", "test loss", measure, "non-zeros", "density", "violation",
            "ns/feature", "memory"]
    rows: list[list[str]] = [head]
    for contender in contenders:
        row = [contender.entrant.algo, varied(contender)]
        if contender.diverged is not None:
            rows.append([*row, f"diverged at example {contender.diverged.example:,d}"])
            continue
        model, figures = contender.model, contender.figures
        assert model is not None
        rows.append([
            *row,
            number(figures["loss"], ".6f"),
            number(figures[measure], ".4f"),
            f"{model.nonzeros:,d}",
            f"{model.density:.4f}",
            number(model.certificate["violation"], ".2e"),
            number(contender.ns_a_feature, ".1f"),
            in_bytes(contender.training.learner.memory),
        ])
    if not any(row[1] for row in rows[1:]):
        rows = [[row[0], *row[2:]] for row in rows]
    texts = len(rows[0]) - 7  # columns that begin at the left
    whole = [row for row in rows if len(row) == len(rows[0])]
    lefts = [max(len(row[i]) for row in rows) for i in range(texts)]
    rights = [max(len(row[i]) for row in whole) for i in range(texts, len(rows[0]))]
    lines = []
    for row in rows:
        cells = [f"{cell:<{width}}" for cell, width in zip(row, lefts, strict=False)]
        if len(row) == len(rows[0]):
            cells += [f"{c:>{width}}" for c, width in zip(row[texts:], rights, strict=True)]
        else:
            cells.append(row[-1])
        lines.append("  ".join(cells))
    return lines


def number(value: float | None, form: str) -> str:
    """A number that may be missing, or so large that all its digits would tell nothing."""
    if value is None:
        return "-"
    return format(value, form if abs(value) < 1e6 else ".3g")


def in_bytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def drawn(comparison: Comparison, path: str) -> bytes:
    curves = [
        picture.Curve(
            contender.entrant.algo,
            name_of(contender) + (" (diverged)" if contender.diverged else ""),
            [(p["examples"], p["nonzeros"], p["loss"]) for p in contender.curve],
        )
        for contender in comparison.contenders
        if contender.curve
    ]
    return picture.draw(curves, picture.kind_of(path), f"test loss ({comparison.test.loss})")
