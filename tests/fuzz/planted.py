"""Parts of a hunt that are wrong in every way a hunt must notice; for its tests only."""

from __future__ import annotations

import ctypes
import signal
from random import Random

from fuzz.lines import Lines, Said, compare, read, refer
from fuzz.mutation import Wrong


class Sound:
    """Nothing is wrong with it."""

    units, seconds, room = 1, 1.0, 1 << 28
    bad = 7  # the number that the others stumble over

    def make(self, random: Random) -> tuple[str, bytes]:
        return "number", b"%d" % random.randrange(20)

    def judge(self, kind: str, data: bytes) -> str:
        if int(data) == self.bad:
            self.stumble()
        return "fine"

    def stumble(self) -> None:
        pass


class Objects(Sound):
    def stumble(self) -> None:
        raise Wrong("seven is not liked")


class Surprises(Sound):
    def stumble(self) -> None:
        raise KeyError("seven")


class Crashes(Sound):
    def stumble(self) -> None:
        ctypes.string_at(0)


class Hangs(Sound):
    seconds = 0.2

    def stumble(self) -> None:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        while True:
            pass


class Eats(Sound):
    def stumble(self) -> None:
        bytearray(1 << 30)


class Leaves(Sound):
    def stumble(self) -> None:
        raise SystemExit(3)


class Rounded(Lines):
    """A parser that loses the last bit of every value that has many."""

    def judge(self, kind: str, data: bytes) -> str:
        found: Said = read(data, kind)
        values = bytearray(found["values"])
        values[::8] = bytes(last & 0xFE for last in values[::8])
        found["values"] = bytes(values)
        compare(data, refer(data, kind), found)
        return "same"


class Shifted(Lines):
    """A parser that is one column off."""

    def judge(self, kind: str, data: bytes) -> str:
        found: Said = read(data, kind)
        found["faults"] = [(name, line, column + 1) for name, line, column in found["faults"]]
        compare(data, refer(data, kind), found)
        return "same"
