"""Where slots live, seen through learners: any id, dense or scattered, and the bound on features.

The layout must never show in what is learned. Small streams of scattered ids are compared with the
same streams under an order-preserving renaming to 0, 1, 2, ...
"""

from typing import Any

import msgpack
import numpy as np
import pytest

from contract.streams import (
    Stream,
    dense_weights,
    fresh,
    ids_of,
    learn,
    random_stream,
    settings_for,
    to_block,
    weights_of,
)
from streamlearn.catalogue import STREAMING as ALGORITHMS
from streamlearn.catalogue import resolve
from streamlearn.engine.block import Block
from streamlearn.engine.learner import Learner
from streamlearn.errors import DataError, ModelError
from streamlearn.sources import open_source
from streamlearn.training import BadLines, Training

TOP = 2**63 - 1
every_algo = pytest.mark.parametrize("algo", ALGORITHMS)

# 24 ids each, rising; the last is where the layouts differ
NAMINGS = {
    "shifted": np.arange(24) + 5,
    "up to the edge of small": np.append(np.arange(23), 2**20 - 1),
    "just beyond small": np.append(np.arange(23), 2**20),
    "one far away": np.append(np.arange(23), TOP),
    "all far away": TOP - 3 * np.arange(24)[::-1],
    "powers of two": 2 ** np.arange(39, 63),
}


def plain(algo: str, **given: Any) -> Learner:
    return fresh(algo, "logistic", **settings_for(algo, "logistic", given))


def at_once(algo: str, **given: Any) -> Learner:
    """Without a warm-up: blocks are learned as they come."""
    return plain(algo, **({"t0": 3.5} if "t0" in ALGORITHMS[algo].parameters else {}), **given)


def late_last_column(seed: int) -> Stream:
    """The id that scatters the slots comes when others are known, in no order."""
    stream = random_stream("logistic", 150, seed=seed)
    X = stream.X.copy()
    X[:50, -1] = 0.0
    X[:10, ::2] = 0.0
    return Stream(X, stream.y, stream.importance)


@every_algo
@pytest.mark.parametrize("naming", NAMINGS)
@pytest.mark.parametrize("size", [1, 7, None])
def test_ids_are_only_names(algo: str, naming: str, size: int | None) -> None:
    stream = late_last_column(seed=60)
    ids = NAMINGS[naming]
    compact = learn(at_once(algo), stream).snapshot()
    named = learn(at_once(algo), stream, size, ids=ids).snapshot()
    assert np.array_equal(ids_of(named), ids[ids_of(compact)])
    assert named["weights"] == compact["weights"]
    assert (named["bias"], named["seen"]) == (compact["bias"], compact["seen"])


@every_algo
@pytest.mark.parametrize("naming", NAMINGS)
def test_chunking_is_irrelevant_with_any_ids(algo: str, naming: str) -> None:
    """The state too: it is what a checkpoint stores, and must not tell how the stream was cut."""
    stream = late_last_column(seed=61)
    ids = NAMINGS[naming]
    whole = learn(at_once(algo), stream, ids=ids)
    for size in (1, 7):
        cut = learn(at_once(algo), stream, size, ids=ids)
        assert msgpack.packb(cut.snapshot()) == msgpack.packb(whole.snapshot())
        assert msgpack.packb(cut.state()) == msgpack.packb(whole.state())


@every_algo
@pytest.mark.parametrize("naming", NAMINGS)
def test_resume_equals_uninterrupted_with_any_ids(algo: str, naming: str) -> None:
    stream = late_last_column(seed=62)
    ids = NAMINGS[naming]
    whole = learn(at_once(algo), stream, 10, ids=ids)
    learner = at_once(algo)
    for first in range(0, 150, 10):
        learner = Learner.from_state(learner.state())
        learner.learn(to_block(stream, first, first + 10, ids=ids))
    assert msgpack.packb(learner.snapshot()) == msgpack.packb(whole.snapshot())
    assert msgpack.packb(learner.state()) == msgpack.packb(whole.state())


# ---- from dense to scattered and back

SPAN = 2**21
MANY = 1_100_000  # more than half of the span, and enough that the index asks again
LONG = 10_000


