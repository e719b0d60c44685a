"""`fit`: every way in gives the same model, a run can be cut and gone on with, nothing is lost."""

import bz2
import fcntl
import gzip
import json
import lzma
import os
import resource
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress
from itertools import pairwise
from random import Random

import pytest

from streamlearn.catalogue import PARAMETERS
from streamlearn.catalogue import STREAMING as ALGORITHMS
from streamlearn.container import unpack

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    zstd = pytest.importorskip("backports.zstd")

PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstd.compress}
EVIDENCE = f"{PARAMETERS['evidence'].default:g}"


def is_row(line: str) -> bool:
    """A row of --progress jsonl, not one of its other lines."""
    return line.startswith('{"examples"')


def leftovers(folder) -> list[str]:
    """Temporary files that a command forgot."""
    return [p.name for p in folder.iterdir() if p.name.endswith(".tmp")]


# ---- ways in -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["nothing", "dash", "device"])
def test_a_pipe_gives_the_model_of_the_file(run, lines, learned, tmp_path, way):
    words = {"nothing": [], "dash": ["-"], "device": ["/dev/stdin"]}[way]
    run("fit", *words, stdin=b"".join(lines))
    assert (tmp_path / "model.sl").read_bytes() == (learned / "model.sl").read_bytes()


def test_files_are_read_one_after_the_other_and_dash_among_them(run, lines, learned, tmp_path):
    (tmp_path / "a").write_bytes(b"".join(lines[:100]))
    (tmp_path / "c").write_bytes(b"".join(lines[350:]))
    run("fit", "a", "-", "c", "-o", "m", stdin=b"".join(lines[100:350]))
    assert (tmp_path / "m").read_bytes() == (learned / "model.sl").read_bytes()


@pytest.mark.parametrize("packing", PACKERS)
def test_compressed_files_give_the_same_model_whatever_they_are_called(
    run, lines, learned, tmp_path, packing
):
    packed = tmp_path / "data.txt"
    packed.write_bytes(PACKERS[packing](b"".join(lines)))
    run("fit", packed, "-o", "by_file")
    run("fit", "-o", "by_pipe", stdin=packed.read_bytes())
    expected = (learned / "model.sl").read_bytes()
    assert (tmp_path / "by_file").read_bytes() == expected
    assert (tmp_path / "by_pipe").read_bytes() == expected


@pytest.mark.parametrize("packing", PACKERS)
def test_compressed_files_put_together_are_read_to_the_end(
    run, lines, learned, tmp_path, packing
):
    pack = PACKERS[packing]
    run("fit", stdin=pack(b"".join(lines[:200])) + pack(b"".join(lines[200:])))
    assert (tmp_path / "model.sl").read_bytes() == (learned / "model.sl").read_bytes()


def test_a_plain_file_may_be_called_gz(run, lines, learned, tmp_path):
    (tmp_path / "data.svm.gz").write_bytes(b"".join(lines))
    run("fit", "data.svm.gz")
    assert (tmp_path / "model.sl").read_bytes() == (learned / "model.sl").read_bytes()


@pytest.mark.parametrize("ending", ["crlf", "no newline", "crlf, no newline"])
def test_line_endings_change_nothing(run, lines, learned, tmp_path, ending):
    text = b"".join(lines)
    if "crlf" in ending:
        text = text.replace(b"\n", b"\r\n")
    if "no newline" in ending:
        text = text.rstrip(b"\r\n")
    run("fit", stdin=text)
    assert (tmp_path / "model.sl").read_bytes() == (learned / "model.sl").read_bytes()


def test_a_file_without_last_newline_does_not_run_into_the_next(run, lines, learned, tmp_path):
    (tmp_path / "a").write_bytes(b"".join(lines[:300]).rstrip(b"\n"))
    (tmp_path / "b").write_bytes(b"".join(lines[300:]).rstrip(b"\n"))
    run("fit", "a", "b")
    assert (tmp_path / "model.sl").read_bytes() == (learned / "model.sl").read_bytes()


