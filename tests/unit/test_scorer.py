"""The scorer: the weight of every id is found wherever it lies, and no other."""

import os
from array import array
from random import Random

import numpy as np
import pytest

from streamlearn.engine.block import Block
from streamlearn.engine.libsvm import Parser
from streamlearn.engine.scorer import Scorer
from streamlearn.errors import ModelError

# The number of weights and the largest id: ids of a bit each, up to 2^20 or thick beyond it, or
# hashed.
KINDS = {
    "one": (1, 1),
    "the largest": (1, 2**63 - 1),
    "few": (50, 130),
    "all": (1000, 1000),
    "thin below 2^20": (300, 2**20 - 1),
    "thin beyond 2^20": (300, 2**20 + 5),
    "thick beyond 2^20": (2**16, 2**22 - 3),
    "scattered": (5000, 2**63 - 1),
}


def made(count, top, seed=3):
    """Weights by id, the largest id among them; and ids that have none, near and far."""
    random = Random(seed)
    ids = {top, *random.sample(range(top), min(count - 1, top))}
    near = {max(id + step, 0) for id in [*ids][:3000] for step in (-64, -63, -1, 1, 63, 64)}
    far = {0, top // 2, min(top * 2, 2**63 - 1), 2**63 - 1, 2**20, 2**20 - 1}
    return {id: random.gauss(0.0, 1.0) for id in sorted(ids)}, sorted(
        id for id in (near | far) - ids if id < 2**63
    )


def scorer_of(weights, bias=0.25):
    ids, values = array("q", weights), array("d", weights.values())
    return Scorer(ids.tobytes(), values.tobytes(), bias)


def rows_of(text):
    block = Block()
    data = text.encode()
    Parser("any").parse(data, 0, len(data), block)
    return block


def margins_of(scorer, rows):
    text = "".join(
        "1 " + " ".join(f"{id}:{value!r}" for id, value in row.items()) + "\n" for row in rows
    )
    return np.frombuffer(scorer.margins(rows_of(text)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 7, 40])  # a row shorter and longer than what is fetched ahead
def test_margins_are_the_dot_products_bit_for_bit(kind, size):
    weights, absent = made(*KINDS[kind])
    random = Random(7)
    known = [*weights]
    if len(known) > 3000:
        known = random.sample(known, 3000)
    ids = known + absent
    random.shuffle(ids)
    ids = ids[: 6000 // size * size]
    rows = [
        {id: random.gauss(0.0, 1.0) for id in ids[first : first + size]}
        for first in range(0, len(ids), size)
    ]
    rows[len(rows) // 2 : len(rows) // 2] = [{}, {}]
    wanted = []
    for row in rows:
        total = 0.25
        for id, value in row.items():
            total += value * weights.get(id, 0.0)
        wanted.append(total)
    assert margins_of(scorer_of(weights), rows).tolist() == wanted


@pytest.mark.parametrize("rows", [0, 1, 300])
def test_a_model_without_weights_gives_its_bias(rows):
    scorer = Scorer(b"", b"", -0.5)
    assert margins_of(scorer, [{1: 2.0, 2**63 - 1: 1.0}] * rows).tolist() == [-0.5] * rows


@pytest.mark.parametrize(
    ("ids", "weights"),
    [([2, 1], [1.0, 1.0]), ([1, 1], [1.0, 1.0]), ([-1], [1.0]), ([1], [float("nan")]),
     ([1], [float("inf")]), ([1, 2], [1.0]), ([], [1.0]), ([1], [])],
)  # fmt: skip
def test_what_is_no_model_is_refused(ids, weights):
    with pytest.raises(ModelError):
        Scorer(array("q", ids).tobytes(), array("d", weights).tobytes(), 0.0)


def test_the_scorers_of_many_classes_take_memory_for_their_weights_not_for_their_ids():
    """A bit for each id below 2^24 would be 4 MB for each class, 800 in all."""

    def resident():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    scorers = [scorer_of({1: 1.0, 5: 2.0, 2**24 - 1: float(n)}) for n in range(200)]
    assert margins_of(scorers[7], [{5: 1.0, 2**24 - 1: 1.0}]).tolist() == [9.25]
    assert resident() - before < 64 << 20
