"""From the payload of a message to rows: libsvm text, or CSR arrays in bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streamlearn.engine.block import Block
from streamlearn.engine.libsvm import Parser
from streamlearn.errors import DataError
from streamlearn.wire import Refusal

SHOWN = 10  # bad rows that a reply tells about; all are counted
ARRAYS = {"offsets", "ids", "values"}
NAME, LINE = 1024, 1 << 53  # a name is repeated in errors; a line number must fit into a reply


@dataclass
class Rows:
    """What a payload holds: the rows that can be learned from, and those that cannot."""

    block: Block
    blank: int = 0
    bad: int = 0
    errors: list[dict[str, Any]] = field(default_factory=list)

    def fault(self, name: str, line: int, column: int, what: str) -> None:
        self.bad += 1
        if len(self.errors) < SHOWN:
            place = {"name": name, "line": line, "column": column}
            self.errors.append({**place, "message": f"{name}:{line}:{column}: {what}"})

    @property
    def total(self) -> int:
        return len(self.block) + self.bad


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
    """The rows of a checked request; the block is reused where it can be."""
    name, before = request.get("name", "batch"), request.get("line", 1) - 1
    if "text" in request:
        return from_text(request["text"], parser, block, name, before)
    return from_arrays(request["rows"], parser, name, before)


def from_text(text: bytes, parser: Parser, block: Block, name: str, before: int) -> Rows:
    if not text.endswith(b"\n"):
        text += b"\n"
    parser.start_file()
    blank, stop = parser.blank, len(text)
    rows = Rows(block)
    start = parser.parse(text, 0, stop, block)
    while parser.fault:
        rows.fault(name, parser.line + before, parser.column, parser.complaint())
        if rows.bad == SHOWN:
            rows.bad += parser.parse_past(text, start, stop, block)
            break
        start = parser.parse(text, start, stop, block, append=True)
    rows.blank = parser.blank - blank
    return rows


def from_arrays(arrays: Any, parser: Parser, name: str, before: int) -> Rows:
    count = max(len(arrays["offsets"]) // 8 - 1, 0)
    row, what = -1, ""
    try:
        block = Block.from_bytes({"labels": bytes(8 * count), **arrays})
        if (row := parser.read_labels(block)) >= 0:
            what = parser.complaint()
    except DataError as error:
        row, what = 0, str(error)
    if not what:
        return Rows(block)
    # Rows of arrays stand or fall together: there is no line to leave out.
    rows = Rows(Block())
    rows.fault(name, row + 1 + before, 1, what)
    rows.bad = max(count, 1)
    return rows
