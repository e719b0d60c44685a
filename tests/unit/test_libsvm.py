"""The libsvm parser: a golden table, a slow reference, and what holds over lines and over calls."""

import ast
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
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

Buffer = bytes | bytearray | memoryview

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
    faults: list[tuple[str, int, int, str]] = field(default_factory=list)  # name, line, column, ...
    ends: list[int] = field(default_factory=list)  # where each call stopped


def rows_of(block: Block) -> list[Row]:
    raw = block.arrays()
    offsets = np.frombuffer(raw["offsets"], dtype=np.int64).tolist()
    lines, ids = (np.frombuffer(raw[k], dtype=np.int64).tolist() for k in ("lines", "ids"))
    values, labels, weights = (
        np.frombuffer(raw[k], dtype=np.float64).tolist() for k in ("values", "labels", "weights")
    )
    spans = pairwise(offsets)
    return [
        Row(y, weight, list(zip(ids[a:b], values[a:b], strict=True)), line)
        for y, weight, line, (a, b) in zip(labels, weights, lines, spans, strict=True)
    ]


def read(text: Buffer, parser: Parser, cuts: Iterable[int] = ()) -> Reading:
    """Parse a text chunk by chunk, going on behind every faulty line."""
    reading, block = Reading(), Block()
    for at, stop in pairwise([0, *sorted(cuts), len(text)]):
        while at < stop:
            at = parser.parse(text, at, stop, block)
            reading.rows += rows_of(block)
            reading.ends.append(at)
            if parser.fault:
                name = reference.FAULTS[parser.fault]
                reading.faults.append((name, parser.line, parser.column, parser.complaint()))
    return reading


LIMIT = 5  # of classes, small enough to be met


def read_lines(text: Buffer, labels: str | tuple[float, float] = "any") -> Reading:
    return read(text, Parser(labels, limit=LIMIT))


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
        negative, comma, positive = labels.partition(",")
        rule = (float(negative), float(positive)) if comma else labels
        yield Case(kind, rule, rest[0] if kind == "refused" else "", text, answer)


CASES = list(golden())
REFUSED = [case for case in CASES if case.kind == "refused"]
LEGAL = [case for case in CASES if case.kind == "legal"]


def test_golden_table_is_as_large_as_it_should_be() -> None:
    assert len(REFUSED) >= 60
    assert len(LEGAL) >= 40
    assert len({(str(case.labels), case.text) for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_malformed_line_is_located_and_explained(case: Case) -> None:
    _, line, column, complaint = read_lines(case.text, case.labels).faults[0]
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


# ---- the slow reference


def expected(text: bytes, labels: str) -> Reading:
    """What the reference makes of a text that ends in a newline."""
    rules = {"binary": reference.BinaryLabels(), "classes": reference.ClassLabels(LIMIT)}
    rule = rules.get(labels, reference.ANY)
    reading = Reading()
    for number, line in enumerate(text.split(b"\n")[:-1], start=1):
        found = reference.parse_line(line, rule)
        if isinstance(found, reference.Fault):
            reading.faults.append((found.name, number, found.column, ""))
        elif found is not None:
            reading.rows.append(Row(rule.learned(found.label), found.weight, found.kept, number))
    return reading


def assert_same_as_reference(text: bytes, labels: str) -> None:
    """Same rows bit by bit, same faults at the same places; shows the line that differs."""
    found, wanted = read_lines(text, labels), expected(text, labels)
    lines = text.split(b"\n")
    rows = {row.line: row for row in wanted.rows}
    faults = {line: (name, column) for name, line, column, _ in wanted.faults}
    for name, line, column, _ in found.faults:
        assert (name, column) == faults.pop(line, None), (lines[line - 1], rows.get(line))
    for row in found.rows:
        assert row.line in rows, (lines[row.line - 1], row, faults.get(row.line))
        assert same(row, rows.pop(row.line)), lines[row.line - 1]
    assert not faults, "a fault was not seen"
    assert not rows, "a row was not read"


FRAGMENTS = [
    *(b"1", b"-1", b"0", b"+1", b"2.5", b"1e5", b".5", b"5.", b"-0", b"1e400", b"nan", b"-inf"),
    *(b":", b" ", b"  ", b"\t", b"\r", b"\v", b"\f", b"#", b"+", b"-", b".", b"e", b"x", b"\0"),
    *(b"qid:", b"qid:7", b"1:2", b"2:0", b"2:1e-60", b"3: 4", b"007:1", b"12:-.5e-3", b"0:1"),
    *(b"9223372036854775807:1", b"9223372036854775808:1", b"18446744073709551617:1", b"\xff"),
    *(
        b"0.1234567890123456789",
        b"12345678901234567890",
        b"infinity",
        b"nano",
        b"_",
        b"e50",
        b"3:2e49",
        b"4:1e60",
        b",",
        b"q",
    ),
]

labellings = st.sampled_from(["any", "binary", "classes"])


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=14).map(b"".join), labellings)
@settings(max_examples=1500, deadline=None, derandomize=True)
@example(b"1 2:1 2:1", "any")
@example(b"1:2#", "any")
def test_lines_of_any_fragments_are_judged_as_the_reference_does(line: bytes, labels: str) -> None:
    assert_same_as_reference(line + b"\n", labels)


