"""Small damage to bytes and to msgpack: made from a seed, knows nothing of what the bytes mean."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

import msgpack

WHOLE = (0, 1, -1, 2, 7, 63, 64, 127, 128, 255, 1000, 1 << 20, (1 << 31) - 1, 1 << 32, 1 << 53,
         1 << 60, (1 << 62) + 1, (1 << 63) - 1, -(1 << 63), (1 << 64) - 1)  # fmt: skip
BROKEN = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-300, 5e-324, 1e-51, 1e49, -1e50, 1e100, 1e200,
          1.7976931348623157e308, -1e308, math.nan, math.inf, -math.inf)  # fmt: skip
WORDS = [struct.pack("<q", n) for n in WHOLE[:-1]] + [struct.pack("<d", x) for x in BROKEN]
OTHER = [None, True, False, "", "x", "nan", b"", b"x", b"12345678", bytes(800), [], [1], [[]], {},
         {"a": 1}, msgpack.Timestamp(1, 2), msgpack.ExtType(5, b"12")]  # fmt: skip
NUMBERS = [msgpack.packb(value) for value in (*WHOLE, *BROKEN)]
SWAPS = [msgpack.packb(value) for value in OTHER] + NUMBERS
HEADS = bytes.fromhex("808f909fa0bfc0c1c3c4c5c6c7c9cacbcccfd0d3d9dbdcdddedfff")
LENGTHS = [
    struct.pack(">I", n) for n in (0, 1, 2, 1023, 1025, 65536, 1 << 20, 1 << 31, (1 << 32) - 1)
]


class Wrong(AssertionError):
    """What a judge objects to."""


class Token(NamedTuple):
    """One msgpack object inside others."""

    start: int
    end: int
    head: int  # bytes before its contents
    kind: str  # number, text, bytes, list, map, other
    is_key: bool = False  # of a map


@dataclass
class Seed:
    """A sound input and where its objects are."""

    kind: str
    data: bytes
    tokens: list[Token] = field(default_factory=list)
    values: list[Token] = field(default_factory=list)  # those that are no keys, nor all of it
    more: Any = None  # whatever else its owner needs

    def __post_init__(self) -> None:
        self.tokens = tokens_of(self.data)
        self.values = [token for token in self.tokens[1:] if not token.is_key]


SIZES = {0xC4: (1, 1, 0), 0xC5: (1, 2, 0), 0xC6: (1, 4, 0), 0xC7: (1, 1, 1), 0xC8: (1, 2, 1),
         0xC9: (1, 4, 1), 0xD9: (1, 1, 0), 0xDA: (1, 2, 0), 0xDB: (1, 4, 0)}  # fmt: skip
FIXED = {0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1,
         0xD1: 2, 0xD2: 4, 0xD3: 8, 0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17}  # fmt: skip


def tokens_of(data: bytes) -> list[Token]:
    """Every object of sound msgpack, those inside others behind them."""
    found: list[Token] = []
    walk(data, 0, False, found)
    return found


def walk(data: bytes, at: int, is_key: bool, found: list[Token]) -> int:
    """Note the object that starts there and all inside; returns where it ends."""
    first, place = data[at], len(found)
    found.append(Token(at, at, 1, "other"))
    head, end, kind, items = 1, at + 1, "number", 0
    if 0x80 <= first <= 0x9F or 0xDC <= first <= 0xDF:
        kind = "map" if first < 0x90 or first > 0xDD else "list"
        items = first & 15
        if first >= 0xDC:
            head = 3 if first in (0xDC, 0xDE) else 5
            items = int.from_bytes(data[at + 1 : at + head], "big")
        end = at + head
        for index in range(2 * items if kind == "map" else items):
            end = walk(data, end, kind == "map" and index % 2 == 0, found)
    elif 0xA0 <= first <= 0xBF:
        kind, end = "text", at + 1 + (first & 31)
    elif first in SIZES:
        one, wide, more = SIZES[first]
        head = one + wide + more
        end = at + head + int.from_bytes(data[at + 1 : at + 1 + wide], "big")
        kind = "bytes" if first <= 0xC6 else "text" if first >= 0xD9 else "other"
    elif first in FIXED:
        end = at + 1 + FIXED[first]
        kind = "number" if first >= 0xCA and first < 0xD4 else "other"
    found[place] = Token(at, end, head, kind, is_key)
    return end


def nested(depth: int, random: Random) -> bytes:
    """Lists or maps inside each other."""
    how = random.randrange(4)
    if how == 0:
        return b"\x91" * depth + b"\x01"
    if how == 1:
        return b"\x81\xa1a" * depth + b"\x01"
    if how == 2:  # each says that it is long: memory for a parser that believes it
        return b"\xdd\x00\x00\x03\xff" * depth
    return b"\xdd\x00\x00\xff\xff" * min(depth, 2000)


def mutated(random: Random, seed: Seed, others: list[Seed], stop: int | None = None) -> bytes:
    """The bytes of a seed up to `stop` with one to three changes, most of them to whole objects."""
    stop = len(seed.data) if stop is None else stop
    data = seed.data[:stop]
    many = random.choice((1, 1, 1, 2, 3))
    if random.random() < 0.15:
        for _ in range(many):
            data = scarred(random, data, random.choice(others).data)
        return data
    last = stop + 1
    places = seed.values if random.random() < 0.85 else seed.tokens
    for token in sorted(random.choices(places, k=many), reverse=True):
        if token.end < last and token.end <= stop:
            data = changed(random, data, token, seed, others)
            last = token.start
    return data


def changed(random: Random, data: bytes, token: Token, seed: Seed, others: list[Seed]) -> bytes:
    """One object is another, gone, there twice, longer than it says, or deeper than any."""
    start, end = token.start, token.end
    how = random.randrange(16)
    if how < 3 and token.kind == "number":
        new = random.choice(NUMBERS)
    elif how < 8 and token.kind == "bytes" and end - start - token.head >= 8:
        inside = bytearray(data[start:end])
        for _ in range(random.choice((1, 1, 2))):
            at = token.head + 8 * random.randrange((end - start - token.head) // 8)
            inside[at : at + 8] = random.choice(WORDS)
        new = bytes(inside)
    elif how < 10:
        new = random.choice(SWAPS)
    elif how == 10:
        other = random.choice(others)
        piece = random.choice(other.tokens)
        new = other.data[piece.start : piece.end]
    elif how == 11:
        twin = random.choice(seed.tokens)
        new = seed.data[twin.start : twin.end]
    elif how == 12:  # what it says of itself
        new = bytes([random.choice(HEADS)]) + random.choice(
            (data[start + 1 : end], random.choice(LENGTHS) + data[start + token.head : end]))
    elif how == 13:
        new = random.choice((b"", data[start:end] * 2, data[start:end] * 40))
    elif how == 14 and random.random() < 0.3:
        new = nested(random.choice((3, 60, 400, 600, 1020, 1100, 5000)), random)
    else:
        return scarred(random, data[:end], seed.data, start) + data[end:]
    return data[:start] + new + data[end:]


def scarred(random: Random, data: bytes, other: bytes, start: int = 0) -> bytes:
    """Bytes behind `start` flipped, overwritten, cut out, repeated, or taken from elsewhere."""
    if len(data) <= start:
        return data + b"\0"
    at = random.randrange(start, len(data))
    to = min(len(data), at + random.choice((1, 1, 2, 4, 8, 30)))
    how = random.randrange(7)
    if how == 0:
        return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
    if how == 1:
        return data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]
    if how == 2:
        return data[:at] + data[to:]
    if how == 3:
        return data[:to] + data[at:to] * random.choice((1, 2, 30)) + data[to:]
    if how == 4:
        place = random.randrange(len(other) + 1)
        return data[:at] + other[place : place + to - at] + data[to:]
    if how == 5:
        return data[:at] + random.choice(WORDS) + data[min(len(data), at + 8) :]
    return data[:at] if random.random() < 0.3 else data[:at] + random.randbytes(to - at) + data[to:]


def mutated_text(random: Random, line: bytes, other: bytes, fragments: list[bytes]) -> bytes:
    """One to three changes to a line: a letter or a piece more, less, other, or from elsewhere."""
    for _ in range(random.choice((1, 1, 2, 3))):
        size = len(line)
        at = int(random.random() * (size + 1))
        to = min(size, at + 1 + int(random.random() * 5))
        how = int(random.random() * 9)
        if how == 0:
            line = line[:at] + line[to:]
        elif how == 1:
            line = line[:at] + random.choice(fragments) + line[at:]
        elif how == 2:
            line = line[:at] + random.choice(fragments) + line[to:]
        elif how == 3:
            line = line[:at] + bytes([int(random.random() * 256)]) + line[at + 1 :]
        elif how == 4:
            line = line[:to] + line[at:to] * random.choice((1, 1, 2, 25)) + line[to:]
        elif how == 5:
            line = line[:at] + other[int(random.random() * (len(other) + 1)) :]
        elif how == 6 and line[at:]:
            line = line[:at] + bytes([line[at] ^ 1 << int(random.random() * 8)]) + line[at + 1 :]
        elif how == 7:
            line = line[:at] + other
        else:  # a digit more or another
            line = line[:at] + b"%d" % int(random.random() ** 9 * 10**25) + line[at:]
    return line.replace(b"\n", b" ")


