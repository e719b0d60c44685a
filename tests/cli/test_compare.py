"""`compare`: one reading of the data, many learners, each what `fit` alone would make of it."""

import importlib.util
import itertools
import json
import re
import struct
import time
from itertools import pairwise

import pytest

from streamlearn.catalogue import LOSSES
from streamlearn.catalogue import STREAMING as ALGORITHMS
from streamlearn.comparison import FIRST_POINT, Comparison, Contender, TestSet, line_up
from streamlearn.engine.block import Block
from streamlearn.engine.libsvm import Parser
from streamlearn.errors import UsageError
from streamlearn.sources import open_source
from streamlearn.training import BadLines, Training

needs_matplotlib = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib (extra plot) is missing"
)
DIVERGES = ("--loss", "squared", "--algo", "sgd,adaptivesl", "--set", "sgd.t0=0", "--set",
            "sgd.l2=1e-9")


@pytest.fixture
def judged_by(tmp_path, rows):
    """A file of rows that models are judged by."""
    path = tmp_path / "test.svm"
    path.write_bytes(b"".join(rows(300, seed=9)))
    return path


@pytest.fixture
def compare(run, data, judged_by):
    """compare(*words): the objects of --json."""

    def compare(*words, files=(data,), **options):
        shown = run("compare", *files, "--test", judged_by, "--json", *words, **options)
        return json.loads(shown.stdout)

    return compare


@pytest.fixture
def regression(tmp_path, rows):
    """Files to learn from and to be judged by, with numbers as labels."""
    paths = tmp_path / "numbers", tmp_path / "numbers.test"
    for path, count, seed in zip(paths, (600, 100), (2, 3), strict=True):
        path.write_bytes(b"".join(rows(count, seed, labels=None)))
    return paths


def untimed(told):
    return [{k: v for k, v in row.items() if k != "ns_a_feature"} for row in told]


def compared(path, judged_by, shared, normalize, threads, curves, loss="logistic"):
    """A comparison of everything, by way of the library."""
    test = TestSet.read(open_source(str(judged_by)), loss, None, normalize, BadLines())
    entrants = line_up(list(ALGORITHMS), loss, shared, {})
    comparison = Comparison(entrants, test, None, normalize, threads, curves)
    comparison.run([open_source(str(path))], BadLines("skip"))
    return comparison.contenders


# ---- the same as fit -----------------------------------------------------------------------------


@pytest.mark.parametrize(("normalize", "threads", "curves"),
                         [("none", 2, True), ("l2", 2, True), ("none", 1, False), ("l2", 3, False)])
def test_every_learner_becomes_the_model_of_fit_byte_for_byte(
    run, rows, judged_by, tmp_path, normalize, threads, curves
):
    """Long enough for several blocks; bad and blank lines are counted as fit counts them."""
    lines = rows(12000, seed=4)
    lines[4000:4000] = [b"junk\n", b"\n"]
    path = tmp_path / "many"
    path.write_bytes(b"".join(lines))
    assert path.stat().st_size > 2 * 2**18
    contenders = compared(path, judged_by, {"l1": [1e-3]}, normalize, threads, curves)
    assert [c.entrant.algo for c in contenders] == list(ALGORITHMS)
    for contender in contenders:
        algo = contender.entrant.algo
        l1 = ("--l1", "1e-3") if "l1" in ALGORITHMS[algo].parameters else ()
        run("fit", path, "--algo", algo, *l1, "--normalize", normalize, "--on-error", "skip",
            "--progress", "none", "-o", "model")
        assert contender.model.to_bytes() == (tmp_path / "model").read_bytes(), algo


@pytest.mark.parametrize("loss", LOSSES)
def test_the_figures_are_those_of_score(run, data, judged_by, regression, tmp_path, loss):
    path, test = (data, judged_by) if LOSSES[loss].classifies else regression
    shown = run("compare", path, "--test", test, "--loss", loss, "--normalize", "l2", "--json")
    for row in json.loads(shown.stdout):
        run("fit", path, "--loss", loss, "--normalize", "l2", "--algo", row["algo"])
        told = json.loads(run("score", test, "--json").stdout)
        names = ("loss", "error" if LOSSES[loss].classifies else "rmse", "nonzeros", "density")
        assert {name: row[name] for name in names} == {name: told[name] for name in names}


