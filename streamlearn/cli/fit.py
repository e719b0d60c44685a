"""Learn an exactly sparse model from libsvm text, one example at a time.

Reads files (plain, .gz, .bz2, .xz, .zst) or a pipe and writes a model file. With no flag at all the
algorithm is adaptivesl, which has no knob to turn. Settings come from --config FILE (TOML), then
from STREAMLEARN_* variables, then from flags; later ones win. Ctrl-C writes the model so far. With
--multiclass labels are whole numbers, and each class is learned against the rest in one reading.
"""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from streamlearn._version import __version__
from streamlearn.catalogue import ALGORITHMS, PARAMETERS, STREAMING, resolve, steadier
from streamlearn.catalogue.algorithms import O_SEEN
from streamlearn.cli import learning
from streamlearn.cli import settings as table
from streamlearn.cli.progress import Progress
from streamlearn.cli.stderr import say, say_json, warn
from streamlearn.cli.stdin import check_stdin
from streamlearn.container import write_file
from streamlearn.errors import CannotCreate, IoFailure, NoInput, UsageError
from streamlearn.meter import sorted_by_class, unstable
from streamlearn.model import Model, as_written
from streamlearn.multiclass import MulticlassModel
from streamlearn.sources import open_source
from streamlearn.training import BadLines, Training

if TYPE_CHECKING:
    from streamlearn.cache import Caches
    from streamlearn.training import AnySource

INTERRUPTED = 130


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="data; none or - is stdin")
    parser.add_argument(
        "-o", "--output", default="model.sl", metavar="MODEL", help="default: model.sl; - is stdout"
    )
    parser.add_argument("--config", metavar="TOML", help="settings; see conf/streamlearn.toml")
    parser.add_argument("--resume", metavar="STATE", help="go on from a saved state, bit for bit")
    parser.add_argument("--save-state", metavar="STATE", help="save the state to go on from")
    run = parser.add_argument_group("what is learned")
    table.add_flags(run, learning.RUN)
    names = ", ".join(ALGORITHMS)
    parameters = parser.add_argument_group(
        "parameters", f"each of --algo {names} takes its own. {costs()}"
    )
    table.add_flags(parameters, learning.LEARNING)
    reading = parser.add_argument_group("reading")
    table.add_flags(reading, (*table.READING, *table.CACHE, *table.PROGRESS))


def costs() -> str:
    """Who costs more than the non-zeros of each example."""
    wide = [a.name for a in STREAMING.values() if a.cost == O_SEEN]
    batch = [a.name for a in ALGORITHMS.values() if a.batch]
    return (
        f"An example costs O(its non-zeros), but with {', '.join(wide)}, and rda with l1ball or "
        f"kl, O(features seen); {', '.join(batch)} keep all examples in memory and solve at the "
        "end: `streamlearn algos NAME` tells"
    )


def run(args: argparse.Namespace) -> int:
    given = table.collect(args, learning.FIT, learning.EVERY)
    files = args.files or ["-"]
    passes = given.get("passes", 1)
    threads = given.get("threads") or min(2, len(os.sched_getaffinity(0)))
    check_files(files, passes)
    caches = caches_of(given, files)
    inputs = [*files, *(p for p in (args.config, args.resume) if p)]
    inputs += [caches.place(path) for path in files] if caches else []
    check_output(args.output, inputs)
    if args.save_state:  # may replace the state that it goes on from
        kept = [p for p in (*inputs, args.output) if p != args.resume]
        check_output(args.save_state, kept)
    policy, _, aside = given.get("on_error", "stop").partition("=")
    if policy == "quarantine":
        check_output(aside, [*inputs, args.output, *([args.save_state] if args.save_state else ())])
    training = resumed(args.resume, given) if args.resume else fresh(given)
    check_end(training.settings["algo"], files)
    kind = given.get("progress", "table")
    if kind == "jsonl":
        many = {"max_classes": training.max_classes} if training.multiclass else {}
        say_json(settings=training.settings, normalize=training.normalize, **many)
    elif kind != "none":
        say(in_force(training))

    with ExitStack() as stack:
        bad = bad_lines(given, stack)
        progress = Progress(kind, training)
        code = 0
        try:
            for source in training.run(opened(files, passes, caches), bad, threads):
                progress.tick(source)
        except KeyboardInterrupt:
            code = INTERRUPTED
            say(f"interrupted: writing the model of the first {training.learner.t:,d} examples")
    warn_of_trouble(training)
    model = training.model(max_nonzeros=given.get("max_nonzeros"))
    progress.finish(model.nonzeros, model.density)
    if args.save_state:
        write_file(args.save_state, training.to_bytes())
    model.save(args.output)
    if kind == "jsonl":
        say_json(model=args.output, certificate=model.certificate, counters=model.counters)
    elif kind != "none":
        say(summary(model, args.output))
    return code


