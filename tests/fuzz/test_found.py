"""What the fuzzers found, each as small as it can be; and that it stays mended."""

from __future__ import annotations

import pytest

from streamlearn.engine.block import Block
from streamlearn.engine.libsvm import Parser


@pytest.mark.parametrize("line", [b"1 3:1e60 2:1\n", b"1:1e60 3:1 2:1\n", b"1e60 3:1 2:1\n"])
def test_a_line_refused_as_extreme_does_not_count_as_unsorted(line):
    parser = Parser("any")
    parser.parse(line, 0, len(line), Block())
    assert parser.fault
    assert parser.unsorted == 0