def test_a_point_of_the_curve_is_the_model_of_so_many_examples(run, lines, judged_by, compare):
    for row in compare():
        assert [p["examples"] for p in row["curve"]] == [FIRST_POINT, 2 * FIRST_POINT,
                                                         4 * FIRST_POINT, 600]
        run("fit", "--algo", row["algo"], stdin=b"".join(lines[: 2 * FIRST_POINT]))
        told = json.loads(run("score", judged_by, "--json").stdout)
        assert (row["curve"][1]["loss"], row["curve"][1]["nonzeros"]) == (
            told["loss"], told["nonzeros"])
        assert row["curve"][-1]["loss"] == row["loss"]


def test_threads_change_nothing(compare):
    words = ("--l1", "1e-3,1e-5")
    one, two, many = (compare(*words, "--threads", n) for n in (1, 2, 9))
    assert untimed(one) == untimed(two) == untimed(many)


def test_a_pipe_and_files_in_pieces_give_the_same(compare, lines, tmp_path):
    (tmp_path / "a").write_bytes(b"".join(lines[:130]))
    (tmp_path / "b").write_bytes(b"".join(lines[130:]))
    whole = untimed(compare())
    assert untimed(compare(files=("a", "b"))) == whole
    assert untimed(compare(files=(), stdin=b"".join(lines))) == whole


def test_passes_are_those_of_fit(run, compare, data, judged_by):
    (row,) = compare("--algo", "averagesl", "--passes", "3")
    run("fit", data, "--algo", "averagesl", "--passes", "3")
    assert row["examples"] == 1800
    assert row["loss"] == json.loads(run("score", judged_by, "--json").stdout)["loss"]


# ---- what is shown -------------------------------------------------------------------------------


def test_the_table_has_a_row_for_each_algorithm(run, compare, data, judged_by):
    shown = run("compare", data, "--test", judged_by, "--algo", "all")
    head, *rows = shown.stdout.decode().splitlines()
    assert re.split(r"  +", head) == ["algo", "test loss", "error", "non-zeros", "density",
                                      "violation", "ns/feature", "memory"]
    assert len({len(row) for row in (head, *rows)}) == 1
    told = compare()
    assert len(told) == len(rows) == len(ALGORITHMS)
    for row, facts in zip(rows, told, strict=True):
        algo, loss, error, nonzeros, density, violation, speed, memory = re.split(r"  +", row)
        assert algo == facts["algo"]
        assert loss == f"{facts['loss']:.6f}"
        assert error == f"{facts['error']:.4f}"
        assert nonzeros == f"{facts['nonzeros']:,d}"
        assert density == f"{facts['density']:.4f}"
        known = facts["violation"]
        assert violation == ("-" if known is None else f"{known:.2e}")
        assert float(speed) > 0.0
        assert facts["ns_a_feature"] > 0.0
        assert memory == f"{facts['memory'] / 1e3:.0f} kB"
    assert "600 examples" in shown.stderr


def test_what_varies_has_a_column(run, data, judged_by):
    words = ("--algo", "sgd,adaptivesl", "--l2", "1e-3,1e-4", "--evidence", "2")
    head, *rows = run("compare", data, "--test", judged_by, *words).stdout.decode().splitlines()
    assert head.split()[:2] == ["algo", "setting"]
    assert [row.split()[:2] for row in rows[:2]] == [["sgd", "l2=0.001"], ["sgd", "l2=0.0001"]]
    assert rows[2].split()[0] == "adaptivesl"
    assert "=" not in rows[2]


def test_regression_tells_rmse(run, regression):
    path, test = regression
    shown = run("compare", path, "--test", test, "--loss", "squared", "--algo", "adaptivesl")
    assert " rmse " in shown.stdout.decode().splitlines()[0]


def test_curves_go_on(compare):
    for row in compare():
        examples = [point["examples"] for point in row["curve"]]
        assert all(a < b for a, b in pairwise(examples))
        assert {*row["curve"][0]} == {"examples", "nonzeros", "loss", "error"}


