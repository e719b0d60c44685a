"""Standard input, among the files that a command was given."""

from __future__ import annotations

import sys

from streamlearn.errors import UsageError


def check_stdin(files: list[str]) -> None:
    """Refuse what standard input cannot give."""
    if files.count("-") > 1:
        raise UsageError("- stands for stdin, which can be read only once")
    if "-" in files and (sys.stdin is None or sys.stdin.isatty()):
        raise UsageError("no input: name files, or pipe data in: cat data.svm | streamlearn ...")
