"""The two commands of the README, and what an installation holds."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest


def everything(root: Path) -> set[str]:
    """Files and folders of the project, the virtual environments as one each."""
    inside = (p for p in (root / "streamlearn").rglob("*") if "__pycache__" not in p.parts)
    return {p.name for p in root.iterdir()} | set(map(str, inside))


@pytest.fixture(scope="module")
def before(root: Path) -> set[str]:
    return everything(root)


@pytest.fixture(scope="module")
def demo(before: set[str], root: Path) -> str:
    """The output of `sh tools/demo`, which installs the project anew."""
    if not (root / "tools" / "demo").exists():
        pytest.fail("tools/demo is missing")
    result = subprocess.run(
        ["sh", "tools/demo"], cwd=root, capture_output=True, text=True, timeout=600, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_demo_learns_and_finds_the_true_features(demo: str) -> None:
    found = re.findall(r"of 200 true features (\d+) were found, (\d+) with the right sign", demo)
    assert len(found) == 2
    (found_all, signs_all), (found_small, _) = ((int(a), int(b)) for a, b in found)
    assert found_all >= 190
    assert signs_all == found_all
    assert found_small >= 170
    errors = [float(x) for x in re.findall(r"^error\s+([\d.]+)$", demo, re.MULTILINE)]
    assert len(errors) == 2
    assert max(errors) < 0.12


@pytest.mark.usefixtures("demo")
def test_installation_holds_stubs_but_no_sources(root: Path) -> None:
    (package,) = (root / ".venv-demo").glob("lib/python3*/site-packages/streamlearn")
    endings = {path.suffix for path in package.rglob("*") if path.is_file()}
    assert not endings & {".pyx", ".pxd", ".c", ".h"}
    assert (package / "py.typed").exists()
    compiled = {p.name.split(".")[0] for p in (package / "engine").glob("*.so")}
    stubs = {p.stem for p in (package / "engine").glob("*.pyi")}
    assert compiled == stubs


def test_tools_leave_the_source_tree_clean(before: set[str], demo: str, root: Path) -> None:
    assert demo
    assert everything(root) - before <= {".venv-demo"}