@given(st.lists(st.sampled_from(b"019:.#-+e qidn\t\r"), max_size=20).map(bytes), labellings)
@settings(max_examples=1500, deadline=None, derandomize=True)
def test_lines_of_any_letters_are_judged_as_the_reference_does(line: bytes, labels: str) -> None:
    assert_same_as_reference(line + b"\n", labels)


@given(
    st.floats(-9e49, 9e49),
    st.floats(0, 9e49),
    st.dictionaries(st.integers(0, MAX_ID), st.floats(-2e49, 2e49), max_size=20),
)
@settings(max_examples=500, deadline=None, derandomize=True)
def test_what_repr_writes_is_read_back(y: float, weight: float, row: dict[int, float]) -> None:
    text = " ".join([f"{y!r}:{weight!r}", *(f"{i}:{v!r}" for i, v in row.items())])
    (found,) = read_lines(text.encode() + b"\n").rows
    kept = [(i, v) for i, v in row.items() if abs(v) >= reference.TINY]
    assert same(found, Row(y, weight, kept, 1))


def mutated(random: Random, line: bytes, other: bytes) -> bytes:
    """One to three small changes: a letter or a piece more, less, other, or from another line."""
    for _ in range(random.choice((1, 1, 2, 3))):
        at = random.randrange(len(line) + 1)
        to = min(len(line), at + random.randrange(1, 5))
        how = random.randrange(6)
        if how == 0:
            line = line[:at] + line[to:]
        elif how == 1:
            line = line[:at] + random.choice(FRAGMENTS) + line[at:]
        elif how == 2:
            line = line[:at] + random.choice(FRAGMENTS) + line[to:]
        elif how == 3:
            line = line[:at] + bytes([random.randrange(256)]) + line[at + 1 :]
        elif how == 4:
            line = line[:to] + line[at:]
        else:
            line = line[:at] + other[random.randrange(len(other) + 1) :]
    return line.replace(b"\n", b" ")


@pytest.mark.parametrize("labels", ["any", "binary", "classes"])
def test_25000_mutated_lines_are_judged_as_the_reference_does(labels: str) -> None:
    random = Random(f"{SEED} {labels}")
    sound = [line for case in CASES for line in case.text.split(b"\n") if len(line) > 1]
    for _ in range(250):
        lines = [mutated(random, random.choice(sound), random.choice(sound)) for _ in range(100)]
        assert_same_as_reference(b"\n".join([*lines, b""]), labels)


# ---- over calls and files


def mixed_text() -> bytes:
    """A few hundred legal and faulty lines, blank ones and comments among them."""
    texts = [case.text for case in CASES if case.labels == "any"]
    Random(SEED).shuffle(texts)
    return b"".join(texts)


def borders(text: bytes) -> list[int]:
    return [n + 1 for n, c in enumerate(text) if c == ord("\n")]


def counters(parser: Parser) -> tuple[int, int, int, int]:
    return parser.line, parser.blank, parser.zeros, parser.unsorted


def test_any_split_at_line_borders_gives_the_rows_and_faults_of_one_parse() -> None:
    text, whole, random = mixed_text(), Parser("any"), Random(SEED)
    one = read(text, whole)
    assert len(one.rows) >= 40
    assert len(one.faults) >= 60
    places = borders(text)
    splits = [places, *([place] for place in places)]
    splits += [random.sample(places, random.randrange(len(places))) for _ in range(200)]
    for cuts in splits:
        parser = Parser("any")
        other = read(text, parser, cuts)
        assert other.rows == one.rows
        assert other.faults == one.faults
        assert counters(parser) == counters(whole)


