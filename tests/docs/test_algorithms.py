"""ALGORITHMS.md: a section for each algorithm, which agrees with the catalogue."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from streamlearn.catalogue import ALGORITHMS, PARAMETERS

PAGE = "streamlearn/catalogue/ALGORITHMS.md"


@pytest.fixture(scope="module")
def sections(root: Path) -> dict[str, str]:
    """The text below each heading that is the name of an algorithm, in the order of the page."""
    parts = re.split(r"^## (.*)\n", (root / PAGE).read_text(encoding="utf-8"), flags=re.MULTILINE)
    named = zip(parts[1::2], parts[2::2], strict=True)
    return {title.strip("`"): text for title, text in named if title.startswith("`")}


def line(section: str, name: str) -> str:
    """The item `- name: ...` of a section, its lines joined."""
    (item,) = re.findall(rf"^- {name}: (.*(?:\n  .*)*)", section, re.MULTILINE)
    return re.sub(r"\s+", " ", item)


def shown(name: str, default: Any) -> str:
    """A parameter with its default, as typed."""
    flag = PARAMETERS[name].flag
    if isinstance(default, bool):
        return flag if default else flag.replace("--", "--no-")
    if default is None:
        return f"{flag} auto"
    return f"{flag} {default:g}" if isinstance(default, float) else f"{flag} {default}"


def test_page_is_linked_from_the_readme(root: Path) -> None:
    assert f"]({PAGE})" in (root / "README.md").read_text(encoding="utf-8")


def test_every_algorithm_has_a_section_in_the_order_of_the_catalogue(
    sections: dict[str, str],
) -> None:
    assert list(sections) == list(ALGORITHMS)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_section_agrees_with_the_catalogue(sections: dict[str, str], name: str) -> None:
    entry, section = ALGORITHMS[name], sections[name]
    memory = "memory" if entry.batch else "words"
    assert line(section, "cost") == f"{entry.cost}; {memory}: {entry.words}"
    assert line(section, "source") == entry.paper
    settings = [shown(p, entry.defaults.get(p, PARAMETERS[p].default)) for p in entry.parameters]
    assert line(section, "settings") == ", ".join(f"`{text}`" for text in settings)
    assert re.search(r"^```\n.*?^```$", section, re.DOTALL | re.MULTILINE), "an update in maths"
    for item in ("serves", "good for", "not for", *(["asleep"] if not entry.batch else [])):
        assert line(section, item)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_section_speaks_of_flags_that_exist(sections: dict[str, str], name: str) -> None:
    known = {PARAMETERS[p].flag for p in ALGORITHMS[name].parameters}
    known |= {flag.replace("--", "--no-") for flag in known}
    assert set(re.findall(r"--[a-z][a-z0-9-]*", sections[name])) <= known
