"""RELIABILITY.md names tests and failpoints; each of them is there."""

from __future__ import annotations

import re
from pathlib import Path

from streamlearn.daemon.disk import FAILPOINTS


def test_every_test_that_the_page_names_exists(root: Path) -> None:
    page = (root / "streamlearn" / "daemon" / "RELIABILITY.md").read_text(encoding="utf-8")
    named = re.findall(r"`(test_\w+)\.(test_\w+)`", page)
    assert len(named) >= 20
    for module, name in named:
        (path,) = (root / "tests").glob(f"*/{module}.py")
        text = path.read_text(encoding="utf-8")
        assert f"def {name}(" in text, f"{module}.{name}"


def test_every_failpoint_is_named_and_reached_somewhere(root: Path) -> None:
    page = (root / "streamlearn" / "daemon" / "RELIABILITY.md").read_text(encoding="utf-8")
    code = "".join(p.read_text() for p in (root / "streamlearn" / "daemon").glob("*.py"))
    for name in FAILPOINTS:
        assert f"`{name}`" in page, name
        assert f'reach("{name}")' in code, name
