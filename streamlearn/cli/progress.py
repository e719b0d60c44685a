"""Progress on stderr: a table at doubling intervals, a bar, or JSON lines. Reads, never learns."""

from __future__ import annotations

import json
import sys
import time
from typing import TextIO

from streamlearn.catalogue import LOSSES
from streamlearn.meter import Meter, Row
from streamlearn.sources import Source
from streamlearn.training import Training

HEAD = (
    f"{'examples':>12} {'loss':>9} {'since':>9} {'err%':>6} {'nonzeros':>9} {'density':>8} "
    f"{'ex/s':>9} {'seconds':>8}"
)
FIRST_TICK = 1000
# Counting non-zeros takes a snapshot; it may cost this much in all, so that looking at a run does
# not slow it down.
BUDGET_SECONDS, BUDGET_SHARE = 0.03, 0.02


def cell(value: float | int | None, width: int, form: str) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:>{width}{form}}"


def table_line(row: Row) -> str:
    error = None if row.error is None else 100.0 * row.error
    return " ".join(
        (
            cell(row.examples, 12, ",d"),
            cell(row.loss, 9, ".6f") if row.loss < 1e6 else cell(row.loss, 9, ".3g"),
            cell(row.since, 9, ".6f") if row.since < 1e6 else cell(row.since, 9, ".3g"),
            cell(error, 6, ".2f"),
            cell(row.nonzeros, 9, ",d"),
            cell(row.density, 8, ".4f"),
            cell(row.rate, 9, ",.0f"),
            cell(row.elapsed, 8, ".2f"),
        )
    )


class Progress:
    """Shows a run while it goes on; `tick` after each block, `finish` at the end."""

    def __init__(self, kind: str, training: Training, stream: TextIO | None = None) -> None:
        self.kind, self.training = kind, training
        self.stream = stream or sys.stderr
        self.begin = time.perf_counter()
        self.spent = 0.0  # seconds in snapshots
        self.meter = Meter(
            LOSSES[training.settings["loss"]].classifies, training.learner.progress
        )
        self.next_tick = FIRST_TICK
        while self.next_tick <= training.learner.t:
            self.next_tick *= 2
        self.last_drawn = 0.0
        if kind == "table":
            self.say(HEAD)

    def say(self, line: str, end: str = "\n") -> None:
        self.stream.write(line + end)
        self.stream.flush()

    def tick(self, source: Source) -> None:
        if self.kind == "bar":
            self.draw(source)
        elif self.kind != "none" and self.training.learner.t >= self.next_tick:
            while self.next_tick <= self.training.learner.t:
                self.next_tick *= 2
            elapsed = time.perf_counter() - self.begin
            affordable = self.spent <= BUDGET_SECONDS + BUDGET_SHARE * elapsed
            self.show(self.row(affordable))

    def row(self, count: bool) -> Row:
        start = time.perf_counter()
        nonzeros = density = None
        if count:
            model = self.training.learner.snapshot()
            nonzeros = len(model["ids"]) // 8
            density = nonzeros / model["seen"] if model["seen"] else 0.0
            self.spent += time.perf_counter() - start
        sums = self.training.learner.progress
        return self.meter.row(sums, start - self.begin, nonzeros, density)

    def show(self, row: Row) -> None:
        if self.kind == "jsonl":
            self.say(json.dumps(row.__dict__))
        else:
            self.say(table_line(row))

    def draw(self, source: Source) -> None:
        now = time.perf_counter()
        if now - self.last_drawn < 0.1:
            return
        self.last_drawn = now
        sums = self.training.learner.progress
        loss = sums["loss"] / sums["weight"] if sums["weight"] else 0.0
        position = source.position()
        text = f"{sums['examples']:,d} examples  loss {loss:.4f}  {now - self.begin:.1f} s"
        if position is not None and source.size:
            done = min(position / source.size, 1.0)
            text = f"[{'#' * int(30 * done):<30}] {100 * done:3.0f}%  {text}"
        self.say(f"\r{text:<78}", end="")

    def finish(self, nonzeros: int, density: float) -> None:
        """The last row, with the figures of the model that is written."""
        elapsed = time.perf_counter() - self.begin
        if self.kind == "bar":
            self.say("")
        elif self.kind != "none":
            self.show(self.meter.row(self.training.learner.progress, elapsed, nonzeros, density))
