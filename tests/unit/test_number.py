"""The float parser against float(), bit for bit; lines and blocks are not its business."""

import contextlib
import locale
import math
import struct
from collections.abc import Iterator
from fractions import Fraction
from itertools import chain, islice, product
from random import Random

import numpy as np
import pytest

from streamlearn.engine.number import parse_number

SEED = 20240611
SMALLEST = 5e-324  # the least subnormal
LARGEST = 1.7976931348623157e308
MILLION = 1_000_000


def doubles(random: Random, count: int) -> list[float]:
    """Finite doubles, all bit patterns alike."""
    found: list[float] = []
    while len(found) < count:
        many = struct.unpack(f"<{count}d", random.randbytes(8 * count))
        found += filter(math.isfinite, many)
    return found[:count]


def subnormals(random: Random, count: int) -> list[float]:
    """Doubles below 2.3e-308, of 1 to 52 significant bits."""
    bits = (random.getrandbits(1 + n % 52) | random.getrandbits(1) << 63 for n in range(count))
    return list(struct.unpack(f"<{count}d", struct.pack(f"<{count}Q", *bits)))


def whole_numbers(random: Random, count: int) -> Iterator[str]:
    """Integers of 1 to 60 digits."""
    tops = [10**n for n in range(1, 61)]
    return (str(random.randrange(tops[n % 60])) for n in range(count))


def everyday_numbers(random: Random, count: int) -> Iterator[str]:
    """Short decimals as data files hold them."""
    return (f"{random.random() * 100:.{n % 9}f}" for n in range(count))


def digit_strings(random: Random, count: int) -> Iterator[str]:
    """Digits with a sign, leading zeros, a point anywhere, and an exponent from -345 to 310."""
    tops = [10**n for n in range(1, 31)]
    zeros = ("", "", "", "0", "000")
    signs = ("", "-", "+")
    marks = ("e", "E", "e+0", "E-", "e-00")
    for n in range(count):
        digits = zeros[n % 5] + str(random.randrange(tops[n % 30]))
        point = random.randrange(len(digits) + 1)
        exponent = random.randrange(-345, 311)
        mark = marks[exponent % 2] if exponent < 0 else marks[n % 5]
        if mark[-1] == "0" or mark[-1] == "-":
            exponent = abs(exponent)
        yield f"{signs[n % 3]}{digits[:point]}.{digits[point:]}{mark}{exponent}"


def long_mantissas(random: Random, count: int) -> Iterator[str]:
    """17 to 20 digits: the last that fit 64 bits, and the first that do not."""
    for n in range(count):
        digits = 17 + n % 4
        mantissa = random.randrange(10 ** (digits - 1), 10**digits)
        yield f"{mantissa}e{random.randrange(-345, 311)}"


