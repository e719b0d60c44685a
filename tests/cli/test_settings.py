"""Settings by file, environment and flags; help, versions, and near misses of every kind."""

from pathlib import Path

import pytest

from streamlearn._version import __version__
from streamlearn.catalogue import ALGORITHMS, LOSSES, PARAMETERS
from streamlearn.cli import COMMANDS

GOOD = b"+1 1:1 2:0.5\n-1 2:1 3:2\n"
CONF = Path(__file__).resolve().parents[2] / "conf" / "streamlearn.toml"


def in_force(shown) -> dict[str, str]:
    """The settings that a fit says it runs with."""
    return dict(word.split("=", 1) for word in shown.stderr.splitlines()[0].split() if "=" in word)


# ---- precedence ----------------------------------------------------------------------------------


def test_defaults_then_file_then_environment_then_flags(run, model_of, tmp_path):
    (tmp_path / "c.toml").write_text('eta = 2\nevidence = 2\nnormalize = "l2"\nbias = false\n')
    env = {"STREAMLEARN_ETA": "3", "STREAMLEARN_EVIDENCE": "3"}
    told = in_force(run("fit", "--config", "c.toml", "--eta", "4", env=env, stdin=GOOD))
    assert told["loss"] == "logistic"  # by default
    assert (told["normalize"], told["bias"]) == ("l2", "false")  # by the file
    assert told["evidence"] == "3"  # by the environment
    assert told["eta"] == "4"  # by a flag
    model = model_of(tmp_path / "model.sl")
    assert (model.settings["eta"], model.settings["evidence"]) == (4.0, 3.0)
    assert (model.settings["bias"], model.normalize, model.bias) == (False, "l2", 0.0)


def test_the_three_ways_of_saying_give_the_same_model(run, data, tmp_path):
    said = {"algo": "averagesl", "loss": "squared_hinge", "l1": "0.001", "l2": "0.01", "t0": "auto",
            "weights": "suffix", "alpha": "0.5", "total": "600", "labels": "-1,1", "passes": "2",
            "on_error": "skip", "max_errors": "3", "progress": "none"}
    flags = [w for k, v in said.items() for w in (f"--{k.replace('_', '-')}={v}",)]
    run("fit", data, "-o", "flags", *flags, "--no-bias")
    env = {f"STREAMLEARN_{k.upper()}": v for k, v in {**said, "bias": "false"}.items()}
    run("fit", data, "-o", "environment", env=env)
    numbers = ("l1", "l2", "alpha", "total", "passes", "max_errors")
    toml = [f"{k} = {v}" if k in numbers else f'{k} = "{v}"' for k, v in said.items()]
    (tmp_path / "c.toml").write_text("\n".join([*toml, "bias = false"]))
    run("fit", data, "-o", "file", "--config", "c.toml")
    expected = (tmp_path / "flags").read_bytes()
    assert (tmp_path / "environment").read_bytes() == expected
    assert (tmp_path / "file").read_bytes() == expected


def test_the_conf_file_that_we_ship_is_legal_and_holds_the_defaults(run, lines, learned, tmp_path):
    run("fit", "--config", CONF, stdin=b"".join(lines))
    assert (tmp_path / "model.sl").read_bytes() == (learned / "model.sl").read_bytes()


def test_settings_of_a_fit_in_the_environment_do_not_trouble_other_commands(run, learned):
    env = {"STREAMLEARN_ALGO": "sgd", "STREAMLEARN_L1": "1", "STREAMLEARN_PROGRESS": "none"}
    run("predict", "-m", learned / "model.sl", env=env, stdin=GOOD)


def test_the_environment_decides_over_bad_lines_of_predict(run, learned):
    env = {"STREAMLEARN_ON_ERROR": "skip"}
    shown = run("predict", "-m", learned / "model.sl", env=env, stdin=GOOD + b"junk\n")
    assert len(shown.stdout.splitlines()) == 2


def test_the_variable_of_the_build_is_no_setting(run):
    run("fit", env={"STREAMLEARN_SANITIZE": "1"}, stdin=GOOD)


