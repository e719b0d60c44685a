"""Mutated lines and numbers: the parser must say what the slow reference says, bit for bit."""

from __future__ import annotations

import ast
import math
import re
import struct
from array import array
from pathlib import Path
from random import Random

from fuzz.mutation import Wrong, mutated_text
from reference import libsvm as reference
from streamlearn.engine.block import Block
from streamlearn.engine.libsvm import Parser
from streamlearn.engine.number import parse_number

GOLDEN = Path(__file__).parent.parent / "golden" / "libsvm.txt"
RULES = ("any", "binary", "classes")
COLUMNS = ("labels", "weights", "values", "lines", "offsets", "ids")
CLASSES = 5  # of them at most, so that the limit is met
WORDS = (
    "1 -1 0 +1 2.5 1e5 .5 5. -0 1e400 nan -inf infinity nano : # + - . e x q , _ \0 \xff qid: "
    "qid:7 qid:-3 1:2 2:0 2:1e-60 007:1 12:-.5e-3 0:1 3:2e49 4:1e60 5:9.9e49 6:1e-50 e50 "
    "9223372036854775807:1 9223372036854775808:1 18446744073709551617:1 00000000000000000001:1 "
    "0.1234567890123456789 12345678901234567890 9007199254740993 2.2250738585072014e-308 "
    "1:1.7976931348623157e308 1:4.9e-324 8:1e-330 1:0.000000000000000000000000000000000001e36"
)
FRAGMENTS = [text.encode("latin-1") for text in WORDS.split(" ")]
FRAGMENTS += [b" ", b"  ", b"\t", b"\r", b"\v", b"\f", b"3: 4", b" # ", b"1 1:1 2:2 3:3", b"\0\0"]


def golden() -> list[bytes]:
    """Every line of the golden table."""
    found = []
    for line in GOLDEN.read_text("utf-8").splitlines():
        if line.startswith(("refused |", "legal |")):
            quoted = re.split(r" \| ?", line, maxsplit=3 if line[0] == "r" else 2)[-1]
            escaped = quoted.replace('"', '\\"')
            text = ast.literal_eval(f'b"{escaped}"')
            found += [piece for piece in text.split(b"\n") if piece]
    return found


class Lines:
    """Texts of many lines, under each of the rules for labels."""

    units, seconds, room = 200, 20.0, 1 << 29

    def __init__(self) -> None:
        self.sound = golden()
        random = Random(1)
        for n in (3, 20, 150):  # rows as they come in bulk
            items = " ".join(f"{i}:{random.gauss(0, 1):.{i % 17}g}" for i in range(1, n))
            self.sound.append(f"{random.choice((-1, 1))} {items}".encode())

    def make(self, random: Random) -> tuple[str, bytes]:
        sound, lines = self.sound, []
        for _ in range(self.units):
            line = random.choice(sound)
            if random.random() < 0.9:
                line = mutated_text(random, line, random.choice(sound), FRAGMENTS)
            lines.append(line)
        return random.choice(RULES), b"\n".join([*lines, b""])

    def judge(self, kind: str, data: bytes) -> str:
        expected = refer(data, kind)
        compare(data, expected, read(data, kind))
        past(data, kind, expected)
        return "same"


class Said(dict[str, object]):
    """What a parser made of a text: columns as bytes, faults, counters."""


def said(columns: dict[str, array], faults: list[tuple[str, int, int]], **counters: int) -> Said:
    return Said({k: v.tobytes() for k, v in columns.items()}, faults=faults, **counters)


def refer(text: bytes, labels: str) -> Said:
    """What the reference makes of whole lines."""
    rules = {"binary": reference.BinaryLabels(), "classes": reference.ClassLabels(CLASSES)}
    rule = rules.get(labels, reference.ANY)
    columns = {name: array("d") for name in ("labels", "weights", "values")}
    columns |= {name: array("q") for name in ("lines", "offsets", "ids")}
    columns["offsets"].append(0)
    faults: list[tuple[str, int, int]] = []
    blank = zeros = unsorted = 0
    for number, line in enumerate(text.split(b"\n")[:-1], start=1):
        found = reference.parse_line(line, rule)
        if found is None:
            blank += 1
        elif isinstance(found, reference.Fault):
            faults.append((found.name, number, found.column))
        else:
            kept = found.kept
            columns["labels"].append(rule.learned(found.label))
            columns["weights"].append(found.weight)
            columns["lines"].append(number)
            columns["ids"].extend([i for i, _ in kept])
            columns["values"].extend([value for _, value in kept])
            columns["offsets"].append(len(columns["ids"]))
            zeros += len(found.items) - len(kept)
            unsorted += not found.rises
    return said(columns, faults, blank=blank, zeros=zeros, unsorted=unsorted)


