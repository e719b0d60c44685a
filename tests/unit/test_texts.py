"""Many texts read in one go are what they are one by one: rows, faults, labels, counters."""

from __future__ import annotations

import random

import pytest

from streamlearn.daemon.batches import many_rows, rows_of
from streamlearn.engine.block import Block
from streamlearn.engine.libsvm import Parser

GOOD = [b"1 1:1\n", b"-1 2:2 5:1\n", b"# c\n\n1 3:.5\n", b"", b"1 9:1 4:0\n-1\n", b"1 1:1"]
BAD = [b"1 1:x\n", b"1 1:1\nx\n-1 2:2\n", b"0 1:1\n1 2\n", b"nan\n" * 12]


def shown(rows) -> tuple:
    return rows.good, rows.blank, rows.bad, rows.settled, rows.errors


def one_by_one(requests: list[dict]) -> tuple:
    parser, block = Parser(), Block()
    found = [shown(rows_of(request, parser, block)) for request in requests]
    return found, block.arrays(), parser.labels, parser.settled, parser.blank, parser.zeros


def in_runs(requests: list[dict]) -> tuple:
    parser, block, found, runs = Parser(), Block(), [], 0
    while len(found) < len(requests):
        found += many_rows(requests[len(found) :], parser, block)
        runs += 1
    what = [shown(rows) for rows in found]
    return (what, block.arrays(), parser.labels, parser.settled, parser.blank, parser.zeros), runs


@pytest.mark.parametrize("seed", range(40))
def test_texts_read_together_are_what_they_are_alone(seed: int) -> None:
    pick = random.Random(seed)
    texts = [pick.choice(BAD if pick.random() < 0.2 else GOOD) for _ in range(pick.randrange(1, 9))]
    if seed % 2:  # long enough for the GIL to be given away
        texts = [text * 400 if text.endswith(b"\n") else text for text in texts]
    requests = [
        {"text": text, "name": f"f{i % 3}", "line": pick.randrange(1, 99)}
        for i, text in enumerate(texts)
    ]
    together, runs = in_runs(requests)
    assert together == one_by_one(requests)
    faulty = sum(rows[2] > 0 for rows in together[0][:-1])
    assert runs == 1 + faulty


def test_faultless_texts_take_one_run_and_arrays_one_each() -> None:
    texts = [{"text": text} for text in GOOD]
    assert in_runs(texts)[1] == 1
    rows = {"rows": {"offsets": bytes(8), "ids": b"", "values": b"", "labels": b""}}
    assert in_runs([*texts, rows, rows, *texts])[1] == 4


def test_a_text_that_is_no_whole_lines_is_not_taken() -> None:
    with pytest.raises(ValueError, match="whole lines"):
        Parser().parse_texts([b"1\n", b"1 1:1"], [0, 0], Block())
    assert Parser().parse_texts([], [], Block()) == []
    assert Parser().parse_texts([b""], [7], Block()) == [(0, 0, False)]
