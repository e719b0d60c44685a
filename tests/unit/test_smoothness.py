"""The choice of L: the same wherever slots and the features of the recent rows are kept."""

import numpy as np
import pytest

from streamlearn.catalogue import make_learner, resolve
from streamlearn.engine.block import Block
from streamlearn.engine.learner import Learner

FAR = 1 << 40  # no table by id reaches there


def fresh(l1: float) -> Learner:
    return make_learner(resolve("averagesl", "logistic", {"l1": l1, "l2": 1e-4, "t0": 3.5}))


def rows_of(ids: np.ndarray, seed: int) -> Block:
    """Rows of these ids, an array of two dimensions, with values and labels by the seed."""
    rng = np.random.default_rng(seed)
    offsets = np.arange(len(ids) + 1) * ids.shape[1]
    labels = np.where(rng.random(len(ids)) < 0.5, 1.0, -1.0)
    return Block.from_arrays(offsets, np.sort(ids).ravel(), rng.normal(size=ids.size), labels)


@pytest.mark.parametrize("late", [600, 1000, 1200, 1499])
def test_recent_rows_of_small_and_of_large_ids_are_judged_as_under_other_names(late):
    """From row `late` on there are ids that are too large for a place of their own."""
    rng = np.random.default_rng(late)
    places = np.array([rng.choice(300 if t >= late else 150, 12, False) for t in range(1500)])
    names = np.concatenate([np.arange(150), FAR + 7 * np.arange(150)])
    compact, named = fresh(1e-3), fresh(1e-3)
    for first in range(0, 1500, 100):
        part = places[first : first + 100]
        compact.learn(rows_of(part, first))
        named.learn(rows_of(names[part], first))
    compact, named = compact.snapshot(), named.snapshot()
    for key in ("smoothness", "recent_loss", "objective", "violation"):
        assert named["certificate"][key] == pytest.approx(compact["certificate"][key], rel=1e-9)
    assert names[np.frombuffer(compact["ids"], np.int64)].tobytes() == named["ids"]


def odd(ids: np.ndarray) -> np.ndarray:
    """Those whose hash (splitmix64's finaliser) is odd: they are not in a half of the features."""
    z = ids.astype(np.uint64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ids[((z ^ (z >> np.uint64(31))) & np.uint64(1)).astype(bool)]


def test_a_share_of_the_features_is_one_of_those_that_were_learned():
    """Slots that were only looked up make it seem as if there were enough to count every second."""
    ids = odd(FAR + 3 * np.arange(250_000))[:100_000]
    rows = rows_of(np.random.default_rng(1).permutation(ids).reshape(4000, 25), 2)
    alone, ahead = fresh(1e-4), fresh(1e-4)
    for learner in (alone, ahead):
        learner.learn(rows_of(np.array([[FAR - 1]]), 3))
    ahead.look_up(rows_of(np.arange(200_000).reshape(1, -1), 4))
    ahead.look_up(rows)
    for learner in (alone, ahead):
        learner.learn(rows)
    assert ahead.memory > alone.memory
    assert ahead.snapshot() == alone.snapshot()