@pytest.mark.parametrize("piece", [1, 7, 1000, "random"])
def test_the_pieces_a_pipe_comes_in_change_nothing(start, lines, learned, tmp_path, piece):
    text, random, at = b"".join(lines), Random(3), 0
    fit = start("fit")
    while at < len(text):
        size = random.randint(1, 3000) if piece == "random" else piece
        fit.write(text[at : at + size])
        at += size
    fit.finish()
    assert (tmp_path / "model.sl").read_bytes() == (learned / "model.sl").read_bytes()


def test_a_compressed_pipe_may_begin_with_a_single_byte(start, lines, learned, tmp_path):
    packed = gzip.compress(b"".join(lines))
    reading, writing = os.pipe()
    try:
        os.write(writing, packed[:1])
        fit = start("fit", stdin=reading)
        deadline = time.monotonic() + 30.0
        while struct.unpack("i", fcntl.ioctl(reading, termios.FIONREAD, bytes(4)))[0]:
            assert time.monotonic() < deadline, "the first byte was never read"
        os.write(writing, packed[1:])
    finally:
        os.close(writing)
        os.close(reading)
    fit.finish()
    assert (tmp_path / "model.sl").read_bytes() == (learned / "model.sl").read_bytes()


def test_a_row_of_a_megabyte_is_one_row(run, model_of, lines, tmp_path):
    long = b"+1 " + b" ".join(b"%d:0.5" % i for i in range(1, 110_001)) + b"\n"
    assert len(long) > 1_000_000
    text = b"".join([*lines[:50], long, *lines[50:100]])
    run("fit", "-o", "by_pipe", stdin=text)
    (tmp_path / "long").write_bytes(gzip.compress(text))
    run("fit", "long", "-o", "by_file")
    model = model_of(tmp_path / "by_pipe")
    assert (model.t, model.seen >= 110_000) == (101, True)
    assert (tmp_path / "by_pipe").read_bytes() == (tmp_path / "by_file").read_bytes()


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_no_examples_make_an_empty_model_and_a_warning(run, model_of, tmp_path, algo):
    shown = run("fit", "--algo", algo, stdin=b"" if algo == "sgd" else b"# nothing\n\n \t\r\n")
    model = model_of(tmp_path / "model.sl")
    assert (model.t, model.nonzeros, model.seen, model.bias) == (0, 0, 0, 0.0)
    assert "warning: no examples: the model is empty" in shown.stderr
    assert float(run("predict", stdin=b"1 1:1\n").stdout) == 0.5


def test_rows_without_features_teach_the_bias(run, model_of, tmp_path):
    run("fit", stdin=b"+1\n" * 60 + b"-1\n" * 20)
    model = model_of(tmp_path / "model.sl")
    assert (model.t, model.nonzeros) == (80, 0)
    assert model.bias > 0.0


# ---- going on ------------------------------------------------------------------------------------


def state_of(path) -> dict:
    """What a state file holds, but for the line numbers of remembered rows, which start anew."""
    state = unpack(path.read_bytes(), "streamlearn-state", path.name)
    del state["checksum"]
    for rows in (*state["learner"]["recent"], state["learner"]["pending"] or {}):
        rows.pop("lines", None)
    return state


KINDS = [*((algo, "logistic") for algo in ALGORITHMS), ("adaptivesl", "squared"),
         ("averagesl", "hinge")]


@pytest.mark.parametrize(("algo", "loss"), KINDS)
def test_resume_equals_uninterrupted(run, rows, tmp_path, algo, loss):
    """Cuts at random places, one of them inside the first hundred (the warm-up of a step size)."""
    texts = rows(1300, seed=5, labels=None if loss == "squared" else ("0", "1"))
    random = Random(f"{algo} {loss}")
    places = [0, random.randint(1, 99), random.randint(100, len(texts) - 1), len(texts)]
    said = ("--algo", algo, "--loss", loss)
    run("fit", *said, "-o", "whole", "--save-state", "whole.state", stdin=b"".join(texts))
    for number, (begin, end) in enumerate(pairwise(places)):
        words = ("--resume", "state") if number else said
        run("fit", *words, "-o", "parts", "--save-state", "state", stdin=b"".join(texts[begin:end]))
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()
    assert state_of(tmp_path / "state") == state_of(tmp_path / "whole.state")


