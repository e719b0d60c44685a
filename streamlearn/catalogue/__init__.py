"""The catalogue: algorithms, losses and parameters, and the way from a name to a learner.

Everything that is offered to a user is listed here once; flags, checks, help and the engine's
spec are made from it. It learns nothing itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from streamlearn.catalogue.algorithms import ALGORITHMS, STREAMING, Algorithm
from streamlearn.catalogue.parameters import PARAMETERS, Parameter
from streamlearn.engine.learner import Learner
from streamlearn.errors import UsageError, nearest
from streamlearn.record import Record

__all__ = [
    "ALGORITHMS",
    "DEFAULT_ALGORITHM",
    "DEFAULT_LOSS",
    "HAVE_A_MEAN",
    "LOSSES",
    "PARAMETERS",
    "STREAMING",
    "Algorithm",
    "Parameter",
    "engine_spec",
    "idle",
    "learner_class",
    "make_learner",
    "make_multiclass",
    "resolve",
    "steadier",
    "taken",
]


class LossEntry(Record, frozen=True):
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


def resolve(algo: str, loss: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """All settings in force for an algorithm: the given ones checked, the rest by default."""
    if algo not in ALGORITHMS:
        raise UsageError(f"--algo {algo}: no such algorithm; {nearest(algo, ALGORITHMS)}")
    if loss not in LOSSES:
        raise UsageError(f"--loss {loss}: no such loss; {nearest(loss, LOSSES)}")
    refuse_loss(ALGORITHMS[algo], loss)
    defaults = taken(algo, given)
    who = f"--algo {algo}"
    if algo == "optimalsl":
        first = phase_one(given)
        refuse_loss(first, loss)
        who += f" with --phase-one {first.name}"
    for name in given:
        if name not in PARAMETERS:
            raise UsageError(f"{name}: no such parameter; {nearest(name, PARAMETERS)}")
        if name not in defaults:
            users = [a.name for a in ALGORITHMS.values() if name in a.parameters and a.name != algo]
            raise UsageError(
                f"{PARAMETERS[name].flag} means nothing to {who} "
                f"(it is a parameter of {', '.join(users)})"
            )
    settings: dict[str, Any] = {"algo": algo, "loss": loss}
    for name, default in defaults.items():
        value = PARAMETERS[name].check(given[name]) if name in given else default
        settings[name] = default if value is None else value
    for name, reason in idle(settings).items():
        if name in given and settings[name] != defaults[name]:
            raise UsageError(
                f"{PARAMETERS[name].flag} {given[name]} has no effect with {reason}; leave it out"
            )
    refuse_nonsense(settings, given)
    return settings


def taken(algo: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of an algorithm, and of its first phase if it has one, with their defaults."""
    entry = ALGORITHMS[algo]
    names, defaults = list(entry.parameters), dict(entry.defaults)
    if algo == "optimalsl":
        first = phase_one(given)
        names += [name for name in first.parameters if name not in names]
        inner = {k: v for k, v in first.defaults.items() if k not in entry.parameters}
        defaults = {**inner, **defaults, "growing": True}  # ftrl too minimises the mean loss
        if "stiffness" in first.parameters:  # orda and ssg go astray with less
            defaults["l2"] = first.defaults["l2"]
        if first.name not in ("sgd", "asgd"):  # the averages of SGD mean nothing to others
            names = [n for n in names if n in first.parameters or n not in AVERAGED]
    return {name: defaults.get(name, PARAMETERS[name].default) for name in names}


def idle(settings: Mapping[str, Any]) -> dict[str, str]:
    """Parameters that have no effect beside the others: each with what makes it idle."""
    found = {}
    algo, kind = settings["algo"], settings.get("regularizer")
    if kind:
        why = f"--regularizer {kind}"
        if kind == "kl":
            why += ", whose weights are non-negative and add up to the radius"
        own = () if algo == "optimalsl" else ("l1", "l2")  # its objective has them in any case
        for name in (*own, "gamma", "enhanced", "damping", "radius"):
            if name not in REGULARIZERS[kind]:
                found[name] = why
    if "t0" in settings and "schedule" in settings:  # fobos
        steps = settings["schedule"]
        for name in ("eta",) if steps == "inverse" else ("t0", "step_cap"):
            found[name] = f"--schedule {steps}"
    if settings.get("weights") == "linear":
        name = "phase_one_alpha" if algo == "optimalsl" else "alpha"
        found[name] = "--weights linear, which averages the whole run"
    if "p" in settings and settings["p"] is not None:
        found["p_factor"] = found["dimension"] = f"--p {settings['p']:g}"
    elif "p" in settings and not settings["dimension"]:
        found["p_factor"] = "an unknown --dimension"
    return found


