"""Records behave as dataclasses do."""

import copy
import sys
from functools import cached_property
from typing import Any

import pytest

from streamlearn.record import Record, field, replace


class Point(Record, frozen=True):
    x: int
    y: int = 2
    tags: Any = field(default_factory=list)

    @property
    def sum(self):
        return self.x + self.y

    @cached_property
    def kept(self):
        return [self.sum]


class Place(Point, frozen=True):
    name: str = "here"


class Count(Record):
    number: int = 0

    def __post_init__(self):
        self.doubled = 2 * self.number


def test_fields_come_in_order_or_by_name():
    assert vars(Point(1)) == {"x": 1, "y": 2, "tags": []}
    assert vars(Point(1, 3)) == vars(Point(y=3, x=1)) == {"x": 1, "y": 3, "tags": []}
    assert list(vars(Point(tags=[], y=1, x=0))) == ["x", "y", "tags"]
    assert vars(Place(1, name="there")) == {"x": 1, "y": 2, "tags": [], "name": "there"}


def test_no_two_share_a_default_that_is_made():
    one, other = Point(1), Point(1)
    one.tags.append("a")
    assert other.tags == []


@pytest.mark.parametrize(
    ("values", "named", "what"),
    [((), {}, "Point: no x"), ((1, 2, [], 4), {}, "Point: 4 values for 3 fields"),
     ((1,), {"z": 3}, "Point: has no field z"), ((1,), {"x": 2}, "Point: x is given twice")],
)  # fmt: skip
def test_what_does_not_fit_is_refused(values, named, what):
    with pytest.raises(TypeError, match=f"^{what}$"):
        Point(*values, **named)


def test_equal_when_all_fields_are():
    assert Point(1) == Point(1)
    assert Point(1) != Point(2)
    assert Point(1) != Place(1)
    one = Point(1)
    assert one.kept == [3]
    assert one == Point(1)  # what was computed from the fields is none
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point(1))


def test_a_frozen_one_stays_as_it_is():
    one = Point(1)
    with pytest.raises(AttributeError, match="Point cannot be changed: x"):
        one.x = 2
    with pytest.raises(AttributeError, match="Point cannot be changed: y"):
        del one.y
    assert one == Point(1)
    other = Count(3)
    assert other.doubled == 6
    other.number = 4
    assert other.number == 4


def test_another_one_with_changes():
    one = Point(1, tags=["a"])
    other = replace(one, y=5)
    assert (other.x, other.y, one.y) == (1, 5, 2)
    assert other.tags is one.tags
    assert replace(Count(3), number=5).doubled == 10
    with pytest.raises(TypeError, match="has no field z"):
        replace(one, z=1)
    if sys.version_info >= (3, 13):
        assert copy.replace(one, y=5) == other


def test_shown_as_it_is_written():
    assert repr(Place(1)) == "Place(x=1, y=2, tags=[], name='here')"
