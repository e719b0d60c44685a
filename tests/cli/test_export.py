"""Exported models: read back by little readers of our own, and by the real tools where they are.

The tools are liblinear-predict (on PATH) and the vowpalwabbit package; neither is a dependency.
"""

from __future__ import annotations

import io
import json
import math
import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from streamlearn.catalogue import LOSSES, resolve
from streamlearn.errors import UsageError
from streamlearn.export import FORMATS, VW_CONSTANT, murmur3
from streamlearn.model import Model
from streamlearn.sources import open_source
from streamlearn.training import BadLines, Training

Row = dict[int, float]
Run = Callable[..., subprocess.CompletedProcess[Any]]

IDS = (*range(1, 41), 977, 5003)
UNSEEN = 6007  # occurs when predicting only
AWKWARD = {1: 0.1, 5: -1e-300, 6: 1 / 3, 4096: 12345.678901234567, 5003: -2.5e17}

liblinear_predict = shutil.which("liblinear-predict")
needs_liblinear = pytest.mark.skipif(
    liblinear_predict is None, reason="liblinear-predict is not on PATH"
)


# ---- models and rows


def made(
    weights: dict[int, float],
    bias: float = 0.25,
    loss: str = "logistic",
    labels: tuple[float, float] | None = (-1.0, 1.0),
    normalize: str = "none",
) -> Model:
    """A model with these very weights."""
    ids = sorted(weights)
    return Model(
        settings=resolve("adaptivesl", loss, {}),
        t=12,
        bias=bias,
        ids=struct.pack(f"<{len(ids)}q", *ids),
        weights=struct.pack(f"<{len(ids)}d", *(weights[i] for i in ids)),
        seen=len(ids),
        labels=labels if LOSSES[loss].classifies else None,
        normalize=normalize,
        progress={"examples": 5, "weight": 5.0, "loss": 1.0, "errors": 0.0},
        certificate={"violation": None, "objective": None},
        counters={"bad_lines": 0, "blank_lines": 0, "ignored_features": 0},
    )


def make_rows(count: int, seed: int, ids: tuple[int, ...] = IDS) -> list[Row]:
    random = Random(seed)
    return [
        {i: random.gauss(0, 1) for i in sorted(random.sample(ids, random.randint(1, 9)))}
        for _ in range(count)
    ]


def libsvm(rows: list[Row], labels: list[str]) -> str:
    return "".join(
        " ".join([label, *(f"{i}:{x!r}" for i, x in row.items())]) + "\n"
        for label, row in zip(labels, rows, strict=True)
    )


def learn(
    folder: Path, loss: str, labels: tuple[str, str] = ("-1", "1"), normalize: str = "none"
) -> Model:
    """What 500 random rows teach; their truth is noisy, and sparse in 14 of the ids."""
    random = Random(7)
    truth = {i: random.gauss(0, 2) for i in IDS[::3]}
    rows = make_rows(500, seed=11)
    margins = [0.4 + random.gauss(0, 0.5) + margin(truth, 0.0, row) for row in rows]
    if LOSSES[loss].classifies:
        classes = (float(labels[0]), float(labels[1]))
        written = [labels[m > 0.0] for m in margins]
    else:
        classes = None
        written = [repr(10.0 + m) for m in margins]
    path = folder / "train.svm"
    path.write_text(libsvm(rows, written))
    training = Training(resolve("adaptivesl", loss, {}), classes, normalize)
    for _ in training.run([open_source(str(path))], BadLines()):
        pass
    model = training.model()
    assert 0 < model.nonzeros < len(IDS)
    assert model.bias
    return model


def margin(weights: dict[int, float], bias: float, row: Row) -> float:
    return bias + math.fsum(weights.get(i, 0.0) * x for i, x in row.items())


def size(model: Model, row: Row) -> float:
    """What rounding errors of a margin are to be measured by."""
    sizes = {i: abs(w) for i, w in model.weights_by_id().items()}
    return margin(sizes, abs(model.bias), {i: abs(x) for i, x in row.items()})


def export(model: Model, to: str) -> bytes:
    return FORMATS[to].write(model)


@pytest.fixture(params=LOSSES)
def learned_by(request: pytest.FixtureRequest, tmp_path: Path) -> Model:
    """A learned model for each loss."""
    return learn(tmp_path, request.param)


# ---- LIBLINEAR