# What each regulariser of rda reads.
REGULARIZERS = {
    "l1l2": ("l1", "l2", "damping"),
    "l1": ("l1", "gamma", "enhanced"),
    "l2": ("l2", "damping"),
    "box": ("gamma", "radius"),
    "l2ball": ("gamma", "radius"),
    "l1ball": ("gamma", "radius"),
    "kl": ("gamma", "radius"),
}

STEADIER = {
    "eta": "lower --eta",
    "gamma": "raise --gamma",
    "l2": "raise --l2",
    "t0": "leave --t0 at auto",
    "step_cap": "leave --step-cap at auto",
    "damping": "leave --damping at auto",
    "stiffness": "raise --stiffness",
    "radius": "lower --radius",
}


def steadier(settings: Mapping[str, Any]) -> str:
    """What a user can do about learning that diverges, in the flags of this very algorithm."""
    without = idle(settings)
    advice = [text for name, text in STEADIER.items() if name in settings and name not in without]
    return " or ".join(filter(None, [", ".join(["scale the values", *advice[:-1]]), *advice[-1:]]))


def checked_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that `resolve` made and a file kept; each must still be one that it lets pass."""
    found = {name: settings[name] for name in ("algo", "loss")}
    refuse_loss(ALGORITHMS[found["algo"]], found["loss"])
    for name, value in settings.items():
        if name not in found:
            found[name] = value if value is None else PARAMETERS[name].check(value)
    refuse_nonsense(found, {})
    return found


def refuse_loss(entry: Algorithm, loss: str) -> None:
    """A loss that an algorithm cannot work with, refused with what it takes."""
    if entry.classifies_only and not LOSSES[loss].classifies:
        raise UsageError(
            f"--algo {entry.name} learns two classes; --loss {loss} is for regression: use one of "
            + ", ".join(e.name for e in LOSSES.values() if e.classifies)
        )
    if entry.losses is not None and loss not in entry.losses:
        raise UsageError(
            f"--algo {entry.name} cannot minimise --loss {loss}; it takes {', '.join(entry.losses)}"
        )


# Parameters of the averaged SGD that is phase one by default.
AVERAGED = ("t0", "step_cap", "l1_step", "weights", "phase_one_alpha")


def phase_one(given: Mapping[str, Any]) -> Algorithm:
    """The algorithm of the first phase: any that streams, but for optimalsl itself."""
    parameter = PARAMETERS["phase_one"]
    return ALGORITHMS[parameter.check(given.get("phase_one", parameter.default))]


# Their steps are multiples of 1/l2.
DIVIDE_BY_L2 = {"sgd", "asgd", "lastsl", "averagesl", "orda", "ssg", "epochgd"}

# Regularisers of rda whose iterates are summed over a gap without walking through it.
HAVE_A_MEAN = ("l1l2", "l1", "l2")


def refuse_nonsense(settings: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Pairs of settings that make no sense together, each with its sentence."""
    inner = settings.get("phase_one", settings["algo"])
    if "evidence" in given and "evidence" in settings and settings.get("l1", 0.0) > 0.0:
        raise UsageError("--l1 and --evidence are two penalties for adaptivesl; give one of them")
    schedule = settings.get("schedule")
    divides = inner in DIVIDE_BY_L2 or (inner == "fobos" and schedule == "inverse")
    if divides and settings["l2"] < 1e-15:
        raise UsageError(
            f"--l2 {settings['l2']:g}: expected a number >= 1e-15, since {inner} has steps in "
            "units of 1/l2"
        )
    if settings.get("point") == "mean" and settings["regularizer"] not in HAVE_A_MEAN:
        raise UsageError(
            f"--point mean with --regularizer {settings['regularizer']}: the mean is kept for "
            f"{', '.join(HAVE_A_MEAN)} only; leave --point at last"
        )
    if inner == "fobos" and not divides and settings["eta"] * settings["l2"] >= 1.0:
        raise UsageError(
            f"--eta {settings['eta']:g} with --l2 {settings['l2']:g}: eta * l2 must stay below 1, "
            "or the ridge overshoots"
        )


