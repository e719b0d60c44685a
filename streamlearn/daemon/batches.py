"""From the payload of a message to rows: libsvm text, or CSR arrays in bytes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streamlearn.engine.block import Block
from streamlearn.engine.libsvm import Parser
from streamlearn.errors import DataError
from streamlearn.wire import Refusal

SHOWN = 10  # bad rows that a reply tells about; all are counted
ARRAYS = {"offsets", "ids", "values"}
UNNAMED = "batch"  # what a batch without a name is called
NAME, LINE = 1024, 1 << 53  # a name is repeated in errors; a line number must fit into a reply


@dataclass(slots=True)
class Rows:
    """What a payload holds: the rows that can be learned from, and those that cannot.

    The former are rows first .. stop-1 of a block, which may hold those of other payloads too.
    """

    block: Block
    first: int = 0
    stop: int = 0
    blank: int = 0
    bad: int = 0
    settled: bool = False  # whether it was known before how labels are written
    errors: list[dict[str, Any]] = field(default_factory=list)

    def fault(self, name: str, line: int, column: int, what: str, message: str = "") -> None:
        self.bad += 1
        if len(self.errors) < SHOWN:
            place = {"name": name, "line": line, "column": column}
            message = message or f"{name}:{line}:{column}: {what}"
            self.errors.append({**place, "message": message})

    @property
    def good(self) -> int:
        return self.stop - self.first

    @property
    def total(self) -> int:
        return self.good + self.bad


def check(request: Mapping[str, Any]) -> None:
    """Refuse what is no batch at all, before anybody takes it on."""
    if ("text" in request) == ("rows" in request):
        raise Refusal("BAD_REQUEST", "a batch needs either 'text' or 'rows'")
    if len(request.get("name", "")) > NAME or not 0 <= request.get("line", 1) < LINE:
        raise Refusal("BAD_REQUEST", f"'name' has up to {NAME} characters, 'line' counts from 1")
    arrays = request.get("rows")
    if arrays is None:
        return
    if not ARRAYS <= set(arrays) <= ARRAYS | {"labels", "weights"}:
        raise Refusal(
            "BAD_REQUEST",
            "'rows' is a map of bytes: offsets, ids (int64), values, labels, weights (float64)",
        )
    if not all(isinstance(column, bytes) and len(column) % 8 == 0 for column in arrays.values()):
        raise Refusal("BAD_REQUEST", "each array of 'rows' is bytes, 8 for each number")


def rows_of(request: Mapping[str, Any], parser: Parser, block: Block) -> Rows:
    """The rows of a checked request, put behind those that the block holds already."""
    return many_rows([request], parser, block)[0]


def many_rows(
    requests: Sequence[Mapping[str, Any]], parser: Parser, block: Block
) -> list[Rows]:
    """The rows of the first request and of those behind it that can be read in one go: texts, up
    to the first with a bad line. Where memory ends, it is the first that there is none for.
    """
    texts = [*itertools.takewhile(lambda request: "text" in request, requests)]
    if not texts:
        return [from_arrays(requests[0], parser, block)]
    lines = [whole_lines(request["text"]) for request in texts]
    first, found = len(block), []
    try:
        marks = parser.parse_texts(lines, [lines_before(request) for request in texts], block)
    except MemoryError:
        block.cut(first)
        if len(texts) == 1:
            raise
        return many_rows(texts[:1], parser, block)
    for stop, blank, settled in marks:
        found.append(Rows(block, first, stop, blank, settled=settled))
        first = stop
    if parser.fault:
        last = len(found) - 1
        try:
            read_past(lines[last], parser, found[last], place_of(texts[last])[0])
        except MemoryError:
            if last == 0:
                raise
            block.cut(found.pop().first)
    return found


def whole_lines(text: bytes | memoryview) -> bytes | memoryview:
    return text if not text or text[-1] == 10 else bytes(text) + b"\n"


def place_of(request: Mapping[str, Any]) -> tuple[str, int]:
    """The file, and how many of its lines stand before these."""
    return request.get("name", UNNAMED), lines_before(request)


def lines_before(request: Mapping[str, Any]) -> int:
    return max(request.get("line", 1) - 1, 0)


def read_past(text: bytes | memoryview, parser: Parser, rows: Rows, name: str) -> None:
    """From the first bad line of a text to its end."""
    blank, start, stop, block = parser.blank, parser.reached, len(text), rows.block
    while parser.fault:
        rows.fault(name, parser.line, parser.column, parser.complaint())
        if rows.bad == SHOWN:
            rows.bad += parser.parse_past(text, start, stop, block)
            break
        start = parser.parse(text, start, stop, block, append=True)
    rows.stop = len(block)
    rows.blank += parser.blank - blank


def from_arrays(request: Mapping[str, Any], parser: Parser, block: Block) -> Rows:
    arrays, (name, before) = request["rows"], place_of(request)
    rows = Rows(block, len(block), len(block), settled=parser.settled)
    count = max(len(arrays["offsets"]) // 8 - 1, 0)
    try:
        read = Block.from_bytes({"labels": bytes(8 * count), **arrays})
        row = parser.read_labels(read)
        if row < 0:
            block.extend(read)
            rows.stop = len(block)
            return rows
        what = parser.complaint()
    except DataError as error:
        row, what = row_in(str(error))
    # Rows of arrays stand or fall together: there is no line to leave out. They count from 0, as
    # in the array that they come from.
    row += before
    named = f"{name}: " if name != UNNAMED else ""
    rows.fault(name, row + 1, 1, what, f"{named}row {row}: {what}")
    rows.bad = max(count, 1)
    return rows


def row_in(sentence: str) -> tuple[int, str]:
    """The row that a block's complaint begins with, and the rest; row 0 when it names none."""
    found = re.match(r"row (\d+): ", sentence)
    return (int(found[1]), sentence[found.end() :]) if found else (0, sentence)