def long_rows(ids: np.ndarray, rng: np.random.Generator) -> Block:
    """Each id once, many to a row."""
    offsets = np.arange(0, len(ids) + LONG, LONG).clip(max=len(ids))
    offsets = np.unique(offsets).astype(np.int64)
    rows = len(offsets) - 1
    ids = np.ascontiguousarray(ids, dtype=np.int64)
    return Block.from_arrays(
        offsets, ids, rng.normal(size=len(ids)), rng.choice([-1.0, 1.0], size=rows)
    )


def sample(rng: np.random.Generator, count: int) -> np.ndarray:
    """Rising ids below SPAN, the largest among them."""
    ids = rng.choice(SPAN - 1, size=count - 1, replace=False)
    return np.append(np.sort(ids), SPAN - 1).astype(np.int64)


@every_algo
def test_dense_to_scattered_to_dense_changes_nothing(algo: str) -> None:
    rng = np.random.default_rng(63)
    ids = sample(rng, MANY)
    # few small ids, then the largest, then all of them, then one that is out of any range
    stages = [np.arange(10), np.array([3, MANY - 1]), np.arange(MANY), np.array([5, MANY])]
    named = np.append(ids, TOP)
    learners, memory = [], []
    for rename in (named, np.arange(MANY + 1)):
        learner = at_once(algo)
        draws = np.random.default_rng(64)
        for places in stages:
            for _ in range(2):
                block = long_rows(rename[places], draws)
                learner.learn(block)
            memory.append(learner.memory)
        learners.append(learner)
    scattered, compact = (learner.snapshot() for learner in learners)
    assert np.array_equal(ids_of(scattered), named[ids_of(compact)])
    assert scattered["weights"] == compact["weights"]
    assert (scattered["bias"], scattered["seen"]) == (compact["bias"], MANY + 1)
    # memory tells that the layout did change: small, then dense over the span, then an index again
    words = len(learners[0].state()["slots"])
    assert memory[1] < 2**20 < SPAN * 8 * words == memory[2]
    assert memory[3] == SPAN * 8 * (words + 2)  # and for each slot its id and two cells of 4 bytes


def test_a_state_of_many_ids_is_carried_over() -> None:
    rng = np.random.default_rng(65)
    ids = sample(rng, MANY)
    learner = at_once("averagesl")
    learner.learn(long_rows(ids[::3], rng))
    state = learner.state()
    resumed = Learner.from_state(msgpack.unpackb(msgpack.packb(state)))
    assert resumed.state() == state
    for block in (long_rows(ids, rng), long_rows(ids[::2], rng)):
        learner.learn(block)
        resumed.learn(block)
    assert resumed.state() == learner.state()


def test_a_damaged_state_is_refused() -> None:
    state = learn(plain("averagesl"), random_stream("logistic", 150, seed=69)).state()
    count = len(state["ids"]) // 8
    short = {**state, "slots": {**state["slots"], "A": state["slots"]["A"][:-8]}}
    negative = {**state, "ids": np.full(count, -1, dtype=np.int64).tobytes()}
    for damaged, sentence in (
        (short, f"{count} ids but not as many 'A'"),
        (negative, "negative feature id"),
        ({**state, "bias": state["bias"][:-8]}, "bias"),
    ):
        with pytest.raises(ModelError, match=sentence):
            Learner.from_state(damaged)


@pytest.mark.parametrize("bad", [-1, -(2**63)])
def test_a_negative_id_is_refused(bad: int) -> None:
    with pytest.raises(DataError, match=f"negative feature id {bad}"):
        Block.from_arrays(
            np.array([0, 1]), np.array([bad]), np.array([1.0]), np.array([1.0])
        )  # fmt: skip


# ---- max_features: first come, first kept


def first_seen(stream: Stream, bound: int) -> list[int]:
    """Columns in the order of their first appearance, as many as are kept."""
    order: list[int] = []
    for row in stream.X:
        order += [int(j) for j in np.flatnonzero(row) if j not in order]
    return sorted(order[:bound])


