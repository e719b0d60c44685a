"""Words to the user on stderr. Who hears them, or nobody, must not change what is done."""

from __future__ import annotations

import os
import sys


def write(text: str) -> None:
    """Write as it is; a reader that has gone, or a full device, silences us for good."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def say(text: str) -> None:
    """One line for a person."""
    write(f"streamlearn: {text}\n")


def warn(text: str) -> None:
    say(f"warning: {text}")


def say_json(**facts: object) -> None:
    """One line for a program."""
    import json  # a person needs none

    write(json.dumps(facts) + "\n")
