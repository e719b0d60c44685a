"""Parser and learner built with the sanitizers, in short; `sh tools/sanitize` does all of it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli.conftest import environment

BUILT = (
    "number", "block", "libsvm", "learner", "learn", "slots", "conversion", "loss", "recent",
    "smoothness", "solving", "sorting", "together", "window",
)  # fmt: skip
BUILD_SECONDS = 300  # 55 on two cores that others use
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
LEARN = """
from contextlib import suppress
from random import Random
from streamlearn.catalogue import LOSSES, STREAMING, make_learner, resolve
from streamlearn.engine import learner as engine
from streamlearn.engine.block import Block
from streamlearn.engine.libsvm import Parser
from streamlearn.errors import Divergence
print(engine.__file__)
random = Random(15)

def text(ids, scale):
    rows = []
    for _ in range(60):
        items = (f"{i}:{scale * random.gauss(0, 1)!r}" for i in sorted(random.sample(ids, 6)))
        rows.append(f"{random.choice((-1, 1))} {' '.join(items)}")
    return ("\\n".join(rows) + "\\n").encode()

few, wide = range(1, 9), [*range(1, 2000, 7), 2**40, 2**53 + 1, 2**63 - 1]
for algo, entry in STREAMING.items():
    for loss, kind in LOSSES.items():
        if entry.classifies_only and not kind.classifies:
            continue
        learner = make_learner(resolve(algo, loss, {}))
        with suppress(Divergence):
            for ids, scale in ((few, 1.0), (wide, 1.0), (few, 1e3), (wide, 1e150)):
                data, block = text(ids, scale), Block()
                Parser().parse(data, 0, len(data), block)
                learner.learn(block)
                learner.snapshot()
                learner.snapshot(max_nonzeros=3)
                learner = type(learner).from_state(learner.state())
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
    """A copy of the project with parser and learner alone, built to watch themselves."""
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
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "-j", "2"],
        cwd=folder, check=True,
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


@pytest.mark.parametrize("code", [HUNT, LEARN], ids=["mutated-lines", "every-algorithm"])
def test_parser_and_learner_do_nothing_undefined(root, built, code):
    result = watched(root, built, code)
    assert result.returncode == 0, result.stderr[-5000:]
    place, verdict = result.stdout.split()
    assert Path(place).is_relative_to(built)
    assert verdict == "sound"
    assert b"__asan_report_load" in Path(place).read_bytes()


def test_a_read_behind_the_end_would_be_noticed(root, built):
    result = watched(root, built, BEHIND_THE_END)
    assert result.returncode != 0
    assert "heap-buffer-overflow" in result.stderr
