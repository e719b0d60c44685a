"""Progress on stderr: a table at doubling intervals, a bar, or JSON lines. Reads, never learns."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from streamlearn.catalogue import ALGORITHMS, LOSSES
from streamlearn.cli.stderr import say_json, write
from streamlearn.meter import Meter, Row
from streamlearn.training import Training

if TYPE_CHECKING:
    from streamlearn.training import AnySource

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

    def __init__(self, kind: str, training: Training) -> None:
        self.kind, self.training = kind, training
        self.begin = time.perf_counter()
        self.spent = 0.0  # seconds in snapshots
        self.meter = Meter(
            LOSSES[training.settings["loss"]].classifies, training.learner.progress
        )
        self.next_tick = FIRST_TICK
        while self.next_tick <= training.learner.t:
            self.next_tick *= 2
        self.last_row: Row | None = None
        self.last_drawn = 0.0
        if kind == "table":
            write(HEAD + "\n")

    def tick(self, source: AnySource) -> None:
        if self.kind == "bar":
            self.draw(source)
        elif self.kind != "none" and self.training.learner.t >= self.next_tick:
            while self.next_tick <= self.training.learner.t:
                self.next_tick *= 2
            elapsed = time.perf_counter() - self.begin
            batch = ALGORITHMS[self.training.settings["algo"]].batch  # a snapshot is all the work
            affordable = not batch and self.spent <= BUDGET_SECONDS + BUDGET_SHARE * elapsed
            self.show(self.row(affordable))

    def row(self, count: bool) -> Row:
        start = time.perf_counter()
        nonzeros = density = None
        if count:
            model = self.training.model()
            nonzeros, density = model.nonzeros, model.density
            self.spent += time.perf_counter() - start
        sums = self.training.learner.progress
        return self.meter.row(sums, start - self.begin, nonzeros, density)

    def show(self, row: Row) -> None:
        self.last_row = row
        if self.kind == "jsonl":
            say_json(**row.__dict__)
        else:
            write(table_line(row) + "\n")

    def draw(self, source: AnySource | None, share: float | None = None) -> None:
        """The bar, ten times a second; with a share given, in any case."""
        now = time.perf_counter()
        if share is None and now - self.last_drawn < 0.1:
            return
        self.last_drawn = now
        if share is None and source is not None and source.size:
            share = min(source.taken / source.size, 1.0)
        sums = self.training.learner.progress
        loss = sums["loss"] / sums["weight"] if sums["weight"] else 0.0
        text = f"{sums['examples']:,d} examples  loss {loss:.4f}  {now - self.begin:.1f} s"
        if share is not None:
            text = f"[{'#' * int(30 * share):<30}] {100 * share:3.0f}%  {text}"
        write(f"\r{text:<78}")

    def finish(self, nonzeros: int, density: float) -> None:
        """The last row, with the figures of the model that is written."""
        elapsed = time.perf_counter() - self.begin
        sums = self.training.learner.progress
        last = self.last_row
        if self.kind == "bar":
            self.draw(None, 1.0)
            write("\n")
        elif last and last.examples == sums["examples"] and last.nonzeros == nonzeros:
            return  # it stands there already
        elif self.kind != "none":
            self.show(self.meter.row(sums, elapsed, nonzeros, density))