def without(stream: Stream, kept: list[int]) -> Stream:
    X = np.zeros_like(stream.X)
    X[:, kept] = stream.X[:, kept]
    return Stream(X, stream.y, stream.importance)


BOUNDED_GIVEN = [{}, {"t0": 3.5}, {"weights": "suffix"}, {"bias": False}]


@pytest.mark.parametrize(
    ("algo", "given"),
    [
        pytest.param(algo, given, id=f"{algo}-{given}")
        for algo in ALGORITHMS
        for given in BOUNDED_GIVEN
        if all(name in ALGORITHMS[algo].parameters for name in given)
    ],
)
@pytest.mark.parametrize("size", [1, 7, None])
def test_max_features_learns_as_if_the_others_were_not_there(
    algo: str, given: dict[str, Any], size: int | None
) -> None:
    stream = random_stream("logistic", 150, seed=66)
    ids = NAMINGS["powers of two"]
    for bound, names in ((10, None), (10, ids), (1, None), (24, None)):
        kept = first_seen(stream, bound)
        learner = learn(plain(algo, max_features=bound, **given), stream, size, ids=names)
        expected = learn(plain(algo, **given), without(stream, kept)).snapshot()
        snapshot = learner.snapshot()
        dropped = np.count_nonzero(stream.X) - np.count_nonzero(stream.X[:, kept])
        assert learner.ignored == dropped
        assert snapshot["seen"] == len(kept)
        found = dense_weights(snapshot, 24, names)
        assert np.array_equal(found, dense_weights(expected, 24))
        assert snapshot["bias"] == expected["bias"]


@every_algo
def test_max_features_holds_across_a_resume(algo: str) -> None:
    stream = random_stream("logistic", 150, seed=67)
    whole = learn(plain(algo, max_features=8), stream)
    learner = plain(algo, max_features=8)
    for first in range(0, 150, 11):
        learner = Learner.from_state(msgpack.unpackb(msgpack.packb(learner.state())))
        learner.learn(to_block(stream, first, first + 11))
    assert learner.state() == whole.state()
    assert learner.ignored == whole.ignored > 0


def test_max_features_bounds_the_memory() -> None:
    rng = np.random.default_rng(68)
    learner = at_once("averagesl", max_features=100)
    learner.learn(long_rows(np.arange(1000), rng))
    memory = learner.memory
    for far in (10**6, 10**9, 10**15):
        learner.learn(long_rows(far + np.arange(50_000), rng))
    assert learner.memory == memory
    assert learner.ignored == 900 + 150_000
    assert np.all(ids_of(learner.snapshot()) < 100)
    assert np.all(weights_of(learner.snapshot()) != 0.0)


# ---- numbers that are looked up ahead ------------------------------------------------------------


def block_of(ids: np.ndarray, rows: int) -> Block:
    """Rows of equal length with these ids, each of them once in its row."""
    offsets = np.linspace(0, len(ids), rows + 1).astype(np.int64)
    labels = np.where(np.arange(rows) % 3 == 0, 1.0, -1.0)
    return Block.from_arrays(offsets, ids, 1.0 / (1.0 + ids % 7), labels)


# Ids too thin for slots of their own: few of 3 million; every 28th of them; some beyond the table;
# one that no table could reach; and old ones.
INDEXED = [
    np.array([7, 3_000_000]),
    np.arange(0, 3_000_000, 28),
    np.arange(0, 5_000_000, 25),
    np.array([5, 1 << 45]),
    np.arange(0, 3_000_000, 35),
]


def streams() -> dict[str, list[np.ndarray]]:
    random = np.random.default_rng(5)
    few = [random.choice(1000, 60, replace=False) for _ in range(4)]
    wide = [np.unique(random.integers(0, 1 << 40, 3000)) for _ in range(6)]
    full = [np.arange(k, 1_300_000, 4) for k in range(4)]
    return {
        "dense": few,
        "scattered": wide,
        "dense, then scattered": few + wide,
        # ids up to 2.4 million, few of them; then more than half of those there are
        "scattered, then dense again": [np.array([2_400_000]), *few, *full, *few, np.arange(9)],
        "by hash, by id, by hash again": [*INDEXED, *few, *wide[:2]],
    }


