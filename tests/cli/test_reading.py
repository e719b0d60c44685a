"""Commands that only read: predict, score, inspect, top, check, snapshot. Figures against numpy."""

import json
import math
import os
import subprocess

import numpy as np
import pytest

from streamlearn.catalogue import PARAMETERS
from streamlearn.catalogue import STREAMING as ALGORITHMS

GOOD = b"+1 1:1 2:0.5\n-1 2:1 3:2\n"
EVIDENCE = PARAMETERS["evidence"].default


def parsed(text: bytes) -> tuple[np.ndarray, np.ndarray, list[dict[int, float]]]:
    """Labels, importance weights and rows of clean text, the slow way."""
    labels, weights, found = [], [], []
    for line in text.splitlines():
        head, *items = line.split()
        label, _, weight = head.partition(b":")
        labels.append(float(label))
        weights.append(float(weight or 1))
        pairs = (item.split(b":") for item in items)
        found.append({int(id_): float(value) for id_, value in pairs})
    return np.array(labels), np.array(weights), found


def margins_of(model, found: list[dict[int, float]], unit: bool = False) -> np.ndarray:
    by_id, margins = model.weights_by_id(), []
    for row in found:
        length = math.sqrt(sum(v * v for v in row.values())) if unit and row else 1.0
        margins.append(model.bias + sum(by_id.get(i, 0.0) * v / length for i, v in row.items()))
    return np.array(margins)


def numbers(shown) -> np.ndarray:
    return np.array([float(line) for line in shown.stdout.splitlines()])


def pair_auc(margin: np.ndarray, y: np.ndarray, weight: np.ndarray) -> float:
    """Every pair of a positive and a negative, ties counting half."""
    up, down = y > 0, y <= 0
    wins = (margin[up][:, None] > margin[down]) + 0.5 * (margin[up][:, None] == margin[down])
    pairs = weight[up][:, None] * weight[down]
    return float((wins * pairs).sum() / pairs.sum())


# ---- predict -------------------------------------------------------------------------------------


def test_predictions_are_the_model_applied(run, rows, learned, model_of, tmp_path):
    text = b"".join(rows(200, seed=11))
    (tmp_path / "new.svm").write_bytes(text)
    model = ("-m", learned / "model.sl")
    margins = numbers(run("predict", *model, "new.svm", "--output", "margin"))
    expected = margins_of(model_of(learned / "model.sl"), parsed(text)[2])
    np.testing.assert_allclose(margins, expected, rtol=1e-12, atol=1e-12)
    probabilities = numbers(run("predict", *model, stdin=text))
    np.testing.assert_allclose(probabilities, 1 / (1 + np.exp(-margins)), rtol=1e-14)
    labels = numbers(run("predict", *model, "--output", "label", stdin=text))
    assert labels.tolist() == np.where(margins > 0, 1.0, -1.0).tolist()


def test_predictions_do_not_depend_on_labels_and_keep_the_order(run, lines, learned):
    model = ("-m", learned / "model.sl")
    told = run("predict", *model, stdin=b"".join(lines[:50])).stdout
    other = [b"17.5" + line[2:] for line in lines[:50]]
    assert run("predict", *model, stdin=b"".join(other)).stdout == told
    backwards = run("predict", *model, stdin=b"".join(lines[49::-1])).stdout
    assert backwards.splitlines() == told.splitlines()[::-1]


def test_predictions_over_several_files_follow_each_other(run, lines, learned, tmp_path):
    (tmp_path / "a").write_bytes(b"".join(lines[:3]))
    (tmp_path / "b").write_bytes(b"# none\n")
    model = ("-m", learned / "model.sl")
    told = run("predict", *model, "a", "b", "-", stdin=b"".join(lines[3:9])).stdout
    assert told == run("predict", *model, stdin=b"".join(lines[:9])).stdout
    assert run("predict", *model).stdout == b""


def test_features_never_seen_leave_the_bias(run, learned, model_of):
    told = run("predict", "-m", learned / "model.sl", "--output", "margin",
               stdin=b"1 777777:3\n1\n1 9223372036854775806:1\n")
    assert set(numbers(told)) == {model_of(learned / "model.sl").bias}


def test_extreme_margins_give_probabilities_not_errors(run, learned):
    told = numbers(run("predict", "-m", learned / "model.sl", stdin=b"1 3:1e30\n1 3:-1e30\n"))
    assert sorted(told) == [0.0, 1.0]


