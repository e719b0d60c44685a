"""Runs trials on all cores, shows how far they are, keeps what is finished. Knows no learner."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

# The numbers of a trial, as JSON can hold them.
Outcome = dict[str, Any]
Trial = Callable[..., Outcome]


class MissingData(Exception):
    """A file that only the user can give; says which and in what form."""


@dataclass(frozen=True)
class Run:
    """How an experiment is to be run."""

    quick: bool = False
    data: Path | None = None
    workers: int = 1
    keep: Path | None = None  # finished trials are kept there, and not run again
    show: bool = True

    def count(self, full: int) -> int:
        """So many trials; a tenth of them, but at least two, for a look."""
        return min(full, max(2, full // 10)) if self.quick else full

    def file(self, name: str, what: str) -> Path:
        """A file of --data; `what` tells a user who lacks it what to get and in which form."""
        if self.data is not None and (path := self.data / name).is_file():
            return path
        where = f"{self.data} has no {name}" if self.data else f"needs --data DIR with {name}"
        raise MissingData(f"{where}: {what}")

    def trials(self, title: str, trial: Trial, jobs: Sequence[tuple[Any, ...]]) -> list[Outcome]:
        """trial(*job) of every job, in the order of the jobs, whoever finishes first.

        A trial is a function of a module and takes its randomness from its job alone, so that
        neither the number of cores nor an interruption changes a digit. It must be slow enough to
        be worth a process: about a second.
        """
        outcomes: dict[int, Outcome] = {}
        kept = Kept(self.keep, trial)
        for number, job in enumerate(jobs):
            if (outcome := kept.find(job)) is not None:
                outcomes[number] = outcome
        progress = Progress(title, len(jobs), len(outcomes), self.show)
        left = [n for n in range(len(jobs)) if n not in outcomes]
        for number, outcome in self._run(trial, jobs, left):
            kept.add(jobs[number], outcome)
            outcomes[number] = outcome
            progress.step()
        progress.end()
        # Through JSON in any case: kept trials and fresh ones must not differ in type.
        return [json.loads(json.dumps(outcomes[n])) for n in range(len(jobs))]

    def _run(
        self, trial: Trial, jobs: Sequence[tuple[Any, ...]], left: list[int]
    ) -> Iterator[tuple[int, Outcome]]:
        if self.workers == 1 or len(left) < 2:
            for number in left:
                yield number, trial(*jobs[number])
            return
        pending: dict[Future[Outcome], int] = {}
        try:
            for number in left:
                pending[pool(self.workers).submit(trial, *jobs[number])] = number
            while pending:
                done, _ = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    yield pending.pop(future), future.result()
        finally:
            for future in pending:
                future.cancel()


@cache
def pool(workers: int) -> ProcessPoolExecutor:
    """The same processes for all trials: what they have read of the data stays in them."""
    return ProcessPoolExecutor(workers)


class Kept:
    """A file of finished trials: one line of JSON each."""

    def __init__(self, folder: Path | None, trial: Trial) -> None:
        self.path = None
        self.found: dict[str, Outcome] = {}
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{trial.__module__}.{trial.__name__}.jsonl"
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                try:
                    entry = json.loads(line)
                except ValueError:  # the last line of a run that was killed
                    continue
                self.found[entry["job"]] = entry["outcome"]

    def find(self, job: tuple[Any, ...]) -> Outcome | None:
        return self.found.get(key_of(job))

    def add(self, job: tuple[Any, ...], outcome: Outcome) -> None:
        if self.path is not None:
            line = json.dumps({"job": key_of(job), "outcome": outcome})
            with self.path.open("a") as file:
                file.write(line + "\n")


def key_of(job: tuple[Any, ...]) -> str:
    """The same for equal jobs of simple values (numbers, text, tuples, paths)."""
    return hashlib.sha256(repr(job).encode()).hexdigest()[:24]


class Progress:
    """One line on stderr: how many trials are done, and how long the rest may take."""

    def __init__(self, title: str, total: int, before: int, show: bool) -> None:
        self.title, self.total, self.before, self.done = title, total, before, before
        self.show = show and before < total
        self.begin = time.monotonic()
        self.tty = sys.stderr.isatty()
        self.told = 0.0
        self.tell()

    def step(self) -> None:
        self.done += 1
        self.tell()

    def tell(self) -> None:
        now = time.monotonic()
        if not self.show or (now - self.told < (0.2 if self.tty else 10.0) and self.told):
            return
        self.told = now
        text = f"{self.title}: {self.done} of {self.total} trials"
        if (fresh := self.done - self.before) and self.done < self.total:
            left = (now - self.begin) / fresh * (self.total - self.done)
            text += f", about {left:.0f} s to go"
        self.write(text)

    def write(self, text: str) -> None:
        if self.tty:
            sys.stderr.write(f"\r{text:<78}")
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def end(self) -> None:
        if self.show:
            took = time.monotonic() - self.begin
            self.write(f"{self.title}: {self.total} trials in {took:.0f} s")
            if self.tty:
                sys.stderr.write("\n")


def cores() -> int:
    return len(os.sched_getaffinity(0))