def warn_of_trouble(training: Training) -> None:
    """What a user should know before trusting the model."""
    sums, total = training.learner.progress, training.settings.get("total", 0)
    if sums["examples"] == 0:
        warn("no examples: the model is empty")
    if sorted_by_class(sums):
        warn(
            "the labels come in long runs, as if sorted by class; a stream must be "
            "shuffled: try shuf data.svm | streamlearn fit"
        )
    if unstable(sums):
        warn(
            f"learning was unstable: its mean loss {sums['loss'] / sums['weight']:.4g} is far "
            f"above {sums['baseline'] / sums['weight']:.4g}, that of a model without weights. "
            f"You may {steadier(training.settings)}"
        )
    if total and total != sums["examples"]:
        warn(
            f"--total said {total:,d} examples, there were {sums['examples']:,d}: the suffix is "
            "not the last alpha of the run"
        )


def check_files(files: list[str], passes: int) -> None:
    """Fail before learning, not after an hour of it."""
    for path in files:
        if path != "-" and not os.path.exists(path):
            raise NoInput(f"{path}: no such file")
        if os.path.isdir(path):
            raise NoInput(f"{path}: is a folder; name the files in it")
        if passes > 1 and (path == "-" or stat.S_ISFIFO(os.stat(path).st_mode)):
            raise UsageError(f"--passes {passes}: a pipe can be read only once; name files")
    check_stdin(files)


def check_end(algo: str, files: list[str]) -> None:
    """A method that needs all examples at once must be sure that there is a last one."""
    for path in files:
        mode = os.fstat(sys.stdin.fileno()).st_mode if path == "-" else os.stat(path).st_mode
        if ALGORITHMS[algo].batch and not stat.S_ISREG(mode):
            raise UsageError(
                f"--algo {algo} keeps all examples in memory and solves at the end, which an "
                f"endless pipe never reaches; name files, which "
                f"{'stdin' if path == '-' else path} is not"
            )


def check_output(path: str, others: Sequence[str] = ()) -> None:
    """Refuse an output that cannot be written, or that would overwrite one of the other files."""
    if path in others and path != "-":
        raise UsageError(f"{path}: stands for two things; name another file")
    if path == "-":
        return
    isfile, folder = os.path.isfile, os.path.dirname(path) or "."
    for other in others:
        if isfile(path) and isfile(other) and os.path.samefile(path, other):
            raise UsageError(f"{path}: is the same file as {other}; name another one")
    if os.path.isdir(path or "."):
        raise CannotCreate(f"{path}: is a folder; name a file")
    if not os.path.isdir(folder):
        raise CannotCreate(f"{path}: there is no folder {folder}")
    writable = path if os.path.exists(path) and not isfile(path) else folder
    if not os.access(writable, os.W_OK):
        raise CannotCreate(f"{path}: no permission to write there")


def caches_of(given: dict[str, Any], files: list[str]) -> Caches | None:
    """The caches, if they are wanted; what they cannot do is refused."""
    folder = given.get("cache_dir")
    if not given.get("cache", folder is not None):
        return None
    from streamlearn.cache import SUFFIX, Caches

    for path in files:
        if path == "-" or not os.path.isfile(path):
            what = "stdin" if path == "-" else path
            raise UsageError(f"--cache: {what} is no file that can be read again; name files")
        if path.endswith(SUFFIX):
            raise UsageError(f"{path}: is a cache; name the file that it was made from")
    if folder is not None:
        try:
            if not os.path.isdir(folder):
                os.mkdir(folder)
        except OSError as error:
            raise CannotCreate(f"--cache-dir {folder}: is no folder: {error.strerror}") from error
    return Caches(folder, warn)


def opened(files: list[str], passes: int, caches: Caches | None) -> Iterator[AnySource]:
    for _ in range(passes):
        for path in files:
            yield open_source(path) if caches is None else caches.open(path)


