"""Settings: defaults < file < environment < flags. Nothing else reads them.

A setting is an object in a table; flags, environment variables (STREAMLEARN_NAME), keys of the TOML
file and their checks all come from it. Here are the tables that many commands share; those that
speak of algorithms are in cli/learning.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

from streamlearn.errors import MANY, ConfigError, NoInput, UsageError, nearest
from streamlearn.ports import DEFAULT_ENDPOINT
from streamlearn.record import Record

PREFIX = "STREAMLEARN_"
# Read by the build, and by the crash tests.
NOT_SETTINGS = {"STREAMLEARN_SANITIZE", "STREAMLEARN_FAILPOINT"}


class Setting(Record, frozen=True):
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


def read_bytes(text: str) -> int:
    """A count of bytes, such as 16M."""
    units = {"k": 10, "m": 20, "g": 30}
    shift = units.get(text[-1:].lower(), 0)
    try:
        return read_positive(text[:-1] if shift else text) << shift
    except ValueError:
        raise ValueError("expected a number of bytes, such as 65536, 64k or 16M") from None


def read_seconds(text: str) -> float:
    """A time, such as 30s or 0.5s; 0 is never."""
    try:
        seconds = float(text.removesuffix("s"))
        if 0.0 <= seconds < math.inf:
            return seconds
    except ValueError:
        pass
    raise ValueError("expected a number of seconds, such as 30s; 0 is never")


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
CALLING = (
    Setting("connect", read_text, "endpoint of the daemon", DEFAULT_ENDPOINT, "ENDPOINT"),
    Setting(
        "timeout", read_seconds, "how long a silent daemon is waited for", "30s", "SECONDS"
    ),
    Setting("key", read_text, "our secret file, for a daemon with --keys", None, "FILE"),
)
CALL = {s.name: s for s in CALLING}


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


def collect(
    args: argparse.Namespace, table: Mapping[str, Setting], known: Collection[str] = ()
) -> dict[str, Any]:
    """What the user has said, by file, environment and flags, each over the one before.

    known: the names of all settings there are; an environment variable for another one is then
    refused. Commands that leave it out take what is theirs.
    """
    given: dict[str, Any] = {}
    if getattr(args, "config", None):
        given.update(from_file(args.config, table))
    given.update(from_environment(os.environ, table, known))
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
        with open(path, "rb") as file:
            body = tomllib.load(file)
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
    environment: Mapping[str, str], table: Mapping[str, Setting], known: Collection[str]
) -> dict[str, Any]:
    given = {}
    for variable, text in environment.items():
        if not variable.startswith(PREFIX) or variable in NOT_SETTINGS:
            continue
        key = variable[len(PREFIX) :].lower()
        if known and key not in known:
            raise ConfigError(f"{variable}: no such setting; {nearest(key, table)}")
        if key in table:
            try:
                given[key] = table[key].read(text)
            except ValueError as error:
                raise ConfigError(f"{variable}={text}: {error}") from None
    return given
