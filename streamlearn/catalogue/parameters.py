"""The parameters that algorithms take: names, bounds, defaults, and what they mean."""

from __future__ import annotations

import math
from reprlib import repr as short
from typing import Any

from streamlearn.errors import MANY, UsageError
from streamlearn.record import Record


class Parameter(Record, frozen=True):
    """One number, choice or switch that an algorithm may take."""

    name: str
    kind: type
    help: str
    default: Any = None
    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    choices: tuple[str, ...] = ()
    auto: str | None = None  # what "auto" means, where it is accepted; stored as None

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def range(self) -> str:
        """The accepted values in words."""
        if self.choices:
            return ", ".join(self.choices)
        if self.kind is bool:
            return "true or false"
        noun = "a whole number" if self.kind is int else "a number"
        if self.low > -math.inf:
            noun += f" {'>' if self.open_low else '>='} {self.low:g}"
        if self.high < math.inf:
            noun += f" and {'<' if self.open_high else '<='} {self.high:g}"
        return noun + (' or "auto"' if self.auto else "")

    def check(self, value: Any) -> Any:
        """The value in its own type, or a UsageError that says what is accepted."""
        shown = value if isinstance(value, str) else short(value)  # a file may nest it deep
        refusal = UsageError(f"{self.flag} {shown}: expected {self.range}")
        if self.auto and (value is None or value == "auto"):
            return None
        if self.choices:
            if value not in self.choices:
                raise refusal
            return value
        if self.kind is bool:
            if not isinstance(value, bool):
                raise refusal
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise refusal
        if not math.isfinite(value) or (self.kind is int and value != int(value)):
            raise refusal
        number = self.kind(value)
        below = number <= self.low if self.open_low else number < self.low
        above = number >= self.high if self.open_high else number > self.high
        if below or above:
            raise refusal
        return number


