"""fit --multiclass, and what every other command makes of such a model or state."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import numpy as np
import pytest

from streamlearn import Model, MulticlassModel, load_model
from streamlearn.catalogue import ALGORITHMS

CLASSES = (-4, 0, 3, 12)


def class_rows(count: int, seed: int, classes: tuple[int, ...] = CLASSES) -> list[bytes]:
    """Lines whose label is told by a few of 30 features; some huge ids, some importance weights."""
    random, lines = Random(seed), []
    for _ in range(count):
        place = random.randrange(len(classes))
        ids = {random.randint(1, 30) for _ in range(6)}
        if random.random() < 0.75:
            ids.add(40 + place)
        if random.random() < 0.1:
            ids.add(2**53 + 1)
        weight = f":{random.choice((0.5, 2))}" if random.random() < 0.1 else ""
        row = " ".join(f"{i}:{random.choice((0.5, 1, 1.5))}" for i in sorted(ids))
        lines.append(f"{classes[place]}{weight} {row}\n".encode())
    return lines


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    return class_rows(700, seed=5)


@pytest.fixture
def data(tmp_path: Path, lines: list[bytes]) -> Path:
    path = tmp_path / "data.svm"
    path.write_bytes(b"".join(lines))
    return path


@pytest.fixture
def test_rows(tmp_path: Path) -> Path:
    path = tmp_path / "test.svm"
    path.write_bytes(b"".join(class_rows(300, seed=6)))
    return path


@pytest.fixture
def fitted(run, data: Path, tmp_path: Path) -> MulticlassModel:
    """The model of the data, also in model.sl, its state in state.sl."""
    run("fit", "--multiclass", data, "--save-state", "state.sl", "--progress", "none")
    return load_model(str(tmp_path / "model.sl"))


def relabelled(lines: list[bytes], label: int) -> bytes:
    """+1 for one class, -1 for the rest; importance stays."""
    out = []
    for line in lines:
        word, _, rest = line.partition(b" ")
        name, colon, weight = word.partition(b":")
        out.append((b"+1" if int(name) == label else b"-1") + colon + weight + b" " + rest)
    return b"".join(out)


# ---- fit -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [(), ("--normalize", "l2"), ("--algo", "averagesl", "--loss", "squared_hinge"),
     ("--algo", "optimalsl", "--passes", "2"), ("--algo", "scd", "--iterations", "500")],
    ids=" ".join,
)
def test_each_part_is_the_binary_model_of_fit_byte_for_byte(run, data, lines, tmp_path, words):
    run("fit", "--multiclass", data, *words, "--progress", "none")
    model = load_model(str(tmp_path / "model.sl"))
    assert model.classes == CLASSES
    for label, part in zip(model.classes, model.parts, strict=True):
        (tmp_path / "binary.svm").write_bytes(relabelled(lines, label))
        run("fit", "binary.svm", *words, "--progress", "none", "-o", "binary.sl")
        assert part.to_bytes() == (tmp_path / "binary.sl").read_bytes()


def test_a_pipe_files_and_resuming_give_the_same_bytes(run, data, lines, tmp_path):
    run("fit", "--multiclass", data, "-o", "whole", "--save-state", "whole.state")
    run("fit", "--multiclass", "-o", "piped", "--save-state", "piped.state",
        stdin=b"".join(lines))
    (tmp_path / "a").write_bytes(b"".join(lines[:211]))
    (tmp_path / "b").write_bytes(b"".join(lines[211:]))
    run("fit", "--multiclass", "a", "--save-state", "half", "-o", "-")
    said = run("fit", "--resume", "half", "b", "-o", "later", "--save-state", "later.state").stderr
    assert "multiclass=true max_classes=1000 resumed_at=211" in said
    whole = (tmp_path / "whole").read_bytes(), (tmp_path / "whole.state").read_bytes()
    assert whole == ((tmp_path / "piped").read_bytes(), (tmp_path / "piped.state").read_bytes())
    assert whole == ((tmp_path / "later").read_bytes(), (tmp_path / "later.state").read_bytes())


def test_a_class_that_comes_late_is_learned_as_if_always_known(run, lines, tmp_path):
    late = [*(row for row in lines if not row.startswith(b"12")), *lines]
    run("fit", "--multiclass", stdin=b"".join(late))
    run("fit", "-o", "binary", stdin=relabelled(late, 12))
    part = load_model(str(tmp_path / "model.sl")).part(12)
    assert part.to_bytes() == (tmp_path / "binary").read_bytes()


def test_the_table_and_the_summary_tell_of_all_classes(run, data, fitted):
    said = run("fit", "--multiclass", data).stderr.splitlines()
    assert said[-1].startswith(
        f"streamlearn: model.sl: {fitted.nonzeros} weights for 4 classes and {fitted.seen} "
        f"features (density {fitted.density:.4f}) from 700 examples"
    )
    row = said[-2].split()
    sums = fitted.progress
    assert (row[0], row[4]) == ("700", str(fitted.nonzeros))
    assert float(row[3]) == pytest.approx(100 * sums["errors"] / sums["weight"], abs=0.01)
    assert 0 < sums["errors"] < 0.5 * sums["weight"]


def test_jsonl_is_for_machines(run, data, fitted):
    said = run("fit", "--multiclass", "--progress", "jsonl", data).stderr.splitlines()
    first, *_, row, last = map(json.loads, said)
    assert first["max_classes"] == 1000
    assert (row["examples"], row["nonzeros"]) == (700, fitted.nonzeros)
    assert last["certificate"] == fitted.certificate


def test_declared_labels_are_all_there_are(run, data, lines, tmp_path, fitted):
    run("fit", "--multiclass", "--labels", "0,3,12,-4,99", data)
    model = load_model(str(tmp_path / "model.sl"))
    assert model.classes == (*CLASSES, 99)
    assert model.parts[:4] == fitted.parts
    said = run("fit", "--multiclass", "--labels", "0,3,12", data, code=65).stderr
    line = next(n for n, row in enumerate(lines, 1) if row.startswith(b"-4"))
    assert f"{data}:{line}:1: label '-4" in said
    assert "is none of the 3 classes given by --labels" in said


def test_more_classes_than_allowed_are_located_and_nothing_is_written(run, data, lines, tmp_path):
    said = run("fit", "--multiclass", "--max-classes", "3", data, code=65).stderr
    seen: set[bytes] = set()
    for number, row in enumerate(lines, 1):  # noqa: B007 - the line that made one too many
        seen.add(row.split(b" ")[0].split(b":")[0])
        if len(seen) == 4:
            break
    assert f"{data}:{number}:1: label" in said
    assert "look like regression (--loss squared); if they are classes, raise --max-classes" in said
    assert not (tmp_path / "model.sl").exists()


def test_a_class_too_many_is_a_bad_line_for_the_policy(run, data, lines, tmp_path):
    run("fit", "--multiclass", "--max-classes", "3", "--on-error", "quarantine=bad", data)
    model = load_model(str(tmp_path / "model.sl"))
    bad = (tmp_path / "bad").read_bytes()
    (left,) = {*CLASSES} - {*model.classes}
    assert bad == b"".join(row for row in lines if int(row.split()[0].split(b":")[0]) == left)
    assert model.counters["bad_lines"] == len(bad.splitlines())


def test_resuming_may_raise_the_bound_but_change_nothing_else(run, data, tmp_path):
    (tmp_path / "three").write_bytes(b"1 1:1\n2 2:1\n3 3:1\n")
    run("fit", "--multiclass", "--max-classes", "3", "three", "--save-state", "s")
    assert "one class more than the 3" in run("fit", "--resume", "s", data, code=65).stderr
    run("fit", "--resume", "s", "--max-classes", "9", data, "--save-state", "s")
    assert load_model(str(tmp_path / "model.sl")).classes == (-4, 0, 1, 2, 3, 12)
    said = run("fit", "--resume", "s", "--max-classes", "2", data, code=64).stderr
    assert "one class more than the 2" in said
    said = run("fit", "--resume", "s", "--no-multiclass", data, code=64).stderr
    assert "was learned with multiclass = true" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--multiclass", "--loss", "squared"),
         "--multiclass learns classes; --loss squared is for regression: use one of logistic, "),
        (("--max-classes", "5"), "--max-classes 5 means nothing without --multiclass"),
        (("--multiclass", "--max-classes", "0"), "expected a whole number >= 1"),
        (("--labels", "1,2,3"), "--labels names 3 classes; without --multiclass there are two"),
        (("--multiclass", "--labels", "1,2.5"), "2.5 names no class"),
        (("--multiclass", "--labels", "1,2,1"), "different labels"),
        (("--multiclass", "--algo", "grades"), "grades cannot minimise --loss logistic"),
        (("--multiclass", "--algo", "grades", "--loss", "squared"), "is for regression"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_before_learning(run, data, tmp_path, words, said):
    assert said in run("fit", *words, data, code=64).stderr
    assert not (tmp_path / "model.sl").exists()


def test_a_binary_run_says_that_there_is_multiclass(run, data):
    assert "use --multiclass for more of them" in run("fit", data, code=65).stderr


def test_the_settings_file_and_the_environment_can_ask_for_it(run, data, tmp_path):
    (tmp_path / "c.toml").write_text("multiclass = true\nmax_classes = 3\n")
    assert "than the 3" in run("fit", "--config", "c.toml", data, code=65).stderr
    run("fit", "--config", "c.toml", data, env={"STREAMLEARN_MAX_CLASSES": "4"})
    said = run("fit", data, env={"STREAMLEARN_MULTICLASS": "maybe"}, code=78).stderr
    assert "STREAMLEARN_MULTICLASS=maybe: expected true or false" in said


def test_sorted_classes_are_warned_of(run, lines):
    by_class = sorted(lines, key=lambda row: int(row.split()[0].split(b":")[0]))
    assert "as if sorted by class" in run("fit", "--multiclass", stdin=b"".join(by_class)).stderr
    assert "sorted" not in run("fit", "--multiclass", stdin=b"".join(lines)).stderr


def test_an_empty_stream_makes_an_empty_model(run, tmp_path):
    said = run("fit", "--multiclass").stderr
    assert "no examples: the model is empty" in said
    assert load_model(str(tmp_path / "model.sl")).classes == ()
    assert "knows no class" in run("predict", stdin=b"1 1:1\n", code=65).stderr
    assert "knows no class" in run("score", stdin=b"1 1:1\n", code=65).stderr
    assert json.loads(run("inspect", "model.sl", "--json").stdout)["classes"] == {}
    assert run("top", "model.sl").stdout == b""


# ---- snapshot ------------------------------------------------------------------------------------


def test_snapshot_makes_the_model_again_and_sparser_ones(run, fitted, tmp_path):
    run("snapshot", "state.sl", "-o", "again")
    assert (tmp_path / "again").read_bytes() == fitted.to_bytes()
    run("snapshot", "state.sl", "--evidence", "2", "-o", "strict")
    assert load_model(str(tmp_path / "strict")).nonzeros < fitted.nonzeros
    run("snapshot", "state.sl", "--max-nonzeros", "7", "-o", "tiny")
    tiny = load_model(str(tmp_path / "tiny"))
    assert 0 < tiny.nonzeros <= 7
    assert tiny.settings["max_nonzeros"] == 7
    run("fit", "--multiclass", "data.svm", "--max-nonzeros", "7", "-o", "few")
    assert (tmp_path / "few").read_bytes() == tiny.to_bytes()


# ---- predict and score ---------------------------------------------------------------------------


def dense(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X over the ids below 50 (the others have no weight), labels, importance."""
    X, y, weights = [], [], []
    for line in path.read_text().splitlines():
        word, *items = line.split()
        label, _, weight = word.partition(":")
        row = np.zeros(50)
        for item in items:
            id_, value = item.split(":")
            if int(id_) < 50:
                row[int(id_)] = float(value)
        X.append(row)
        y.append(int(label))
        weights.append(float(weight or 1))
    return np.array(X), np.array(y), np.array(weights)