@pytest.mark.parametrize(
    "said",
    [
        ("--normalize", "l2"),
        ("--labels", "0,1"),
        ("--max-features", "20"),
        ("--algo", "asgd", "--no-bias"),
        ("--algo", "optimalsl", "--weights", "suffix", "--total", "400"),
    ],
    ids=" ".join,
)
def test_resume_keeps_every_setting(run, rows, tmp_path, said):
    texts = rows(400, seed=6, labels=("0", "1"))
    run("fit", *said, "-o", "whole", stdin=b"".join(texts))
    run("fit", *said, "--save-state", "state", stdin=b"".join(texts[:173]))
    run("fit", "--resume", "state", "-o", "parts", stdin=b"".join(texts[173:]))
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()


def test_resume_keeps_the_counters_of_bad_and_blank_lines(run, model_of, lines, tmp_path):
    texts = [*lines[:20], b"# a note\n", b"oops\n", *lines[20:40], b"\n", b"1 x:y\n", b"\n"]
    said = ("--on-error", "skip", "--save-state", "state")
    run("fit", *said, "-o", "whole", stdin=b"".join(texts))
    whole = model_of(tmp_path / "whole").counters
    assert (whole["bad_lines"], whole["blank_lines"]) == (2, 3)
    run("fit", *said, "-o", "parts", stdin=b"".join(texts[:22]))
    run("fit", *said, "--resume", "state", "-o", "parts", stdin=b"".join(texts[22:]))
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()


def test_resume_with_nothing_new_gives_the_same_model_and_state(run, learned, tmp_path):
    run("fit", "--resume", learned / "state.sl", "--save-state", "state")
    assert (tmp_path / "model.sl").read_bytes() == (learned / "model.sl").read_bytes()
    assert (tmp_path / "state").read_bytes() == (learned / "state.sl").read_bytes()


def test_a_state_may_be_saved_over_the_one_resumed_from(run, lines, learned, tmp_path):
    run("fit", "--save-state", "state", stdin=b"".join(lines[:77]))
    run("fit", "--resume", "state", "--save-state", "state", stdin=b"".join(lines[77:]))
    assert state_of(tmp_path / "state") == state_of(learned / "state.sl")