# ---- settings that are not legal -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("evidnce = 1", ["'evidnce'", "'evidence'"]),
        ("[fit]\nl1 = 1", ["'fit'"]),
        ("eta = 'fast'", ["eta", "'fast'", "a number > 0"]),
        ("eta = -1", ["eta", "-1", "a number > 0"]),
        ("eta = nan", ["eta", "a number > 0"]),
        ("passes = 0", ["passes", "whole number >= 1"]),
        ("passes = 1.5", ["passes", "whole number"]),
        ("algo = 'avragesl'", ["algo", "'averagesl'"]),
        ("bias = 'maybe'", ["bias", "true or false"]),
        ("labels = [0, 1]", ["labels", "single value"]),
        ("labels = '1,1'", ["labels", "different"]),
        ("on_error = 'ignore'", ["on_error", "stop, skip or quarantine=FILE"]),
        ("progress = 'loud'", ["progress", "table, bar, jsonl, none"]),
        ("l1 = ", ["not TOML"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_setting_in_a_file_is_named(run, tmp_path, toml, words):
    (tmp_path / "c.toml").write_text(toml)
    shown = run("fit", "--config", "c.toml", stdin=GOOD, code=78)
    assert shown.stderr.startswith("streamlearn: c.toml: ")
    assert [word for word in words if word not in shown.stderr] == []
    assert not (tmp_path / "model.sl").exists()


@pytest.mark.parametrize(
    ("variable", "text", "words"),
    [
        ("STREAMLEARN_EVIDNCE", "1", ["'evidence'"]),
        ("STREAMLEARN_L1", "much", ["much", "a number >= 0"]),
        ("STREAMLEARN_L1", "", ["a number >= 0"]),
        ("STREAMLEARN_BIAS", "perhaps", ["perhaps", "true or false"]),
        ("STREAMLEARN_LOSS", "logstic", ["'logistic'"]),
        ("STREAMLEARN_MAX_ERRORS", "-1", ["whole number >= 0"]),
    ],
)
def test_a_bad_setting_in_the_environment_is_named(run, tmp_path, variable, text, words):
    shown = run("fit", env={variable: text}, stdin=GOOD, code=78)
    assert shown.stderr.startswith(f"streamlearn: {variable}")
    assert [word for word in words if word not in shown.stderr] == []
    assert not (tmp_path / "model.sl").exists()


def test_a_variable_that_is_not_its_own_does_not_trouble_predict(run, learned):
    shown = run("predict", "-m", learned / "model.sl", env={"STREAMLEARN_L1": "1"}, stdin=GOOD)
    assert shown.stderr == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--algo", "avragesl"], ["--algo avragesl", "'averagesl'"]),
        (["--algo", "zzz"], [*ALGORITHMS]),
        (["--loss", "squard"], ["'squared'"]),
        (["--loss", "zzz"], [*LOSSES]),
        (["--l1", "-1"], ["--l1 -1", "a number >= 0"]),
        (["--l1", "inf"], ["--l1 inf"]),
        (["--algo", "sgd", "--l2", "0"], ["--l2 0", ">= 1e-15"]),
        (["--algo", "asgd", "--alpha", "1"], ["--alpha 1", "< 1"]),
        (["--evidence", "lots"], ["--evidence lots"]),
        (["--max-features", "2.5"], ["--max-features 2.5", "whole number"]),
        (["--max-nonzeros", "-1"], ["--max-nonzeros -1", "whole number"]),
        (["--passes", "0"], ["--passes 0"]),
        (["--labels", "1"], ["--labels 1", "NEG,POS"]),
        (["--labels", "3,3"], ["different labels"]),
        (["--labels", "nan,1"], ["--labels nan,1"]),
        (["--labels", "0,inf"], ["--labels 0,inf"]),
        (["--labels", "2,3", "--loss", "squared"], ["--labels", "squared"]),
        (["--on-error", "quarantine="], ["quarantine=FILE"]),
        (["--normalize", "l1"], ["none, l2"]),
        (["--algo", "sgd", "--evidence", "1"], ["--evidence", "sgd", "adaptivesl"]),
        (["--l2", "1"], ["--l2", "adaptivesl", "averagesl"]),
        (["--evidence", "1", "--l1", "1"], ["--l1", "--evidence"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_a_bad_flag_is_refused_with_what_is_accepted(run, tmp_path, words, said):
    shown = run("fit", *words, stdin=GOOD, code=64)
    assert len(shown.stderr.splitlines()) == 1
    assert [word for word in said if word not in shown.stderr] == []
    assert not (tmp_path / "model.sl").exists()


# ---- near misses ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["fti"], "'fit'"),
        (["predcit", "x"], "'predict'"),
        (["zzz"], "streamlearn --help"),
        (["fit", "--algoo", "sgd"], "--algo?"),
        (["fit", "--on-eror=skip"], "--on-error?"),
        (["predict", "--modle", "m"], "--model?"),
        (["check", "--jsno"], "--json?"),
        (["snapshot", "s", "--max-nonzero", "3"], "--max-nonzeros?"),
        (["fit", "--max-nonz", "3"], "--max-nonzeros?"),  # no silent abbreviations
        (["top"], "MODEL"),
        (["--verison"], "streamlearn --help"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_misspelt_word_is_met_with_the_nearest_one(run, words, hint):
    shown = run(*words, code=64)
    assert hint in shown.stderr
    assert len(shown.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "words", [["fit", "--algo"], ["predict", "--output", "loud"]], ids=" ".join
)
def test_no_other_word_is_proposed_where_the_flag_was_right(run, words):
    shown = run(*words, code=64)
    assert words[1] in shown.stderr
    assert "did you mean" not in shown.stderr


def test_probabilities_need_the_logistic_loss(run, tmp_path):
    run("fit", "--loss", "hinge", stdin=GOOD)
    shown = run("predict", "--output", "probability", stdin=GOOD, code=64)
    assert "logistic" in shown.stderr
    assert "hinge" in shown.stderr


def test_quarantine_belongs_to_fit(run, learned):
    shown = run("predict", "-m", learned / "model.sl", "--on-error", "quarantine=x", stdin=GOOD,
                code=64)
    assert "fit" in shown.stderr


# ---- help ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(run, command):
    shown = run(command, "--help")
    assert shown.stdout.startswith(f"usage: streamlearn {command}".encode())
    assert shown.stderr == ""


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_the_overview_names_every_command(run, word):
    told = run(word).stdout.decode()
    assert [name for name in COMMANDS if f"  {name} " not in told] == []


def test_nothing_at_all_shows_the_overview_and_fails(run):
    assert b"usage: streamlearn COMMAND" in run(code=64).stdout


@pytest.mark.parametrize("word", ["--version", "-V"])
def test_the_version_is_told(run, word):
    assert run(word).stdout.decode() == f"streamlearn {__version__}\n"


def test_the_help_of_fit_names_every_algorithm_and_default(run):
    told = run("fit", "--help").stdout.decode()
    assert [name for name in ALGORITHMS if name not in told] == []
    assert "(default: adaptivesl)" in told
    assert f"(default: {PARAMETERS['evidence'].default})" in told