@pytest.fixture
def small(run, lines, tmp_path) -> MulticlassModel:
    """A model without weights for huge ids, in small.sl."""
    few = b"".join(line for line in lines if b" 9007199254740993:" not in line)
    run("fit", "--multiclass", "-o", "small.sl", stdin=few)
    return load_model(str(tmp_path / "small.sl"))


def test_predict_prints_the_class_or_a_number_for_each(run, small, test_rows):
    X, _, _ = dense(test_rows)
    told = run("predict", "-m", "small.sl", test_rows).stdout.split()
    assert [*map(int, told)] == small.predict(X).tolist()
    assert run("predict", "-m", "small.sl", "--output", "label", test_rows).stdout.split() == told
    for output, wanted in (("margin", small.margins(X)), ("probability", small.probabilities(X))):
        text = run("predict", "-m", "small.sl", "--output", output, test_rows).stdout.decode()
        found = [[*map(float, line.split(" "))] for line in text.splitlines()]
        assert np.array(found) == pytest.approx(wanted, rel=1e-12)


def test_probabilities_of_hinge_are_refused(run, data):
    run("fit", "--multiclass", "--loss", "hinge", data)
    said = run("predict", "--output", "probability", data, code=64).stderr
    assert "--output probability needs the logistic loss; this model has hinge" in said


