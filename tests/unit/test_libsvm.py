"""The libsvm parser: a golden table, a slow reference, and what holds over lines and over calls."""

import ast
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference import libsvm as reference
from streamlearn.engine.block import Block
from streamlearn.engine.libsvm import Parser
from streamlearn.errors import UsageError

GOLDEN = Path(__file__).parent.parent / "golden" / "libsvm.txt"
SEED = 20240612
MAX_ID = 2**63 - 1


# ---- what a parser said


@dataclass
class Row:
    """One example out of a block."""

    y: float
    weight: float
    items: list[tuple[int, float]]
    line: int


@dataclass
class Reading:
    """All that came of a text: rows and faults, over as many calls as it took."""

    rows: list[Row] = field(default_factory=list)
    faults: list[tuple[str, int, int, str]] = field(default_factory=list)  # name, line, column
    ends: list[int] = field(default_factory=list)


def rows_of(block: Block) -> list[Row]:
    raw = block.arrays()
    offsets = np.frombuffer(raw["offsets"], dtype=np.int64).tolist()
    lines, ids = (np.frombuffer(raw[k], dtype=np.int64).tolist() for k in ("lines", "ids"))
    values, labels, weights = (
        np.frombuffer(raw[k], dtype=np.float64).tolist() for k in ("values", "labels", "weights")
    )
    spans = zip(offsets, offsets[1:], strict=False)
    return [
        Row(y, weight, list(zip(ids[a:b], values[a:b], strict=True)), line)
        for y, weight, line, (a, b) in zip(labels, weights, lines, spans, strict=True)
    ]


def read(text: bytes, parser: Parser, cuts: Iterable[int] = ()) -> Reading:
    """Parse a text chunk by chunk, going on behind every faulty line."""
    reading, block = Reading(), Block()
    borders = [0, *sorted(cuts), len(text)]
    for begin, stop in zip(borders, borders[1:], strict=False):
        at = begin
        while at < stop:
            at = parser.parse(text, at, stop, block)
            reading.rows += rows_of(block)
            reading.ends.append(at)
            if parser.fault:
                name = reference.FAULTS[parser.fault]
                reading.faults.append((name, parser.line, parser.column, parser.complaint()))
    return reading


def read_lines(text: bytes, labels: str | tuple[float, float] = "any") -> Reading:
    return read(text, Parser(labels))


def bits(numbers: Iterable[float]) -> bytes:
    values = list(numbers)
    return struct.pack(f"<{len(values)}d", *values)


def same(a: Row, b: Row) -> bool:
    """Equal with the sign of a zero."""
    return a == b and bits([a.y, a.weight, *(v for _, v in a.items)]) == bits(
        [b.y, b.weight, *(v for _, v in b.items)]
    )


# ---- the golden table


@dataclass
class Case:
    kind: str
    labels: str | tuple[float, float]
    place: str
    text: bytes
    answer: list[str]

    def __str__(self) -> str:
        return ascii(self.text.decode("latin-1"))[1:-1]


def golden() -> Iterator[Case]:
    lines = [x for x in GOLDEN.read_text("utf-8").splitlines() if x and not x.startswith("# ")]
    for n, line in enumerate(lines):
        if line.startswith("    ") or line == "#":
            continue
        kind, labels, *rest = re.split(r" \| ?", line, maxsplit=3 if line[0] == "r" else 2)
        answer = []
        for below in lines[n + 1 :]:
            if not below.startswith("    "):
                break
            answer.append(below[4:])
        quoted = rest[-1].replace('"', '\\"')
        text = ast.literal_eval(f'b"{quoted}\\n"')
        pair = tuple(map(float, labels.split(","))) if "," in labels else labels
        yield Case(kind, pair, rest[0] if kind == "refused" else "", text, answer)


CASES = list(golden())
REFUSED = [case for case in CASES if case.kind == "refused"]
LEGAL = [case for case in CASES if case.kind == "legal"]


def test_golden_table_is_as_large_as_it_should_be() -> None:
    assert len(REFUSED) >= 60
    assert len(LEGAL) >= 40
    assert len({(str(case.labels), case.text) for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_malformed_line_is_located_and_explained(case: Case) -> None:
    name, line, column, complaint = read_lines(case.text, case.labels).faults[0]
    assert (f"{line}:{column}", complaint) == (case.place, case.answer[0])


@pytest.mark.parametrize("case", LEGAL, ids=str)
def test_legal_text_has_its_exact_values(case: Case) -> None:
    reading = read_lines(case.text, case.labels)
    assert reading.faults == []
    assert len(reading.rows) == len(case.answer)
    for row, written in zip(reading.rows, case.answer, strict=True):
        y, weight, *items = written.split()
        pairs = [(int(i), float(v)) for i, v in (item.split(":") for item in items)]
        assert same(row, Row(float(y), float(weight[1:]), pairs, row.line)), written
