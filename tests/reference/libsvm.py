"""A slow, obvious reader of one libsvm line, with regular expressions and float(); counts nothing.

    line   = blank* [ label [":" weight] ( blank+ item )* ] blank* [ "#" anything ]
    item   = id ":" blank* value  |  "qid:" [+-] digits
    blank  = space, tab, CR, VT, FF

A comment may follow a word without a blank; a '#' never belongs to a word. A line is judged from
left to right: label and weight as words, then the label by the caller's rule, then each item; an
id that stands twice is looked for last, in a line that is sound otherwise.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

Item = tuple[int, float]

TINY = 1e-50  # a value smaller than this in size counts as an explicit zero
MAX_ID = 2**63 - 1

# Faults by the code that the engine gives them.
FAULTS = (
    "none",
    "label",
    "label range",
    "label unknown",
    "label mixed",
    "weight",
    "id",
    "id range",
    "colon",
    "value",
    "value range",
    "repeated",
    "qid",
)

BLANKS = re.compile(rb"[ \t\r\v\f]*")
WORD = re.compile(rb"[^ \t\r\v\f#]*")
LABEL = re.compile(rb"[^ \t\r\v\f#:]*")
DIGITS = re.compile(rb"[0-9]*")
NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
NOT_FINITE = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)
QID = re.compile(rb"qid:[+-]?[0-9]+")


@dataclass
class Row:
    """A legal line, its items as they are written."""

    label: float
    weight: float
    items: list[Item]

    @property
    def kept(self) -> list[Item]:
        """The items without explicit zeros."""
        return [(i, value) for i, value in self.items if abs(value) >= TINY]

    @property
    def rises(self) -> bool:
        """Whether each id is larger than the one before it."""
        ids = [i for i, _ in self.items]
        return all(a < b for a, b in pairwise(ids))


@dataclass
class Fault:
    """What is wrong with a line; the column counts bytes from 1."""

    name: str
    column: int


def any_label(raw: float) -> str:
    """The rule for regression: every number is a label."""
    return ""


@dataclass
class BinaryLabels:
    """The rule for {-1,+1} and {0,1}: the first negative label of a legal line settles which."""

    negatives: set[float] = field(default_factory=set)

    def __call__(self, raw: float) -> str:
        if raw == 1:
            return ""
        if raw not in (-1, 0):
            return "label unknown"
        return "label mixed" if self.negatives - {raw} else ""

    def learned(self, raw: float) -> float:
        """The y of a legal line; its label counts from here on."""
        if raw == 1:
            return 1.0
        self.negatives.add(raw)
        return -1.0


def number(word: bytes) -> float | None:
    """The number that a word spells; inf also for nan, None when it spells none."""
    if NOT_FINITE.fullmatch(word):
        return math.inf
    return float(word) if NUMBER.fullmatch(word) else None


def parse_line(line: bytes, refuse: Callable[[float], str] = any_label) -> Row | Fault | None:
    """Read one line without its newline; None when it is blank or only a comment.

    refuse(label) names the fault of a label that is a number, or returns "".
    """
    start = BLANKS.match(line).end()
    if ends(line, start):
        return None

    word = LABEL.match(line, start)
    label, weight, here = number(word.group()), 1.0, word.end()
    if label is None:
        return Fault("label", start + 1)
    if math.isinf(label):
        return Fault("label range", start + 1)
    if line.startswith(b":", here):
        word = WORD.match(line, here + 1)
        weight = number(word.group())
        if weight is None or math.isinf(weight) or weight < 0:
            return Fault("weight", word.start() + 1)
        here = word.end()
    if refuse(label):
        return Fault(refuse(label), start + 1)

    items: list[Item] = []
    columns: list[int] = []
    while not ends(line, here := BLANKS.match(line, here).end()):
        if line.startswith(b"qid:", here):
            word = WORD.match(line, here)
            if not QID.fullmatch(word.group()):
                return Fault("qid", here + 1)
        else:
            columns.append(here + 1)
            fault, feature, word = parse_id(line, here)
            if fault:
                return fault
            value = number(word.group())
            if value is None or math.isinf(value):
                return Fault("value" if value is None else "value range", word.start() + 1)
            items.append((feature, value))
        here = word.end()

    ids = [i for i, _ in items]
    for n, column in enumerate(columns):
        if ids[n] in ids[:n]:
            return Fault("repeated", column)
    return Row(label, weight, items)


def parse_id(line: bytes, here: int) -> tuple[Fault | None, int, re.Match[bytes]]:
    """The id at `here`, and the word behind its colon, which should be the value."""
    digits = DIGITS.match(line, here)
    behind = digits.end()
    value = WORD.match(line, BLANKS.match(line, behind + 1).end())
    fault = None
    if not digits.group():
        fault = "id"
    elif ends(line, behind) or BLANKS.match(line, behind).group():
        fault = "colon"
    elif not line.startswith(b":", behind):
        fault = "id"
    elif int(digits.group()) > MAX_ID:
        fault = "id range"
    return Fault(fault, here + 1) if fault else None, int(digits.group() or b"0"), value


def ends(line: bytes, here: int) -> bool:
    """Whether nothing but a comment is left."""
    return here == len(line) or line.startswith(b"#", here)