def test_a_chunk_of_a_larger_buffer_is_read_as_if_alone() -> None:
    chunk = b"1:2 3:4 5:6\n# c\n-1 7:.5\n"
    for buffer in (chunk, bytearray(chunk), memoryview(chunk)):
        assert read_lines(buffer).rows == read_lines(chunk).rows
    parser, block = Parser(), Block()
    around = b"9 x\n" + chunk + b"x 9\n"
    assert parser.parse(around, 4, 4 + len(chunk), block) == 4 + len(chunk)
    assert rows_of(block) == read_lines(chunk).rows


def test_start_file_counts_lines_from_one_again_and_keeps_the_rest() -> None:
    text = b"\n0 1:0\n1 2:1 1:1\n"
    parser = Parser()
    assert [row.line for row in read(text, parser).rows] == [2, 3]
    assert [row.line for row in read(text, parser).rows] == [5, 6]
    parser.start_file()
    assert parser.line == 0
    assert [row.line for row in read(text, parser).rows] == [2, 3]
    assert counters(parser) == (3, 3, 3, 3)
    assert parser.labels == (0.0, 1.0)
    assert [fault[:3] for fault in read(b"-1\n", parser).faults] == [("label mixed", 4, 1)]


def test_after_a_fault_the_rows_before_it_are_held_and_parsing_goes_on_behind_it() -> None:
    text = b"1 1:1\n\n-1 2:2\n1 3:x 4:4\n1 5:5\n"
    parser, block = Parser(), Block()
    at = parser.parse(text, 0, len(text), block)
    assert text[at:] == b"1 5:5\n"
    assert (parser.line, parser.column, parser.token, parser.feature) == (4, 5, b"x", 3)
    assert rows_of(block) == [Row(1.0, 1.0, [(1, 1.0)], 1), Row(-1.0, 1.0, [(2, 2.0)], 3)]
    assert (len(block), block.features) == (2, 2)
    assert parser.parse(text, at, len(text), block) == len(text)
    assert parser.fault == 0
    assert rows_of(block) == [Row(1.0, 1.0, [(5, 5.0)], 5)]


def test_a_fault_in_the_first_line_leaves_the_block_empty() -> None:
    parser, block = Parser(), Block()
    parser.parse(b"1 1:1\n", 0, 6, block)
    assert parser.parse(b"x\n1 1:1\n", 0, 8, block) == 2
    assert (block.rows, block.features, block.max_id, rows_of(block)) == (0, 0, -1, [])


def test_every_fault_ends_one_call_behind_its_line() -> None:
    text = b"x\n1 1:1\ny\nz\n1 2:1\n"
    reading = read_lines(text)
    assert reading.ends == [2, 10, 12, 18]
    assert [line for _, line, _, _ in reading.faults] == [1, 3, 4]


def test_text_without_a_last_newline_is_not_taken() -> None:
    parser, block = Parser(), Block()
    for text, start, stop in (
        (b"1 1:1", 0, 5),
        (b"1 1:1\n", 0, 5),
        (b"1\n", 0, 3),
        (b"1\n", -1, 2),
    ):
        with pytest.raises(ValueError, match="whole lines"):
            parser.parse(text, start, stop, block)
    assert parser.parse(b"1 1:1\n", 6, 6, block) == 6
    assert parser.parse(b"", 0, 0, block) == 0
    assert (parser.line, block.rows) == (0, 0)


# ---- counters


@pytest.mark.parametrize(
    ("text", "blank", "zeros", "unsorted"),
    [
        (b"1 1:1 2:2\n", 0, 0, 0),
        (b"\n \t\r\n#\n  # c\n1\n", 4, 0, 0),
        (b"1 1:0 2:0.0 3:-0 4:1\n1 1:0e5\n", 0, 4, 0),
        (b"1 1:1e-51 2:-1e-400 3:1e-50\n", 0, 2, 0),
        (b"1 2:1 1:1\n1 1:1 2:1\n1 3:1 1:1 2:1\n", 0, 0, 2),
        (b"1 2:0 1:1\n", 0, 1, 1),
        (b"1 5:1 qid:1 6:1\n", 0, 0, 0),
    ],
)
def test_blank_lines_zeros_and_unsorted_rows_are_counted(
    text: bytes, blank: int, zeros: int, unsorted: int
) -> None:
    parser = Parser("any")
    read(text, parser)
    assert counters(parser) == (text.count(b"\n"), blank, zeros, unsorted)


@pytest.mark.parametrize("line", [b"1 1:0 2:x\n", b"1 1:0 1:0\n", b"x 1:0\n", b"1 3:1 2:0 1\n"])
def test_a_refused_line_counts_neither_as_unsorted_nor_its_zeros(line: bytes) -> None:
    parser = Parser("any")
    assert len(read(line, parser).faults) == 1
    assert counters(parser) == (1, 0, 0, 0)


