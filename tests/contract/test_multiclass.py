"""Many classes: each is learned, bit for bit, as the binary learner learns it against the rest.

For every algorithm of the catalogue with every loss that has classes; also the progressive
validation of the largest margin, and the cut over all classes.
"""

from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.streams import Stream, dense_weights, learn, random_stream, settings_for, to_block
from streamlearn.catalogue import (
    ALGORITHMS,
    LOSSES,
    STREAMING,
    engine_spec,
    make_learner,
    make_multiclass,
    resolve,
)
from streamlearn.engine.block import Block
from streamlearn.engine.libsvm import Parser
from streamlearn.engine.loss import evaluate
from streamlearn.engine.onevsrest import BatchOneVsRest, OneVsRest
from streamlearn.errors import Divergence, ModelError, UsageError

CLASSES = (-3, 0, 4, 11)
LATE = 11  # comes only after LATE_ROW rows
LATE_ROW = 115  # behind the warm-up of those that have one
PAIRS = [
    pytest.param(algo, loss, id=f"{algo}-{loss}")
    for algo, entry in ALGORITHMS.items()
    for loss, about in LOSSES.items()
    if about.classifies and (entry.losses is None or loss in entry.losses)
]
every_pair = pytest.mark.parametrize(("algo", "loss"), PAIRS)
streaming = pytest.mark.parametrize(
    ("algo", "loss"), [pair for pair in PAIRS if pair.values[0] in STREAMING]
)


def class_stream(length: int = 150, seed: int = 0) -> Stream:
    """Rows whose label is the largest of four noisy margins; one class comes late."""
    stream = random_stream("logistic", length, seed)
    rng = np.random.default_rng([seed, 7])
    margins = stream.X @ rng.normal(size=(stream.columns, len(CLASSES)))
    margins += rng.normal(size=margins.shape)
    margins[:LATE_ROW, CLASSES.index(LATE)] = -np.inf
    labels = np.array(CLASSES, dtype=float)[margins.argmax(axis=1)]
    return Stream(stream.X, labels, stream.importance)


def against_the_rest(stream: Stream, label: float) -> Stream:
    return Stream(stream.X, np.where(stream.y == label, 1.0, -1.0), stream.importance)


def chosen(algo: str, loss: str, **given: Any) -> dict[str, Any]:
    if ALGORITHMS[algo].batch:
        return resolve(algo, loss, {"l1": 0.02, "iterations": 200, **given})
    return resolve(algo, loss, settings_for(algo, loss, given))


def packed(found: Any) -> bytes:
    """Bit for bit."""
    return msgpack.packb(found)


# ---- the bits of the binary learner --------------------------------------------------------------


@every_pair
@pytest.mark.parametrize("declared", [None, CLASSES], ids=["found", "declared"])
def test_each_class_is_the_binary_learner_of_that_class(
    algo: str, loss: str, declared: tuple[int, ...] | None
) -> None:
    stream, given = class_stream(), chosen(algo, loss)
    many = learn(make_multiclass(given, declared), stream, 40)
    found = many.snapshot()
    assert found["classes"] == [*CLASSES]
    for label, part in zip(CLASSES, found["parts"], strict=True):
        binary = learn(make_learner(given), against_the_rest(stream, label))
        assert packed(part) == packed({**binary.snapshot(), "progress": binary.progress})
    if isinstance(many, OneVsRest):
        for label, member in zip(CLASSES, many.state()["members"], strict=True):
            binary = learn(make_learner(given), against_the_rest(stream, label), 7)
            assert packed(member) == packed(binary.state())


@every_pair
@pytest.mark.parametrize("size", [1, 7, 64])
def test_chunking_is_irrelevant(algo: str, loss: str, size: int) -> None:
    stream, given = class_stream(), chosen(algo, loss)
    whole, cut = (learn(make_multiclass(given), stream, many) for many in (None, size))
    assert packed(cut.state()) == packed(whole.state())
    assert packed(cut.progress) == packed(whole.progress)
    assert packed(cut.snapshot()) == packed(whole.snapshot())


