"""Care with what belongs to the user: inputs, links, descriptors, and the truth about a model."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from .conftest import environment

GOOD = b"+1 1:1 2:0.5\n-1 2:1 3:0.2\n" * 50


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "d.svm"
    path.write_bytes(GOOD)
    return path


# ---- what was there stays there ------------------------------------------------------------------


def test_a_command_never_overwrites_its_inputs(run, tmp_path: Path, data: Path) -> None:
    run("fit", data, "-o", "m.sl", "--save-state", "s.state", "--progress", "none")
    held = {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()}
    for words in (
        ["fit", "d.svm", "-o", "d.svm"],
        ["fit", "d.svm", "-o", "./d.svm"],
        ["fit", "d.svm", "--resume", "s.state", "-o", "s.state"],
        ["fit", "d.svm", "-o", "x.sl", "--save-state", "d.svm"],
        ["fit", "d.svm", "-o", "x.sl", "--save-state", "x.sl"],
        ["fit", "d.svm", "-o", "x.sl", "--on-error", "quarantine=d.svm"],
        ["fit", "d.svm", "-o", "x.sl", "--on-error", "quarantine=x.sl"],
        ["snapshot", "s.state", "-o", "s.state"],
        ["export", "m.sl", "--to", "text", "-o", "m.sl"],
    ):
        run(*words, code=64)
        assert {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()} == held, words
    run("fit", "d.svm", "--resume", "s.state", "--save-state", "s.state", "-o", "later.sl")
    assert (tmp_path / "s.state").read_bytes() != held["s.state"]


def test_a_link_stays_a_link_and_a_mode_stays(run, tmp_path: Path, data: Path) -> None:
    target = tmp_path / "real.sl"
    target.write_bytes(b"old")
    target.chmod(0o600)
    (tmp_path / "link.sl").symlink_to("real.sl")
    run("fit", data, "-o", "link.sl", "--progress", "none")
    assert (tmp_path / "link.sl").is_symlink()
    assert target.read_bytes() != b"old"
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_link_to_a_descriptor_is_written_through(run, tmp_path: Path, data: Path) -> None:
    run("fit", data, "-o", "m.sl", "--progress", "none")
    with (tmp_path / "out.bin").open("wb") as out:
        subprocess.run(
            [sys.executable, "-m", "streamlearn", "fit", str(data), "-o", "/dev/stdout",
             "--progress", "none"],
            stdout=out, env=environment(), cwd=tmp_path, check=True, timeout=60,
        )  # fmt: skip
    assert (tmp_path / "out.bin").read_bytes() == (tmp_path / "m.sl").read_bytes()
    assert Path("/dev/stdout").is_symlink()


def test_no_name_is_refused_before_learning(run, data: Path) -> None:
    shown = run("fit", data, "-o", "", code=73)
    assert ": is a folder; name a file" in shown.stderr
    assert "examples" not in shown.stderr


def test_a_folder_is_refused_before_learning(run, tmp_path: Path, data: Path) -> None:
    (tmp_path / "folder").mkdir()
    shown = run("fit", data, "folder", code=66)
    assert "folder" in shown.stderr
    assert "examples" not in shown.stderr


# ---- bytes as they come --------------------------------------------------------------------------


def wait_until_empty(pipe: int) -> None:
    """Until the reader has taken everything and finds nothing more."""
    deadline = time.monotonic() + 60.0
    waiting = b"1234"
    while any(waiting):
        assert time.monotonic() < deadline, "nobody reads the pipe"
        waiting = fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))


def test_a_pipe_that_does_not_block_is_waited_for(run, tmp_path: Path, data: Path) -> None:
    run("fit", data, "-o", "m.sl", "--progress", "none")
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    process = subprocess.Popen(
        [sys.executable, "-m", "streamlearn", "fit", "-o", "piped.sl", "--progress", "none"],
        stdin=read_end, env=environment(), cwd=tmp_path,
    )  # fmt: skip
    os.close(read_end)
    try:
        for start in range(0, len(GOOD), 700):
            os.write(write_end, GOOD[start : start + 700])
            wait_until_empty(write_end)
    finally:
        os.close(write_end)
    assert process.wait(timeout=60) == 0
    assert (tmp_path / "piped.sl").read_bytes() == (tmp_path / "m.sl").read_bytes()


# ---- the truth about a model ---------------------------------------------------------------------


def test_tiny_ridges_and_huge_offsets_end(run, data: Path) -> None:
    for words in (["--l2", "1e-15"], ["--t0", "4e15", "--l2", "1e-3"]):
        run("fit", data, "--algo", "asgd", *words, "--progress", "none", timeout=30)


def test_unstable_learning_is_said(run, tmp_path: Path) -> None:
    rows = "".join(f"{i % 7 - 3} {i % 5}:{1 + i % 3} 9:2\n" for i in range(300))
    words = ["--loss", "squared", "--algo", "averagesl", "--t0", "0", "--l2", "0.1"]
    shown = run("fit", *words, stdin=rows.encode())
    assert "unstable" in shown.stderr
    assert "unstable" not in run("fit", "--loss", "squared", stdin=rows.encode()).stderr


@pytest.mark.parametrize("total", [50, 1000])
def test_a_wrong_total_is_said(run, data: Path, total: int) -> None:
    words = ["--algo", "averagesl", "--weights", "suffix", "--total"]
    assert f"--total said {total:,d}" in run("fit", data, *words, str(total)).stderr
    assert "--total said" not in run("fit", data, *words, "100").stderr


def test_a_certificate_is_always_json(run, tmp_path: Path, data: Path) -> None:
    for words in (["--evidence", "1e6"], ["--algo", "averagesl", "--smoothness", "1e-30"]):
        run("fit", data, *words, "-o", "m.sl", "--progress", "none")
        facts = json.loads(
            run("inspect", "m.sl", "--json").stdout, parse_constant=lambda word: pytest.fail(word)
        )
        assert set(facts["certificate"]) >= {"violation", "objective"}


def test_minus_zero_is_zero(run, tmp_path: Path) -> None:
    run("fit", "-o", "m.sl", stdin=b"1 1:1\n0 2:1\n" * 40 + b"-0 2:1\n")
    shown = run("predict", "-m", "m.sl", "--output", "label", stdin=b"0 2:1\n")
    assert shown.stdout == b"0\n"


def test_a_name_that_cannot_be_shown_is_escaped(run, tmp_path: Path, data: Path) -> None:
    run("fit", data, "-o", "m.sl", "--progress", "none")
    (tmp_path / "names.txt").write_text("zero\nüber\nzwei\ndrei\n", encoding="utf-8")
    shown = run("top", "m.sl", "--names", "names.txt", env={"PYTHONIOENCODING": "ascii"})
    assert b"\\xfcber" in shown.stdout


def test_batch_methods_refuse_a_pipe_and_learn_from_files(run, data: Path) -> None:
    for words in (("fit",), ("compare", "--test", data)):
        for place in ("-", "/dev/stdin"):
            shown = run(*words, "--algo", "scd", place, stdin=GOOD, code=64)
            assert "name files, which " in shown.stderr
    run("fit", data, "--algo", "scd", "--l1", "0.01", "--iterations", "50000", "-o", "m.sl")
    facts = json.loads(run("inspect", "m.sl", "--json").stdout)
    assert facts["certificate"]["violation"] < 1e-9


def test_batch_methods_refuse_a_named_pipe_at_once(run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "endless")
    with open(os.open(tmp_path / "endless", os.O_RDWR), "wb"):  # somebody might write to it
        shown = run("fit", "endless", "--algo", "grades", "--loss", "squared", code=64)
    assert "name files, which endless is not" in shown.stderr


@pytest.mark.parametrize(
    "flags",
    [("--total",), ("--max-features",), ("--max-nonzeros",), ("--multiclass", "--max-classes"),
     ("--algo", "tg", "--truncate-every"), ("--algo", "scd", "--iterations"),
     ("--algo", "grades", "--loss", "squared", "--nonzeros")],
    ids=lambda words: words[-1],
)
def test_numbers_that_nobody_counts_to_are_refused_with_the_bound(run, data: Path, flags) -> None:
    if flags == ("--total",):
        flags = ("--algo", "averagesl", "--total")
    shown = run("fit", data, *flags, "1" + "0" * 20, code=64)
    assert f"{flags[-1]} 100000000000000000000: expected a whole number" in shown.stderr
    assert "<= 1e+15" in shown.stderr


def test_help_tells_who_costs_more_and_whose_default_is_another(run) -> None:
    shown = " ".join(run("fit", "--help").stdout.decode().split())
    assert "but with ssg, smidas, l1ball, and rda with l1ball or kl, O(features seen)" in shown
    assert "scd, detcd, grades keep all examples in memory" in shown
    assert "(default: 1e-05; adaptivesl 0; ftrl 1)" in shown
    assert "O(features seen) an example" in run("algos").stdout.decode()


@pytest.mark.parametrize(
    ("flags", "advice"),
    [
        (("--algo", "tg", "--eta", "1e9"), "scale the values or lower --eta"),
        (("--algo", "sgd", "--t0", "0", "--l2", "1e-9"),
         "scale the values, raise --l2, leave --t0 at auto or leave --step-cap at auto"),
        (("--algo", "rda", "--regularizer", "l1", "--gamma", "1e-12"),
         "scale the values or raise --gamma"),
    ],
    ids=lambda x: x[1] if isinstance(x, tuple) else "",
)
def test_a_divergence_is_met_with_flags_that_the_algorithm_has(run, tmp_path, flags, advice):
    rows = "".join(f"{(-1) ** i * 3 * i} 1:{i % 7 + 1} 2:{i % 5 - 3}\n" for i in range(1, 400))
    (tmp_path / "wild.svm").write_text(rows)
    shown = run("fit", "wild.svm", "--loss", "squared", *flags, code=65)
    assert shown.stderr.rstrip().endswith(advice)
