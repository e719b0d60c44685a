"""The parser built with the sanitizers, over mutated lines; `sh tools/sanitize` does all of it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli.conftest import environment

BUILT = ("number", "block", "libsvm")
BUILD_SECONDS = 300  # 20 where nothing else runs
HUNT = """
from random import Random
from fuzz.lines import Lines, Numbers
import streamlearn.engine.libsvm as parser
print(parser.__file__)
random = Random(14)
for part in (Lines(), Numbers()):
    for _ in range(30):
        part.judge(*part.make(random))
print("sound")
"""
BEHIND_THE_END = """
import ctypes
text = ctypes.create_string_buffer(100)
print(len(ctypes.string_at(ctypes.addressof(text), 200)))
"""


def library(name: str) -> str:
    """Where gcc keeps it; empty if it does not."""
    if not shutil.which("gcc"):
        return ""
    words = ["gcc", f"-print-file-name={name}"]
    found = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    return found if os.path.isabs(found) else ""


@pytest.fixture(scope="module")
def built(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with the parser alone, built to watch itself."""
    if not (library("libasan.so") and library("libubsan.so")):
        pytest.skip("this compiler has no sanitizers")
    if not all(map(importlib.util.find_spec, ("setuptools", "Cython"))):
        pytest.skip("needs setuptools and Cython to build")
    folder = tmp_path_factory.mktemp("sanitized")
    shutil.copy(root / "setup.py", folder)
    shutil.copytree(root / "streamlearn", folder / "streamlearn",
                    ignore=shutil.ignore_patterns("*.so", "__pycache__"))  # fmt: skip
    for path in (folder / "streamlearn" / "engine").rglob("*.pyx"):
        if path.stem not in BUILT:
            path.unlink()
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=folder, check=True,
        env={**environment({"STREAMLEARN_SANITIZE": "1"}), "PYTHONWARNINGS": "default"},
        capture_output=True, timeout=BUILD_SECONDS,
    )  # fmt: skip
    return folder


def watched(root: Path, folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Python with the sanitizers before it, and what was built with them."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=folder,
        timeout=BUILD_SECONDS,
        env=environment({
            "LD_PRELOAD": f"{library('libasan.so')} {library('libubsan.so')}",
            "PYTHONMALLOC": "malloc",
            "ASAN_OPTIONS": "detect_leaks=0",
            "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
            "PYTHONPATH": os.pathsep.join(map(str, (folder, root / "tests"))),
        }),
    )  # fmt: skip


def test_the_parser_does_nothing_undefined_over_mutated_lines(root, built):
    result = watched(root, built, HUNT)
    assert result.returncode == 0, result.stderr[-5000:]
    place, verdict = result.stdout.split()
    assert Path(place).is_relative_to(built)
    assert verdict == "sound"
    assert b"__asan_report_load" in Path(place).read_bytes()


def test_a_read_behind_the_end_would_be_noticed(root, built):
    result = watched(root, built, BEHIND_THE_END)
    assert result.returncode != 0
    assert "heap-buffer-overflow" in result.stderr