def test_the_model_may_come_by_pipe(run, data, learned):
    told = run("predict", "-m", "-", data, stdin=(learned / "model.sl").read_bytes())
    assert told.stdout == run("predict", "-m", learned / "model.sl", data).stdout


def test_the_default_output_follows_the_loss(run, rows):
    text = b"".join(rows(100, seed=3))
    run("fit", "--loss", "hinge", stdin=text)
    assert set(run("predict", stdin=text).stdout.split()) == {b"-1", b"1"}
    run("fit", "--loss", "squared", stdin=text)
    told = run("predict", stdin=text).stdout
    assert len(set(told.split())) > 50
    assert told == run("predict", "--output", "margin", stdin=text).stdout


def test_normalize_is_remembered_by_the_model(run, rows, model_of, tmp_path):
    text = b"".join(rows(300, seed=12))
    run("fit", "--normalize", "l2", stdin=text)
    model = model_of(tmp_path / "model.sl")
    told = numbers(run("predict", "--output", "margin", stdin=text))
    expected = margins_of(model, parsed(text)[2], unit=True)
    np.testing.assert_allclose(told, expected, rtol=1e-12, atol=1e-12)
    y, _, found = parsed(text)
    scaled = []
    for label, row in zip(y, found, strict=True):
        length = math.sqrt(sum(v * v for v in row.values()))
        scaled.append(f"{label:g} " + " ".join(f"{i}:{v / length!r}" for i, v in row.items()))
    run("fit", "-o", "by_hand", stdin="\n".join(scaled).encode())
    by_hand = model_of(tmp_path / "by_hand")
    assert by_hand.ids == model.ids
    np.testing.assert_allclose(by_hand.weight_array, model.weight_array, rtol=1e-9)


def test_a_reader_that_goes_away_is_no_error(start, lines, learned, tmp_path):
    """`predict | head -1`, with more predictions than a pipe holds."""
    (tmp_path / "many").write_bytes(b"".join(lines * 30))
    predict = start("predict", "-m", learned / "model.sl", "many", stdin=subprocess.DEVNULL)
    assert os.read(predict.process.stdout.fileno(), 20)
    predict.process.stdout.close()
    predict.process.stdout = None
    assert predict.finish(code=0).stderr == ""


@pytest.mark.parametrize(
    "words", [("top", "{m}"), ("inspect", "{m}"), ("score", "-m", "{m}"), ("check",), ("--help",)],
    ids=lambda words: words[0],
)
def test_no_reading_command_minds_a_reader_that_has_gone(start, learned, words):
    command = start(*(word.format(m=learned / "model.sl") for word in words))
    command.process.stdout.close()
    command.process.stdout = None
    if words[0] in ("score", "check"):
        command.write(GOOD)
    assert command.finish(code=0).stderr == ""


@pytest.mark.parametrize("command", ["predict", "top", "check"])
def test_a_full_output_is_an_error_without_traceback(run, learned, command):
    words = {"predict": ("-m", learned / "model.sl"), "top": (learned / "model.sl",)}
    with open("/dev/full", "wb") as full:
        shown = run(command, *words.get(command, ()), stdin=GOOD, stdout=full, code=74)
    assert "No space left" in shown.stderr


# ---- score ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
def test_scores_of_a_classifier_agree_with_numpy(run, rows, model_of, tmp_path, loss):
    """Importance weights and many ties among the margins (rows without known features)."""
    run("fit", "--loss", loss, stdin=b"".join(rows(400, seed=13, labels=("0", "1"))))
    test = [line.replace(b" ", b":%g " % (0.5 + i % 4), 1) for i, line in
            enumerate(rows(300, seed=13, labels=("0", "1"))[100:])]
    test += [b"1 999:1\n", b"0 999:1\n", b"1:3 998:1\n", b"0:0 1:1\n"] * 9
    text = b"".join(test)
    figures = json.loads(run("score", "--json", stdin=text).stdout)
    y, weight, found = parsed(text)
    model, sign = model_of(tmp_path / "model.sl"), 2 * y - 1
    margin = margins_of(model, found)
    each = {
        "logistic": np.logaddexp(0, -sign * margin),
        "hinge": np.maximum(0, 1 - sign * margin),
        "squared_hinge": np.maximum(0, 1 - sign * margin) ** 2 / 2,
    }[loss]
    assert figures["examples"] == len(test)
    assert figures["loss"] == pytest.approx(np.average(each, weights=weight), rel=1e-12)
    wrong = (margin > 0) != (y > 0)
    assert figures["error"] == pytest.approx(np.average(wrong, weights=weight), rel=1e-12)
    assert figures["auc"] == pytest.approx(pair_auc(margin, y, weight), rel=1e-12)
    assert 0.6 < figures["auc"] < 1.0
    assert (figures["nonzeros"], figures["density"]) == (model.nonzeros, model.density)