@every_pair
@pytest.mark.parametrize("cut", [0, 1, 60, LATE_ROW, 140])
def test_resume_equals_uninterrupted(algo: str, loss: str, cut: int) -> None:
    stream, given = class_stream(), chosen(algo, loss)
    whole = learn(make_multiclass(given), stream)
    first = learn(make_multiclass(given), stream.cut(0, cut))
    state = msgpack.unpackb(packed(first.state()))
    again = learn(type(first).from_state(state), stream.cut(cut))
    assert packed(again.state()) == packed(whole.state())
    assert packed(again.progress) == packed(whole.progress)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.sampled_from(["adaptivesl", "averagesl", "optimalsl", "rda"]),
    st.lists(st.sampled_from([0.0, 1.0, -1.0, 5.0, 2.0**53]), min_size=1, max_size=30),
    st.data(),
)
def test_any_labels_cut_anywhere_give_the_binary_learners(
    algo: str, labels: list[float], data: st.DataObject
) -> None:
    rng = np.random.default_rng(len(labels))
    stream = Stream(rng.normal(size=(len(labels), 4)).round(1), np.array(labels))
    given = chosen(algo, "logistic", **({"t0": 3.0} if "t0" in ALGORITHMS[algo].parameters else {}))
    many, at = make_multiclass(given), 0
    while at < len(labels):
        upto = data.draw(st.integers(at + 1, len(labels)))
        many.learn(to_block(stream, at, upto))
        at = upto
    state = many.state()
    assert state["classes"] == sorted({*labels})
    for label, member in zip(state["classes"], state["members"], strict=True):
        binary = learn(make_learner(given), against_the_rest(stream, label))
        assert packed(member) == packed(binary.state())


def test_max_features_keeps_the_same_features_for_every_class() -> None:
    stream, given = class_stream(), chosen("adaptivesl", "logistic", max_features=5)
    many = learn(make_multiclass(given), stream, 9)
    for label, part in zip(CLASSES, many.snapshot()["parts"], strict=True):
        binary = learn(make_learner(given), against_the_rest(stream, label))
        assert packed(part["weights"]) == packed(binary.snapshot()["weights"])
        assert part["seen"] <= 5
    assert many.ignored == binary.ignored > 0


def test_a_declared_class_that_never_comes_has_seen_the_rest_alone() -> None:
    stream, given = class_stream().cut(0, LATE_ROW), chosen("adaptivesl", "logistic")
    many = learn(make_multiclass(given, CLASSES), stream)
    rest = learn(make_learner(given), Stream(stream.X, -np.ones(len(stream)), stream.importance))
    assert packed(many.state()["members"][-1]) == packed(rest.state())
    assert many.state()["background"] is None


# ---- nothing else changes ------------------------------------------------------------------------


@every_pair
def test_learning_writes_nothing_to_the_block(algo: str, loss: str) -> None:
    """Learners in other threads may be reading it."""
    block, given = to_block(class_stream()), chosen(algo, loss)
    before = packed(block.state())
    make_multiclass(given).learn(block)
    assert packed(block.state()) == before
    block = to_block(against_the_rest(class_stream(), 4))
    before = packed(block.state())
    make_learner(given).learn(block)
    assert packed(block.state()) == before


@every_pair
@pytest.mark.parametrize("length", [40, 150], ids=["waiting", "settled"])
def test_looking_changes_nothing(algo: str, loss: str, length: int) -> None:
    many = learn(make_multiclass(chosen(algo, loss)), class_stream().cut(0, length))
    before = packed(many.state())
    assert packed(many.snapshot()) == packed(many.snapshot())
    assert many.progress["examples"] == many.t == length
    assert many.memory > 0
    assert packed(many.state()) == before


# ---- progressive validation ----------------------------------------------------------------------


