"""The file benchmark runs from end to end on small files; what it says follows from its figures.
So does the daemon's cost of durability.

How long anything takes is not tested here, and the peers need not be installed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

OURS = ("cat", "wc -l", "parse only", "learn only, *", "*averagesl*", "*adaptivesl*", "predict")


def bench(root: Path, *words: str) -> str:
    result = subprocess.run(
        [sys.executable, str(root / "tools" / "bench" / "speed.py"), *words],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="module")
def printed(root: Path, folder: Path) -> str:
    chosen = [word for name in OURS for word in ("--side", name)]
    return bench(
        root, "rcv1", "wide", "--quick", *chosen, "--folder", str(folder),
        "--json", str(folder / "found.json"), "--plot", str(folder / "found.png"),
    )  # fmt: skip


@pytest.fixture(scope="module")
def found(printed: str, folder: Path) -> dict[str, Any]:
    assert printed
    return json.loads((folder / "found.json").read_text())


def changed(found: dict[str, Any], folder: Path, work: str, side: str, **figures: Any) -> Path:
    """The same run, but for the figures of one side."""
    copy = json.loads(json.dumps(found))
    copy["works"][work]["sides"].setdefault(side, {}).update(figures)
    path = folder / "changed.json"
    path.write_text(json.dumps(copy))
    return path


def line(text: str, start: str) -> str:
    (found,) = (line for line in text.splitlines() if line.startswith(start))
    return found


def test_every_side_of_ours_runs_twice_and_is_shown(printed: str, found: dict[str, Any]) -> None:
    for work in ("rcv1", "wide"):
        of = found["works"][work]
        assert of["rows"] == 2000
        for side in ("parse only", "learn only, averagesl", "adaptivesl", "predict"):
            assert len(of["sides"][side]["wall"]) == 2
            assert min(of["sides"][side]["wall"]) > 0.0
            assert line(printed.split(f"\n{work}: ")[1].split("\n\n")[0], f"{side}  ")
    assert found["works"]["wide"]["width"] > 10_000_000


def test_picture_is_drawn(printed: str, folder: Path) -> None:
    assert printed
    assert (folder / "found.png").read_bytes().startswith(b"\x89PNG")


def test_memory_is_that_of_the_command_and_not_of_the_bench(found: dict[str, Any]) -> None:
    of = found["works"]["wide"]
    assert of["floor"] < 25e6  # no numpy in there
    # The system counts pages in batches, so a little more or less than the floor is the floor.
    assert max(of["sides"]["cat"]["memory"]) < 1.1 * of["floor"]
    assert min(of["sides"]["averagesl"]["memory"]) > 1.2 * of["floor"]


def test_goals_without_a_peer_are_not_measured(printed: str) -> None:
    assert line(printed, "rcv1: averagesl against VW --ftrl").endswith("not measured")
    assert re.search(r"(met|MISSED)$", line(printed, "peak memory, averagesl: rcv1 repeated"))


@pytest.mark.parametrize(("wall", "word"), [(0.9, "MISSED"), (2.5, "met"), (3.5, "the aim")])
def test_a_goal_is_judged_by_the_medians(
    root: Path, found: dict[str, Any], folder: Path, wall: float, word: str
) -> None:
    ours = changed(found, folder, "rcv1", "averagesl", wall=[1.0, 1.0, 50.0])
    both = changed(json.loads(ours.read_text()), folder, "rcv1", "VW --ftrl", wall=[wall])
    verdict = line(bench(root, "goals", str(both)), "rcv1: averagesl against VW --ftrl")
    assert f"{wall:.2f}x" in verdict
    assert verdict.endswith(word)


def test_goals_are_shown_from_several_runs(root: Path, found: dict[str, Any], folder: Path) -> None:
    paths = []
    for work in ("rcv1", "wide"):
        paths.append(str(folder / f"{work}.json"))
        Path(paths[-1]).write_text(json.dumps({"works": {work: found["works"][work]}}))
    start = "ns a feature, averagesl: wide against rcv1"
    assert line(bench(root, "goals", paths[0]), start).endswith("not measured")
    assert not line(bench(root, "goals", *paths), start).endswith("not measured")


@pytest.mark.parametrize(
    ("wall", "word"), [([2.0, 2.1], "SLOWER"), ([1.02, 1.08], "within the noise"), ([0.4], "alone")]
)
def test_changes_beyond_the_spread_are_told(
    root: Path, found: dict[str, Any], folder: Path, wall: list[float], word: str
) -> None:
    old = folder / "old.json"
    changed(found, folder, "rcv1", "predict", wall=[1.0, 1.1]).rename(old)
    new = changed(found, folder, "rcv1", "predict", wall=wall)
    said = line(bench(root, "compare", str(old), str(new)), "rcv1         predict")
    assert word in said
    back = line(bench(root, "compare", str(new), str(old)), "rcv1         predict")
    assert {"SLOWER": "faster"}.get(word, word) in back


def test_one_per_cent_more_instructions_is_flagged(
    root: Path, found: dict[str, Any], folder: Path
) -> None:
    paths = []
    for number in (100.0, 100.9, 102.0):
        path = folder / f"{number}.json"
        path.write_text(json.dumps({**found, "callgrind": {"rcv1": {"parse": number}}}))
        paths.append(str(path))
    said = [bench(root, "compare", paths[0], path).splitlines()[-1] for path in paths]
    assert [text.split(": ")[-1] for text in said] == ["equal", "equal", "MORE"]


def test_a_peer_that_did_not_do_the_work_is_no_figure(root: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from measuring import Side, timed; "
        "timed(Side('peer', ['sh', '-c', 'echo number of examples = 0 >&2'], says='= 200$'))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(root / "tools" / "bench")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 1
    assert "does not say '= 200$': number of examples = 0" in result.stderr


def test_durability_is_measured_against_none_and_what_a_kill_left_is_recovered(
    root: Path, tmp_path: Path
) -> None:
    """The file that the part looks for is there already, and short."""
    (tmp_path / "rcv1-like-200000.svm").write_text("+1 1:1 2:0.5\n-1 2:1 3:-2\n" * 500)
    json_path = tmp_path / "found.json"
    result = subprocess.run(
        [sys.executable, str(root / "tools" / "bench" / "daemon.py"), "durability", "--repeats",
         "1", "--folder", str(tmp_path), "--json", str(json_path)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    found = json.loads(json_path.read_text())
    assert sorted(found) == [f"durability_{x}" for x in ("always", "recovery", "replay", "start")]
    assert min(found.values()) > 0.0
    figures, _, goals = result.stdout.partition("\n\ngoals")
    assert len(figures.splitlines()) == 3
    judged = [line.split()[0] for line in goals.splitlines()[1:]]
    assert judged == ["durability_always", "durability_recovery"]
    assert {path.name for path in tmp_path.iterdir()} == {
        "rcv1-like-200000.svm", "found.json", "m.sl"
    }  # fmt: skip
