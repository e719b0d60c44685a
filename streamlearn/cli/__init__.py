"""The command line: finds the command, turns errors into one line and an exit code.

Each command is a thin module with `arguments(parser)` and `run(args)`; only the one that was asked
for is imported, because start-up time matters in a pipe.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import io
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from streamlearn._version import __version__
from streamlearn.cli.stderr import say
from streamlearn.errors import IoFailure, StreamlearnError, UsageError

COMMANDS = {
    "fit": "learn a model from libsvm text (files or a pipe)",
    "predict": "one prediction a line for libsvm text",
    "score": "loss, error and AUC of a model on labelled text",
    "compare": "many algorithms on one stream, in one table or picture",
    "snapshot": "a model from a saved state or a daemon, as sparse as you like",
    "inspect": "what a model file holds",
    "top": "the largest weights of a model",
    "export": "a model for LIBLINEAR, VW, numpy, JSON or text",
    "algos": "the algorithms, or one of them explained",
    "check": "validate data files: rows, ids, labels, oddities",
    "serve": "the daemon: learns from a socket, answers predict and snapshot",
    "send": "feed a daemon from files or a pipe",
    "status": "what a daemon is doing",
    "follow": "keep a model file up to date with a daemon",
    "ping": "whether a daemon answers, and how fast",
    "checkpoint": "have a daemon write its state folder",
    "keys": "who may talk to a daemon, and what each may do there",
    "doctor": "verify a daemon's state folder, and repair it",
    "replay": "a model from a daemon's state folder, offline",
    "shutdown": "have a daemon learn what is queued, save and end",
}

EXAMPLES = """examples:
  cat data.svm | streamlearn fit                 learn; writes model.sl
  streamlearn fit train.svm.gz -o spam.sl        from a compressed file
  streamlearn fit --multiclass digits.svm        more than two classes
  streamlearn predict -m spam.sl new.svm         probabilities, one a line
  streamlearn score -m spam.sl test.svm          how good it is
  streamlearn top spam.sl                        what it looks at

'streamlearn COMMAND --help' explains a command."""


class Parser(argparse.ArgumentParser):
    """argparse that raises a UsageError (exit code 64) and knows near misses."""

    def error(self, message: str) -> NoReturn:
        known = [o for action in self._actions for o in action.option_strings]
        for word in message.split():
            if word.startswith("--") and word.rstrip(":") not in known:
                close = closest(word.split("=")[0], known)
                if close:
                    message += f"; did you mean {close[0]}?"
        raise UsageError(f"{message} (see '{self.prog} --help')")


def closest(word: str, known: Iterable[str]) -> list[str]:
    """What may have been meant, if anything."""
    from difflib import get_close_matches  # seldom needed

    return get_close_matches(word, known, n=1)


def command_parser(name: str, helps: bool = True) -> tuple[Parser, Any]:
    """The argument parser of one command and its module."""
    module = importlib.import_module(f"streamlearn.cli.{name}")
    # It is made for each flag, too, to check it; only help needs to know how wide the terminal is.
    width = None if helps else 80
    parser = Parser(
        prog=f"streamlearn {name}",
        description=module.__doc__,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=width),
        allow_abbrev=False,
    )
    module.arguments(parser)
    return parser, module


def overview() -> str:
    """The text of `streamlearn --help`."""
    lines = [
        f"streamlearn {__version__}: learn exactly sparse linear models from a stream",
        "",
        "usage: streamlearn COMMAND [options]",
        "",
        "commands:",
        *(f"  {name:<11}{text}" for name, text in COMMANDS.items()),
        "",
        EXAMPLES,
    ]
    return "\n".join(lines)


def dispatch(words: Sequence[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview())
        return 0 if words else UsageError.exit_code
    if words[0] in ("-V", "--version"):
        print(f"streamlearn {__version__}")
        return 0
    name = words[0]
    if name not in COMMANDS:
        close = closest(name, COMMANDS)
        hint = f"did you mean {close[0]!r}?" if close else "see 'streamlearn --help'"
        raise UsageError(f"no command {name!r}; {hint}")
    gc.disable()
    parser, module = command_parser(name, not {"-h", "--help"}.isdisjoint(words))
    args = parser.parse_args(words[1:])
    gc.freeze()  # what was imported stays: to look through it for garbage takes milliseconds
    gc.enable()
    return module.run(args)


def main(words: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code (sysexits)."""
    for name in ("stdout", "stderr"):  # closed by the caller (>&-): as good as /dev/null
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, os.fdopen(nowhere, "w", closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name that the terminal cannot show is no error
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = dispatch(sys.argv[1:] if words is None else words)
        sys.stdout.flush()
        return code
    except StreamlearnError as error:
        say(str(error))
        return error.exit_code
    except BrokenPipeError:
        forget_stdout()  # the reader of our output has gone (`| head`): no error
        return 0
    except OSError as error:
        forget_stdout()
        say(f"writing failed: {error.strerror}")
        return IoFailure.exit_code
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    except MemoryError as error:
        say(f"out of memory: {error}")
        return 71


def forget_stdout() -> None:
    """Keep the interpreter from failing again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
