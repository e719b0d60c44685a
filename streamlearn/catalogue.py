"""The table of algorithms, losses and their parameters: names, defaults, bounds, papers, needs.

Everything that is offered to a user is listed here once; flags, checks, help and the engine's
spec are made from it. It learns nothing itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from streamlearn.engine.learner import Learner
from streamlearn.errors import UsageError

AAAI = "Sparse online-to-batch conversion (AAAI)"
TPAMI = "Sparse online-to-batch conversion, extended (TPAMI)"


@dataclass(frozen=True)
class Parameter:
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
        refusal = UsageError(f"{self.flag} {value}: expected {self.range}")
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
        Parameter("l1", float, "weight of |w|_1 in the objective; 0 turns it off", 1e-5, low=0.0),
        Parameter(
            "l2",
            float,
            "weight of |w|^2/2 in the objective; the step at example t is 1/(l2 (t + t0))",
            1e-5,
            low=0.0,
            open_low=True,
        ),
        Parameter(
            "evidence",
            float,
            "a feature is kept when its summed gradient exceeds this many standard deviations of "
            "itself; larger is sparser",
            0.9,
            low=0.0,
        ),
        Parameter(
            "eta",
            float,
            "scale of the adaptive step; hardly matters",
            low=0.0,
            open_low=True,
            auto="8, or 3 for the squared loss",
        ),
        Parameter(
            "t0",
            float,
            "offset of the step schedule; 0 is the papers' schedule",
            low=0.0,
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
        ),
        Parameter(
            "smoothness",
            float,
            "L of the conversion; smaller is sparser",
            low=0.0,
            open_low=True,
            auto="chosen at each snapshot on recent examples; 10 for adaptivesl",
        ),
        Parameter("bias", bool, "learn a constant term, never penalised by l1", True),
        Parameter(
            "max_features",
            int,
            "learn at most this many features: the first ones seen are kept, later ones are "
            "ignored and counted; 0 means no bound",
            0,
            low=0,
        ),
    )
}


@dataclass(frozen=True)
class Algorithm:
    """One entry of the catalogue."""

    name: str
    title: str
    paper: str
    serves: str
    words: str  # 8-byte words a feature
    parameters: tuple[str, ...]
    defaults: Mapping[str, Any]


_COMMON = ("bias", "max_features")
_STEP = ("l1", "l2", "t0", "step_cap", "l1_step")
_MEAN = (*_STEP, "weights", "alpha", "total")

ALGORITHMS: dict[str, Algorithm] = {
    a.name: a
    for a in (
        Algorithm(
            "adaptivesl",
            "adaptive averaging, converted in its own metric; no knob to turn",
            "our own",
            "the mean iterate of scale-free dual averaging, converted; exactly sparse",
            "8",
            ("evidence", "eta", "l1", "smoothness", *_COMMON),
            {"l1": 0.0},
        ),
        Algorithm(
            "averagesl",
            "SGD, averaged iterate and gradient, converted",
            TPAMI,
            "the mean iterate after one soft-threshold step; exactly sparse",
            "4 (suffix: 6)",
            (*_MEAN, "smoothness", *_COMMON),
            {},
        ),
        Algorithm(
            "optimalsl",
            "two phases: averaged SGD, then gradients at the frozen mean, converted",
            f"{AAAI}; {TPAMI}",
            "the frozen mean after one soft-threshold step; exactly sparse",
            "8 (suffix: 10)",
            (*_MEAN, "phase_one_alpha", "smoothness", *_COMMON),
            {},
        ),
        Algorithm(
            "lastsl",
            "SGD, last iterate converted with the averaged gradient",
            f"{AAAI}; {TPAMI}",
            "the last iterate after one soft-threshold step; exactly sparse, noisier",
            "4 (suffix: 6)",
            (*_MEAN, "smoothness", *_COMMON),
            {},
        ),
        Algorithm(
            "asgd",
            "alpha-suffix averaging of SGD",
            "baseline of the same papers",
            "the mean iterate itself; accurate but dense",
            "4 (suffix: 6)",
            (*_MEAN, *_COMMON),
            {"weights": "suffix"},
        ),
        Algorithm(
            "sgd",
            "SGD with lazy l1",
            "baseline of the same papers",
            "the last iterate; sparse only on sparse data, noisy",
            "2",
            (*_STEP, *_COMMON),
            {},
        ),
    )
}


@dataclass(frozen=True)
class LossEntry:
    """A loss and the labels it takes."""

    name: str
    formula: str
    classifies: bool


LOSSES: dict[str, LossEntry] = {
    e.name: e
    for e in (
        LossEntry("logistic", "log(1 + exp(-y m))", True),
        LossEntry("squared", "(m - y)^2 / 2", False),
        LossEntry("hinge", "max(0, 1 - y m)", True),
        LossEntry("squared_hinge", "max(0, 1 - y m)^2 / 2", True),
    )
}

DEFAULT_ALGORITHM = "adaptivesl"
DEFAULT_LOSS = "logistic"


def nearest(name: str, known: Mapping[str, Any]) -> str:
    """A hint that names the closest known word, or all of them."""
    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else "known: " + ", ".join(known)


def resolve(algo: str, loss: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """All settings in force for an algorithm: the given ones checked, the rest by default."""
    if algo not in ALGORITHMS:
        raise UsageError(f"--algo {algo}: no such algorithm; {nearest(algo, ALGORITHMS)}")
    if loss not in LOSSES:
        raise UsageError(f"--loss {loss}: no such loss; {nearest(loss, LOSSES)}")
    entry = ALGORITHMS[algo]
    for name in given:
        if name not in PARAMETERS:
            raise UsageError(f"{name}: no such parameter; {nearest(name, PARAMETERS)}")
        if name not in entry.parameters:
            users = [a.name for a in ALGORITHMS.values() if name in a.parameters]
            raise UsageError(
                f"{PARAMETERS[name].flag} means nothing to --algo {algo} "
                f"(it is a parameter of {', '.join(users)})"
            )
    settings: dict[str, Any] = {"algo": algo, "loss": loss}
    for name in entry.parameters:
        parameter = PARAMETERS[name]
        default = entry.defaults.get(name, parameter.default)
        settings[name] = parameter.check(given[name]) if name in given else default
    if "evidence" in given and settings.get("l1", 0.0) > 0.0 and "evidence" in settings:
        raise UsageError("--l1 and --evidence are two penalties for adaptivesl; give one of them")
    return settings


def engine_spec(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the engine needs to know, from resolved settings."""
    algo, loss = settings["algo"], settings["loss"]
    adaptive = algo == "adaptivesl"
    alpha = settings.get("alpha", 0.3)
    eta, smoothness = settings.get("eta"), settings.get("smoothness")
    if adaptive:
        kernel = "adaptive"
        eta = eta if eta is not None else (3.0 if loss == "squared" else 8.0)
        smoothness = smoothness if smoothness is not None else 10.0
    else:
        kernel = "sgd" if algo == "sgd" else settings["weights"]
    t0 = settings.get("t0")
    cap = settings.get("step_cap", "off")
    phase_one_alpha = settings.get("phase_one_alpha")
    return {
        "kernel": kernel,
        "two_phases": algo == "optimalsl",
        "point": "last" if algo in ("sgd", "lastsl") else "mean",
        "converts": algo.endswith("sl"),
        "loss": loss,
        "l1": settings["l1"],
        "l2": settings.get("l2", 0.0),
        "t0": 0.0 if adaptive else t0,
        # An explicit t0 asks for the printed schedule: then nothing shortens a step unless told.
        "capped": cap == "on" or (cap == "auto" and t0 is None),
        "subgradient": settings.get("l1_step") == "subgradient",
        "alpha": alpha,
        "phase_one_alpha": alpha if phase_one_alpha is None else phase_one_alpha,
        "total": settings.get("total", 0),
        "evidence": settings.get("evidence", 0.0),
        "eta": eta if eta is not None else 0.0,
        "smoothness": smoothness,
        "bias": settings["bias"],
        "standardize": adaptive and loss == "squared",
        "max_features": settings["max_features"],
    }


def make_learner(settings: Mapping[str, Any]) -> Learner:
    """A fresh learner for resolved settings."""
    return Learner(engine_spec(settings))