@needs_matplotlib
def test_a_picture_is_drawn(run, data, judged_by, tmp_path):
    words = ("--l1", "1e-1,1e-3", "--plot", "out.png")
    shown = run("compare", data, "--test", judged_by, *words, env={"MPLCONFIGDIR": str(tmp_path)})
    picture = (tmp_path / "out.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert struct.unpack(">II", picture[16:24]) == (1200, 800)
    assert len(shown.stdout.splitlines()) == 1 + 2 * sum(
        "l1" in a.parameters for a in ALGORITHMS.values()
    ) + sum("l1" not in a.parameters for a in ALGORITHMS.values())


@needs_matplotlib
def test_a_picture_that_cannot_be_is_refused_before_learning(run, data, judged_by, tmp_path):
    env = {"MPLCONFIGDIR": str(tmp_path)}
    shown = run("compare", data, "--test", judged_by, "--plot", "x.tune", code=64, env=env)
    assert ".tune" in shown.stderr
    assert "png" in shown.stderr
    run("compare", data, "--test", judged_by, "--plot", "nowhere/x.png", code=73, env=env)
    run("compare", data, "--test", judged_by, "--plot", data, code=64, env=env)


def test_a_picture_without_matplotlib_is_refused_with_advice(run, data, judged_by, tmp_path):
    (tmp_path / "no" / "matplotlib").mkdir(parents=True)
    (tmp_path / "no" / "matplotlib" / "__init__.py").write_text("raise ImportError('not here')\n")
    import streamlearn

    home = streamlearn.__path__[0].removesuffix("/streamlearn")
    env = {"PYTHONPATH": f"{tmp_path / 'no'}:{home}"}
    shown = run("compare", data, "--test", judged_by, "--plot", "x.png", code=64, env=env)
    assert "pip install 'streamlearn[plot]'" in shown.stderr
    assert not (tmp_path / "x.png").exists()


# ---- learners that diverge -----------------------------------------------------------------------


def test_a_learner_that_diverges_has_a_row_and_the_others_go_on(run, regression):
    path, test = regression
    alone = run("fit", path, "--loss", "squared", "--algo", "sgd", "--t0", "0", "--l2", "1e-9",
                code=65).stderr
    example = re.search(r"example (\d+)", alone)[1]
    shown = run("compare", path, "--test", test, *DIVERGES)
    _, broken, sound = shown.stdout.decode().splitlines()
    assert broken.split() == ["sgd", "diverged", "at", "example", example]
    assert sound.split()[0] == "adaptivesl"
    assert float(sound.split()[1]) > 0.0
    assert str(path) in shown.stderr
    told = json.loads(run("compare", path, "--test", test, "--json", *DIVERGES).stdout)
    assert told[0]["diverged"]["example"] == int(example)
    assert told[0]["loss"] is None
    assert told[1]["diverged"] is None
    alone = json.loads(run("compare", path, "--test", test, "--json", "--loss", "squared",
                           "--algo", "adaptivesl").stdout)
    assert untimed(told[1:]) == untimed(alone)


def test_when_all_diverge_the_exit_code_tells(run, regression):
    path, test = regression
    words = ("--loss", "squared", "--algo", "sgd", "--t0", "0", "--l2", "1e-9,1e-8")
    shown = run("compare", path, "--test", test, *words, code=65)
    assert shown.stdout.count(b"diverged at example") == 2


# ---- what is asked for ---------------------------------------------------------------------------


def test_a_parameter_goes_to_those_who_take_it(compare):
    told = compare("--algo", "adaptivesl,sgd", "--l2", "0.01", "--evidence", "3")
    assert [row["settings"].get("l2") for row in told] == [None, 0.01]
    assert [row["settings"].get("evidence") for row in told] == [3.0, None]
    assert [row["varied"] for row in told] == [{}, {}]


def test_set_is_for_one_and_wins(compare):
    told = compare("--algo", "sgd,lastsl,adaptivesl", "--l2", "0.01", "--set", "sgd.l2=0.1,0.2",
                   "--set", "sgd.l1-step=subgradient", "--no-bias")
    assert [(row["algo"], row["settings"].get("l2")) for row in told] == [
        ("sgd", 0.1), ("sgd", 0.2), ("lastsl", 0.01), ("adaptivesl", None)]
    assert [row["settings"].get("l1_step") for row in told] == ["subgradient", "subgradient",
                                                               "clip", None]
    assert not any(row["settings"]["bias"] for row in told)
    assert told[1]["varied"] == {"l2": 0.2}


def test_all_combinations_are_tried_and_nothing_twice(compare):
    told = compare("--algo", "sgd,sgd", "--l1", "0,1e-3,0", "--l2", "1e-2,1e-3")
    assert [(row["varied"]["l1"], row["varied"]["l2"]) for row in told] == [
        (0.0, 1e-2), (0.0, 1e-3), (1e-3, 1e-2), (1e-3, 1e-3)]


def test_the_environment_speaks_too(compare):
    env = {"STREAMLEARN_ALGO": "sgd,asgd", "STREAMLEARN_L1": "1e-3,1e-4"}
    assert [row["algo"] for row in compare(env=env)] == ["sgd", "sgd", "asgd", "asgd"]


def test_of_all_those_that_cannot_are_left_out_with_a_note(run, data, judged_by):
    words = ("--evidence", "2", "--l1", "1e-3")
    shown = run("compare", data, "--test", judged_by, *words)
    assert "note: adaptivesl takes no part" in shown.stderr
    assert b"adaptivesl" not in shown.stdout
    run("compare", data, "--test", judged_by, *words, "--algo", "adaptivesl,sgd", code=64)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--algo", "sgd,avragesl"), ["'avragesl'", "did you mean 'averagesl'?"]),
        (("--algo", "nonsense-"), ["known: ", "adaptivesl"]),
        (("--algo", ""), ["--algo"]),
        (("--algo", "sgd", "--evidence", "1"), ["--evidence", "means nothing to sgd",
                                                "adaptivesl"]),
        (("--l1", "1e-3,x"), ["--l1", "'x'", "a number >= 0"]),
        (("--set", "avragesl.l1=1"), ["did you mean 'averagesl'?"]),
        (("--set", "sgd.step-kap=on"), ["did you mean 'step_cap'?"]),
        (("--set", "sgd.evidence=1"), ["takes no such parameter"]),
        (("--set", "sgd.l1=-1"), ["a number >= 0"]),
        (("--set", "sgd"), ["ALGO.PARAMETER=VALUE"]),
        (("--algo", "asgd", "--set", "sgd.l1=1"), ["takes no part", "asgd"]),
        (("--threads", "0"), ["--threads 0", ">= 1"]),
        (("--loss", "squared", "--labels", "2,3"), ["--labels"]),
        (("--lables", "2,3"), ["did you mean --labels?"]),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, tuple) else "",
)
def test_what_makes_no_sense_is_refused(run, data, judged_by, words, said):
    shown = run("compare", data, "--test", judged_by, *words, code=64)
    assert shown.stdout == b""
    for text in said:
        assert text in shown.stderr


