"""The settings of learning, and of a daemon: tables made from the catalogue."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from streamlearn.catalogue import (
    ALGORITHMS,
    DEFAULT_ALGORITHM,
    DEFAULT_LOSS,
    LOSSES,
    PARAMETERS,
    Parameter,
)
from streamlearn.cli.settings import (
    CACHE,
    CALL,
    PROGRESS,
    READING,
    Setting,
    one_of,
    read_bytes,
    read_count,
    read_positive,
    read_seconds,
    read_switch,
    read_text,
)
from streamlearn.durability import Durability
from streamlearn.errors import UsageError, nearest
from streamlearn.ports import FEED_PORT, PUBLISH_PORT, REQUEST_PORT
from streamlearn.training import MAX_CLASSES


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


def read_threads(text: str) -> int:
    """1, 2, or 0 for auto: 2 where there are processors for them."""
    if text not in ("1", "2", "auto"):
        raise ValueError("expected 1, 2 or auto")
    return 0 if text == "auto" else int(text)


def read_rate(text: str) -> int:
    """Bytes a second; 0 is any number."""
    return 0 if text == "0" else read_bytes(text)


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
    Setting(
        "own_core",
        read_switch,
        "while there is much to learn, the learning thread has one of the processor's cores for "
        "itself, and the other threads share the rest",
        True,
        "",
        switch=True,
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
EVERY = {**FIT, **SERVE, **CALL}
