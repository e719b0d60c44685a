"""Every command of the README is run here, in its order, and must end with 0."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest


def steps(root: Path) -> list[tuple[str, str]]:
    """(language, text) of every command and program, in the order of the README."""
    text = (root / "README.md").read_text(encoding="utf-8")
    found = []
    for language, body in re.findall(
        r"^```(console|python)\n(.*?)^```", text, re.DOTALL | re.MULTILINE
    ):
        if language == "python":
            found.append((language, body))
        else:
            found += [(language, x[2:]) for x in body.splitlines() if x.startswith("$ ")]
    return found


@pytest.fixture(scope="module")
def folder(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with conf/ in it, and `streamlearn` and `python` on the path."""
    place = tmp_path_factory.mktemp("readme")
    shutil.copytree(root / "conf", place / "conf")
    (place / "bin").mkdir()
    for name, words in (("streamlearn", "-m streamlearn"), ("python", "")):
        script = place / "bin" / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        script.chmod(0o755)
    return place


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    import streamlearn

    # The daemon of the README gets sockets of its own: the fixed ports may be taken.
    places = {
        f"STREAMLEARN_{name}": f"ipc://{folder}/{name}" for name in ("BIND_FEED", "BIND_PUBLISH")
    }
    place = f"ipc://{folder}/requests"
    command = command.replace("tcp://127.0.0.1:7311", place)
    environment = {
        **os.environ,
        **places,
        "STREAMLEARN_BIND": place,
        "STREAMLEARN_CONNECT": place,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(streamlearn.__file__).parent.parent),
    }
    return subprocess.run(
        ["sh", "-ec", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_commands_and_programs_work_in_the_order_of_the_readme(root: Path, folder: Path) -> None:
    assert len(steps(root)) >= 25
    for language, text in steps(root):
        if language == "python":
            # A client without an argument finds the daemon at the fixed port.
            program = text.replace("Client()", f"Client('ipc://{folder}/requests')")
            (folder / "program.py").write_text(program)
        result = shell("python program.py" if language == "python" else text, folder)
        assert result.returncode == 0, f"{text}\n{result.stderr}"
        assert "Traceback" not in result.stderr
        assert result.stdout or language == "console"
    assert (folder / "tiny.sl").stat().st_size < (folder / "run.state").stat().st_size
    assert (folder / "now.sl").exists()
    assert (folder / "state" / "checkpoint.sl").exists()
    deadline = time.monotonic() + 30.0
    while "stopped at" not in (folder / "serve.log").read_text():
        assert time.monotonic() < deadline


def test_every_command_line_is_named_in_the_readme(root: Path) -> None:
    from streamlearn.cli import COMMANDS

    text = (root / "README.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"streamlearn {name}" in text, name


def test_every_algorithm_and_loss_is_named_in_the_readme(root: Path) -> None:
    from streamlearn.catalogue import ALGORITHMS, LOSSES

    text = (root / "README.md").read_text(encoding="utf-8")
    for name in (*ALGORITHMS, *LOSSES):
        assert f"`{name}`" in text, name