def engine_spec(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the engine needs to know, from resolved settings."""
    algo, loss = settings["algo"], settings["loss"]
    if ALGORITHMS[algo].batch:
        return {
            "kernel": algo,
            "loss": loss,
            "l1": settings.get("l1", 0.0),
            "iterations": settings["iterations"],
            "seed": settings.get("seed", 0),
            "nonzeros": settings.get("nonzeros", 0),
            "gamma": settings.get("stiffness"),
            "bias": settings["bias"],
            "max_features": 0,
        }
    inner = settings["phase_one"] if algo == "optimalsl" else algo
    kernel, warmup, scalars = KERNELS[inner](settings)
    smoothness = settings.get("smoothness")
    if algo == "adaptivesl" and smoothness is None:
        smoothness = 10.0  # in units of its own metric
    alpha = settings.get("alpha", 0.3)
    # rda has a ridge with two of its regularisers only
    ridge = algo != "rda" or settings["regularizer"] in ("l1l2", "l2")
    return {
        "kernel": kernel,
        "scalars": scalars,
        "warmup": warmup,
        "two_phases": algo == "optimalsl",
        "point": "last" if algo in ("sgd", "lastsl") else "mean",
        "converts": algo in ("adaptivesl", "averagesl", "optimalsl", "lastsl"),
        "loss": loss,
        "l1": settings.get("l1", 0.0),
        "l2": settings.get("l2", 0.0) if ridge else 0.0,
        "alpha": alpha,
        "phase_one_alpha": alpha
        if settings.get("phase_one_alpha") is None
        else settings["phase_one_alpha"],
        "total": settings.get("total", 0),
        "evidence": settings.get("evidence", 0.0),
        "smoothness": smoothness,
        "bias": settings["bias"],
        "sweeps": inner in SWEEPS or settings.get("regularizer") in SWEEPS,
        "shared": algo == "ftrl" and not settings["growing"],
        "max_features": settings["max_features"],
    }


# These algorithms and regularisers of rda look at all features, by rising id.
SWEEPS = {"ssg", "smidas", "l1ball", "l2ball", "kl"}
BEYOND = 1e300  # no bound; finite, since a state must be
STEPS = {"constant": 0, "sqrt": 1, "inverse": 2}  # as the engine numbers them

# ---- from settings to (kernel, what the first examples are for, scalars of the kernel) -----------

Kernel = tuple[str, str | None, dict[str, Any]]


def _sgd(settings: Mapping[str, Any], kernel: str) -> Kernel:
    """SGD with steps 1/(l2 (t + t0)) under one of three averages."""
    t0 = settings.get("t0")
    cap = settings.get("step_cap", "auto")
    step = {
        "t0": t0 or 0.0,
        "l2": settings["l2"],
        "c": settings["l1"] / settings["l2"],
        "subgradient": settings.get("l1_step") == "subgradient",
        # An explicit t0 asks for the printed schedule: then nothing shortens a step unless told.
        "capped": cap == "on" or (cap == "auto" and t0 is None),
    }
    return kernel, "t0" if t0 is None else None, {"step": step}


def _averaged(settings: Mapping[str, Any]) -> Kernel:
    return _sgd(settings, settings["weights"])


def _adaptive(settings: Mapping[str, Any]) -> Kernel:
    squared = settings["loss"] == "squared"
    eta = settings["eta"] if settings["eta"] is not None else (3.0 if squared else 8.0)
    scalars = {"evidence": settings["evidence"], "l1": settings["l1"], "eta": eta}
    return "adaptive", "labels" if squared else None, scalars


def _forward(settings: Mapping[str, Any]) -> Kernel:
    fobos = "fobos" in (settings["algo"], settings.get("phase_one"))
    if fobos and settings["schedule"] == "inverse":
        return _sgd(settings, "sgd")
    theta = settings.get("theta")
    return (
        "forward",
        None,
        {
            "l1": settings["l1"],
            "l2": settings["l2"] if fobos else 0.0,  # tg has no ridge
            "eta": settings["eta"],
            "steps": STEPS[settings["schedule"]],
            "every": settings.get("truncate_every", 1),
            "theta": BEYOND if theta is None else theta,
            "P": 1.0,
        },
    )


def _dual(settings: Mapping[str, Any]) -> Kernel:
    kinds = {"l1": 0, "l1l2": 1, "l2": 1, "box": 2, "l2ball": 3, "l1ball": 4, "kl": 5}
    kind, damping = settings["regularizer"], settings["damping"]
    averages = settings["point"] == "mean"
    return (
        "dual_mean" if averages else "dual",
        "damping" if damping is None and kinds[kind] == 1 else None,
        {
            "kind": kinds[kind],
            "averages": averages,
            "l1": 0.0 if kind == "l2" else settings["l1"],
            "l2": settings["l2"],
            "gamma": settings["gamma"],
            "enhanced": settings["enhanced"],
            "damping": damping or 0.0,
            "radius": settings["radius"],
            "log_total": -BEYOND,
            "bound": BEYOND,
        },
    )


def _plain(kernel: str, *names: str) -> Any:
    """A kernel whose scalars are parameters of the same name."""
    return lambda settings: (kernel, None, {name: settings[name] for name in names})


def _orda(settings: Mapping[str, Any]) -> Kernel:
    scalars = {
        "l1": settings["l1"],
        "l2": settings["l2"],
        "Gamma": settings["stiffness"] or 0.0,
        "ssg": "ssg" in (settings["algo"], settings.get("phase_one")),
    }
    return "orda", "Gamma" if settings["stiffness"] is None else None, scalars


def _epoch(settings: Mapping[str, Any]) -> Kernel:
    return "epoch", "epoch", {"l1": settings["l1"], "l2": settings["l2"]}


def _perceptron(settings: Mapping[str, Any]) -> Kernel:
    scalars = {name: settings[name] for name in ("eta", "threshold", "margin", "density")}
    return "perceptron", None, {**scalars, "stops": settings["at_bound"] == "stop"}


def _mirror(settings: Mapping[str, Any]) -> Kernel:
    p = settings["p"]
    if p is None:
        dimension = settings["dimension"]
        p = max(2.0, settings["p_factor"] * math.log(dimension)) if dimension else 10.0
    scalars = {"l1": settings["l1"], "eta": settings["eta"], "p": p}
    return "mirror", None, {**scalars, "exact": settings["shrinks"] == "all"}


def _ball(settings: Mapping[str, Any]) -> Kernel:
    scalars = {"radius": settings["radius"], "eta": settings["eta"]}
    return "ball", None, {**scalars, "steps": STEPS[settings["schedule"]]}


KERNELS: dict[str, Any] = {
    "adaptivesl": _adaptive,
    "averagesl": _averaged,
    "lastsl": _averaged,
    "asgd": _averaged,
    "sgd": lambda settings: _sgd(settings, "sgd"),
    "fobos": _forward,
    "tg": _forward,
    "rda": _dual,
    "adagrad-rda": _plain("adagrad", "l1", "l2", "eta", "delta"),
    "ftrl": _plain("ftrl", "l1", "l2", "eta", "beta", "growing"),
    "orda": _orda,
    "ssg": _orda,
    "epochgd": _epoch,
    "smidas": _mirror,
    "perceptron": _perceptron,
    "l1ball": _ball,
}


def learner_class(settings: Mapping[str, Any], multiclass: bool = False) -> type[Any]:
    """The class that learns so; all have the same surface."""
    batch = ALGORITHMS[settings["algo"]].batch
    if multiclass:
        from streamlearn.engine.onevsrest import BatchOneVsRest, OneVsRest

        return BatchOneVsRest if batch else OneVsRest
    if batch:
        from streamlearn.engine.batch import BatchLearner

        return BatchLearner
    return Learner


def make_learner(settings: Mapping[str, Any]) -> Learner:
    """A fresh learner for resolved settings."""
    return learner_class(settings)(engine_spec(settings))


def make_multiclass(settings: Mapping[str, Any], classes: Sequence[float] | None = None) -> Any:
    """A fresh learner of every class against the rest; `classes` are all there are, if given."""
    return learner_class(settings, multiclass=True)(engine_spec(settings), classes)