def test_score_is_what_the_margins_say(run, small, test_rows):
    X, y, weight = dense(test_rows)
    figures = json.loads(run("score", "-m", "small.sl", "--json", test_rows).stdout)
    margins, told = small.margins(X), small.predict(X)
    signs = np.where(y[:, None] == np.array(CLASSES), 1, -1)
    losses = np.log1p(np.exp(-signs * margins)).mean(axis=1)
    assert figures["examples"] == 300
    assert figures["loss"] == pytest.approx(np.average(losses, weights=weight))
    assert figures["error"] == pytest.approx(np.average(told != y, weights=weight))
    assert (figures["nonzeros"], figures["density"]) == (small.nonzeros, small.density)
    for i, (label, row) in enumerate(zip(CLASSES, figures["classes"], strict=True)):
        own, as_it = y == label, told == label
        both = weight[own & as_it].sum()
        assert row == {
            "class": label,
            "examples": own.sum(),
            "recall": pytest.approx(both / weight[own].sum()),
            "precision": pytest.approx(both / weight[as_it].sum()),
            "nonzeros": small.part(label).nonzeros,
        }
        for j, other in enumerate(CLASSES):
            wanted = weight[own & (told == other)].sum()
            assert figures["confusion"][i][j] == pytest.approx(wanted)