def test_a_first_phase_gets_its_parameters_and_its_own_need_of_a_ridge():
    shared = {"phase_one": ["smidas", "orda", "tg"], "eta": [0.05], "p": [3.0, 5.0]}
    entrants = line_up(["optimalsl", "smidas"], "logistic", shared, {})
    held = [(e.algo, e.settings.get("phase_one"), e.settings.get("p"), e.settings.get("l2"))
            for e in entrants]
    assert held == [
        ("optimalsl", "smidas", 3.0, 1e-5), ("optimalsl", "smidas", 5.0, 1e-5),
        ("optimalsl", "orda", None, 0.1), ("optimalsl", "tg", None, 1e-5),
        ("smidas", None, 3.0, None), ("smidas", None, 5.0, None),
    ]  # fmt: skip
    assert entrants[0].varied == {"phase_one": "smidas", "p": 3.0}
    own = {"optimalsl": {"phase_one": ["smidas"], "p": [4.0]}}
    (entrant,) = line_up(["optimalsl"], "logistic", {}, own)
    assert entrant.settings["p"] == 4.0


def test_what_is_shared_goes_only_where_it_has_an_effect():
    shared = {"regularizer": ["kl", "l1"], "l1": [0.1, 0.2]}
    entrants = line_up(["rda"], "logistic", shared, {})
    assert [e.varied["regularizer"] for e in entrants] == ["kl", "l1", "l1"]
    with pytest.raises(UsageError, match="no effect with --regularizer kl"):
        line_up(["rda"], "logistic", {}, {"rda": {"regularizer": ["kl"], "l1": [0.1]}})