def bad_lines(given: dict[str, Any], stack: ExitStack) -> BadLines:
    policy, aside = given.get("on_error", "stop"), None
    if policy.startswith("quarantine="):
        policy, _, path = policy.partition("=")
        aside = stack.enter_context(Quarantine(path))
    return BadLines(policy, given.get("max_errors"), aside, warn)


class Quarantine:
    """The file for bad lines; each is on disk, behind what was there, before the next is read."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self.stream = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by __exit__
        except OSError as error:
            raise CannotCreate(f"{path}: cannot be created: {error.strerror}") from error

    def write(self, line: bytes) -> None:
        try:
            self.stream.write(line)
        except OSError as error:
            raise IoFailure(f"{self.path}: writing failed: {error.strerror}") from error

    def __enter__(self) -> Quarantine:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()


def fresh(given: dict[str, Any]) -> Training:
    parameters = {name: value for name, value in given.items() if name in PARAMETERS}
    algo = given.get("algo", learning.DEFAULT_ALGORITHM)
    loss = given.get("loss", learning.DEFAULT_LOSS)
    settings = resolve(algo, loss, parameters)
    return Training(
        settings, given.get("labels"), given.get("normalize", "none"), **classes(given)
    )


def classes(given: dict[str, Any]) -> dict[str, Any]:
    """What a Training must know of many classes."""
    if "max_classes" in given and not given.get("multiclass", False):
        raise UsageError(
            f"--max-classes {given['max_classes']} means nothing without --multiclass"
        )
    return {name: given[name] for name in ("multiclass", "max_classes") if name in given}


def resumed(path: str, given: dict[str, Any]) -> Training:
    """The saved run."""
    training = Training.load(path)
    check_agreement(training, given, path)
    return training


def check_agreement(training: Training, given: dict[str, Any], path: str) -> None:
    """A flag that says otherwise than the state is refused, not ignored."""
    held = {
        **training.settings,
        "labels": training.labels,
        "normalize": training.normalize,
        "multiclass": training.multiclass,
    }
    fixed = {*PARAMETERS, "algo", "loss", "labels", "normalize", "multiclass"}
    for name, value in given.items():
        if name in fixed and (name not in held or held[name] != value):
            flag = "--" + name.replace("_", "-")
            raise UsageError(
                f"{flag} {shown(value)}: the state {path} was learned with "
                f"{name} = {shown(held.get(name, 'nothing of the kind'))}; leave the flag out, or "
                "start afresh without it"
            )
    if bound := classes({**given, "multiclass": training.multiclass}).get("max_classes"):
        training.allow(bound)


def in_force(training: Training, command: str = "fit") -> str:
    """Every setting in force, in one line."""
    words = [f"{command} {__version__}"]
    for name, value in training.settings.items():
        words.append(f"{name}={shown(value)}")
    words.append(f"normalize={training.normalize}")
    if training.labels:
        words.append(f"labels={shown(training.labels)}")
    if training.multiclass:
        words.append(f"multiclass=true max_classes={training.max_classes}")
    if training.learner.t:
        words.append(f"resumed_at={training.learner.t}")
    return " ".join(words)


def shown(value: Any) -> str:
    """A value as a user would type it."""
    if isinstance(value, tuple):
        return ",".join(map(as_written, value))
    if isinstance(value, float):
        return f"{value:g}"
    return "auto" if value is None else str(value).lower()


def summary(model: Model | MulticlassModel, output: str) -> str:
    certificate = model.certificate
    what = f"{model.nonzeros:,d} of {model.seen:,d} features"
    if isinstance(model, MulticlassModel):
        what = (
            f"{model.nonzeros:,d} weights for {len(model.classes):,d} classes and "
            f"{model.seen:,d} features"
        )
    parts = [
        f"{'model' if output == '-' else output}: {what} (density {model.density:.4f}) from "
        f"{model.t:,d} examples"
    ]
    if certificate["violation"] is not None:
        parts.append(f"largest violation of optimality {certificate['violation']:.3g}")
    if certificate["objective"] is not None:
        parts.append(f"objective {certificate['objective']:.6g}")
    if model.counters["bad_lines"]:
        parts.append(f"{model.counters['bad_lines']:,d} bad lines left out")
    if model.counters["ignored_features"]:
        parts.append(
            f"{model.counters['ignored_features']:,d} values ignored by --max-features"
        )
    return "; ".join(parts)