def columns_of(block: Block) -> dict[str, bytes]:
    arrays = block.arrays()
    return {name: arrays[name] for name in COLUMNS}


def read(text: bytes, labels: str) -> Said:
    """What the parser makes of them, going on behind every faulty line."""
    parser, block, at = Parser(labels, limit=CLASSES), Block(), 0
    faults = []
    while at < len(text):
        at = parser.parse(text, at, len(text), block, append=True)
        if parser.fault:
            faults.append((reference.FAULTS[parser.fault], parser.line, parser.column))
            parser.complaint()
    counters = {"blank": parser.blank, "zeros": parser.zeros, "unsorted": parser.unsorted}
    return Said(columns_of(block), faults=faults, **counters)


def past(text: bytes, labels: str, expected: Said) -> None:
    """The same without a stop at faulty lines, as the daemon reads."""
    parser, block = Parser(labels, limit=CLASSES), Block()
    bad = parser.parse_past(text, 0, len(text), block)
    same = all(expected[name] == column for name, column in columns_of(block).items())
    if bad != len(expected["faults"]) or not same:
        raise Wrong(f"labels {labels}: parse_past reads other rows than the reference")


def compare(text: bytes, expected: Said, found: Said) -> None:
    """Raises Wrong with the first line on which they differ, or the counter."""
    if expected == found:
        return
    lines = text.split(b"\n")
    one, other = by_line(expected), by_line(found)
    for number, line in enumerate(lines, start=1):
        if one.get(number) != other.get(number):
            raise Wrong(
                f"line {number} {line[:300]!r}: the reference says {one.get(number, 'blank')}, the "
                f"parser {other.get(number, 'blank')}"
            )
    differ = [name for name in expected if expected[name] != found[name]]
    raise Wrong(f"{', '.join(differ)} differ: {[expected[n] for n in differ]!r:.300}")


def by_line(said: Said) -> dict[int, object]:
    """{line: its fault, or its label, weight and items in hex}"""
    found: dict[int, object] = {line: (name, column) for name, line, column in said["faults"]}
    columns = {name: array("q", said[name]) for name in ("lines", "offsets", "ids")}
    offsets = columns["offsets"]
    for row, line in enumerate(columns["lines"]):
        a, b = offsets[row], offsets[row + 1]
        numbers = [said["labels"][8 * row : 8 * row + 8], said["weights"][8 * row : 8 * row + 8]]
        numbers.append(said["values"][8 * a : 8 * b])
        found[line] = (*(n.hex() for n in numbers), columns["ids"][a:b].tolist())
    return found


class Numbers:
    """Words that are numbers, nearly are, or once were; float() is right."""

    units, seconds, room = 1000, 20.0, 1 << 29

    def make(self, random: Random) -> tuple[str, bytes]:
        words = []
        for _ in range(self.units):
            word = spelt(random)
            if random.random() < 0.4:
                word = mutated_text(random, word, spelt(random), FRAGMENTS)
            words.append(word.replace(b"\n", b" "))
        return "words", b"\n".join(words)

    def judge(self, kind: str, data: bytes) -> str:
        for word in data.split(b"\n"):
            found, expected = parse_number(word), reference.number(word)
            if expected is not None and math.isinf(expected):
                expected = None  # no number that can be learned from
            if found is None or expected is None:
                if found is not expected:
                    raise Wrong(f"{word[:300]!r} is {expected!r}, not {found!r}")
            elif struct.pack("<d", found) != struct.pack("<d", expected):
                raise Wrong(f"{word[:300]!r} is {expected!r}, not {found!r}")
        return "same"


def spelt(random: Random) -> bytes:
    """A number in one of the ways that numbers are written."""
    how = random.randrange(6)
    if how == 0:
        return repr(struct.unpack("<d", random.randbytes(8))[0]).encode()
    if how == 1:
        return b"%.*f" % (random.randrange(20), random.gauss(0, 100))
    if how == 2:
        return b"%.*e" % (random.randrange(40), random.gauss(0, 10 ** random.randrange(-300, 300)))
    if how == 3:
        return b"%d" % random.getrandbits(random.randrange(1, 200))
    if how == 4:  # halfway between two doubles, or a little beside it
        x = math.ldexp(2 * random.getrandbits(53) + 1, random.randrange(-60, 12))
        low = math.ldexp(2 * random.getrandbits(52) + 1 + (1 << 53), random.randrange(-20, 60))
        return b"%.*f" % (random.randrange(30), random.choice((x, low)))
    digits = b"%d" % random.getrandbits(random.choice((10, 50, 64, 66, 300)))
    point = random.randrange(len(digits) + 1)
    mark = random.choice((b"e", b"E", b"e+", b"e-", b"e-0", b"E+00"))
    return digits[:point] + b"." + digits[point:] + mark + b"%d" % random.randrange(400)
