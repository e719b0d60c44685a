"""Keeps the last result of each experiment as text and PNG, and reads it again for the report."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reproduce.plain import in_text
from reproduce.results import Figure, Goal, Picture, Result, Row, Table

FOLDER = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True)
class Origin:
    """When a result was found, with which sources, and how."""

    commit: str
    date: str
    quick: bool
    seconds: float  # wall time of the run that finished it


@dataclass(frozen=True)
class Entry:
    """A result as it is kept."""

    name: str
    title: str
    origin: Origin
    result: Result


def origin(quick: bool, seconds: float) -> Origin:
    root = FOLDER.parents[2]

    def git(*words: str) -> str:
        told = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
        return told.stdout.strip() if told.returncode == 0 else ""

    commit = git("rev-parse", "--short=12", "HEAD") or "unknown"
    if git(
        "status", "--porcelain", "-uno", "--", "streamlearn", "conf/paper", "tools/reproduce/*.py"
    ):
        commit += " with changes"
    return Origin(commit, datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), quick, seconds)


def save(entry: Entry, folder: Path = FOLDER) -> None:
    """NAME.txt to read, NAME.json to build the report from, and the pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    for picture in entry.result.pictures:
        (folder / f"{picture.name}.png").write_bytes(picture.png)
    body: dict[str, Any] = {
        "name": entry.name,
        "title": entry.title,
        "origin": asdict(entry.origin),
        "tables": [asdict(t) for t in entry.result.tables],
        "pictures": [{"name": p.name, "caption": p.caption} for p in entry.result.pictures],
        "goals": [asdict(g) for g in entry.result.goals],
        "notes": entry.result.notes,
    }
    (folder / f"{entry.name}.json").write_text(json.dumps(body, indent=1) + "\n")
    (folder / f"{entry.name}.txt").write_text(in_text(entry.title, origin_line(entry.origin),
                                                      entry.result))  # fmt: skip


def load(name: str, folder: Path = FOLDER) -> Entry | None:
    """The last result of an experiment, if there is one."""
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    body = json.loads(path.read_text())
    tables = [
        Table(
            t["title"],
            t["columns"],
            [
                Row(r["group"], r["name"], {k: Figure(**f) for k, f in r["figures"].items()})
                for r in t["rows"]
            ],
            t["about"],
        )
        for t in body["tables"]
    ]
    pictures = [
        Picture(p["name"], p["caption"], (folder / f"{p['name']}.png").read_bytes())
        for p in body["pictures"]
    ]
    result = Result(tables, pictures, [Goal(**g) for g in body["goals"]], body["notes"])
    return Entry(name, body["title"], Origin(**body["origin"]), result)


def origin_line(found: Origin) -> str:
    extent = "a quick look, a tenth of the trials" if found.quick else "all trials"
    return f"{found.date}, commit {found.commit}, {extent}"