def test_all_may_stand_beside_others(compare):
    rows = compare("--algo", "all,scd", "--iterations", "1000")
    assert [row["algo"] for row in rows][-2:] == ["l1ball", "scd"]


def test_the_time_of_a_batch_method_is_that_of_its_solution(monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr(time, "thread_time", lambda: next(clock))
    block = Block()
    Parser("binary").parse(b"1 1:1\n-1 2:1\n", 0, 13, block)
    spent = {}
    for algo in ("scd", "sgd"):
        (entrant,) = line_up([algo], "logistic", {}, {})
        contender = Contender(entrant, Training(entrant.settings))
        contender.learn(block, "here", None)
        contender.finish(TestSet([block], "logistic"))
        spent[algo] = contender.seconds
    assert spent == {"scd": 2, "sgd": 1}  # to learn, and to solve


def test_line_up_refuses_by_itself():
    with pytest.raises(UsageError, match="means nothing to sgd"):
        line_up(["sgd"], "logistic", {"evidence": [1.0]}, {})
    refused = {}
    with pytest.raises(UsageError, match="two penalties"):
        line_up(["adaptivesl"], "logistic", {"evidence": [1.0], "l1": [1.0]}, {}, refused)


# ---- input ---------------------------------------------------------------------------------------


def test_a_test_file_is_needed(run, data, tmp_path):
    assert "--test" in run("compare", data, code=64).stderr
    run("compare", data, "--test", "nowhere", code=66)
    run("compare", "-", "--test", "-", stdin=b"1 1:1\n", code=64)
    (tmp_path / "empty").write_bytes(b"")
    assert "empty: no examples" in run("compare", data, "--test", "empty", code=65).stderr
    (tmp_path / "light").write_bytes(b"1:0 1:1\n")
    assert "add up to 0" in run("compare", data, "--test", "light", code=65).stderr


@pytest.mark.parametrize("bad", ["train", "test"])
def test_bad_lines_are_met_as_fit_meets_them(run, lines, rows, tmp_path, bad):
    (tmp_path / "train").write_bytes(b"".join(lines))
    (tmp_path / "test").write_bytes(b"".join(rows(300, seed=9)))
    with (tmp_path / bad).open("ab") as stream:
        stream.write(b"1 2:x\n1 2:y\n")
    words = ("compare", "train", "--test", "test", "--algo", "sgd")
    assert re.search(rf"{bad}:\d01:5", run(*words, code=65).stderr)
    assert "1 so far" in run(*words, "--on-error", "skip").stderr
    run(*words, "--on-error", "skip", "--max-errors", "1", code=65)
    run(*words, "--on-error", "skip", "--max-errors", "2")
    run(*words, "--on-error", "quarantine=aside")
    assert (tmp_path / "aside").read_bytes() == b"1 2:x\n1 2:y\n"


def test_an_empty_stream_is_warned_of(run, judged_by):
    shown = run("compare", "--test", judged_by, "--json")
    assert "no examples" in shown.stderr
    assert {row["nonzeros"] for row in json.loads(shown.stdout)} == {0}


def test_labels_are_those_of_the_data(run, rows, tmp_path, compare):
    for name, seed, count in (("train", 1, 600), ("test23", 9, 300)):
        (tmp_path / name).write_bytes(b"".join(rows(count, seed, labels=("2", "3"))))
    words = ("--algo", "sgd", "--json")
    shown = run("compare", "train", "--test", "test23", "--labels", "2,3", *words)
    assert untimed(json.loads(shown.stdout)) == untimed(compare("--algo", "sgd"))
