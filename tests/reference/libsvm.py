"""A slow, obvious reader of one libsvm line, with regular expressions and float(); counts nothing.

    line   = blank* [ label [":" weight] ( blank+ item )* ] blank* [ "#" anything ]
    item   = id ":" blank* value  |  "qid:" [+-] digits
    blank  = space, tab, CR, VT, FF

A comment may follow a word without a blank; a '#' never belongs to a word. A line is judged from
left to right: label and weight as words, then the label by the caller's rule, then each item; an
id that stands twice is looked for in a line that is sound otherwise, extreme numbers last.
"""

import math
import re
from dataclasses import dataclass, field
from itertools import pairwise

Item = tuple[int, float]

TINY = 1e-50  # a value smaller than this in size counts as an explicit zero
EXTREME = 1e50  # a label, weight or value of this size or more is too large to learn from
EXTREME_NORM = 1e100  # and so is a row whose squares sum to this
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
    "extreme",
    "memory",
    "class",
    "classes",
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


@dataclass
class AnyLabels:
    """The rule for regression: every number is a label, and y."""

    def __call__(self, raw: float) -> str:
        """The fault of a label that is a number, or ""."""
        return ""

    def learned(self, raw: float) -> float:
        """The y of a legal line."""
        return raw


@dataclass
class BinaryLabels:
    """The rule for {-1,+1} and {0,1}: the first negative label of a legal line settles which."""

    negatives: set[float] = field(default_factory=set)

    def __call__(self, raw: float) -> str:
        """The fault of a label that is a number, or ""."""
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


@dataclass
class ClassLabels:
    """The rule for many classes: whole numbers up to 2^53; legal lines have at most `limit`."""

    limit: int
    known: set[float] = field(default_factory=set)

    def __call__(self, raw: float) -> str:
        """The fault of a label that is a number, or ""."""
        if abs(raw) > 2**53 or raw != int(raw):
            return "class"
        return "classes" if len(self.known | {raw}) > self.limit else ""

    def learned(self, raw: float) -> float:
        """The y of a legal line; its label counts from here on."""
        self.known.add(raw)
        return raw + 0.0


Rule = AnyLabels | BinaryLabels | ClassLabels
ANY = AnyLabels()


def number(word: bytes) -> float | None:
    """The number that a word spells; inf also for nan, None when it spells none."""
    if NOT_FINITE.fullmatch(word):
        return math.inf
    return float(word) if NUMBER.fullmatch(word) else None


def parse_line(line: bytes, refuse: Rule = ANY) -> Row | Fault | None:
    """Read one line without its newline; None when it is blank or only a comment."""
    start = behind(BLANKS, line, 0)
    if ends(line, start):
        return None

    here = behind(LABEL, line, start)
    label, weight = number(line[start:here]), 1.0
    if label is None:
        return Fault("label", start + 1)
    if math.isinf(label):
        return Fault("label range", start + 1)
    if line.startswith(b":", here):
        begin, here = here + 1, behind(WORD, line, here + 1)
        given = number(line[begin:here])
        if given is None or math.isinf(given) or given < 0:
            return Fault("weight", begin + 1)
        weight = given
    if refuse(label):
        return Fault(refuse(label), start + 1)

    items: list[Item] = []
    columns: list[int] = []
    while not ends(line, begin := behind(BLANKS, line, here)):
        here = behind(WORD, line, begin)
        if line.startswith(b"qid:", begin):
            if not QID.fullmatch(line, begin, here):
                return Fault("qid", begin + 1)
            continue
        colon = behind(DIGITS, line, begin)
        fault = id_fault(line, begin, colon)
        if fault:
            return Fault(fault, begin + 1)
        first = behind(BLANKS, line, colon + 1)
        here = behind(WORD, line, first)
        value = number(line[first:here])
        if value is None:
            return Fault("value", first + 1)
        if math.isinf(value):
            return Fault("value range", first + 1)
        items.append((int(line[begin:colon]), value))
        columns.append(begin + 1)

    ids = [i for i, _ in items]
    for n, column in enumerate(columns):
        if ids[n] in ids[:n]:
            return Fault("repeated", column)
    if weight >= EXTREME or (refuse is ANY and abs(label) >= EXTREME):
        return Fault("extreme", start + 1)
    if sum(value * value for _, value in items) >= EXTREME_NORM:
        return Fault("extreme", largest_column(items, columns, start + 1))
    return Row(label, weight, items)


def largest_column(items: list[Item], columns: list[int], otherwise: int) -> int:
    """The first extreme value; when only their sum is extreme, the first near to it, or the row."""
    for size in (EXTREME, EXTREME / 10):
        for (_, value), column in zip(items, columns, strict=True):
            if abs(value) >= size:
                return column
    return otherwise


def id_fault(line: bytes, begin: int, colon: int) -> str:
    """What is wrong with an id of the digits begin .. colon - 1, or ""."""
    if begin == colon:
        return "id"
    if ends(line, colon) or behind(BLANKS, line, colon) > colon:
        return "colon"
    if not line.startswith(b":", colon):
        return "id"
    return "id range" if int(line[begin:colon]) > MAX_ID else ""


def behind(pattern: re.Pattern[bytes], line: bytes, here: int) -> int:
    """Where the longest match that starts here ends; each pattern also matches nothing."""
    found = pattern.match(line, here)
    return found.end() if found else here


def ends(line: bytes, here: int) -> bool:
    """Whether nothing but a comment is left."""
    return here == len(line) or line.startswith(b"#", here)
