"""The table of settings of a run: defaults < file < environment < flags. Nothing else reads them.

A setting is an object in a table; flags, environment variables (STREAMLEARN_NAME), keys of the TOML
file and their checks all come from it.
"""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamlearn.catalogue import (
    ALGORITHMS,
    DEFAULT_ALGORITHM,
    DEFAULT_LOSS,
    LOSSES,
    MANY,
    PARAMETERS,
    Parameter,
    nearest,
)
from streamlearn.durability import Durability
from streamlearn.errors import ConfigError, NoInput, UsageError
from streamlearn.ports import DEFAULT_ENDPOINT, FEED_PORT, PUBLISH_PORT, REQUEST_PORT
from streamlearn.training import MAX_CLASSES

PREFIX = "STREAMLEARN_"
# Read by the build, and by the crash tests.
NOT_SETTINGS = {"STREAMLEARN_SANITIZE", "STREAMLEARN_FAILPOINT"}


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


def read_labels(text: str) -> tuple[float, ...]:
    """NEG,POS; or all of many classes"""
    try:
        labels = tuple(float(part) for part in text.split(","))
    except ValueError:
        labels = ()
    if len(labels) < 2:
        raise ValueError("expected two numbers NEG,POS, such as 2,3, or more with --multiclass")
    if not all(map(math.isfinite, labels)):
        raise ValueError("expected finite numbers")
    if len({*labels}) < len(labels):
        raise ValueError("the classes need different labels")
    return labels


def read_switch(text: str) -> bool:
    """true or false"""
    words = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in words:
        raise ValueError("expected true or false")
    return words[text.lower()]


def read_policy(text: str) -> str:
    if text in ("stop", "skip") or (text.startswith("quarantine=") and text != "quarantine="):
        return text
    raise ValueError("expected stop, skip or quarantine=FILE")


def read_count(text: str) -> int:
    try:
        if 0 <= (count := int(text)) <= MANY:
            return count
    except ValueError:
        pass
    raise ValueError(f"expected a whole number >= 0 and <= {MANY:g}")


def read_threads(text: str) -> int:
    """1, 2, or 0 for auto: 2 where there are processors for them."""
    if text not in ("1", "2", "auto"):
        raise ValueError("expected 1, 2 or auto")
    return 0 if text == "auto" else int(text)


def read_bytes(text: str) -> int:
    """A count of bytes, such as 16M."""
    units = {"k": 10, "m": 20, "g": 30}
    shift = units.get(text[-1:].lower(), 0)
    try:
        return read_positive(text[:-1] if shift else text) << shift
    except ValueError:
        raise ValueError("expected a number of bytes, such as 65536, 64k or 16M") from None


def read_rate(text: str) -> int:
    """Bytes a second; 0 is any number."""
    return 0 if text == "0" else read_bytes(text)


def read_seconds(text: str) -> float:
    """A time, such as 30s or 0.5s; 0 is never."""
    try:
        seconds = float(text.removesuffix("s"))
        if 0.0 <= seconds < math.inf:
            return seconds
    except ValueError:
        pass
    raise ValueError("expected a number of seconds, such as 30s; 0 is never")


def read_every(text: str) -> tuple[int, float]:
    """(examples, 0) for 10000; (0, seconds) for 1s."""
    try:
        if text.endswith("s") and (seconds := read_seconds(text)) > 0.0:
            return 0, seconds
        return read_positive(text), 0.0
    except ValueError:
        raise ValueError("expected examples, such as 10000, or seconds, such as 1s") from None


def read_durability(text: str) -> Durability:
    policy, _, seconds = text.partition("=")
    try:
        if policy == "interval" and (span := read_seconds(seconds)) > 0.0:
            return Durability(policy, span)
    except ValueError:
        pass
    if text not in ("always", "none"):
        raise ValueError("expected always, interval=SECONDS (such as interval=1s) or none")
    return Durability(text)


def read_endpoints(text: str) -> list[str]:
    endpoints = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"(tcp://.+:(\d+|\*)|ipc://.+)", part) for part in endpoints):
        raise ValueError("expected tcp://HOST:PORT or ipc://PATH, several with commas between")
    return endpoints


def read_text(text: str) -> str:
    if not text:
        raise ValueError("expected a name")
    return text


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


def defaults_in_words(parameter: Parameter) -> str:
    """The default, and whose default is another one."""
    words = [as_typed("auto" if parameter.auto else parameter.default)]
    others = {a.name: a.defaults[parameter.name] for a in ALGORITHMS.values()
              if a.defaults.get(parameter.name, parameter.default) != parameter.default}
    return "; ".join([*words, *(f"{name} {as_typed(value)}" for name, value in others.items())])