def read_liblinear(data: bytes) -> tuple[dict[str, str], dict[int, float], float]:
    """Header, weights and bias of a LIBLINEAR model file with one w."""
    head, _, body = data.decode("ascii").partition("\nw\n")
    header = dict(line.split(" ", 1) for line in head.split("\n"))
    *weights, last = map(float, body.split())
    assert len(weights) == int(header["nr_feature"])
    return header, dict(enumerate(weights, 1)), last * float(header["bias"])


def predicted_by_liblinear(
    model: bytes, rows: list[Row], folder: Path, *options: str
) -> list[list[str]]:
    """What the real tool prints, in words."""
    (folder / "model").write_bytes(model)
    (folder / "rows").write_text(libsvm(rows, ["1"] * len(rows)))
    subprocess.run(
        [str(liblinear_predict), *options, "rows", "model", "out"],
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=60,
    )
    return [line.split() for line in (folder / "out").read_text().splitlines()]


def test_liblinear_file_gives_the_same_margins(learned_by: Model) -> None:
    header, weights, bias = read_liblinear(export(learned_by, "liblinear"))
    assert {i: w for i, w in weights.items() if w} == learned_by.weights_by_id()
    assert bias == learned_by.bias
    assert header["nr_class"] == "2"
    solvers = {"logistic": "L1R_LR", "squared": "L2R_L2LOSS_SVR"}
    assert header["solver_type"] == solvers.get(learned_by.loss, "L1R_L2LOSS_SVC")
    assert header.get("label") == ("1 -1" if learned_by.classifies else None)
    for row in make_rows(100, seed=3, ids=(*IDS, UNSEEN)):
        columns = np.zeros((1, UNSEEN + 1))
        columns[0, list(row)] = list(row.values())
        ours = learned_by.margins(columns)[0]
        assert margin(weights, bias, row) == pytest.approx(
            ours, rel=0, abs=1e-14 * size(learned_by, row)
        )


def test_liblinear_file_as_golden_text() -> None:
    model = made({2: 0.1, 5: -1 / 3}, bias=-0.5, labels=(0.0, 3.0))
    assert export(model, "liblinear") == (
        b"solver_type L1R_LR\nnr_class 2\nlabel 3 0\nnr_feature 5\nbias 1\nw\n"
        b"0\n0.10000000000000001\n0\n0\n-0.33333333333333331\n-0.5\n"
    )
    assert export(made({1: 2.0}, bias=3.0, loss="squared"), "liblinear") == (
        b"solver_type L2R_L2LOSS_SVR\nnr_class 2\nnr_feature 1\nbias 1\nw\n2\n3\n"
    )


def test_liblinear_weights_are_exact() -> None:
    _, weights, _ = read_liblinear(export(made(AWKWARD), "liblinear"))
    assert {i: w for i, w in weights.items() if w} == AWKWARD


@needs_liblinear
@pytest.mark.parametrize(
    ("loss", "labels"),
    [
        ("logistic", ("-1", "+1")),
        ("logistic", ("0", "1")),
        ("hinge", ("3", "1")),
        ("squared_hinge", ("-1", "+1")),
        ("squared", ("", "")),
    ],
)
def test_real_liblinear_predicts_the_same_labels(
    loss: str, labels: tuple[str, str], tmp_path: Path, run: Run
) -> None:
    model = learn(tmp_path, loss, labels)
    model.save(str(tmp_path / "model.sl"))
    rows = make_rows(400, seed=5, ids=(*IDS, UNSEEN))
    run("export", "model.sl", "--to", "liblinear", "-o", "exported")
    theirs = predicted_by_liblinear((tmp_path / "exported").read_bytes(), rows, tmp_path)
    text = libsvm(rows, ["1"] * len(rows)).encode()
    ours = run("predict", "-m", "model.sl", "--output", "label", stdin=text).stdout.split()
    if model.classifies:
        assert [float(words[0]) for words in theirs] == [float(word) for word in ours]
        assert {float(word) for word in ours} == {float(label) for label in labels}
    else:  # the tool prints six digits
        assert [float(words[0]) for words in theirs] == pytest.approx(
            [float(word) for word in ours], rel=1e-5
        )