def test_score_shows_a_table_of_classes_and_the_worst_confusions(run, small, test_rows):
    figures = json.loads(run("score", "-m", "small.sl", "--json", test_rows).stdout)
    lines = run("score", "-m", "small.sl", test_rows).stdout.decode().splitlines()
    assert [line.split()[0] for line in lines[:5]] == [
        "examples", "loss", "error", "nonzeros", "density"]
    assert lines[6].split() == ["class", "examples", "recall", "precision", "nonzeros"]
    for line, row in zip(lines[7:11], figures["classes"], strict=True):
        assert line.split() == [
            str(row["class"]), str(row["examples"]), f"{row['recall']:.4f}",
            f"{row['precision']:.4f}", str(row["nonzeros"])]
    counts = [float(line.split()[3]) for line in lines[13:]]
    off = np.array(figures["confusion"]) - np.diag(np.diag(figures["confusion"]))
    assert counts == sorted(off[off > 0].tolist(), reverse=True)[:10]


def test_a_class_that_the_model_does_not_know_is_always_wrong(run, small, tmp_path):
    (tmp_path / "new").write_bytes(b"77 41:1\n12 43:1\n")
    figures = json.loads(run("score", "-m", "small.sl", "--json", "new").stdout)
    row = figures["classes"][-1]
    assert row == {"class": 77, "examples": 1, "recall": 0.0, "precision": None, "nonzeros": None}
    assert figures["error"] >= 0.5
    assert "names no class" in run("score", "-m", "small.sl", stdin=b"1.5 1:1\n", code=65).stderr
    many = b"".join(b"%d 1:1\n" % label for label in range(2000))
    said = run("score", "-m", "small.sl", stdin=many, code=65).stderr
    assert "2,001 different labels, but the model has 4 classes; are these the right" in said