@pytest.mark.parametrize(
    ("said", "held", "asked"),
    [
        (("--algo", "sgd"), "adaptivesl", "sgd"),
        (("--loss", "hinge"), "logistic", "hinge"),
        (("--evidence", "2.5"), EVIDENCE, "2.5"),
        (("--normalize", "l2"), "none", "l2"),
        (("--max-features", "17"), "0", "17"),
        (("--l2", "0.125"), "nothing", "0.125"),
        (("--eta", "4"), "eta = auto", "4"),
        (("--labels", "2,3"), "labels", "--labels 2,3"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_resume_refuses_a_flag_that_says_otherwise(run, learned, tmp_path, said, held, asked):
    shown = run("fit", "--resume", learned / "state.sl", *said, code=64)
    assert said[0] in shown.stderr
    assert asked in shown.stderr
    assert held in shown.stderr
    assert not (tmp_path / "model.sl").exists()


def test_resume_accepts_a_flag_that_says_the_same(run, lines, learned):
    run("fit", "--resume", learned / "state.sl", "--evidence", EVIDENCE, "--eta", "auto",
        "--bias", "--loss", "logistic")


@pytest.mark.parametrize(("first", "second"), [(b"-1", b"0"), (b"0", b"-1")])
def test_resume_remembers_how_the_negative_class_is_written(run, tmp_path, first, second):
    run("fit", "--save-state", "state", stdin=b"1 1:1\n" + first + b" 2:1\n")
    shown = run("fit", "--resume", "state", stdin=second + b" 2:1\n", code=65)
    assert "<stdin>:1:1" in shown.stderr
    assert "--labels" in shown.stderr
    run("fit", "--resume", "state", stdin=first + b" 2:1\n")


def test_resume_after_one_class_only_still_learns_how_the_other_is_written(run, model_of, tmp_path):
    run("fit", "--save-state", "state", stdin=b"1 1:1\n")
    run("fit", "--resume", "state", stdin=b"0 2:1\n")
    assert model_of(tmp_path / "model.sl").labels == (0.0, 1.0)


# ---- labels and losses ---------------------------------------------------------------------------


def test_labels_come_back_as_the_data_writes_them(run, rows, model_of, tmp_path):
    """Spellings of one problem: the same weights, and each answers in its own spelling."""
    found = []
    for labels in (("0", "1"), ("-1", "+1"), ("2", "3"), ("3", "2")):
        said = ("--labels", ",".join(labels)) if "2" in labels else ()
        text = b"".join(rows(300, seed=8, labels=labels))
        run("fit", *said, stdin=text)
        told = run("predict", "--output", "label", stdin=text).stdout.decode().split()
        assert set(told) == {label.lstrip("+") for label in labels}
        truth = [line.split()[0].decode().lstrip("+") for line in text.splitlines()]
        assert sum(a == b for a, b in zip(told, truth, strict=True)) > 230
        model = model_of(tmp_path / "model.sl")
        assert model.labels == tuple(map(float, labels))
        found.append((model.bias, model.weights_by_id()))
    assert all(one == found[0] for one in found)


def test_labels_that_are_no_whole_numbers_come_back_as_written(run):
    text = b"0.1 1:1\n0.3 2:1\n" * 40
    run("fit", "--labels", "0.1,0.3", stdin=text)
    told = run("predict", "--output", "label", stdin=text).stdout.decode().split()
    assert set(told) == {"0.1", "0.3"}


@pytest.mark.parametrize("algo", ["adaptivesl", "averagesl"])
def test_regression_learns_numbers(run, rows, tmp_path, algo):
    run("fit", "--loss", "squared", "--algo", algo, stdin=b"".join(rows(3000, 9, labels=None)))
    test = b"".join(rows(3000, 9, labels=None)[-500:])
    figures = json.loads(run("score", "--json", stdin=test).stdout)
    assert figures["r2"] > 0.7
    assert figures["rmse"] ** 2 / 2 == pytest.approx(figures["loss"])


# ---- passes, bounds ------------------------------------------------------------------------------


def test_two_passes_equal_the_file_given_twice(run, data, tmp_path):
    run("fit", data, "--passes", "2", "-o", "passes")
    run("fit", data, data, "-o", "twice")
    assert (tmp_path / "passes").read_bytes() == (tmp_path / "twice").read_bytes()


@pytest.mark.parametrize("words", [(), ("-",), ("data.svm", "-"), ("/dev/stdin",)], ids=" ".join)
def test_passes_over_a_pipe_are_refused(run, data, lines, tmp_path, words):
    shown = run("fit", *words, "--passes", "2", stdin=b"".join(lines[:5]), code=64)
    assert "--passes 2" in shown.stderr
    assert "pipe" in shown.stderr
    assert not (tmp_path / "model.sl").exists()


def test_max_features_keeps_the_first_ones_seen_and_counts_the_rest(
    run, model_of, lines, tmp_path
):
    shown = run("fit", "--max-features", "10", stdin=b"".join(lines))
    model = model_of(tmp_path / "model.sl")
    met: list[int] = []
    ignored = 0
    for line in lines:
        for item in line.split()[1:]:
            id_ = int(item.split(b":")[0])
            if id_ not in met and len(met) == 10:
                ignored += 1
            elif id_ not in met:
                met.append(id_)
    assert model.seen == 10
    assert set(model.weights_by_id()) <= set(met)
    assert model.counters["ignored_features"] == ignored
    assert f"{ignored:,d} values ignored by --max-features" in shown.stderr


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_max_nonzeros_bounds_the_model_not_the_learning(run, model_of, lines, tmp_path, algo):
    text = b"".join(lines)
    said = ("--algo", algo)
    run("fit", *said, "-o", "free", "--save-state", "free.state", stdin=text)
    run("fit", *said, "-o", "five", "--save-state", "five.state", "--max-nonzeros", "5", stdin=text)
    free, five = model_of(tmp_path / "free"), model_of(tmp_path / "five")
    assert free.nonzeros > 5
    assert 1 <= five.nonzeros <= 5
    assert set(five.weights_by_id()) <= set(free.weights_by_id())
    assert (tmp_path / "free.state").read_bytes() == (tmp_path / "five.state").read_bytes()


def test_max_nonzeros_of_none_leaves_the_bias(run, model_of, lines, tmp_path):
    run("fit", "--max-nonzeros", "0", stdin=b"".join(lines))
    assert model_of(tmp_path / "model.sl").nonzeros == 0


def test_the_model_is_exactly_sparse(learned, model_of):
    model = model_of(learned / "model.sl")
    assert 0 < model.nonzeros < model.seen
    assert all(weight != 0.0 for weight in model.weights_by_id().values())


# ---- what is said while learning -----------------------------------------------------------------


def test_the_settings_in_force_are_one_line(run, lines):
    shown = run("fit", "--eta", "4", stdin=b"".join(lines[:5]))
    first = shown.stderr.splitlines()[0]
    for word in ("algo=adaptivesl", "loss=logistic", f"evidence={EVIDENCE}", "eta=4", "bias=true",
                 "normalize=none", "smoothness=auto"):
        assert word in first.split()


def test_the_default_table_has_a_head_a_last_row_and_a_summary(run, learned, lines, model_of):
    shown = run("fit", stdin=b"".join(lines))
    model = model_of(learned / "model.sl")
    _, head, last, summary = shown.stderr.splitlines()
    assert head.split() == ["examples", "loss", "since", "err%", "nonzeros", "density", "ex/s",
                            "seconds"]
    assert last.split()[0] == "600"
    assert last.split()[4] == str(model.nonzeros)
    assert f"model.sl: {model.nonzeros} of {model.seen} features" in summary
    assert shown.stdout == b""


def test_progress_none_says_nothing(run, data):
    shown = run("fit", data, "--progress", "none")
    assert (shown.stdout, shown.stderr) == (b"", "")


def test_progress_bar_counts_examples(run, data):
    shown = run("fit", data, "--progress", "bar")
    assert "\r" in shown.stderr
    assert "600 examples" in shown.stderr
    assert shown.stdout == b""


def test_progress_bar_ends_full(run, lines, tmp_path):
    (tmp_path / "many").write_bytes(b"".join(lines * 25))
    shown = run("fit", "many", "--progress", "bar")
    last = [line for line in shown.stderr.split("\r") if "%" in line][-1]
    assert "100%  15,000 examples" in last


def test_progress_jsonl_parses_and_ends_with_the_model(start, rows, model_of, tmp_path):
    """One row is awaited before more is written, so that there are rows to compare."""
    texts = rows(9000, seed=4)
    fit = start("fit", "--progress", "jsonl")
    for begin, end in pairwise([0, 1000, 2000, 4000, 8000, 9000]):
        fit.write(b"".join(texts[begin:end]))
        if end < 9000:
            fit.wait_for(
                lambda line, end=end: is_row(line) and json.loads(line)["examples"] >= end
            )
    told = [json.loads(line) for line in fit.finish().stderr.splitlines() if is_row(line)]
    assert len(told) >= 5
    assert all(a["examples"] < b["examples"] for a, b in pairwise(told))
    assert all(a["elapsed"] <= b["elapsed"] for a, b in pairwise(told))
    assert all(0.0 <= row["error"] <= 1.0 and row["loss"] > 0.0 for row in told)
    model = model_of(tmp_path / "model.sl")
    last = told[-1]
    assert (last["examples"], last["nonzeros"]) == (9000, model.nonzeros)
    assert last["density"] == pytest.approx(model.density)
    assert last["loss"] == model.progress["loss"] / 9000


def test_no_row_of_the_progress_is_told_twice(run, rows):
    """A file that ends where a row was due: the last row still has something new to say."""
    shown = run("fit", "--progress", "jsonl", stdin=b"".join(rows(2000, seed=4)))
    told = [json.loads(line) for line in shown.stderr.splitlines() if is_row(line)]
    assert told[-1]["examples"] == 2000
    assert all(a["examples"] < b["examples"] for a, b in pairwise(told))
    assert all(row["since"] > 0.0 for row in told)


def test_regression_has_no_error_rate(run, rows):
    shown = run("fit", "--loss", "squared", "--progress", "jsonl",
                stdin=b"".join(rows(50, 2, labels=None)))
    last = [line for line in shown.stderr.splitlines() if is_row(line)][-1]
    assert json.loads(last)["error"] is None


def test_a_trickling_pipe_is_learned_from_before_it_ends(start, rows, tmp_path):
    fit = start("fit", "--progress", "jsonl")
    fit.write(b"".join(rows(2000, seed=4)))
    row = json.loads(fit.wait_for(lambda line: is_row(line)))
    assert 1000 <= row["examples"] <= 2000
    assert fit.process.poll() is None
    assert not (tmp_path / "model.sl").exists()
    fit.finish()


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_data_sorted_by_class_is_warned_of(run, lines, loss):
    shown = run("fit", "--loss", loss, stdin=b"".join(sorted(lines)))
    assert "warning" in shown.stderr
    assert "shuf" in shown.stderr


def test_shuffled_data_is_not_warned_of(run, rows):
    for seed in (1, 2, 3):
        assert "warning" not in run("fit", stdin=b"".join(rows(2000, seed))).stderr


# ---- Ctrl-C --------------------------------------------------------------------------------------


def test_ctrl_c_writes_the_model_so_far_and_says_so(start, run, rows, tmp_path):
    texts = rows(3000, seed=4)
    fit = start("fit", "-o", "m", "--save-state", "s", "--progress", "jsonl")
    fit.write(b"".join(texts[:2500]))
    fit.wait_for(lambda line: is_row(line) and json.loads(line)["examples"] >= 1000)
    fit.process.send_signal(signal.SIGINT)
    shown = fit.finish(code=130)
    said = next(line for line in shown.stderr.splitlines() if "interrupted" in line)
    learned = int("".join(filter(str.isdigit, said)))
    assert 1000 <= learned <= 2500
    run("fit", "-o", "expected", "--save-state", "expected.state", stdin=b"".join(texts[:learned]))
    assert (tmp_path / "m").read_bytes() == (tmp_path / "expected").read_bytes()
    assert (tmp_path / "s").read_bytes() == (tmp_path / "expected.state").read_bytes()


# ---- outputs that fail ---------------------------------------------------------------------------


def test_dash_writes_the_model_to_stdout(run, lines, learned, tmp_path):
    shown = run("fit", "-o", "-", stdin=b"".join(lines))
    assert shown.stdout == (learned / "model.sl").read_bytes()
    assert not (tmp_path / "model.sl").exists()


@pytest.mark.parametrize("flag", ["--output", "--save-state"])
@pytest.mark.parametrize("target", ["nowhere/m", "folder", "file/m"])
def test_an_output_that_cannot_be_is_refused_before_learning(run, lines, tmp_path, flag, target):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    shown = run("fit", flag, target, stdin=b"".join(lines), code=73)
    assert target in shown.stderr
    assert "examples" not in shown.stderr
    assert not (tmp_path / "model.sl").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(run, lines, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    shown = run("fit", "-o", "locked/m", stdin=b"".join(lines), code=73)
    assert "permission" in shown.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("-o", "/dev/full"),
        ("--save-state", "/dev/full"),
        ("--on-error", "quarantine=/dev/full"),
    ],
    ids=" ".join,
)
def test_a_full_device_is_an_error_without_traceback(run, lines, words):
    shown = run("fit", *words, stdin=b"".join([*lines, b"bad\n"][: 600 + ("quar" in words[1])]),
                code=74)
    assert "/dev/full" in shown.stderr
    assert "No space left" in shown.stderr


def test_a_full_stdout_is_an_error_without_traceback(run, lines):
    with open("/dev/full", "wb") as full:
        shown = run("fit", "-o", "-", stdin=b"".join(lines), stdout=full, code=74)
    assert "No space left" in shown.stderr


@pytest.mark.parametrize("flag", ["--output", "--save-state"])
def test_a_full_disk_leaves_the_old_file_and_no_half_one(run, lines, tmp_path, flag):
    """A limit on the size of files stands in for the disk: both fail in the middle of a write."""
    (tmp_path / "out").write_bytes(b"precious")
    shown = run(
        "fit", flag, "out",
        stdin=b"".join(lines),
        env={"PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300)),
        code=74,
    )
    assert "out: writing failed" in shown.stderr
    assert (tmp_path / "out").read_bytes() == b"precious"
    assert leftovers(tmp_path) == []


def test_an_existing_model_is_replaced_whole(run, lines, learned, tmp_path):
    (tmp_path / "model.sl").write_bytes(b"x" * 1_000_000)
    run("fit", stdin=b"".join(lines))
    assert (tmp_path / "model.sl").read_bytes() == (learned / "model.sl").read_bytes()
    assert leftovers(tmp_path) == []


def test_model_and_state_cannot_be_the_same_file(run, lines, tmp_path):
    run("fit", "-o", "same", "--save-state", "same", stdin=b"".join(lines), code=64)
    assert not (tmp_path / "same").exists()


def test_a_named_pipe_takes_the_model(start, lines, learned, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    fit = start("fit", "-o", "pipe")
    fit.write(b"".join(lines))
    fit.process.stdin.close()
    fit.process.stdin = None
    with open(tmp_path / "pipe", "rb") as stream:  # opens when the command does
        assert stream.read() == (learned / "model.sl").read_bytes()
    fit.finish()
    assert (tmp_path / "pipe").is_fifo()


def test_a_reader_of_the_model_that_goes_away_is_no_error(start, lines):
    fit = start("fit", "-o", "-")
    fit.process.stdout.close()
    fit.process.stdout = None
    fit.write(b"".join(lines))
    fit.finish(code=0)


@pytest.mark.parametrize("kind", ["table", "jsonl", "bar"])
def test_a_reader_of_the_progress_that_goes_away_does_not_cost_the_model(
    start, lines, learned, tmp_path, kind
):
    """`fit 2>&1 | head -1`: what was learned is still written."""
    fit = start("fit", "--progress", kind)
    fit.process.stderr.close()
    fit.process.stderr = None
    with suppress(BrokenPipeError):
        fit.write(b"".join(lines))
    fit.finish(code=0)
    assert (tmp_path / "model.sl").read_bytes() == (learned / "model.sl").read_bytes()


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_closed_standard_stream_is_no_crash(run, data, learned, tmp_path, closed):
    """As under a supervisor, or with >&- in a shell."""
    run(
        "fit", data,
        preexec_fn=lambda: os.close(closed),
        **({"stderr": subprocess.DEVNULL} if closed == 2 else {}),
    )
    assert (tmp_path / "model.sl").read_bytes() == (learned / "model.sl").read_bytes()


def test_reading_a_closed_stdin_is_an_error_without_traceback(run):
    shown = run("fit", preexec_fn=lambda: os.close(0), code=64)
    assert "no input" in shown.stderr


def test_stdin_named_twice_is_no_crash(run, lines):
    shown = run("fit", "-", "-", stdin=b"".join(lines), code=64)
    assert "-" in shown.stderr


@pytest.mark.parametrize("algo", ["adaptivesl", "averagesl", "optimalsl"])
def test_two_threads_learn_the_same_bits(run, rows, tmp_path, algo):
    lines = [*rows(3000, 4), b"\n", b"# a comment\n", *[b"bad line\n"] * 30, *rows(50, 5), b"\n"]
    (tmp_path / "long.svm").write_bytes(b"".join(lines) * 5)  # several blocks
    for threads in (1, 2):
        run("fit", "long.svm", "long.svm", "--algo", algo, "--threads", threads, "--on-error",
            "skip", "-o", f"{threads}.sl", "--save-state", f"{threads}.state")  # fmt: skip
    for kind in ("sl", "state"):
        assert (tmp_path / f"1.{kind}").read_bytes() == (tmp_path / f"2.{kind}").read_bytes()


def test_tiny_values_of_scaled_rows_survive_a_resume(run, tmp_path):
    """A row scaled to unit length may hold values below 1e-50; its state must keep them."""
    lines = [b"%+d 1:1e40 2:%d.5e-30 3:1\n" % ((-1) ** i, i) for i in range(40)]
    run("fit", "--normalize", "l2", "-o", "one.sl", "--save-state", "one", stdin=b"".join(lines))
    run("fit", "--normalize", "l2", "--save-state", "half", stdin=b"".join(lines[:20]))
    run("fit", "--resume", "half", "-o", "two.sl", "--save-state", "two",
        stdin=b"".join(lines[20:]))  # fmt: skip
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert (tmp_path / "one.sl").read_bytes() == (tmp_path / "two.sl").read_bytes()
