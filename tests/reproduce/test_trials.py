"""Trials: the same on one core and on two, kept and gone on with; missing data is told."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from reproduce import command, registry
from reproduce.results import Result
from reproduce.trials import MissingData, Run


def trial(seed: int, scale: float) -> dict[str, float]:
    """Some work with its own randomness."""
    source = random.Random(seed)
    return {"sum": scale * sum(source.random() for _ in range(1000))}


def counted(folder: str, number: int) -> dict[str, int]:
    """Leaves a trace of having been run."""
    with open(Path(folder) / f"{number}", "a") as file:
        file.write("x")
    return {"number": number}


def failing(number: int) -> dict[str, int]:
    if number == 3:
        raise ValueError("trial 3 went wrong")
    return {"number": number}


JOBS = [(seed, 0.5) for seed in range(12)]


def test_parallel_equals_serial() -> None:
    serial = Run(workers=1, show=False).trials("t", trial, JOBS)
    parallel = Run(workers=2, show=False).trials("t", trial, JOBS)
    assert parallel == serial
    assert len({o["sum"] for o in serial}) == len(JOBS)


def test_finished_trials_are_not_run_again(tmp_path: Path) -> None:
    traces, kept = tmp_path / "traces", tmp_path / "kept"
    traces.mkdir()
    run = Run(keep=kept, show=False)
    first = run.trials("t", counted, [(str(traces), n) for n in range(3)])
    (path,) = kept.iterdir()
    with path.open("a") as file:
        file.write('{"job": "half a li')  # as a killed run leaves it
    again = run.trials("t", counted, [(str(traces), n) for n in range(5)])
    assert first == [{"number": n} for n in range(3)]
    assert again == [{"number": n} for n in range(5)]
    assert [(traces / f"{n}").read_text() for n in range(5)] == ["x"] * 5


@pytest.mark.parametrize("workers", [1, 2])
def test_trial_that_fails_is_told(workers: int) -> None:
    with pytest.raises(ValueError, match="trial 3 went wrong"):
        Run(workers=workers, show=False).trials("t", failing, [(n,) for n in range(6)])


def test_quick_is_a_tenth() -> None:
    assert [Run().count(n) for n in (100, 5, 1)] == [100, 5, 1]
    assert [Run(quick=True).count(n) for n in (100, 5, 1)] == [10, 2, 1]


def test_progress_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    Run(workers=1).trials("a title", trial, JOBS[:2])
    out, err = capsys.readouterr()
    assert not out
    assert "a title: 0 of 2 trials" in err
    assert "a title: 2 trials in" in err


def test_missing_data_says_what_to_get(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=r"needs --data DIR with x.svm: the x of y"):
        Run().file("x.svm", "the x of y")
    with pytest.raises(MissingData, match=rf"{tmp_path} has no x.svm: the x of y"):
        Run(data=tmp_path).file("x.svm", "the x of y")
    (tmp_path / "x.svm").touch()
    assert Run(data=tmp_path).file("x.svm", "the x of y") == tmp_path / "x.svm"


@pytest.mark.parametrize("name", ["aaai2", "tpami5", "tpami6", "tpami7"])
def test_command_without_data_ends_with_a_sentence(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = command.main([name, "--quick", "--data", str(tmp_path), "--results", str(tmp_path)])
    out, err = capsys.readouterr()
    assert code == 66
    assert not out
    assert err.startswith(f"{name}: ")
    assert "libsvm text" in err
    assert not list(tmp_path.iterdir())


def test_quick_look_replaces_no_kept_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = registry.Experiment("tiny", "A tiny table", lambda run: Result(notes=["seen"]))
    monkeypatch.setattr(command, "experiments", lambda: {"tiny": tiny})
    monkeypatch.setattr(command.archive, "FOLDER", tmp_path / "results")
    assert command.main(["tiny", "--quick"]) == 0
    assert not (tmp_path / "results").exists()
    assert command.main(["tiny", "--report", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "results" / "tiny.json").exists()
    assert "A tiny table" in (tmp_path / "page.html").read_text()
    assert "seen" in capsys.readouterr().out
    assert command.main(["kept"]) == 0
    assert "seen" in capsys.readouterr().out


def test_every_experiment_has_a_name_of_its_own() -> None:
    known = registry.experiments()
    assert {"aaai1", "aaai2", "tpami2", "tpami3", "tpami5", "tpami6", "tpami7"} <= {*known}
    assert all(name == e.name and e.title for name, e in known.items())
