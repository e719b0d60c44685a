"""What the smidas experiment shows of its trials: a table, pictures and claims. Learns nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reproduce.drawing import Curve, Panel, panels
from reproduce.results import Figure, Goal, Picture, Row, Table, figure
from reproduce.trials import Outcome

METHODS = ("SCD", "DETCD", "SMIDAS", "TG")
ZERO_MODEL = math.log(2.0)

Key = tuple[str, float, str]  # set, l1, method
Traces = dict[Key, list[Outcome]]
Optima = dict[tuple[str, float], Outcome]


@dataclass(frozen=True)
class Curves:
    """Means over the trials, by passes."""

    passes: list[float]
    objective: list[float]
    nonzeros: list[float]

    @classmethod
    def of(cls, found: Sequence[Outcome]) -> Curves:
        whole = [trace for trace in found if trace["passes"]]
        return cls(
            whole[0]["passes"],
            np.mean([trace["objective"] for trace in whole], axis=0).tolist(),
            np.mean([trace["nonzeros"] for trace in whole], axis=0).tolist(),
        )

    def at(self, passes: float) -> float | None:
        """The objective then."""
        return dict(zip(self.passes, self.objective, strict=True)).get(passes)


def table(
    curves: dict[Key, Curves], traces: Traces, optima: Optima, steps: dict[Key, float]
) -> Table:
    rows = []
    for name, l1 in optima:
        group = f"{name}, l1 {l1:g}"
        for method in METHODS:
            found = traces[name, l1, method]
            passes = curves[name, l1, method].passes
            figures = {}
            for column, at in (("after 1/4", 0.25), ("after 1", 1.0), ("after 4", 4.0),
                               ("at the end", passes[-1])):  # fmt: skip
                if at in passes:
                    i = passes.index(at)
                    figures[column] = figure([trace["objective"][i] for trace in found])
            figures["non-zeros"] = figure([trace["nonzeros"][-1] for trace in found])
            figures["passes"] = Figure(passes[-1])
            if (name, l1, method) in steps:
                figures["step"] = Figure(steps[name, l1, method])
            rows.append(Row(group, method, figures))
        best = optima[name, l1]
        figures = {
            "at the end": Figure(best["objective"]),
            "non-zeros": Figure(best["nonzeros"]),
        }
        rows.append(Row(group, "optimum", figures))
    columns = ["after 1/4", "after 1", "after 4", "at the end", "non-zeros", "passes", "step"]
    return Table(
        "Objective after so many passes over the data, and non-zeros at the end",
        columns,
        rows,
        "Objective: mean logistic loss + l1 |w|_1 over all rows. A pass is as many accesses as the "
        "data has non-zeros. The optimum is LIBLINEAR's.",
    )


def grid(curves: dict[Key, Curves], optima: Optima, what: str) -> list[list[Panel]]:
    rows: list[list[Panel]] = []
    for l1 in dict.fromkeys(l1 for _, l1 in optima):
        row = []
        for name in dict.fromkeys(name for name, _ in optima):
            lines = [
                Curve(method, curves[name, l1, method].passes,
                      getattr(curves[name, l1, method], what), style=".-")
                for method in METHODS
            ]  # fmt: skip
            low = optima[name, l1][what]
            panel = Panel(f"{name}, l1 = {l1:g}", lines, "passes over the data", what,
                          log_x=True, level=low)  # fmt: skip
            if what == "objective":
                room = 0.05 * (ZERO_MODEL - low)
                panel = Panel(panel.title, lines, panel.x, what, True, False, low,
                              (low - room, ZERO_MODEL + 2 * room))  # fmt: skip
            row.append(panel)
        rows.append(row)
    return rows


def objective_picture(curves: dict[Key, Curves], optima: Optima) -> Picture:
    return Picture(
        "smidas-objective",
        "Objective against data accesses, in passes over the data; dotted: the optimum.",
        panels(grid(curves, optima, "objective"), (3.1, 2.6)),
    )


def density_picture(curves: dict[Key, Curves], optima: Optima) -> Picture:
    return Picture(
        "smidas-density",
        "Non-zeros against data accesses, in passes over the data; dotted: those of the optimum.",
        panels(grid(curves, optima, "nonzeros"), (3.1, 2.6)),
    )


def claims(curves: dict[Key, Curves], optima: Optima) -> list[Goal]:
    def gap(case: tuple[str, float], method: str, passes: float) -> float:
        """Objective above the optimum."""
        at = curves[(*case, method)].at(passes)
        assert at is not None, (case, method, passes)
        return at - optima[case]["objective"]

    def last(case: tuple[str, float]) -> float:
        return curves[(*case, "SCD")].passes[-1]

    def told(pairs: dict[tuple[str, float], tuple[float, float]]) -> str:
        return "; ".join(
            f"{name}, l1 {l1:g}: {a:.2g} / {b:.2g}" for (name, l1), (a, b) in pairs.items()
        )

    goals = []
    pairs = {c: (gap(c, "SCD", last(c)), gap(c, "DETCD", last(c))) for c in optima}
    goals.append(
        Goal(
            "SCD is nearer to the optimum than DETCD after equally many accesses",
            f"above the optimum at the end, SCD / DETCD: {told(pairs)}",
            all(a <= b for a, b in pairs.values()),
        )
    )
    pairs = {c: (gap(c, "SMIDAS", last(c)), gap(c, "TG", last(c))) for c in optima
             if c[0] == "MAGIC04D"}  # fmt: skip
    goals.append(
        Goal(
            "with dense noise (MAGIC04D) SMIDAS comes nearer to the optimum than TG",
            f"above the optimum at the end, SMIDAS / TG: {told(pairs)}",
            all(a <= b for a, b in pairs.values()),
        )
    )
    pairs = {c: (min(gap(c, m, 0.25) for m in ("SMIDAS", "TG")), gap(c, "SCD", 0.25))
             for c in optima if c[0] != "ARCENE"}  # fmt: skip
    goals.append(
        Goal(
            "where rows outnumber features the methods that take rows lead at first",
            f"above the optimum after a quarter of a pass, better of SMIDAS and TG / SCD: "
            f"{told(pairs)}",
            all(a <= b for a, b in pairs.values()),
        )
    )
    pairs = {c: (gap(c, "SCD", last(c)), min(gap(c, m, last(c)) for m in ("SMIDAS", "TG")))
             for c in optima}  # fmt: skip
    goals.append(
        Goal(
            "SCD has the lowest objective at the end",
            f"above the optimum, SCD / better of SMIDAS and TG: {told(pairs)}",
            all(a <= b for a, b in pairs.values()),
        )
    )
    return goals