@needs_liblinear
def test_real_liblinear_gives_the_same_probabilities(tmp_path: Path) -> None:
    model = learn(tmp_path, "logistic", ("1", "2"))
    rows = make_rows(400, seed=6)
    first, *lines = predicted_by_liblinear(export(model, "liblinear"), rows, tmp_path, "-b", "1")
    assert first == ["labels", "2", "1"]
    weights = model.weights_by_id()
    ours = [1.0 / (1.0 + math.exp(-margin(weights, model.bias, row))) for row in rows]
    assert [float(words[1]) for words in lines] == pytest.approx(ours, rel=0, abs=1e-6)
    assert [words[0] for words in lines] == ["2" if p > 0.5 else "1" for p in ours]


@needs_liblinear
def test_real_liblinear_takes_a_model_without_weights(tmp_path: Path) -> None:
    rows: list[Row] = [{1: 1.0}, {7: 2.0}]
    for bias, label in ((0.5, "1"), (-0.5, "-1"), (0.0, "-1")):
        found = predicted_by_liblinear(export(made({}, bias), "liblinear"), rows, tmp_path)
        assert found == [[label], [label]]


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (made({0: 1.0, 3: 1.0}), "weight for id 0; LIBLINEAR counts ids from 1"),
        (made({3: 1.0, 2**31 - 1: 1.0}), "id 2147483647; LIBLINEAR takes ids up to 2147483646"),
        (made({2**63 - 1: 1.0}), "id 9223372036854775807"),
        (made({1: 1.0}, labels=(0.5, 1.0)), "label 0.5; LIBLINEAR takes 32-bit whole numbers"),
        (made({1: 1.0}, labels=(0.0, 2.0**31)), "label 2147483648"),
    ],
)
def test_liblinear_refuses_what_it_cannot_hold(model: Model, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        export(model, "liblinear")


# ---- JSON, text, npz


def refuse_constant(name: str) -> float:
    raise AssertionError(f"{name} is not JSON")


def test_json_holds_everything_exactly() -> None:
    model = made(AWKWARD, bias=0.1 + 0.2, loss="hinge", labels=(0.0, 1.0), normalize="l2")
    data = export(model, "json")
    assert data.endswith(b"}\n")
    assert data.count(b"\n") == 1
    assert json.loads(data, parse_constant=refuse_constant) == {
        "format": "streamlearn-weights",
        "t": 12,
        "bias": 0.1 + 0.2,
        "labels": [0.0, 1.0],
        "loss": "hinge",
        "normalize": "l2",
        "weights": {str(i): w for i, w in AWKWARD.items()},
    }


def test_json_of_regression_has_no_labels() -> None:
    assert json.loads(export(made({1: 1.0}, loss="squared"), "json"))["labels"] is None


def test_text_is_exact_and_rises_by_id() -> None:
    ids = {2**63 - 1: 1.5, 10: 0.1, 9: -1e-300, 0: 1 / 3}
    assert export(made(ids, bias=-0.0), "text") == (
        b"bias\t-0.0\n0\t0.3333333333333333\n9\t-1e-300\n10\t0.1\n9223372036854775807\t1.5\n"
    )


def test_npz_loads_without_pickle(learned_by: Model) -> None:
    with np.load(io.BytesIO(export(learned_by, "npz")), allow_pickle=False) as loaded:
        found = {name: loaded[name] for name in loaded.files}
    assert set(found) == {"ids", "weights", "bias", "labels", "t", "loss", "normalize"}
    assert found["ids"].dtype == np.int64
    assert found["weights"].dtype == np.float64
    np.testing.assert_array_equal(found["ids"], learned_by.id_array)
    np.testing.assert_array_equal(found["weights"], learned_by.weight_array)
    assert found["bias"].item() == learned_by.bias
    assert tuple(found["labels"]) == (learned_by.labels or ())
    assert found["t"].item() == learned_by.t
    assert found["loss"].item() == learned_by.loss
    assert found["normalize"].item() == "none"


# ---- VW


VW_GOLDEN = {
    "with a bias": (
        made({0: 2.0, 3: 0.5, 7: -1.25}),
        "06000000382e382e3000"  # version
        "0100000000"  # id
        "6dffff7fffffff7f7f"  # 'm' and the range of labels
        "18000000000000000000000000000000"  # bits, lda, ngrams, skips
        "0100000000"  # options
        "04000000f201d06b00"
        "0000000000000040"
        "030000000000003f"
        "070000000000a0bf"
        "5cc5b1000000803e",
    ),
    "without a bias": (
        made({7: -1.25, VW_CONSTANT: 1.0}, bias=0.0),
        "06000000382e382e3000"
        "0100000000"
        "6dffff7fffffff7f7f"
        "18000000000000000000000000000000"
        "0e000000202d2d6e6f636f6e7374616e7400"
        "04000000cc13d56400"
        "070000000000a0bf"
        "5cc5b1000000803f",
    ),
    "with 64-bit slots": (
        made({2**31 - 1: 1.0}),
        "06000000382e382e3000"
        "0100000000"
        "6dffff7fffffff7f7f"
        "1f000000000000000000000000000000"
        "0100000000"
        "040000005ab3ec3100"
        "5cc5b100000000000000803e"
        "ffffff7f000000000000803f",
    ),
}


@pytest.mark.parametrize("case", VW_GOLDEN)
def test_vw_file_as_golden_bytes(case: str) -> None:
    model, golden = VW_GOLDEN[case]
    assert export(model, "vw").hex() == golden


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        (b"", 0, 0),
        (b"", 1, 0x514E28B7),
        (b"\xff\xff\xff\xff", 0, 0x76293B50),
        (b"!Ce\x87", 0, 0xF55B516B),
        (b"!Ce\x87", 0x5082EDEE, 0x2362F9DE),
        (b"!Ce", 0, 0x7E4A8634),
        (b"!", 0, 0x72661CF4),
    ],
)
def test_murmur3_has_its_published_values(data: bytes, seed: int, expected: int) -> None:
    assert murmur3(data, seed) == expected