# ---- looking -------------------------------------------------------------------------------------


def test_inspect_tells_of_each_class(run, fitted, lines):
    facts = json.loads(run("inspect", "model.sl", "--json").stdout)
    assert facts["nonzeros"] == fitted.nonzeros
    assert [*facts["classes"]] == [*map(str, CLASSES)]
    for label in CLASSES:
        many = sum(row.startswith((b"%d " % label, b"%d:" % label)) for row in lines)
        assert facts["classes"][str(label)] == {
            "examples": many,
            "nonzeros": fitted.part(label).nonzeros,
            "bias": fitted.part(label).bias,
        }
    text = run("inspect", "model.sl").stdout.decode()
    assert f"  12                 examples {facts['classes']['12']['examples']}  nonzeros" in text


def test_top_has_a_table_for_each_class_or_for_one(run, fitted):
    text = run("top", "model.sl", "-n", "3").stdout.decode()
    assert [x for x in text.splitlines() if x.startswith("class")] == [
        f"class {label}" for label in CLASSES]
    one = run("top", "model.sl", "-n", "3", "--class", "3").stdout.decode().splitlines()
    assert one[0] == "class 3"
    assert "\n".join(one) in text
    largest = max(fitted.part(3).weights_by_id().items(), key=lambda item: abs(item[1]))
    assert one[2].split() == [str(largest[0]), f"{largest[1]:+.6f}"]
    for wrong in ("5", "x"):
        said = run("top", "model.sl", "--class", wrong, code=64).stderr
        assert f"--class {wrong}: expected one of -4, 0, 3, 12" in said


def test_a_binary_model_has_no_classes_to_pick(run):
    run("fit", stdin=b"1 1:1\n-1 2:1\n")
    assert "learned without --multiclass" in run("top", "model.sl", "--class", "1", code=64).stderr


def test_check_takes_many_classes(run, data, lines):
    facts = json.loads(run("check", data, "--json").stdout)
    assert facts["distinct_labels"] == 4
    assert facts["oddities"]["labels in runs, as if sorted"] == 0
    by_class = sorted(lines, key=lambda row: int(row.split()[0].split(b":")[0]))
    facts = json.loads(run("check", "--json", stdin=b"".join(by_class)).stdout)
    assert facts["oddities"]["labels in runs, as if sorted"] == 1


# ---- export --------------------------------------------------------------------------------------


def test_liblinear_has_a_column_for_each_class(run, small, tmp_path):
    run("export", "small.sl", "--to", "liblinear", "-o", "out")
    head, _, body = (tmp_path / "out").read_text().partition("w\n")
    last = max(max(w, default=0) for w in small.weights_by_id().values())
    assert head.splitlines() == [
        "solver_type L1R_LR", "nr_class 4", "label -4 0 3 12", f"nr_feature {last}", "bias 1"]
    found = np.array([[*map(float, line.split())] for line in body.splitlines()])
    wanted = np.zeros((last + 1, 4))
    for column, part in enumerate(small.parts):
        for id_, weight in part.weights_by_id().items():
            wanted[id_ - 1, column] = weight
        wanted[last, column] = part.bias
    assert (found == wanted).all()