@pytest.mark.parametrize("algo", ["adaptivesl", "sgd"])
def test_scores_of_a_regression_agree_with_numpy(run, rows, model_of, tmp_path, algo):
    text = b"".join(rows(400, seed=14, labels=None))
    run("fit", "--loss", "squared", "--algo", algo, stdin=text)
    figures = json.loads(run("score", "--json", stdin=text).stdout)
    y, _, found = parsed(text)
    residual = margins_of(model_of(tmp_path / "model.sl"), found) - y
    assert figures["rmse"] == pytest.approx(np.sqrt(np.mean(residual**2)), rel=1e-12)
    assert figures["loss"] == pytest.approx(np.mean(residual**2) / 2, rel=1e-12)
    assert figures["r2"] == pytest.approx(1 - np.mean(residual**2) / np.var(y), rel=1e-12)
    assert "auc" not in figures


def test_zero_and_minus_one_are_the_same_class_to_score(run, lines, learned):
    model = ("-m", learned / "model.sl", "--json")
    zeros = [b"0" + line[2:] if line.startswith(b"-1") else line for line in lines]
    shown = run("score", *model, stdin=b"".join(zeros))
    assert shown.stdout == run("score", *model, stdin=b"".join(lines)).stdout


def test_scores_follow_named_labels(run, rows):
    text = b"".join(rows(200, seed=3, labels=("7", "-7")))
    run("fit", "--labels", "7,-7", stdin=text)
    assert json.loads(run("score", "--json", stdin=text).stdout)["auc"] > 0.7
    assert "neither 7 nor -7" in run("score", stdin=b"1 1:1\n", code=65).stderr


def test_a_single_class_has_no_auc(run, learned):
    shown = run("score", "-m", learned / "model.sl", "--json", stdin=b"1 1:1\n1 2:1\n")
    assert json.loads(shown.stdout)["auc"] is None
    table = run("score", "-m", learned / "model.sl", stdin=b"1 1:1\n").stdout.decode()
    assert ["auc", "-"] in [line.split() for line in table.splitlines()]


@pytest.mark.parametrize("text", [b"", b"# none\n", b"1:0 1:1\n"])
def test_nothing_to_score_is_an_error(run, learned, text):
    assert "example" in run("score", "-m", learned / "model.sl", stdin=text, code=65).stderr


# ---- inspect -------------------------------------------------------------------------------------


def test_inspect_tells_what_the_model_holds(run, learned, model_of):
    model = model_of(learned / "model.sl")
    facts = json.loads(run("inspect", learned / "model.sl", "--json").stdout)
    assert (facts["examples"], facts["nonzeros"], facts["features_seen"]) == (
        600, model.nonzeros, model.seen)
    assert facts["bias"] == model.bias
    assert (facts["smallest_id"], facts["largest_id"]) == (min(model.id_array), max(model.id_array))
    assert facts["labels"] == [-1.0, 1.0]
    assert facts["settings"]["algo"] == "adaptivesl"
    assert facts["settings"]["eta"] == "auto"
    assert facts["progressive_loss"] == model.progress["loss"] / 600
    assert facts["counters"] == {"bad_lines": 0, "blank_lines": 0, "ignored_features": 0}
    told = run("inspect", "-", stdin=(learned / "model.sl").read_bytes()).stdout.decode()
    assert [key for key in facts if key not in told] == []


def test_inspect_of_an_empty_model_is_no_crash(run):
    run("fit")
    facts = json.loads(run("inspect", "model.sl", "--json").stdout)
    assert (facts["nonzeros"], facts["smallest_id"], facts["progressive_loss"]) == (0, None, None)
    run("inspect", "model.sl")


