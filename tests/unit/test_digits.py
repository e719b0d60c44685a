"""Numbers as text: character by character what repr() writes. Probabilities against math.exp."""

import math
import struct
from array import array
from random import Random

import pytest

from streamlearn.engine.digits import lines, probabilities
from unit.test_number import SEED, doubles, everyday_numbers, subnormals

COUNT = 100_000


def written(numbers) -> list[str]:
    text = lines(array("d", numbers))
    assert text.count("\n") == len(numbers)
    return text.split("\n")[:-1]


def powers_of_two() -> list[float]:
    """Where the neighbour below is half as far as the one above; and those neighbours."""
    powers = [math.ldexp(1.0, n) for n in range(-1074, 1024)]
    return [y for x in powers for y in (x, math.nextafter(x, 0.0), math.nextafter(x, math.inf))]


def powers_of_ten() -> list[float]:
    powers = [float(f"{digits}e{n}") for digits in (1, 5, 25) for n in range(-323, 307)]
    return [y for x in powers for y in (x, math.nextafter(x, 0.0), math.nextafter(x, math.inf))]


def whole_numbers() -> list[float]:
    return [float(n) for m in (0, 10**8, 2**53, 10**15, 10**16, 10**17, 2**63)
            for n in range(max(m - 500, 0), m + 500)]  # fmt: skip


KINDS = {
    "all bit patterns": lambda: doubles(Random(SEED), COUNT),
    "subnormal": lambda: subnormals(Random(SEED), COUNT // 4),
    "short decimals": lambda: map(float, everyday_numbers(Random(SEED), COUNT // 4)),
    "probabilities": lambda: (Random(SEED).random() ** 3 for _ in range(COUNT // 4)),
    "powers of two": powers_of_two,
    "powers of ten": powers_of_ten,
    "whole": whole_numbers,
    "special": lambda: [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, 1.7976931348623157e308],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_is_written_as_repr_writes_it(kind):
    numbers = [*KINDS[kind]()]
    numbers += [-x for x in numbers[:1000] if x == x]
    for number, text in zip(numbers, written(numbers), strict=True):
        assert text == repr(number), struct.pack(">d", number).hex()


@pytest.mark.parametrize("exponent", range(-8, 20))
def test_the_point_stands_where_repr_puts_it(exponent):
    """Plain from 0.0001 to below 1e16, with an exponent beyond, whatever the number of digits."""
    random = Random(SEED + exponent)
    numbers = [
        float(f"{random.randrange(10 ** (n - 1), 10**n)}e{exponent - n}")
        for n in range(1, 18)
        for _ in range(20)
    ]
    assert written(numbers) == [*map(repr, numbers)]


def test_nothing_is_written_of_nothing():
    assert lines(array("d")) == ""
    assert probabilities(array("d")) == b""


def test_probabilities_are_one_over_one_plus_exp():
    random = Random(SEED)
    margins = [random.gauss(0.0, 30.0) for _ in range(10_000)] + [0.0, -0.0, 1e50, -1e50, 800, -800]
    wanted = [
        1.0 / (1.0 + math.exp(-m)) if m >= 0.0 else math.exp(m) / (1.0 + math.exp(m))
        for m in margins
    ]
    assert array("d", probabilities(array("d", margins))).tolist() == wanted