@pytest.mark.parametrize(
    ("text", "largest"),
    [
        (b"1 3:1 7:1\n1 5:1\n", 7),
        (b"1 9:1 2:1\n", 9),
        (b"1 0:1\n", 0),
        (b"1 9223372036854775807:1\n", MAX_ID),
        (b"1\n", -1),
        (b"# 5:1\n", -1),
        (b"1 3:1 99:0\n", 3),
        (b"1 3:1\n1 99:1 100:x\n", 3),
        (b"1 3:1\n1 99:1 99:1\n", 3),
    ],
)
def test_max_id_is_the_largest_id_that_the_block_holds(text: bytes, largest: int) -> None:
    """Dense tables of slots grow to it: a dropped zero or a refused line must not count."""
    block = Block()
    Parser("any").parse(text, 0, len(text), block)
    assert block.max_id == largest


# ---- labels


@pytest.mark.parametrize(
    ("text", "ys", "labels"),
    [
        (b"1\n-1\n+1\n-1.0\n", [1, -1, 1, -1], (-1, 1)),
        (b"1\n0\n+1\n0.0\n", [1, -1, 1, -1], (0, 1)),
        (b"0\n1\n", [-1, 1], (0, 1)),
        (b"1\n1\n", [1, 1], (-1, 1)),
    ],
)
def test_binary_takes_minus_one_or_zero_as_the_negative_class(
    text: bytes, ys: list[float], labels: tuple[float, float]
) -> None:
    parser = Parser("binary")
    assert not parser.settled
    reading = read(text, parser)
    assert [row.y for row in reading.rows] == ys
    assert reading.faults == []
    assert parser.labels == labels
    assert parser.settled == (-1 in ys)


@pytest.mark.parametrize(("first", "second"), [(b"-1", b"0"), (b"0", b"-1"), (b"-0.0", b"-1.0")])
def test_zero_and_minus_one_are_not_taken_together(first: bytes, second: bytes) -> None:
    reading = read_lines(b"1\n" + first + b"\n" + second + b" 1:1\n" + first + b"\n", "binary")
    assert [fault[:3] for fault in reading.faults] == [("label mixed", 3, 1)]
    assert [row.y for row in reading.rows] == [1, -1, -1]


@pytest.mark.parametrize(
    "line", [b"0 x", b"0 1:x", b"0:x", b"0 1:1 1:1", b"0x", b"0 1", b"0 qid:", b"2", b"0:-1"]
)
def test_a_refused_line_does_not_settle_the_labels(line: bytes) -> None:
    parser = Parser("binary")
    assert len(read(line + b"\n", parser).faults) == 1
    assert not parser.settled
    assert parser.labels == (-1.0, 1.0)
    reading = read(b"-1 1:1\n" + line + b"\n-1\n", parser)
    assert [row.y for row in reading.rows] == [-1, -1]
    assert parser.labels == (-1.0, 1.0)


def test_a_refused_line_does_not_unsettle_the_labels() -> None:
    parser = Parser("binary")
    read(b"0 1:1\n1 x\n0 1:1 1:1\n", parser)
    assert parser.settled
    assert parser.labels == (0.0, 1.0)


@pytest.mark.parametrize(("negative", "refused"), [(0.0, b"-1\n"), (-1.0, b"0\n")])
def test_settle_goes_on_with_the_labels_of_an_earlier_run(negative: float, refused: bytes) -> None:
    parser = Parser("binary")
    parser.settle(negative)
    assert parser.settled
    assert parser.labels == (negative, 1.0)
    assert [fault[0] for fault in read(refused, parser).faults] == ["label mixed"]
    assert [row.y for row in read(b"%d\n1\n" % negative, parser).rows] == [-1, 1]


def test_a_pair_names_the_two_classes() -> None:
    parser = Parser((3, 2.5))
    assert parser.settled
    assert parser.labels == (3.0, 2.5)
    reading = read(b"3\n2.5\n1\n-1\n0\n+3.0\n", parser)
    assert [row.y for row in reading.rows] == [-1, 1, -1]
    assert [fault[0] for fault in reading.faults] == ["label unknown"] * 3
    assert reading.faults[0][3] == "label '1' is neither 3 nor 2.5, the two given by --labels"


def test_any_takes_every_number_as_it_is() -> None:
    parser = Parser("any")
    assert parser.labels is None
    ys = [0.0, -1.0, 1.0, 2.5, -1e49, -0.0, 5e-324]
    rows = read("".join(f"{y!r}\n" for y in ys).encode(), parser).rows
    assert bits(row.y for row in rows) == bits(ys)