# smidas looks at every feature after each example: one stream is enough
CASES = [(algo, name) for algo in ("averagesl", "adaptivesl") for name in streams()]


@pytest.mark.parametrize(("algo", "name"), [*CASES, ("smidas", "dense, then scattered")])
@pytest.mark.parametrize("ahead", [1, 3])
def test_numbers_looked_up_ahead_change_nothing(name, ahead, algo):
    blocks = [block_of(ids.astype(np.int64), 4) for ids in streams()[name]]
    alone, looking = (at_once(algo) for _ in range(2))
    for block in blocks:
        alone.learn(block)
    for number, block in enumerate(blocks):
        if number == 0:
            for other in blocks[:ahead]:
                looking.look_up(other)
        elif number + ahead - 1 < len(blocks):
            looking.look_up(blocks[number + ahead - 1])
        looking.learn(block)
        if number % 3 == 1:
            looking.snapshot()
    assert looking.state() == alone.state()
    assert looking.snapshot() == alone.snapshot()


def test_the_index_follows_how_thin_the_ids_are():
    learner, memory = at_once("averagesl"), []
    for ids in INDEXED:
        learner.learn(block_of(ids, 4))
        learner.learn(block_of(ids[:2], 1))  # an index is looked at before a block is
        memory.append(learner.memory)
    slots, ids, cells = 32, 8, 4
    room = {"few": 1024, "many": 2**17, "more": 2**19}
    assert memory[0] == room["few"] * (slots + ids + 2 * cells)
    assert memory[1] == room["many"] * (slots + ids) + cells * (3_000_001 + 375_000)
    top = INDEXED[2][-1]
    assert memory[2] == room["more"] * (slots + ids) + cells * (top + 1 + top // 8)
    assert memory[3] == memory[4] == room["more"] * (slots + ids + 2 * cells)


def test_numbers_of_another_learner_are_not_taken():
    wide = [block_of(np.array([i, 1 << 40, 2 << 40, 3 << 40]), 2) for i in range(5)]
    one, other = (at_once("averagesl") for _ in range(2))
    other.learn(block_of(np.arange(1 << 33, (1 << 33) + 64), 4))
    alone = at_once("averagesl")
    for block in wide:
        alone.learn(block)
        other.look_up(block)
        one.learn(block)
    assert one.state() == alone.state()


def test_threads_that_look_ahead_while_snapshots_are_taken(tmp_path):
    random = np.random.default_rng(6)
    path = tmp_path / "wide.svm"
    with path.open("w") as file:
        for row in range(6000):
            ids = np.unique(random.integers(0, 1 << 33, 40) >> random.integers(0, 20))
            file.write(f"{row % 2} {' '.join(f'{i}:1' for i in ids)}\n")
    found = []
    for threads in (1, 2):
        training = Training(resolve("averagesl", "logistic", {}))
        for _ in training.run([open_source(str(path))], BadLines(), threads):
            training.model()
        found.append(training.to_bytes())
    assert found[0] == found[1]


def test_a_smoothness_chosen_by_a_share_of_the_features_is_as_good():
    """Beyond 2^18 features costs are counted of some of them: what is chosen serves as well."""
    random = np.random.default_rng(7)
    learner = fresh("averagesl", "logistic", l1=1e-4)
    truth = random.normal(size=400_000) * (random.random(400_000) < 0.01)
    for _ in range(30):
        rows = [np.unique(random.integers(0, 400_000, 200)) for _ in range(100)]
        ids, offsets = np.concatenate(rows), np.cumsum([0, *map(len, rows)])
        labels = np.sign(np.add.reduceat(truth[ids], offsets[:-1]) + 0.1)
        learner.learn(Block.from_arrays(offsets, ids, np.ones(len(ids)), labels))
    found = learner.snapshot()
    assert found["seen"] > 1 << 18
    chosen = found["certificate"]["smoothness"]
    others = [
        learner.snapshot(smoothness=chosen * 2.0**k)["certificate"]["objective"]
        for k in (-2, -1, 1, 2)
    ]
    assert found["certificate"]["objective"] < 1.05 * min(others)