@pytest.mark.parametrize(
    ("weights", "bits"),
    [({}, 24), ({1: 1.0}, 24), ({2**24 - 1: 1.0}, 24), ({2**24: 1.0}, 25), ({2**30: 1.0}, 31)],
)
def test_vw_has_bits_for_the_largest_id(weights: dict[int, float], bits: int) -> None:
    assert struct.unpack_from("<I", export(made(weights), "vw"), 24) == (bits,)


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (made({2**31: 1.0}), "id 2147483648; .* ids up to 2147483647 are taken"),
        (made({VW_CONSTANT: 1.0}), "id 11650396, where VW keeps the bias"),
        (made({1: -1e39}), "weight of size 1e.39; VW's weights are 32-bit floats"),
        (made({1: 1.0}, bias=1e39), "weight of size 1e.39"),
    ],
)
def test_vw_refuses_what_it_cannot_hold(model: Model, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        export(model, "vw")


def vw_workspace(options: str) -> Any:
    """A workspace of the vowpalwabbit package, where it is installed."""
    package = pytest.importorskip("vowpalwabbit", reason="vowpalwabbit is not installed")
    return package.Workspace(f"--quiet {options}")


def assert_vw_agrees(model: Model, rows: list[Row], path: Path, options: str = "") -> None:
    """Margins of our file in the real VW, to the rounding of 32-bit floats."""
    path.write_bytes(export(model, "vw"))
    vw, weights = vw_workspace(f"-t -i {path} {options}"), model.weights_by_id()
    for row in rows:
        found = vw.predict("1 | " + " ".join(f"{i}:{x!r}" for i, x in row.items()))
        ours = margin(weights, model.bias, row)
        assert found == pytest.approx(ours, rel=0, abs=1e-6 * size(model, row))
    vw.finish()


def test_real_vw_gives_the_same_margins(learned_by: Model, tmp_path: Path) -> None:
    rows = make_rows(200, seed=8, ids=(*IDS, UNSEEN))
    assert_vw_agrees(learned_by, rows, tmp_path / "model.vw")


@pytest.mark.parametrize("bias", [0.0, -1.5, 1000.0])
@pytest.mark.parametrize("bits", [6, 24, 29, 31])
def test_real_vw_takes_ids_of_any_size(bits: int, bias: float, tmp_path: Path) -> None:
    random = Random(bits)
    ids = {0, 1, 2**bits - 1, *(random.randrange(2**bits) for _ in range(30))} - {VW_CONSTANT}
    if bias == 0.0 and bits >= 24:
        ids.add(VW_CONSTANT)
    model = made({i: random.gauss(0, 100) for i in ids}, bias)
    rows = make_rows(50, seed=bits, ids=tuple(sorted(ids)))
    assert_vw_agrees(model, rows, tmp_path / "model.vw", "--sparse_weights")


@pytest.mark.parametrize("case", VW_GOLDEN)
def test_real_vw_writes_the_same_file(case: str, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.write_bytes(export(VW_GOLDEN[case][0], "vw"))
    sparse = "--sparse_weights" if "64" in case else ""
    vw_workspace(f"-t -i {ours} --predict_only_model -f {theirs} {sparse}").finish()
    head, body = after_version(ours.read_bytes()), after_version(theirs.read_bytes())
    if sparse:  # written in the order of a hash table
        assert head[:-24] == body[:-24]
        assert {head[-24:-12], head[-12:]} == {body[-24:-12], body[-12:]}
    else:
        assert head == body


def after_version(data: bytes) -> bytes:
    return data[4 + int.from_bytes(data[:4], "little") :]


# ---- the command


@pytest.mark.parametrize("to", FORMATS)
def test_export_writes_the_same_to_stdout_and_file(to: str, tmp_path: Path, run: Run) -> None:
    model = made(AWKWARD)
    model.save(str(tmp_path / "model.sl"))
    piped = run("export", "model.sl", "--to", to)
    assert piped.stdout == export(model, to)
    assert piped.stderr == ""
    named = run("export", "-", "--to", to, "-o", "out", stdin=model.to_bytes())
    assert named.stdout == b""
    assert (tmp_path / "out").read_bytes() == piped.stdout


@pytest.mark.parametrize("to", FORMATS)
def test_export_of_a_model_without_weights(to: str) -> None:
    assert export(made({}, bias=0.0), to)


@pytest.mark.parametrize("to", FORMATS)
def test_binary_formats_are_refused_to_a_terminal(to: str, tmp_path: Path, run: Run) -> None:
    made({1: 1.0}).save(str(tmp_path / "model.sl"))
    screen, terminal = os.openpty()
    try:
        refused = to in ("npz", "vw")
        done = run("export", "model.sl", "--to", to, stdout=terminal, code=64 if refused else 0)
        assert ("not for a terminal; use -o FILE or a pipe" in done.stderr) == refused
        run("export", "model.sl", "--to", to, "-o", "out", stdout=terminal)
    finally:
        os.close(screen)
        os.close(terminal)


@pytest.mark.parametrize("to", FORMATS)
def test_scaled_rows_are_warned_of_where_the_format_cannot_say(
    to: str, tmp_path: Path, run: Run
) -> None:
    learn(tmp_path, "logistic", normalize="l2").save(str(tmp_path / "model.sl"))
    done = run("export", "model.sl", "--to", to, "-o", "out")
    if to in ("json", "npz"):
        assert done.stderr == ""
    else:
        assert done.stderr.startswith("streamlearn: warning: ")
        assert "scale each row to unit length" in done.stderr


def test_scaled_rows_give_the_margins_of_a_normalizing_model(tmp_path: Path) -> None:
    model = learn(tmp_path, "logistic", normalize="l2")
    _, weights, bias = read_liblinear(export(model, "liblinear"))
    for row in make_rows(50, seed=9):
        columns = np.zeros((1, max(IDS) + 1))
        columns[0, list(row)] = list(row.values())
        length = math.sqrt(math.fsum(x * x for x in row.values()))
        scaled = {i: x / length for i, x in row.items()}
        assert margin(weights, bias, scaled) == pytest.approx(model.margins(columns)[0], abs=1e-12)


def test_refused_export_leaves_no_file(tmp_path: Path, run: Run) -> None:
    made({0: 1.0}).save(str(tmp_path / "model.sl"))
    refused = run("export", "model.sl", "--to", "liblinear", "-o", "out", code=64)
    assert refused.stderr.startswith("streamlearn: --to liblinear: the model has a weight for id 0")
    assert not (tmp_path / "out").exists()


def test_export_asks_for_a_known_format(tmp_path: Path, run: Run) -> None:
    made({1: 1.0}).save(str(tmp_path / "model.sl"))
    assert "--to" in run("export", "model.sl", code=64).stderr
    assert "liblinear" in run("export", "model.sl", "--to", "xml", code=64).stderr
    run("export", "nowhere.sl", "--to", "text", code=66)
    run("export", "model.sl", "--to", "text", "-o", "nowhere/out", code=73)