PARAMETERS: dict[str, Parameter] = {
    p.name: p
    for p in (
        Parameter(
            "l1",
            float,
            "weight of |w|_1 beside the mean loss (ftrl: beside the sum of losses, unless "
            "--growing); 0 turns it off",
            1e-5,
            low=0.0,
            high=1e10,
        ),
        Parameter(
            "l2",
            float,
            "weight of |w|^2/2, as l1 is of |w|_1; steps of SGD are 1/(l2 (t + t0)) at example t",
            1e-5,
            low=0.0,
            high=1e10,
        ),
        Parameter(
            "evidence",
            float,
            "a feature is kept when its summed gradient exceeds this many standard deviations of "
            "itself; larger is sparser",
            0.9,
            low=0.0,
            high=1e6,
        ),
        Parameter(
            "eta",
            float,
            "scale of the steps; hardly matters for adaptivesl, much for all others",
            low=0.0,
            open_low=True,
            auto="8, or 3 for the squared loss",
        ),
        Parameter(
            "t0",
            float,
            "offset of the step schedule; 0 is the papers' schedule",
            low=0.0,
            high=4e15,
            auto="curvature * mean |x|^2 / l2 over the first 100 examples",
        ),
        Parameter(
            "step_cap",
            str,
            "shorten a step that would overshoot along its example",
            "auto",
            choices=("auto", "on", "off"),
        ),
        Parameter(
            "l1_step",
            str,
            "how l1 moves an iterate: clip at zero, or the papers' plain subgradient",
            "clip",
            choices=("clip", "subgradient"),
        ),
        Parameter(
            "weights",
            str,
            "how iterates are averaged: weight growing with t, or equal weights over a suffix",
            "linear",
            choices=("linear", "suffix"),
        ),
        Parameter(
            "alpha",
            float,
            "fraction of the run that the suffix (optimalsl: the second phase) takes",
            0.3,
            low=0.0,
            high=1.0,
            open_low=True,
            open_high=True,
        ),
        Parameter(
            "phase_one_alpha",
            float,
            "fraction of phase one that its own suffix takes",
            low=0.0,
            high=1.0,
            open_low=True,
            open_high=True,
            auto="alpha",
        ),
        Parameter(
            "total",
            int,
            "number of examples to come, when known: the suffix is then exact; 0 means unknown",
            0,
            low=0,
            high=MANY,
        ),
        Parameter(
            "smoothness",
            float,
            "L of the conversion; smaller is sparser",
            low=1e-30,
            high=1e30,
            auto="chosen at each snapshot on recent examples; adaptivesl: 10, in its own metric",
        ),
        Parameter(
            "schedule",
            str,
            "steps: inverse 1/(l2 (t + t0)) of fobos, or eta/t of the others; eta/sqrt(t); eta",
            "sqrt",
            choices=("inverse", "sqrt", "constant"),
        ),
        Parameter(
            "truncate_every",
            int,
            "K: thresholds are applied every K-th example, K times as large",
            10,
            low=1,
            high=MANY,
        ),
        Parameter(
            "theta",
            float,
            "weights larger than this in size are not truncated",
            low=0.0,
            auto="no bound",
        ),
        Parameter(
            "regularizer",
            str,
            "what keeps the weights small; l1ball and kl cost O(features seen) an example",
            "l1l2",
            choices=("l1l2", "l1", "l2", "box", "l2ball", "l1ball", "kl"),
        ),
        Parameter(
            "gamma",
            float,
            "scale of the proximal term (all but l1l2, l2): the step is 1/(gamma sqrt(t)); kl: its "
            "temperature",
            1.0,
            low=0.0,
            open_low=True,
        ),
        Parameter(
            "enhanced",
            float,
            "extra sparsity of the regularizer l1: adds gamma enhanced / sqrt(t) to l1 (rho in "
            "the paper)",
            0.0,
            low=0.0,
        ),
        Parameter(
            "damping",
            float,
            "constant added to l2 t (l1l2, l2); 0 is the paper's, which diverges for the squared "
            "loss",
            low=0.0,
            auto="curvature * mean |x|^2 over the first 100 examples",
        ),
        Parameter(
            "radius",
            float,
            "size of the set: bound of the box, radius of the ball, mass of the simplex",
            10.0,
            low=0.0,
            open_low=True,
        ),
        Parameter(
            "point",
            str,
            "what is served: the last iterate, or the mean of all, steadier but dense (l1l2, l1, "
            "l2 only)",
            "last",
            choices=("last", "mean"),
        ),
        Parameter("delta", float, "offset of the adaptive step", 1.0, low=0.0, open_low=True),
        Parameter(
            "beta",
            float,
            "offset of the adaptive step",
            1.0,
            low=0.0,
            open_low=True,
        ),
        Parameter(
            "growing",
            bool,
            "multiply l1 and l2 by t, as the objective of the other algorithms does",
            False,
        ),
        Parameter(
            "stiffness",
            float,
            "Gamma, the smoothness that the steps are made for; larger is safer and slower",
            low=0.0,
            open_low=True,
            auto="curvature * mean |x|^2 over the first 100 examples; grades: 1.01 times the "
            "largest eigenvalue of X'X/m",
        ),
        Parameter(
            "threshold", float, "soft threshold of each update; not scaled by eta", 1e-3, low=0.0
        ),
        Parameter(
            "margin", float, "an example is learned unless y m exceeds this", 0.01, low=0.0
        ),
        Parameter(
            "density",
            float,
            "share of the features seen that may be non-zero, looked at before each example",
            1.0,
            low=0.0,
            high=1.0,
        ),
        Parameter(
            "at_bound",
            str,
            "at that share: refuse new features, or stop learning for good",
            "refuse",
            choices=("refuse", "stop"),
        ),
        Parameter(
            "p",
            float,
            "exponent of the link, at least 2, which gives fobos with constant steps",
            low=2.0,
            auto="p_factor ln(dimension) where the dimension is told, else 10",
        ),
        Parameter(
            "p_factor",
            float,
            "of ln(dimension), for p: 2 is the theory's, 0.5 is numerically kinder",
            2.0,
            low=0.0,
            open_low=True,
        ),
        Parameter(
            "dimension", int, "how many features there are, for p; 0 means unknown", 0, low=0,
            high=MANY,
        ),
        Parameter(
            "shrinks",
            str,
            "which features an example shrinks: all of them (the algorithm), or only its own",
            "all",
            choices=("all", "touched"),
        ),
        Parameter(
            "phase_one",
            str,
            "the algorithm of the first phase; its own parameters may be given too",
            "asgd",
            choices=(
                *("asgd", "sgd", "averagesl", "lastsl", "adaptivesl", "fobos", "tg", "rda"),
                *(
                    "adagrad-rda",
                    "ftrl",
                    "orda",
                    "ssg",
                    "epochgd",
                    "smidas",
                    "perceptron",
                    "l1ball",
                ),
            ),
        ),
        Parameter(
            "iterations", int, "steps of a batch method, from zero at each snapshot", 1000, low=0,
            high=MANY,
        ),
        Parameter("seed", int, "of the coordinates that scd picks", 0, low=0, high=2**53),
        Parameter("nonzeros", int, "how many weights grades keeps", 100, low=0, high=MANY),
        Parameter("bias", bool, "learn a constant term, never penalised by l1", True),
        Parameter(
            "max_features",
            int,
            "learn at most this many features: the first ones seen are kept, later ones are "
            "ignored and counted; 0 means no bound",
            0,
            low=0,
            high=MANY,
        ),
    )
}
