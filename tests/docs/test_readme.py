"""Every command of the README is run here, in its order, and must end with 0."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def blocks(root: Path, language: str) -> list[str]:
    text = (root / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


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

    environment = {
        **os.environ,
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


def test_commands_and_program_work_in_the_order_of_the_readme(root: Path, folder: Path) -> None:
    commands = [
        line[2:]
        for block in blocks(root, "console")
        for line in block.splitlines()
        if line.startswith("$ ")
    ]
    assert len(commands) >= 15
    for command in commands:
        result = shell(command, folder)
        assert result.returncode == 0, f"{command}\n{result.stderr}"
        assert "Traceback" not in result.stderr
    assert (folder / "tiny.sl").stat().st_size < (folder / "run.state").stat().st_size
    (program,) = blocks(root, "python")
    (folder / "program.py").write_text(program)
    result = shell("python program.py", folder)
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 2


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