def test_liblinear_is_refused_for_two_classes(run):
    run("fit", "--multiclass", stdin=b"1 1:1\n2 2:1\n")
    said = run("export", "model.sl", "--to", "liblinear", code=64).stderr
    assert "learn it without --multiclass" in said


def test_json_npz_and_text_hold_every_class(run, fitted, tmp_path):
    body = json.loads(run("export", "model.sl", "--to", "json").stdout)
    assert [c["label"] for c in body["classes"]] == [*CLASSES]
    found = {c["label"]: {int(i): w for i, w in c["weights"].items()} for c in body["classes"]}
    assert found == fitted.weights_by_id()
    assert [c["bias"] for c in body["classes"]] == [part.bias for part in fitted.parts]

    run("export", "model.sl", "--to", "npz", "-o", "out.npz")
    arrays = np.load(tmp_path / "out.npz", allow_pickle=False)
    assert arrays["classes"].tolist() == [*CLASSES]
    assert arrays["bias"].tolist() == [part.bias for part in fitted.parts]
    for i, part in enumerate(fitted.parts):
        rows = slice(*arrays["offsets"][i : i + 2])
        assert arrays["ids"][rows].tobytes() == part.ids
        assert arrays["weights"][rows].tobytes() == part.weights

    text: dict[int, dict[str, float]] = {}
    for line in run("export", "model.sl", "--to", "text").stdout.decode().splitlines():
        label, name, number = line.split("\t")
        text.setdefault(int(label), {})[name] = float(number)
    for label in CLASSES:
        part = fitted.part(label)
        assert text[label].pop("bias") == part.bias
        assert {int(i): w for i, w in text[label].items()} == part.weights_by_id()


def test_vw_is_refused(run, fitted):
    said = run("export", "model.sl", "--to", "vw", "-o", "out", code=64).stderr
    assert "--to vw holds one set of weights; this model has 4 classes" in said


# ---- compare -------------------------------------------------------------------------------------


def test_compare_shows_what_fit_and_score_would(run, data, test_rows):
    shown = run("compare", "--multiclass", data, "--test", test_rows, "--json", "--threads", "2")
    found = json.loads(shown.stdout)
    assert {row["algo"] for row in found} == {a for a, e in ALGORITHMS.items() if not e.batch}
    for row in found:
        run("fit", "--multiclass", data, "--algo", row["algo"], "--progress", "none")
        told = json.loads(run("score", "--json", test_rows).stdout)
        for name in ("loss", "error", "nonzeros", "density"):
            assert row[name] == told[name], row["algo"]
        assert row["curve"][-1]["nonzeros"] == row["nonzeros"]


def test_compare_of_nothing_is_warned_of(run, test_rows):
    shown = run("compare", "--multiclass", "--algo", "sgd", "--test", test_rows, "--json")
    assert "no examples" in shown.stderr
    (row,) = json.loads(shown.stdout)
    assert (row["loss"], row["error"], row["nonzeros"]) == (None, 1.0, 0)


def test_compare_refuses_what_fit_refuses(run, data, test_rows):
    words = ("--loss", "squared", "--algo", "sgd")
    said = run("compare", "--multiclass", *words, data, "--test", test_rows, code=64).stderr
    assert "--multiclass learns classes" in said


def test_a_model_of_two_classes_is_no_multiclass_model(run, tmp_path):
    run("fit", stdin=b"1 1:1\n-1 2:1\n")
    assert isinstance(load_model(str(tmp_path / "model.sl")), Model)
