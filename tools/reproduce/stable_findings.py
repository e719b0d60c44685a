"""What the stable experiment shows of its trials: tables, pictures and claims. Learns nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from reproduce.drawing import Curve, Panel, panels
from reproduce.results import Figure, Goal, Picture, Row, Table, figure
from reproduce.trials import Outcome

DENSITIES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
STEPS = 20  # of a run of GraDes that does not break off
HEADLINE = 0.1  # the density of the paper's abstract

# Trials of a task and method; each a list of [density, error held out, test error].
Trials = dict[tuple[str, str], list[list[list[float]]]]


def chosen(candidates: Sequence[Sequence[float]], bound: float) -> float | None:
    """Test error of the setting that is best on the rows held out, among those within the bound."""
    within = [(held, test) for density, held, test in candidates if 0.0 < density <= bound]
    return min(within)[1] if within else None


def errors(trials: Trials, name: str, method: str, bound: float) -> list[float]:
    """In per cent, of the trials that have a model within the bound."""
    found = [chosen(candidates, bound) for candidates in trials[name, method]]
    return [100.0 * error for error in found if error is not None]


def names_of(trials: Trials) -> list[str]:
    return list(dict.fromkeys(name for name, _ in trials))


def average(trials: Trials, method: str, bound: float) -> float:
    """The mean over all tasks; infinite where a task has no model within the bound."""
    found = [errors(trials, name, method, bound) for name in names_of(trials)]
    return float(np.mean([np.mean(e) for e in found])) if all(found) else math.inf


def density_table(trials: Trials, methods: Sequence[str]) -> Table:
    rows = []
    for name in names_of(trials):
        for method in methods:
            figures = {
                f"{100 * bound:g} %": figure(found)
                for bound in DENSITIES
                if (found := errors(trials, name, method, bound))
            }
            rows.append(Row(name, method, figures))
    for method in methods:
        means = {f"{100 * b:g} %": average(trials, method, b) for b in DENSITIES}
        figures = {k: Figure(v) for k, v in means.items() if math.isfinite(v)}
        rows.append(Row("mean of the tasks", method, figures))
    return Table(
        "Test error in per cent with at most so many of the features",
        [f"{100 * bound:g} %" for bound in DENSITIES],
        rows,
        "Blank: no setting that was tried has so few weights.",
    )


def exponent_table(shares: dict[tuple[str, float], Outcome]) -> Table:
    rows = [
        Row(
            name,
            f"p = {factor:g} ln d",
            {
                "p": Figure(found["p"]),
                "smallest power": Figure(min(found["powers"])),
                "largest power": Figure(max(found["powers"])),
                "median below largest": Figure(found["median"]),
                "share below 1e-6": Figure(found["small"]),
            },
        )
        for (name, factor), found in shares.items()
    ]
    columns = ["p", "smallest power", "largest power", "median below largest", "share below 1e-6"]
    return Table(
        "Powers of ten of the non-zero weights under SMIDAS (l1 = 0.001, eta = 10, two passes)",
        columns,
        rows,
        "Median below largest: decades between the largest weight and the middle one. Share: of "
        "the non-zero weights, those below a millionth of the largest.",
    )


def grades_table(radii: dict[str, Outcome]) -> Table:
    rows = []
    for name, found in radii.items():
        for gamma, way in found["ways"].items():
            figures = {
                "steps": Figure(way[-1][0]),
                "last potential": Figure(way[-1][1]),
                "spectral radius": Figure(max(1.0, found["radius"] / stiff(gamma, found) - 1.0)),
                "largest eigenvalue": Figure(found["radius"]),
            }
            rows.append(Row(name, f"gamma {gamma}", figures))
    return Table(
        "GraDes: potential and spectral radius",
        ["steps", "last potential", "spectral radius", "largest eigenvalue"],
        rows,
        "Potential: |y - Xw|^2 over |y|^2 after the last of at most 20 steps that did not diverge "
        "(a millionfold). Spectral radius: of I - X'X/gamma, at least 1 since there are fewer rows "
        "than features; above 1 all can grow. Largest eigenvalue: of X'X, by ARPACK. "
        "safe: 1.01 times the largest.",
    )


def stiff(gamma: str, found: Outcome) -> float:
    return 1.01 * found["radius"] if gamma == "safe" else float(gamma)


def diverged(way: Sequence[Sequence[float]]) -> bool:
    """Whether it broke off, or stands above where it began."""
    return way[-1][0] < STEPS or way[-1][1] > way[0][1]


# ---- pictures ------------------------------------------------------------------------------------


def density_picture(trials: Trials, methods: Sequence[str]) -> Picture:
    drawn = []
    for name in names_of(trials):
        lines = []
        for number, method in enumerate(methods):
            points = [(100 * b, float(np.mean(found))) for b in DENSITIES
                      if (found := errors(trials, name, method, b))]  # fmt: skip
            if points:
                x, y = zip(*points, strict=True)
                lines.append(Curve(method, x, y, style=".-", colour=number))
        drawn.append(Panel(name, lines, "at most so many of the features, %", "test error %",
                           log_x=True))  # fmt: skip
    return Picture(
        "stable-densities",
        "Test error against the bound on the density, for each task.",
        panels([drawn[:4], drawn[4:]], (2.9, 2.5)),
    )


def exponent_picture(shares: dict[tuple[str, float], Outcome]) -> Picture:
    drawn = []
    for name in dict.fromkeys(name for name, _ in shares):
        lines = []
        for (of, factor), found in shares.items():
            if of == name:
                share = np.array(found["counts"]) / sum(found["counts"])
                lines.append(Curve(f"p = {factor:g} ln d", found["powers"], share, style=".-"))
        drawn.append(Panel(name, lines, "power of ten of a weight", "share of the weights"))
    return Picture(
        "stable-exponents",
        "How the sizes of SMIDAS' weights are spread: with p = 2 ln d over dozens of decades.",
        panels([drawn]),
    )


def grades_picture(radii: dict[str, Outcome]) -> Picture:
    drawn = []
    for name in (list(radii)[4], list(radii)[-1]) if len(radii) > 4 else list(radii):
        found = radii[name]
        lines = [
            Curve(f"gamma {gamma}", *zip(*way, strict=True), style=".-")
            for gamma, way in found["ways"].items()
        ]
        title = f"{name}, largest eigenvalue {found['radius']:.0f}"
        drawn.append(Panel(title, lines, "steps", "potential", log_y=True))
    return Picture(
        "stable-grades",
        "Potential of GraDes on the way; a curve ends where the run diverged.",
        panels([drawn]),
    )


# ---- claims --------------------------------------------------------------------------------------


def claims(
    trials: Trials, shares: dict[tuple[str, float], Outcome], radii: dict[str, Outcome]
) -> list[Goal]:
    ours = tuple(m for _, m in trials if m.startswith("perceptron"))
    means = {m: average(trials, m, HEADLINE) for m in dict.fromkeys(m for _, m in trials)}
    told = "; ".join(f"{m} {e:.2f} %" if math.isfinite(e) else f"{m}: no such model"
                     for m, e in means.items())  # fmt: skip
    others = {m: e for m, e in means.items() if m not in ours}
    stopping = {m: e for m, e in means.items() if m.endswith("stops")}
    pairs = [
        (shares[name, 2.0], shares[name, 0.5]) for name in dict.fromkeys(name for name, _ in shares)
    ]
    diverging = [
        (name, gamma, stiff(gamma, found) < 0.5 * found["radius"],
         diverged(way))
        for name, found in radii.items()
        for gamma, way in found["ways"].items()
    ]  # fmt: skip
    return [
        Goal(
            "the perceptron beats every other method at 10 % of the features, on the average of "
            "the tasks",
            told,
            min(means[m] for m in ours) < min(others.values()),
        ),
        Goal(
            "at 10 % it beats the methods that take rows, SMIDAS with both p and TG",
            told,
            min(means[m] for m in ours) < min(e for m, e in others.items() if m != "SCD"),
        ),
        Goal(
            "of the methods that stop when 10 % of the features have a weight it is the best",
            "; ".join(f"{m} {e:.2f} %" for m, e in stopping.items()),
            min(stopping, key=lambda m: stopping[m]) == "perceptron, stops",
        ),
        Goal(
            "SMIDAS does better with p = 0.5 ln d than with 2 ln d at 20 % of the features",
            " against ".join(
                f"{average(trials, m, 0.2):.2f} %"
                for m in ("SMIDAS, 0.5 ln d", "SMIDAS, 2 ln d")
            ),
            average(trials, "SMIDAS, 0.5 ln d", 0.2) < average(trials, "SMIDAS, 2 ln d", 0.2),
        ),
        Goal(
            "with p = 2 ln d the weights of SMIDAS are spread over many more decades",
            "; ".join(f"{a['median']:.1f} against {b['median']:.1f} decades from the largest to "
                      "the middle weight" for a, b in pairs),
            all(a["median"] > b["median"] for a, b in pairs),
        ),
        Goal(
            "GraDes diverges where gamma is below half the largest eigenvalue of X'X, and only "
            "there",
            "; ".join(f"{n}, gamma {g}: {'diverged' if bad else 'fell'}"
                      for n, g, _, bad in diverging),
            all(expected == bad for _, _, expected, bad in diverging),
        ),
    ]  # fmt: skip