def as_typed(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower()


def parameter_setting(parameter: Parameter) -> Setting:
    """A catalogue parameter as a setting; only its text form is new."""

    def read(text: str) -> Any:
        value: Any = text
        if parameter.kind is bool:
            return read_switch(text)
        if parameter.kind is not str and text != "auto":
            try:
                value = float(text) if parameter.kind is float else int(text)
            except ValueError:
                raise ValueError(f"expected {parameter.range}") from None
        try:
            return parameter.check(value)
        except UsageError:
            raise ValueError(f"expected {parameter.range}") from None

    about = parameter.help + (f"; auto: {parameter.auto}" if parameter.auto else "")
    return Setting(
        parameter.name,
        read,
        about,
        defaults_in_words(parameter),
        "|".join(parameter.choices) or ("N" if parameter.kind is int else "X"),
        switch=parameter.kind is bool,
    )


RUN = (
    Setting("algo", known(ALGORITHMS), "the algorithm", DEFAULT_ALGORITHM, "NAME"),
    Setting("loss", known(LOSSES), ", ".join(LOSSES), DEFAULT_LOSS, "NAME"),
    Setting(
        "labels",
        read_labels,
        "the labels of the two classes, if not -1,+1 or 0,1; with --multiclass all there are",
        None,
        "NEG,POS",
    ),
    Setting(
        "multiclass",
        read_switch,
        "labels are whole numbers, each a class; one sparse model for each against the rest",
        False,
        "",
        switch=True,
    ),
    Setting(
        "max_classes",
        read_positive,
        "so many classes there may be with --multiclass; one more is a bad line",
        MAX_CLASSES,
        "N",
    ),
    Setting(
        "normalize", one_of("none", "l2"), "l2 scales each row to unit length", "none", "none|l2"
    ),
    Setting(
        "max_nonzeros",
        read_count,
        "keep at most this many weights in the model, over all its classes, the strongest; "
        "equals go together",
        None,
        "K",
    ),
    Setting("passes", read_positive, "how often to read the files", 1, "N"),
    Setting(
        "threads",
        read_threads,
        "2: one thread reads and parses while the other learns; the model is the same",
        "auto",
        "1|2|auto",
    ),
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
CACHE = (
    Setting(
        "cache",
        read_switch,
        "keep what was parsed beside each file (FILE.slcache), and read that the next time as long "
        "as the file is the same; the model is the same",
        False,
        "",
        switch=True,
    ),
    Setting("cache_dir", read_text, "the same, with all caches in this folder", None, "DIR"),
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
FIT = {s.name: s for s in (*RUN, *LEARNING, *READING, *CACHE, *PROGRESS)}

SERVED = tuple(s for s in RUN if s.name not in ("passes", "threads"))
DAEMON = (
    Setting("state", read_text, "folder that keeps what was learned", None, "DIR"),
    Setting(
        "bind",
        read_endpoints,
        "where to answer requests, commas between",
        f"tcp://127.0.0.1:{REQUEST_PORT}, and ipc in the user's run folder",
        "ENDPOINTS",
    ),
    Setting(
        "bind_feed",
        read_endpoints,
        "where to take lines that are not acknowledged",
        f"tcp://127.0.0.1:{FEED_PORT}, and ipc",
        "ENDPOINTS",
    ),
    Setting(
        "bind_publish",
        read_endpoints,
        "where to publish models",
        f"tcp://127.0.0.1:{PUBLISH_PORT}, and ipc",
        "ENDPOINTS",
    ),
    Setting(
        "keys",
        read_text,
        "folder of keys (see streamlearn keys): only those on its list may talk to the daemon",
        None,
        "DIR",
    ),
    Setting(
        "publish_every",
        read_every,
        "make the newest model the served one after so many examples (10000) or seconds (1s)",
        "1s",
        "N|SECONDS",
    ),
    Setting(
        "durability",
        read_durability,
        "when a batch is on disk: before it is acked, within so many seconds, or when the system "
        "likes",
        "always",
        "always|interval=SECONDS|none",
    ),
    Setting(
        "journal_bytes", read_bytes, "a journal beyond this asks for a checkpoint", "256M", "BYTES"
    ),
    Setting(
        "checkpoint_every", read_seconds, "write the state folder; 0 is never", "60s", "SECONDS"
    ),
    Setting(
        "queue_bytes", read_bytes, "what may wait to be learned; beyond it: BUSY", "64M", "BYTES"
    ),
    Setting("max_message", read_bytes, "largest request that is taken", "16M", "BYTES"),
    Setting(
        "max_clients", read_count, "clients served at a time; 0 is any number", "4096", "N"
    ),
    Setting(
        "max_rate",
        read_rate,
        "what each client may send in a second; beyond it: BUSY; 0 is any amount",
        "0",
        "BYTES",
    ),
    Setting("log", one_of("text", "json"), "form of the log on stderr", "text", "text|json"),
    Setting(
        "log_level",
        one_of("debug", "info", "warning", "error"),
        "how much to log",
        "info",
        "LEVEL",
    ),
)
SERVE = {s.name: s for s in (*SERVED, *LEARNING, *DAEMON)}
CALLING = (
    Setting("connect", read_text, "endpoint of the daemon", DEFAULT_ENDPOINT, "ENDPOINT"),
    Setting(
        "timeout", read_seconds, "how long a silent daemon is waited for", "30s", "SECONDS"
    ),
    Setting("key", read_text, "our secret file, for a daemon with --keys", None, "FILE"),
)
CALL = {s.name: s for s in CALLING}
EVERY = {**FIT, **SERVE, **CALL}


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
    import tomllib  # most runs have no such file

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
        if key not in EVERY and table in (FIT, SERVE):  # other commands take what is theirs
            raise ConfigError(f"{variable}: no such setting; {nearest(key, table)}")
        if key in table:
            try:
                given[key] = table[key].read(text)
            except ValueError as error:
                raise ConfigError(f"{variable}={text}: {error}") from None
    return given
