"""The exception tree; each class carries the exit code the command line ends with (sysexits)."""

from __future__ import annotations

from collections.abc import Iterable

MANY = 10**15  # more than anybody counts to; a larger number is an error wherever one is given


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a name that is none: the closest known word, or all of them."""
    from difflib import get_close_matches  # seldom needed

    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else "known: " + ", ".join(known)


class StreamlearnError(Exception):
    """Anything that streamlearn says no to, with a sentence for the user."""

    exit_code = 70


class UsageError(StreamlearnError):
    """A flag, a parameter or a combination of them that makes no sense."""

    exit_code = 64


class DataError(StreamlearnError):
    """Input that cannot be learned from."""

    exit_code = 65


class BadLine(DataError):
    """One line of input that is not a legal example: where, what, and what is accepted."""

    def __init__(self, name: str, line: int, column: int, what: str) -> None:
        self.name, self.line, self.column, self.what = name, line, column, what
        super().__init__(f"{name}:{line}:{column}: {what}")


class NoInput(StreamlearnError):
    """A file that is not there or cannot be read."""

    exit_code = 66


class CannotCreate(StreamlearnError):
    """An output that cannot be written."""

    exit_code = 73


class IoFailure(StreamlearnError):
    """Reading or writing broke off half way."""

    exit_code = 74


class Damaged(StreamlearnError):
    """A state folder in which something that was acknowledged is missing or spoilt."""

    exit_code = 65


class Unavailable(StreamlearnError):
    """A daemon that does not answer, or an address that cannot be bound."""

    exit_code = 69


class Locked(StreamlearnError):
    """A state folder that another daemon is using."""

    exit_code = 75


class ConfigError(StreamlearnError):
    """A setting from a file or the environment that is not legal."""

    exit_code = 78


class Divergence(StreamlearnError):
    """Learning left the finite numbers, or an example would have made it do so."""

    exit_code = 65

    def __init__(self, example: int, line: int, what: str) -> None:
        self.example, self.line, self.what = example, line, what
        place = f" (line {line})" if line else ""
        super().__init__(f"example {example}{place}: {what}")


class ModelError(StreamlearnError):
    """A model or state file that is damaged, foreign or of an unknown version."""

    exit_code = 65
