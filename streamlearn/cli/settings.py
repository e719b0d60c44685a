"""The table of settings of a run: defaults < file < environment < flags. Nothing else reads them.

A setting is an object in a table; flags, environment variables (STREAMLEARN_NAME), keys of the TOML
file and their checks all come from it.
"""

from __future__ import annotations

import argparse
import math
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamlearn.catalogue import (
    ALGORITHMS,
    DEFAULT_ALGORITHM,
    DEFAULT_LOSS,
    LOSSES,
    PARAMETERS,
    Parameter,
    nearest,
)
from streamlearn.errors import ConfigError, NoInput, UsageError

PREFIX = "STREAMLEARN_"
NOT_SETTINGS = {"STREAMLEARN_SANITIZE"}  # read by the build


@dataclass(frozen=True)
class Setting:
    """One setting: how its text is read, what it means, what it is by default."""

    name: str
    read: Callable[[str], Any]  # from a flag or the environment; raises ValueError
    help: str
    default: Any
    metavar: str
    switch: bool = False  # a flag without a value: --name / --no-name

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


def read_pair(text: str) -> tuple[float, float]:
    """NEG,POS"""
    try:
        negative, positive = (float(part) for part in text.split(","))
    except ValueError:
        raise ValueError("expected two numbers NEG,POS, such as 2,3") from None
    if not (math.isfinite(negative) and math.isfinite(positive)):
        raise ValueError("expected two finite numbers")
    if negative == positive:
        raise ValueError("the two classes need two different labels")
    return negative, positive


def read_policy(text: str) -> str:
    if text in ("stop", "skip") or (text.startswith("quarantine=") and text != "quarantine="):
        return text
    raise ValueError("expected stop, skip or quarantine=FILE")


def read_count(text: str) -> int:
    try:
        if (count := int(text)) >= 0:
            return count
    except ValueError:
        pass
    raise ValueError("expected a whole number >= 0")


def read_positive(text: str) -> int:
    if (count := read_count(text)) == 0:
        raise ValueError("expected a whole number >= 1")
    return count


def one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"expected {', '.join(words)}")
        return text

    return read


def known(table: Mapping[str, Any]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in table:
            raise ValueError(f"no such name; {nearest(text, table)}")
        return text

    return read


def parameter_setting(parameter: Parameter) -> Setting:
    """A catalogue parameter as a setting; only its text form is new."""

    def read(text: str) -> Any:
        value: Any = text
        if parameter.kind is bool:
            value = {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
        elif parameter.kind is not str and text != "auto":
            try:
                value = float(text) if parameter.kind is float else int(text)
            except ValueError:
                raise ValueError(f"expected {parameter.range}") from None
        try:
            return parameter.check(value)
        except UsageError:
            raise ValueError(f"expected {parameter.range}") from None

    about = parameter.help + (f"; auto: {parameter.auto}" if parameter.auto else "")
    default = "auto" if parameter.auto else parameter.default
    return Setting(
        parameter.name,
        read,
        about,
        default,
        "|".join(parameter.choices) or ("N" if parameter.kind is int else "X"),
        switch=parameter.kind is bool,
    )


RUN = (
    Setting("algo", known(ALGORITHMS), "the algorithm", DEFAULT_ALGORITHM, "NAME"),
    Setting("loss", known(LOSSES), ", ".join(LOSSES), DEFAULT_LOSS, "NAME"),
    Setting(
        "labels", read_pair, "the labels of the two classes, if not -1,+1 or 0,1", None, "NEG,POS"
    ),
    Setting(
        "normalize", one_of("none", "l2"), "l2 scales each row to unit length", "none", "none|l2"
    ),
    Setting(
        "max_nonzeros",
        read_count,
        "keep at most this many weights in the model, the strongest; equals go together",
        None,
        "K",
    ),
    Setting("passes", read_positive, "how often to read the files", 1, "N"),
)
READING = (
    Setting(
        "on_error",
        read_policy,
        "a bad line: stop, skip it, or set it aside",
        "stop",
        "stop|skip|quarantine=FILE",
    ),
    Setting("max_errors", read_count, "stop after more bad lines than this", None, "N"),
)
PROGRESS = (
    Setting(
        "progress",
        one_of("table", "bar", "jsonl", "none"),
        "what to show on stderr",
        "table",
        "table|bar|jsonl|none",
    ),
)
LEARNING = tuple(parameter_setting(p) for p in PARAMETERS.values())
FIT = {s.name: s for s in (*RUN, *LEARNING, *READING, *PROGRESS)}


def add_flags(parser: argparse._ActionsContainer, settings: tuple[Setting, ...]) -> None:
    """Flags for settings; what is not given stays out of the namespace."""
    for setting in settings:
        shown = "" if setting.default is None else f" (default: {setting.default})"
        if setting.switch:
            parser.add_argument(
                setting.flag,
                action=argparse.BooleanOptionalAction,
                default=argparse.SUPPRESS,
                help=setting.help,
            )
        else:
            parser.add_argument(
                setting.flag,
                metavar=setting.metavar,
                default=argparse.SUPPRESS,
                help=(setting.help + shown).replace("%", "%%"),
            )


def collect(args: argparse.Namespace, table: Mapping[str, Setting]) -> dict[str, Any]:
    """What the user has said, by file, environment and flags, each over the one before."""
    given: dict[str, Any] = {}
    if getattr(args, "config", None):
        given.update(from_file(args.config, table))
    given.update(from_environment(os.environ, table))
    for name, setting in table.items():
        if hasattr(args, name):
            text = getattr(args, name)
            try:
                given[name] = text if isinstance(text, bool) else setting.read(text)
            except ValueError as error:
                raise UsageError(f"{setting.flag} {text}: {error}") from None
    return given


def from_file(path: str, table: Mapping[str, Setting]) -> dict[str, Any]:
    try:
        body = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise NoInput(f"{path}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise NoInput(f"{path}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from error
    given = {}
    for key, value in body.items():
        if key not in table:
            raise ConfigError(f"{path}: unknown setting {key!r}; {nearest(key, table)}")
        # One reader for all three sources: TOML's true, 0.1 and "auto" have the same spelling.
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if isinstance(value, list | dict):
            raise ConfigError(f"{path}: {key}: expected a single value")
        try:
            given[key] = table[key].read(text)
        except ValueError as error:
            raise ConfigError(f"{path}: {key} = {value!r}: {error}") from None
    return given


def from_environment(
    environment: Mapping[str, str], table: Mapping[str, Setting]
) -> dict[str, Any]:
    given = {}
    for variable, text in environment.items():
        if not variable.startswith(PREFIX) or variable in NOT_SETTINGS:
            continue
        key = variable[len(PREFIX) :].lower()
        if key not in FIT and table is FIT:  # other commands take what is theirs
            raise ConfigError(f"{variable}: no such setting; {nearest(key, FIT)}")
        if key in table:
            try:
                given[key] = table[key].read(text)
            except ValueError as error:
                raise ConfigError(f"{variable}={text}: {error}") from None
    return given