@pytest.mark.parametrize("loss", [name for name, entry in LOSSES.items() if entry.classifies])
@pytest.mark.parametrize("declared", [None, CLASSES], ids=["found", "declared"])
def test_progress_is_that_of_the_largest_margin_before_each_row(
    loss: str, declared: tuple[int, ...] | None
) -> None:
    """Of sgd the snapshot is the iterate, so every margin can be had from outside."""
    stream, given = class_stream(), chosen("sgd", loss, t0=40.0)
    many = learn(make_multiclass(given, declared), stream, 13)
    learners = {label: make_learner(given) for label in CLASSES}
    wanted = {"examples": len(stream), "weight": 0.0, "loss": 0.0, "baseline": 0.0, "errors": 0.0}
    known: set[int] = set(declared or ())
    zero, _ = evaluate(loss, 0.0, 1.0)
    for t, (row, y, weight) in enumerate(zip(stream.X, stream.y, stream.weights(), strict=True)):
        margins = {}
        for label, learner in learners.items():
            served = learner.snapshot()
            w = dense_weights(served, stream.columns)
            margins[label] = float(row @ w) + served["bias"]
            learner.learn(to_block(against_the_rest(stream, label), t, t + 1))
        rivals = sorted(known)
        losses = [evaluate(loss, margins[c], 1.0 if c == y else -1.0)[0] for c in rivals]
        told = max(rivals, key=margins.__getitem__) if rivals else None
        wanted["weight"] += weight
        wanted["loss"] += weight * (np.mean(losses) if losses else zero)
        wanted["baseline"] += weight * zero
        wanted["errors"] += weight * (told != y)
        known.add(int(y))
    progress = many.progress
    assert {name: progress[name] for name in wanted} == pytest.approx(wanted, rel=1e-9)
    assert progress["majority"] == max((stream.y == label).sum() for label in CLASSES)
    runs = np.diff(np.flatnonzero(np.r_[True, np.diff(stream.y) != 0, True]))
    assert progress["longest_run"] == runs.max()


def test_a_tie_goes_to_the_smaller_class() -> None:
    """Without anything to learn from, all margins are 0."""
    given = chosen("sgd", "logistic", t0=1.0, bias=False)
    stream = Stream(np.zeros((4, 2)), np.array([7.0, 2.0, 2.0, 7.0]))
    many = learn(make_multiclass(given), stream)
    assert many.progress["errors"] == 3.0  # nobody known, only 7 known, right, a tie


def test_the_zero_model_of_a_batch_method_is_judged() -> None:
    stream = class_stream()
    many = learn(make_multiclass(chosen("detcd", "logistic")), stream, 11)
    first = {label: int(np.flatnonzero(stream.y == label)[0]) for label in CLASSES}
    told = [min((c for c in CLASSES if first[c] < t), default=None) for t in range(len(stream))]
    wrong = stream.weights()[[a != b for a, b in zip(told, stream.y, strict=True)]].sum()
    assert many.progress["errors"] == pytest.approx(wrong, rel=1e-12)
    assert many.progress["loss"] == pytest.approx(np.log(2.0) * stream.weights().sum())


# ---- at most so many weights ---------------------------------------------------------------------


@every_pair
def test_max_nonzeros_is_over_all_classes_together(algo: str, loss: str) -> None:
    many = learn(make_multiclass(chosen(algo, loss)), class_stream())
    free = [dict(weights(part)) for part in many.snapshot()["parts"]]
    total = sum(map(len, free))
    assert total > 6
    for bound in (0, 1, 6, total, total + 1):
        found = many.snapshot(max_nonzeros=bound)
        kept = [dict(weights(part)) for part in found["parts"]]
        assert sum(map(len, kept)) <= bound
        for few, every in zip(kept, free, strict=True):
            assert few.items() <= every.items()
        if bound >= total:
            assert kept == free


@pytest.mark.parametrize("algo", ["sgd", "detcd"])
def test_the_largest_weights_of_any_class_are_kept(algo: str) -> None:
    """Where nothing is converted, the strength of a weight is its size."""
    many = learn(make_multiclass(chosen(algo, "logistic")), class_stream())
    sizes = [abs(w) for part in many.snapshot()["parts"] for _, w in weights(part)]
    found = many.snapshot(max_nonzeros=9)
    kept = [abs(w) for part in found["parts"] for _, w in weights(part)]
    assert sorted(kept) == sorted(sizes)[-9:]


def weights(part: dict[str, Any]) -> list[tuple[int, float]]:
    ids, values = np.frombuffer(part["ids"], np.int64), np.frombuffer(part["weights"])
    return list(zip(ids.tolist(), values.tolist(), strict=True))