# ---- top -----------------------------------------------------------------------------------------


def test_top_shows_the_largest_weights_by_size(run, learned, model_of):
    model = model_of(learned / "model.sl")
    head, *told, bias = run("top", learned / "model.sl", "-n", "5").stdout.decode().splitlines()
    assert head.split() == ["id", "weight"]
    largest = sorted(model.weights_by_id().items(), key=lambda item: -abs(item[1]))[:5]
    assert [line.split()[0] for line in told] == [str(i) for i, _ in largest]
    assert [float(line.split()[1]) for line in told] == [round(w, 6) for _, w in largest]
    assert float(bias.split()[1]) == round(model.bias, 6)


def test_top_shows_everything_there_is(run, learned, model_of):
    told = run("top", learned / "model.sl", "-n", "1000").stdout.splitlines()
    assert len(told) == model_of(learned / "model.sl").nonzeros + 2


def test_top_puts_names_to_ids(run, learned, model_of, tmp_path):
    best = max(model_of(learned / "model.sl").weights_by_id().items(), key=lambda i: abs(i[1]))[0]
    (tmp_path / "by_line").write_text("".join(f"word{i}\n" for i in range(100)))
    (tmp_path / "by_id").write_text(f"{2**62}\tfar away\n{best}\tçédille à part\n")
    told = run("top", learned / "model.sl", "--names", "by_line").stdout.decode().splitlines()
    assert told[1].split() == [str(best), told[1].split()[1], f"word{best}"]
    told = run("top", learned / "model.sl", "--names", "by_id").stdout.decode().splitlines()
    assert told[1].endswith("  çédille à part")
    assert told[2].endswith("  ?")


def test_top_refuses_bad_names_and_counts(run, learned, tmp_path):
    (tmp_path / "names").write_text("1\tone\ntwo\ttwo\n")
    assert "names:2:1" in run("top", learned / "model.sl", "--names", "names", code=65).stderr
    assert "-n 0" in run("top", learned / "model.sl", "-n", "0", code=64).stderr


# ---- check ---------------------------------------------------------------------------------------

ODD = b"""# a file with everything
+1 1:1 2:0 900:-3.5

-1:2 7:1 3:1
+1
-1 4:1e2 # trailing
"""


def test_check_counts_rows_ids_labels_and_oddities(run, tmp_path):
    (tmp_path / "odd.svm").write_bytes(ODD)
    facts = json.loads(run("check", "odd.svm", "--json").stdout)
    assert (facts["rows"], facts["features"], facts["bad_lines"]) == (4, 5, 0)
    assert facts["features_a_row"] == {"fewest": 0, "mean": 1.25, "most": 2}
    assert (facts["smallest_id"], facts["largest_id"], facts["largest_value"]) == (1, 900, 100.0)
    assert facts["labels"] == {"1": 2, "-1": 2}
    assert facts["distinct_labels"] == 2
    assert facts["oddities"] == {
        "blank or comment lines": 2,
        "rows without features": 1,
        "rows with ids not rising": 1,
        "values written as 0": 1,
        "rows with an importance weight": 1,
        "labels in runs, as if sorted": 0,
    }
    shown = run("check", stdin=ODD)
    told = [line.split() for line in shown.stdout.decode().splitlines()]
    assert ["rows", "4"] in told
    assert "note: rows with ids not rising: 1" in shown.stdout.decode()
    assert shown.stderr == ""


def test_check_locates_every_bad_line(run, tmp_path):
    (tmp_path / "a").write_bytes(b"1 1:1\njunk\n")
    (tmp_path / "b").write_bytes(b"1 1:1 1:2\n5 1:1\n1 x:1")
    shown = run("check", "a", "b", "--json", code=65)
    facts = json.loads(shown.stdout)
    assert (facts["rows"], facts["bad_lines"]) == (2, 3)
    assert [line.split(": ")[1] for line in shown.stderr.splitlines()] == ["a:2:1", "b:1:7",
                                                                           "b:3:3"]


def test_check_does_not_drown_in_bad_lines(run):
    shown = run("check", stdin=b"junk\n" * 5000, code=65)
    assert 1 <= len(shown.stderr.splitlines()) < 50
    assert "5,000" in shown.stdout.decode()