def test_classes_are_whole_numbers_and_known_by_legal_lines_only() -> None:
    parser = Parser("classes")
    assert parser.labels is None
    assert parser.classes == ()
    text = b"7\n-3 1:x\n1e3\n0.5\n-0\n9007199254740992\n-9007199254740994\n7.0\nx\n"
    reading = read(text, parser)
    assert bits(row.y for row in reading.rows) == bits([7, 1000, 0.0, 2**53, 7])
    assert [fault[0] for fault in reading.faults] == ["value", "class", "class", "label"]
    assert parser.classes == (0, 7, 1000, 2**53)
    assert reading.faults[1][3] == (
        "label '0.5' names no class: with --multiclass labels are whole numbers up to 2^53 in "
        "size; use --loss squared for regression"
    )


def test_one_class_more_than_the_limit_is_a_located_fault() -> None:
    parser = Parser("classes", known=(4, 2), limit=3)
    reading = read(b"2 1:1\n  9\n5 1:1\n4\n", parser)
    assert [row.y for row in reading.rows] == [2, 9, 4]
    assert reading.faults == [
        ("classes", 3, 1, "label '5' is one class more than the 3 there may be; so many look like "
         "regression (--loss squared); if they are classes, raise --max-classes")
    ]
    assert parser.classes == (2, 4, 9)


def test_fixed_classes_are_all_there_are() -> None:
    parser = Parser("classes", known=(4, 2), fixed=True)
    reading = read(b"2\n3\n4\n", parser)
    assert [row.y for row in reading.rows] == [2, 4]
    assert reading.faults == [
        ("label unknown", 2, 1, "label '3' is none of the 2 classes given by --labels")
    ]


def test_a_thousand_classes_in_any_order_are_known_rising() -> None:
    labels = [*range(-500, 500)]
    Random(SEED).shuffle(labels)
    parser = Parser("classes", limit=1000)
    text = "".join(f"{label}\n" for label in labels * 2).encode()
    assert [row.y for row in read(text, parser).rows] == labels * 2
    assert parser.classes == tuple(range(-500, 500))


@pytest.mark.parametrize(("known", "limit"), [((0.5,), None), ((2.0**54,), None), ((1, 2), 1)])
def test_known_classes_that_cannot_be_are_refused(known: tuple[float], limit: int | None) -> None:
    with pytest.raises(UsageError, match="class"):
        Parser("classes", known=known, limit=limit)


@pytest.mark.parametrize("labels", [(1, 1), (0.0, -0.0), "ternary", ""])
def test_labels_that_make_no_sense_are_refused(labels: str | tuple[float, float]) -> None:
    with pytest.raises(UsageError, match="labels"):
        Parser(labels)


# ---- sizes


def test_a_line_of_a_million_features_is_one_row() -> None:
    ids = np.arange(1_000_000) * 3
    values = np.random.default_rng(SEED).standard_normal(len(ids))
    items = [f"{i}:{v!r}" for i, v in zip(ids.tolist(), values.tolist(), strict=True)]
    parser, block = Parser(), Block()
    for order, unsorted in ((slice(None), 0), (slice(None, None, -1), 1)):
        text = " ".join(["1", *items[order], "\n"]).encode()
        assert parser.parse(text, 0, len(text), block) == len(text)
        raw = block.arrays()
        assert (block.rows, block.features, block.max_id) == (1, len(ids), ids[-1])
        assert raw["ids"] == ids[order].astype(np.int64).tobytes()
        assert raw["values"] == values[order].tobytes()
        assert parser.unsorted == unsorted


def test_a_repeat_at_the_end_of_a_million_features_is_located() -> None:
    head = b"1 " + b"".join(b"%d:1 " % i for i in range(1_000_000))
    (fault,) = read_lines(head + b"77:2\n").faults
    assert fault[:3] == ("repeated", 1, len(head) + 1)


def test_rows_and_features_as_tight_as_they_can_be_written_fit_the_block() -> None:
    """A row takes two bytes and an item four: the block reserves room for just that."""
    tight = b"1" + b"".join(b" %d:%d" % (i, i + 1) for i in range(9))
    for line, many in ((b"1\n", 0), (tight + b"\n", 9), (tight + b"#\n", 9)):
        block, text = Block(), line * 20_000
        assert Parser("any").parse(text, 0, len(text), block) == len(text)
        assert (block.rows, block.features) == (20_000, 20_000 * many)
        lines = np.frombuffer(block.arrays()["lines"], dtype=np.int64)
        assert lines.tolist() == list(range(1, 20_001))