@every_pair
def test_what_makes_no_sense_is_refused(algo: str, loss: str) -> None:
    many = learn(make_multiclass(chosen(algo, loss)), class_stream())
    with pytest.raises(UsageError, match="max_nonzeros -1"):
        many.snapshot(max_nonzeros=-1)
    with pytest.raises(UsageError, match="smoothness 0"):
        many.snapshot(smoothness=0.0)


# ---- trouble -------------------------------------------------------------------------------------


def test_a_divergence_names_its_class_and_is_final() -> None:
    given = chosen("sgd", "squared_hinge", t0=0.0, l2=1e-9, step_cap="off")
    many = make_multiclass(given)
    with pytest.raises(Divergence, match=r"example \d+ .*class -3 against the rest: .*diverged"):
        learn(many, class_stream())
    for again in (many.snapshot, many.state, lambda: learn(many, class_stream())):
        with pytest.raises(Divergence, match="class -3"):
            again()


@pytest.mark.parametrize("algo", ["adaptivesl", "averagesl", "scd"])
def test_a_row_too_large_is_refused_and_the_rows_before_it_are_learned(algo: str) -> None:
    stream, given = class_stream(30), chosen(algo, "logistic")
    many = learn(make_multiclass(given), stream.cut(0, 20))
    stream.X[20, 2] = 1e60
    block = to_block(stream)
    other = make_multiclass(given)
    with pytest.raises(Divergence, match=r"example 21 \(line 21\): a value"):
        other.learn(block)
    assert packed(other.state()) == packed(many.state())
    learn(other, stream.cut(21))
    assert other.t == 29


@streaming
def test_a_state_that_contradicts_itself_is_refused(algo: str, loss: str) -> None:
    state = learn(make_multiclass(chosen(algo, loss)), class_stream()).state()
    with pytest.raises(ModelError, match="do not rise"):
        OneVsRest.from_state({**state, "classes": state["classes"][::-1]})
    short = learn(make_multiclass(chosen(algo, loss)), class_stream().cut(0, 140)).state()
    for changed in (
        {**state, "members": short["members"]},
        {**state, "background": short["background"]},
        {**state, "contest": {**short["contest"], "first": state["contest"]["first"]}},
        {**state, "spec": {**state["spec"], "max_features": 3}},
    ):
        with pytest.raises(ModelError, match="same examples"):
            OneVsRest.from_state(changed)
    with pytest.raises(ModelError, match="a label and a weight each"):
        OneVsRest.from_state({**state, "contest": {**state["contest"], "weights": bytes(8)}})
    with pytest.raises(ValueError, match="zip"):
        OneVsRest.from_state({**state, "members": state["members"][1:]})


def test_no_examples_have_no_class() -> None:
    for algo in ("adaptivesl", "averagesl", "scd"):
        many = make_multiclass(chosen(algo, "logistic"))
        assert many.snapshot() == {"classes": [], "parts": [], "t": 0, "seen": 0}
        assert many.progress["examples"] == many.progress["majority"] == many.ignored == 0
        many.learn(Block())
        assert many.classes == []


def test_a_batch_state_holds_each_example_once() -> None:
    stream, given = class_stream(), chosen("scd", "logistic")
    many, binary = make_multiclass(given), make_learner(given)
    learn(many, stream)
    learn(binary, against_the_rest(stream, 0))
    assert isinstance(many, BatchOneVsRest)
    assert {*many.state()["rows"]} == {*binary.state()["rows"]}
    assert many.state()["rows"]["labels"] == stream.y.tobytes()


def test_the_engine_refuses_a_batch_loss_by_itself() -> None:
    spec = {**engine_spec(chosen("scd", "logistic")), "loss": "hinge"}
    with pytest.raises(UsageError, match="cannot minimise"):
        BatchOneVsRest(spec)


# ---- labels --------------------------------------------------------------------------------------


def test_the_parser_and_the_learner_know_the_same_classes() -> None:
    text = b"5 1:1\n-2 2:1\n5 x\n9 1:\n0 1:1\n-0 1:1\n"
    parser, block, many = Parser("classes"), Block(), make_multiclass(chosen("sgd", "logistic"))
    at = 0
    while at < len(text):
        at = parser.parse(text, at, len(text), block)
        many.learn(block)
    assert parser.classes == (-2, 0, 5)
    assert many.classes == [-2.0, 0.0, 5.0]