def exact_ties(random: Random, count: int) -> Iterator[str]:
    """Numbers of 64 bits or fewer, halfway between two doubles exactly, and their neighbours.

    (odd number of 54 bits) * 2^j = w * 10^q has a w below 10^19 for q = -4 .. 23 only.
    """
    while count > 0:
        q = random.randrange(-4, 24)
        five = 5 ** abs(q)
        if q < 0:
            w = (random.randrange(2**53, 2**54) | 1) * five
        else:
            w = random.randrange(2**53 // five, 2**54 // five + 1) | 1
            if not 2**53 <= w * five < 2**54:
                continue
        w <<= random.randrange(0, 1 + (10**19 // w).bit_length() // 2)
        if w >= 10**19:
            continue
        for near in (w, w - 1, w + 1):
            yield f"{near}e{q}"
        count -= 3


def midpoints(random: Random, count: int) -> Iterator[str]:
    """Exact midpoints of neighbouring doubles, all digits written; one unit up and down as well.

    Also the same cut after 17, 18 and 19 digits, and that plus one: both sides of the midpoint.
    """
    for n in range(count // 9):
        low = abs(subnormals(random, 1)[0] if n % 8 == 0 else doubles(random, 1)[0])
        middle = (Fraction(low) + Fraction(math.nextafter(low, LARGEST))) / 2
        # The denominator is a power of two, so as many decimals as it has bits are exact.
        decimals = middle.denominator.bit_length() - 1
        digits = middle.numerator * 10**decimals // middle.denominator
        text = str(digits)
        yield f"{digits}e-{decimals}"
        yield f"{digits}1e-{decimals + 1}"
        yield f"{digits - 1}e-{decimals}"
        for kept in (17, 18, 19):
            head, rest = int(text[:kept]), len(text[kept:]) - decimals
            yield f"{head}e{rest}"
            yield f"{head + 1}e{rest}"


def close_calls(random: Random, count: int) -> Iterator[str]:
    """w * 10^q with w of 50 to 63 bits, as close to a midpoint as such a number gets.

    A midpoint is (odd p of 54 bits) * 2^e. The convergents p/w of 10^q / 2^e come closer than
    1/w^2 to it: these are the numbers for which one 64-bit product with 5^q is not enough.
    """
    while count > 0:
        q = random.randrange(-320, 290)
        e = math.floor(q * math.log2(10)) + random.randrange(-2, 10)
        top, bottom = (10**q, 1) if q >= 0 else (1, 10**-q)
        top, bottom = (top << -e, bottom) if e < 0 else (top, bottom << e)
        p, w, p_before, w_before = 1, 0, 0, 1
        while bottom and p < 2**54 and w < 10**19:
            part, (top, bottom) = top // bottom, (bottom, top % bottom)
            p, p_before = part * p + p_before, p
            w, w_before = part * w + w_before, w
            if p & 1 and 2**53 < p < 2**54 and 2**50 < w < 10**19:
                yield f"{w}e{q}"
                count -= 1


BORDERS = [
    *(f"{m}e{q}" for q in range(-400, 401) for m in ("1", "-9", "9007199254740993", "0")),
    *(f"{2**53 + d}e{q}" for d in range(-3, 4) for q in range(-25, 26)),
    *(f"{2**64 + d}" for d in range(-3, 4)),
    *(f"{10**19 + d}e{q}" for d in range(-3, 4) for q in (-342, -19, 0, 22, 23, 289)),
    *("0." + "0" * n + "1" for n in range(400)),
    *("1" + "0" * n for n in range(320)),
    *("1" + "0" * n + f"e-{n}" for n in range(400)),
]


def a_million_strings() -> list[bytes]:
    """Every kind in its share; everyday numbers fill the million up."""
    random = Random(SEED)
    wide, narrow = doubles(random, 150_000), subnormals(random, 25_000)
    kinds = chain(
        BORDERS,
        map(repr, wide),
        (f"{x:.17g}" for x in wide),
        (f"{x:.16g}" for x in wide),
        map(repr, narrow),
        (f"{x:.20e}" for x in narrow),
        whole_numbers(random, 100_000),
        digit_strings(random, 200_000),
        long_mantissas(random, 100_000),
        exact_ties(random, 30_000),
        midpoints(random, 18_000),
        close_calls(random, 20_000),
        everyday_numbers(random, MILLION),
    )
    return "\n".join(islice(kinds, MILLION)).encode().split(b"\n")


def bits(values: list[float | None]) -> np.ndarray:
    """The bits of each value; what is refused (None) and what is infinite look the same."""
    numbers = np.array(values, dtype=float)
    numbers[~np.isfinite(numbers)] = np.nan
    return numbers.view(np.int64)


def first_difference(texts: list[bytes]) -> str:
    """Empty when parse_number and float() agree on all bits of all texts."""
    wrong = np.flatnonzero(bits(list(map(parse_number, texts))) != bits(list(map(float, texts))))
    if not len(wrong):
        return ""
    text = texts[wrong[0]]
    return f"{len(wrong)} differ, first {text!r}: {parse_number(text)!r} not {float(text)!r}"


def test_a_million_strings_are_bit_equal_to_float() -> None:
    texts = a_million_strings()
    assert len(texts) == MILLION
    assert first_difference(texts) == ""


def test_exact_ties_are_halfway_between_two_doubles() -> None:
    for text in islice(exact_ties(Random(2), 3000), 0, None, 3):
        near = float(text)
        up, down = math.nextafter(near, math.inf), math.nextafter(near, 0.0)
        gap, *others = (abs(Fraction(text) - Fraction(x)) for x in (near, up, down))
        assert gap in others, text


def test_midpoints_are_between_two_doubles_and_their_decrements_below() -> None:
    texts = list(midpoints(Random(3), 450))
    for middle, above, below in zip(texts[0::9], texts[1::9], texts[2::9], strict=True):
        low, high = float(below), float(above)
        assert math.nextafter(low, math.inf) == high
        assert Fraction(middle) == (Fraction(low) + Fraction(high)) / 2


def test_close_calls_are_closer_to_a_midpoint_than_100_bits_tell() -> None:
    for text in close_calls(Random(4), 300):
        near = float(text)
        exact = Fraction(text)
        other = math.nextafter(near, math.inf if exact > near else -math.inf)
        middle = (Fraction(near) + Fraction(other)) / 2
        assert abs(exact - middle) < middle / 2**100, text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b".5", 0.5),
        (b"5.", 5.0),
        (b"+5", 5.0),
        (b"-.5e1", -5.0),
        (b"5.e-1", 0.5),
        (b"1e5", 1e5),
        (b"1E+05", 1e5),
        (b"1e-0000000000000000000000001", 0.1),
        (b"1e22", 1e22),
        (b"1e23", 1e23),
        (b"9007199254740993", 9007199254740992.0),
        (b"9007199254740993.0000000000000000000001", 9007199254740994.0),
        (b"4.9406564584124654e-324", SMALLEST),
        (b"2.2250738585072011e-308", 2.225073858507201e-308),
        (b"2.2250738585072014e-308", 2.2250738585072014e-308),
        (b"1.7976931348623157e308", LARGEST),
        (b"1.7976931348623158e308", LARGEST),
        (str(2**1024 - 2**970 - 1).encode(), LARGEST),
        (b"1" + b"0" * 400 + b"e-400", 1.0),
        (b"0." + b"0" * 400 + b"1e401", 1.0),
        (b"1" * 309 + b"." + b"1" * 100, float("1" * 309)),
    ],
)
def test_legal_spellings_have_their_value(text: bytes, value: float) -> None:
    assert struct.pack("<d", parse_number(text)) == struct.pack("<d", value)


@pytest.mark.parametrize("text", [b"0", b"0.", b".0", b"0e0", b"00.000e400", b"0e-400", b"0" * 50])
def test_zero_keeps_its_sign(text: bytes) -> None:
    assert struct.pack("<d", parse_number(text)) == struct.pack("<d", 0.0)
    assert struct.pack("<d", parse_number(b"+" + text)) == struct.pack("<d", 0.0)
    assert struct.pack("<d", parse_number(b"-" + text)) == struct.pack("<d", -0.0)


@pytest.mark.parametrize(
    "text",
    [
        b"1e309",
        b"1e310",
        b"1.7976931348623159e308",
        str(2**1024 - 2**970).encode(),  # halfway to the double after the largest: to even, so up
        b"1e400",
        b"1e3080",
        b"1e999999999999999999999999",
        b"0.001e312",
        b"1" + b"0" * 309,
        b"1" * 400,
    ],
)
def test_overflow_is_refused(text: bytes) -> None:
    assert math.isinf(float(text))
    assert parse_number(text) is None
    assert parse_number(b"-" + text) is None


@pytest.mark.parametrize(
    "text",
    [
        b"1e-324",
        b"2.4703282292062327e-324",
        b"24703282292062327208e-343",
        b"1e-400",
        b"9e-3230",
        b"9999999999999999999e-343",
        b"1e-999999999999999999999999",
        b"0." + b"0" * 400 + b"1",
    ],
)
def test_underflow_is_a_zero_of_the_same_sign(text: bytes) -> None:
    assert struct.pack("<d", parse_number(text)) == struct.pack("<d", 0.0)
    assert struct.pack("<d", parse_number(b"-" + text)) == struct.pack("<d", -0.0)


def test_half_of_the_smallest_double_rounds_to_even_and_above_it_rounds_up() -> None:
    half = f"{Fraction(SMALLEST) / 2 * 10**1075}e-1075".encode()
    assert parse_number(half) == 0.0
    assert parse_number(half.replace(b"e-1075", b"1e-1076")) == SMALLEST
    assert parse_number(b"2.4703282292062328e-324") == SMALLEST


REFUSED = """
    . + - +. -. e e5 .e5 +e5 1e 1e+ 1e- 1e+- 1e1.5 1e1e1 1.2.3 1..2 ..1 --1 ++1 +-1 1+ 1- 1-1 5+5
    0x10 0x1p3 1_0 1,5 1d5 1f 1.0f 1L 0b1 0o7 1e0x1 1e_5 nan NaN -nan nan(1) inf -inf +Inf INF
    infinity Infinity -infinity infinit in na one 1;2 1:2 #1 1# $1 1% (1) ½ ١ 1− −1
"""  # the last ones: a fraction sign, an Arabic digit, a minus that is not ASCII


@pytest.mark.parametrize("text", REFUSED.split())
def test_what_is_no_finite_decimal_number_is_refused(text: str) -> None:
    assert parse_number(text.encode()) is None


@pytest.mark.parametrize("text", [b"", b" ", b" 1", b"1 ", b"1\n", b"\t1", b"1\r", b"1\0", b"\0"])
def test_blanks_and_control_bytes_are_no_part_of_a_number(text: bytes) -> None:
    assert parse_number(text) is None


def test_every_short_string_is_judged_as_float_does() -> None:
    """float() also takes blanks, underscores, nan and inf; none of them is made of these bytes."""
    for length in range(6):
        for letters in product(b"019.+-eEx", repeat=length):
            text = bytes(letters)
            try:
                value = float(text)
            except ValueError:
                value = math.inf
            found = parse_number(text)
            assert found == (value if math.isfinite(value) else None), text


def test_a_comma_locale_does_not_move_the_point() -> None:
    """20 digits or more go through the C library, whose point depends on the locale."""
    before = locale.setlocale(locale.LC_NUMERIC)
    for name in ("de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "C.UTF-8"):
        with contextlib.suppress(locale.Error):
            locale.setlocale(locale.LC_NUMERIC, name)
            break
    try:
        assert parse_number(b"1234567890123456789012.5e-2") == 12345678901234567890.125
        assert parse_number(b"1234567890123456789012,5") is None
    finally:
        locale.setlocale(locale.LC_NUMERIC, before)
