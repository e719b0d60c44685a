"""Snapshots of many weights: in the order of their ids, their costs added exactly."""

import _thread
import math
import time

import numpy as np
import pytest

from streamlearn.catalogue import make_learner, resolve
from streamlearn.engine import together
from streamlearn.engine.block import Block
from streamlearn.engine.learner import Learner

L1, L2 = 1e-6, 1e-5
SHARED = 300_000  # so many are shared by two threads


def learned(ids: np.ndarray, seed: int, loss: str = "logistic", size: float = 1.0):
    """A learner that has seen each id, and a tenth of them again, in rows of 50."""
    rng = np.random.default_rng(seed)
    seen = np.concatenate([rng.permutation(ids), rng.choice(ids, len(ids) // 10 + 1)])
    seen = seen[: len(seen) // 50 * 50] if len(seen) > 50 else seen
    rows = [np.unique(part) for part in np.array_split(seen, max(len(seen) // 50, 1))]
    offsets = np.cumsum([0, *map(len, rows)])
    values = rng.normal(size=offsets[-1]) * 10.0 ** rng.integers(-4, 4, offsets[-1])
    labels = np.where(rng.random(len(rows)) < 0.5, size, -size)
    learner = make_learner(resolve("averagesl", loss, {"l1": L1, "l2": L2}))
    learner.learn(Block.from_arrays(offsets, np.concatenate(rows), values, labels))
    return learner, np.unique(np.concatenate(rows))


@pytest.mark.parametrize("count", [1, 2, 24, 25, 26, 1000, 30_000, SHARED])
@pytest.mark.parametrize("top", [2**20 - 1, 2**24, 2**40, 2**63 - 1])
def test_weights_come_by_rising_id(count, top):
    rng = np.random.default_rng(count)
    ids = np.unique(np.append(rng.integers(0, top, count - 1, endpoint=True), top))
    learner, known = learned(ids, count)
    snapshot = learner.snapshot(1.0)
    found = np.frombuffer(snapshot["ids"], np.int64)
    weights = np.frombuffer(snapshot["weights"])
    assert len(found) == len(weights)
    assert (np.diff(found) > 0).all()
    assert np.isin(found, known).all()
    assert len(found) > 0.5 * len(known)
    # The same stream with ids that need no sorting: rank for rank the same weights under one L.
    learner, _ = learned(np.searchsorted(ids, ids), count)
    dense = learner.snapshot(1.0)
    assert dense["weights"] == snapshot["weights"]
    assert dense["certificate"] == snapshot["certificate"]


@pytest.mark.parametrize("count", [30_000, SHARED])
@pytest.mark.parametrize(("loss", "size"), [("logistic", 1.0), ("squared", 1e4)])
def test_costs_are_added_exactly(count, loss, size):
    """Of usual size or not; those that are not are added in another place."""
    learner, _ = learned(np.arange(count), 7, loss, size)
    snapshot = learner.snapshot(1.0)
    weights = [*np.frombuffer(snapshot["weights"])]
    costs = [L1 * abs(w) + 0.5 * L2 * w * w for w in weights]
    usual = [2.0**-63 <= cost < 8.0 for cost in costs]
    assert any(usual)
    assert all(usual) == (loss == "logistic")
    costs.append(0.5 * L2 * snapshot["bias"] * snapshot["bias"])
    certificate = snapshot["certificate"]
    expected = certificate["recent_loss"] + math.fsum(costs)
    assert abs(certificate["objective"] - expected) <= 2 * math.ulp(expected)


@pytest.mark.parametrize("top", [SHARED, 2**50])
def test_where_no_thread_is_to_be_had_the_same_comes_of_one(monkeypatch, top):
    ids = np.unique(np.random.default_rng(4).integers(0, top, SHARED))
    learner, _ = learned(ids, 4)
    expected, refused = learner.snapshot(), []

    def refuse(*_):
        refused.append(1)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(together, "start_new_thread", refuse)
    assert learner.snapshot() == expected
    # To count costs, to solve; and to sort, if need be.
    assert len(refused) == (2 if top == SHARED else 3)


def by_id(count: int, top: int, seed: int, where: str):
    """Ids that make an index a table by id: among several times as many, or in part of them."""
    rng = np.random.default_rng(seed)
    first, stop = {
        "everywhere": (0, top),
        "low": (0, top // 3),
        "high": (top - top // 3, top),
        "ends": (0, top),
    }[where]
    ids = rng.integers(first, stop, count)
    if where == "ends":
        ids = np.where(ids < top // 2, ids // 4, top - (top - ids) // 4)
    return np.unique(np.append(ids, [0, top]))


@pytest.mark.parametrize(
    ("where", "thin"),
    [("everywhere", 8), ("everywhere", 24), ("low", 8), ("high", 8), ("ends", 8)],
)
@pytest.mark.parametrize("count", [150_000, SHARED])
def test_weights_found_by_a_walk_over_the_ids_are_those_of_other_layouts(count, where, thin):
    """Of those that are thin there is a table, too, but they are sorted."""
    ids = by_id(count, thin * count + 3, count, where)
    rank = np.searchsorted(ids, ids)
    walked, known = learned(ids, 11)
    hashed, _ = learned(ids << 30, 11)  # far apart: a hash table
    dense, _ = learned(rank, 11)
    expected = dense.snapshot(1.0)
    at = np.searchsorted(ids, known)
    assert expected["seen"] == len(known)
    for learner, shift in ((walked, 0), (hashed, 30)):
        snapshot = learner.snapshot(1.0)
        names = ids[np.frombuffer(expected["ids"], np.int64)] << shift
        assert (np.frombuffer(snapshot["ids"], np.int64) == names).all()
        assert snapshot["weights"] == expected["weights"]
        assert snapshot["certificate"] == expected["certificate"]
        assert snapshot["seen"] == len(at)


def test_few_weights_of_many_ids_come_sorted_too():
    """Of which most are zero: slots are solved as they lie, and what is left is sorted."""
    ids = by_id(SHARED, 8 * SHARED, 2, "everywhere")
    learner, _ = learned(ids, 12)
    every = learner.snapshot(1.0)
    few = learner.snapshot(1.0, max_nonzeros=len(ids) // 10)
    names, found = (np.frombuffer(s["ids"], np.int64) for s in (every, few))
    assert 0.05 * len(ids) < len(found) <= len(ids) // 10
    assert (np.diff(found) > 0).all()
    kept = np.frombuffer(every["weights"])[np.searchsorted(names, found)]
    assert (kept == np.frombuffer(few["weights"])).all()


def test_ids_that_were_only_looked_up_have_no_weight():
    """A row that is parsed ahead has numbers in the index already, but no slots."""
    ids = by_id(SHARED, 8 * SHARED, 3, "everywhere")
    learner, known = learned(ids, 13)
    expected = learner.snapshot(1.0)
    new = np.setdiff1d(np.arange(8 * SHARED), ids)[:5000]
    ahead = Block.from_arrays(np.array([0, len(new)]), new, np.ones(len(new)), np.ones(1))
    learner.look_up(ahead)
    assert learner.snapshot(1.0) == expected
    learner.learn(ahead)
    assert learner.snapshot(1.0)["seen"] == len(known) + len(new)


def test_threads_come_and_go_and_leave_nothing():
    learner, _ = learned(np.arange(SHARED), 5)
    before = _thread._count()
    expected = learner.snapshot(1.0)
    for _ in range(20):
        assert learner.snapshot(1.0) == expected
    deadline = time.monotonic() + 20
    while _thread._count() > before:  # the last one may be on its way out
        assert time.monotonic() < deadline


@pytest.mark.parametrize("c", [-1e3, -1e-300, -0.0])
def test_a_state_with_costs_that_no_learner_has_adds_them_all_the_same(c):
    """Of a crafted state: a sign must not lead beside the words of the sum."""
    state = learned(np.arange(100), 3)[0].state()
    state["scalars"]["step"]["c"] = c
    snapshot = Learner.from_state(state).snapshot(1.0)
    weights, bias = [*np.frombuffer(snapshot["weights"])], snapshot["bias"]
    costs = [c * L2 * abs(w) + 0.5 * L2 * w * w for w in weights]
    certificate = snapshot["certificate"]
    expected = certificate["recent_loss"] + math.fsum([*costs, 0.5 * L2 * bias * bias])
    assert certificate["objective"] == pytest.approx(expected, rel=1e-12)