def test_check_of_nothing_is_no_crash(run):
    run("check", stdin=b"")
    facts = json.loads(run("check", "--json", stdin=b"").stdout)
    assert (facts["rows"], facts["largest_id"], facts["labels"]) == (0, None, {})


def test_check_tells_labels_as_written(run):
    text = b"".join(b"%d.1 1:1\n" % (i % 3) for i in range(9))
    assert json.loads(run("check", "--json", stdin=text).stdout)["labels"] == {
        "0.1": 3, "1.1": 3, "2.1": 3}


@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_check_notes_data_sorted_by_class(run, lines, order):
    text = b"".join(sorted(lines) if order == "sorted" else lines)
    facts = json.loads(run("check", "--json", stdin=text).stdout)
    assert facts["oddities"]["labels in runs, as if sorted"] == (order == "sorted")


# ---- snapshot ------------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_snapshot_equals_the_model_that_fit_writes(run, lines, tmp_path, algo):
    text = b"".join(lines)
    run("fit", "--algo", algo, "-o", "fit", "--save-state", "s", stdin=text)
    before = (tmp_path / "s").read_bytes()
    run("snapshot", "s", "-o", "snapshot")
    assert (tmp_path / "snapshot").read_bytes() == (tmp_path / "fit").read_bytes()
    assert (tmp_path / "s").read_bytes() == before


def test_a_snapshot_with_max_nonzeros_equals_that_of_fit(run, lines, learned, tmp_path):
    run("fit", "--max-nonzeros", "4", "-o", "fit", stdin=b"".join(lines))
    shown = run("snapshot", learned / "state.sl", "--max-nonzeros", "4", "-o", "-")
    assert shown.stdout == (tmp_path / "fit").read_bytes()
    assert "model: 4 of" in shown.stderr


def test_more_evidence_makes_a_snapshot_sparser(run, learned, model_of, tmp_path):
    counts = []
    for evidence in (EVIDENCE, 2.0, 4.0, 100.0):
        run("snapshot", learned / "state.sl", "--evidence", evidence, "-o", "m")
        model = model_of(tmp_path / "m")
        assert model.settings["evidence"] == evidence
        counts.append(model.nonzeros)
        if evidence == EVIDENCE:
            assert (tmp_path / "m").read_bytes() == (learned / "model.sl").read_bytes()
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[1] > counts[-1] == 0


def test_less_evidence_than_learned_with_is_refused(run, learned, tmp_path):
    shown = run("snapshot", learned / "state.sl", "--evidence", "0.25", code=64)
    assert "0.25" in shown.stderr
    assert f"{EVIDENCE:g}" in shown.stderr
    assert not (tmp_path / "model.sl").exists()


def test_evidence_means_nothing_to_other_algorithms(run, lines):
    run("fit", "--algo", "averagesl", "--save-state", "s", stdin=b"".join(lines))
    assert "adaptivesl" in run("snapshot", "s", "--evidence", "2", code=64).stderr


def test_a_smaller_smoothness_makes_a_snapshot_sparser(run, lines, model_of, tmp_path):
    run("fit", "--algo", "averagesl", "--l1", "0.01", "--save-state", "s", stdin=b"".join(lines))
    counts = []
    for smoothness in ("0.02", "0.5", "1000"):
        run("snapshot", "s", "--smoothness", smoothness, "-o", "m")
        model = model_of(tmp_path / "m")
        assert model.certificate["smoothness"] == float(smoothness)
        counts.append(model.nonzeros)
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]
    run("fit", "--algo", "averagesl", "--l1", "0.01", "--smoothness", "0.5", "-o", "f",
        stdin=b"".join(lines))
    run("snapshot", "s", "--smoothness", "0.5", "-o", "m")
    fitted, taken = model_of(tmp_path / "f"), model_of(tmp_path / "m")
    assert (fitted.bias, fitted.ids, fitted.weights) == (taken.bias, taken.ids, taken.weights)


@pytest.mark.parametrize(
    "words", [("--evidence", "much"), ("--smoothness", "0"), ("--max-nonzeros", "-2")], ids=" ".join
)
def test_a_bad_number_for_a_snapshot_is_refused(run, learned, words):
    assert " ".join(words) in run("snapshot", learned / "state.sl", *words, code=64).stderr


def test_a_snapshot_into_nowhere_is_refused(run, learned):
    run("snapshot", learned / "state.sl", "-o", "nowhere/m", code=73)
