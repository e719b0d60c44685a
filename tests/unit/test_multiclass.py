"""A model of many classes: what it predicts, and that its file is whole or refused."""

import math
from itertools import pairwise

import msgpack
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlearn import Model, MulticlassModel, container, load_model
from streamlearn.errors import ModelError
from streamlearn.model import FORMAT
from streamlearn.multiclass import shares, shown_classes
from streamlearn.scoring import judge_classes


def part(bias=0.0, weights=(), loss="logistic", seen=4):
    """A binary model with these {id: weight}."""
    weights = dict(weights)
    return Model(
        settings={"loss": loss},
        t=9,
        bias=bias,
        ids=np.array([*weights], dtype=np.int64).tobytes(),
        weights=np.array([*weights.values()], dtype=np.float64).tobytes(),
        seen=seen,
        labels=(-1.0, 1.0),
        normalize="none",
        progress={"examples": 9, "weight": 9.0, "loss": 1.0, "errors": 2.0, "positive": 3},
        certificate={"violation": 0.5, "objective": 1.0},
        counters={"bad_lines": 0, "blank_lines": 0, "ignored_features": 0},
    )


def model(*parts, classes=(-5, 2, 30), loss="logistic"):
    parts = parts or (part(0.1, {1: 1.0}), part(0.0, {1: 1.0, 2: 2.0}), part(-0.5))
    first = parts[0] if parts[0] else part(loss=loss)
    return MulticlassModel(
        settings={"loss": loss},
        t=9,
        seen=4,
        classes=tuple(classes),
        parts=tuple(p for p in parts if p),
        normalize="none",
        progress=dict(first.progress),
        counters=dict(first.counters),
    )


# ---- predicting ----------------------------------------------------------------------------------


def test_the_class_of_the_largest_margin_is_predicted():
    X = [[0, 1, 0], [0, 0, 1], [0, -9, 0]]
    found = model()
    assert found.margins(X) == pytest.approx(np.array([[1.1, 1, -0.5], [0.1, 2, -0.5],
                                                       [-8.9, -9, -0.5]]))
    assert found.predict(X).tolist() == [-5, 2, 30]
    assert found.predict(scipy.sparse.csr_array(np.array(X, dtype=float))).tolist() == [-5, 2, 30]
    assert found.predict(X).dtype == np.int64


def test_a_tie_goes_to_the_smaller_class():
    same = model(part(1.0), part(2.0), part(2.0))
    assert same.predict([[0.0]]).tolist() == [2]


def test_probabilities_are_those_of_each_class_normalised():
    found, X = model(), [[0, 1, 0.5], [0, -3, 2]]
    wanted = 1.0 / (1.0 + np.exp(-found.margins(X)))
    wanted /= wanted.sum(axis=1, keepdims=True)
    assert found.probabilities(X) == pytest.approx(wanted, rel=1e-12)


@given(st.lists(st.floats(-1e59, 1e59), min_size=1, max_size=6))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_shares_sum_to_one_and_keep_the_order(margins):
    found = shares(margins)
    assert math.fsum(found) == pytest.approx(1.0)
    assert min(found) >= 0.0
    for (m, p), (n, q) in pairwise(sorted(zip(margins, found, strict=True))):
        assert p <= q or m == n


def test_other_losses_have_no_probabilities():
    with pytest.raises(ModelError, match="hinge gives no probabilities"):
        model(loss="hinge").probabilities([[0.0]])


def test_a_model_of_nothing_predicts_nothing():
    empty = model(None, classes=())
    assert (empty.nonzeros, empty.density) == (0, 0.0)
    assert empty.certificate == {"violation": None, "objective": None}
    with pytest.raises(ModelError, match="knows no class"):
        empty.predict([[0.0]])


# ---- looking -------------------------------------------------------------------------------------


def test_sizes_are_over_all_classes():
    found = model()
    assert found.nonzeros == 3
    assert found.density == 3 / (4 * 3)
    assert found.weights_by_id() == {-5: {1: 1.0}, 2: {1: 1.0, 2: 2.0}, 30: {}}
    assert found.part(2).weights_by_id() == {1: 1.0, 2: 2.0}
    with pytest.raises(ModelError, match="no class 3; the model knows -5, 2, 30"):
        found.part(3)


def test_many_classes_are_shown_by_the_first_of_them():
    assert shown_classes(tuple(range(25))) == ", ".join(map(str, range(20))) + ", ... (25 in all)"


def test_judging_weighs_by_importance():
    margins = np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 1.0]])
    y, weight = np.array([7.0, 7.0, 9.0]), np.array([1.0, 2.0, 5.0])
    found = judge_classes("logistic", margins, y, weight, (7, 9))
    losses = [
        (math.log1p(math.exp(-s * a)) + math.log1p(math.exp(s * b))) / 2
        for (a, b), s in zip(margins, (1, 1, -1), strict=True)
    ]
    assert found["loss"] == pytest.approx(np.average(losses, weights=weight))
    assert found["error"] == 7 / 8


# ---- files ---------------------------------------------------------------------------------------


def test_a_file_gives_back_the_same_model(tmp_path):
    path = str(tmp_path / "m")
    model().save(path)
    again = load_model(path)
    assert again == model()
    assert again.to_bytes() == model().to_bytes()


def test_load_model_reads_both_kinds_and_model_load_says_which(tmp_path):
    path = str(tmp_path / "m")
    part().save(path)
    assert load_model(path) == part()
    model().save(path)
    with pytest.raises(ModelError, match=r"a model of many classes; read it with load_model"):
        Model.load(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda body: body["classes"].reverse(), "contradicts itself"),
        (lambda body: body["classes"][0].update(label=-5.0), "contradicts itself"),
        (lambda body: body["classes"][0].update(label=2), "contradicts itself"),
        (lambda body: body["classes"][1].update(bias=math.inf), "contradicts itself"),
        (lambda body: body["classes"][1].update(ids=b"12345678"), "contradicts itself"),
        (lambda body: body["classes"][1].update(weights=b"1"), "not a whole model"),
        (lambda body: body["classes"][1].pop("certificate"), "not a whole model"),
        (lambda body: body["classes"].append(3), "not a whole model"),
        (lambda body: body.update(classes=None), "not a whole model"),
        (lambda body: body.update(t=-1), "contradicts itself"),
        (lambda body: body["progress"].pop("loss"), "not a whole model"),
    ],
)
def test_a_model_that_contradicts_itself_is_refused(tmp_path, change, said):
    body = msgpack.unpackb(model().to_bytes())
    for key in ("format", "version", "checksum"):
        del body[key]
    change(body)
    path = tmp_path / "m"
    path.write_bytes(container.pack(FORMAT, body))
    with pytest.raises(ModelError, match=said):
        load_model(str(path))


