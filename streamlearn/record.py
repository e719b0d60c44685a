"""Records: classes that are their fields, as those of `dataclasses` are. Knows nothing of ours.

`dataclasses` loads inspect, ast and tokenize, and compiles methods for each class: 18 of the 50 ms
that a command took to start. What starts with `fit` or `send` is made of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing import dataclass_transform
else:

    def dataclass_transform(**_):
        return lambda cls: cls


R = TypeVar("R", bound="Record")


class Made:
    """A default that is made anew for each record."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def field(*, default_factory: Callable[[], Any]) -> Any:
    """The default of a field that records must not share."""
    return Made(default_factory)


@dataclass_transform(field_specifiers=(field,))
class Record:
    """`class Point(Record, frozen=True)` with annotated fields, those with defaults last.

    Made from values in the order of the fields, or by name; equal when all fields are. A frozen one
    cannot be changed: `replace` makes another.
    """

    _fields: tuple[str, ...] = ()
    _defaults: dict[str, Any] = {}  # noqa: RUF012 - each class gets its own

    def __init_subclass__(cls, *, frozen: bool = False) -> None:
        cls._fields = (*cls._fields, *cls.__annotations__)
        cls._defaults = {name: getattr(cls, name) for name in cls._fields if hasattr(cls, name)}
        if frozen:
            cls.__setattr__ = cls.__delattr__ = refuse  # type: ignore[assignment]

    def __init__(self, *values: Any, **named: Any) -> None:
        who, fields, mine = type(self).__name__, self._fields, self.__dict__
        if len(values) > len(fields):
            raise TypeError(f"{who}: {len(values)} values for {len(fields)} fields")
        for name, value in zip(fields, values, strict=False):
            if name in named:
                raise TypeError(f"{who}: {name} is given twice")
            mine[name] = value
        for name in fields[len(values) :]:
            if name in named:
                mine[name] = named.pop(name)
            elif name in self._defaults:
                value = self._defaults[name]
                mine[name] = value.make() if type(value) is Made else value
            else:
                raise TypeError(f"{who}: no {name}")
        if named:
            raise TypeError(f"{who}: has no field {', '.join(named)}")
        self.__post_init__()

    def __post_init__(self) -> None:
        """What remains to be done once the fields are there."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return values_of(self) == values_of(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        pairs = zip(self._fields, values_of(self), strict=True)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in pairs)})"

    def __replace__(self: R, **changes: Any) -> R:
        """Another one with these changes; copy.replace of newer Pythons calls it."""
        return type(self)(**{**dict(zip(self._fields, values_of(self), strict=True)), **changes})


def values_of(record: Record) -> list[Any]:
    return [record.__dict__[name] for name in record._fields]


def refuse(record: Record, name: str, *_: Any) -> None:
    raise AttributeError(f"{type(record).__name__} cannot be changed: {name}")


def replace(record: R, **changes: Any) -> R:
    """Another record, with these fields changed."""
    return record.__replace__(**changes)
