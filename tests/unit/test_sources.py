"""Sources: bytes as they come, compression told by content, and whole lines over every split."""

import bz2
import gzip
import io
import lzma
import os
import sys
from itertools import combinations, pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlearn.errors import IoFailure, NoInput, UsageError
from streamlearn.sources import Source, chunks, open_source

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    zstd = pytest.importorskip("backports.zstd")

PACKERS = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress,
           "zstd": zstd.compress}
TEXT = b"".join(b"%d 1:%d\n" % (i % 2, i) for i in range(5000))


class Pieces(io.RawIOBase):
    """A pipe that hands over its pieces one read at a time."""

    def __init__(self, pieces):
        self.pieces = [piece for piece in pieces if piece]
        self.reads = 0

    def readable(self):
        return True

    def readinto(self, buffer):
        self.reads += 1
        if not self.pieces:
            return 0
        count = min(len(buffer), len(self.pieces[0]))
        buffer[:count] = self.pieces[0][:count]
        self.pieces[0] = self.pieces[0][count:]
        if not self.pieces[0]:
            del self.pieces[0]
        return count


class Broken(Pieces):
    """A device that fails when its pieces are read."""

    def readinto(self, buffer):
        count = super().readinto(buffer)
        if not count:
            raise OSError(5, "Input/output error")
        return count


def cut(data, places):
    edges = [0, *places, len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


def read_all(source, size=1 << 18):
    """The chunks, each checked to be whole lines."""
    found = []
    for buffer, stop in chunks(source, size):
        assert buffer[stop - 1] == 10
        found.append(bytes(buffer[:stop]))
    return found


# ---- chunks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [b"1 1:1\n\n-1\n", b"1 1:1\r\n0", b"\n\n\n", b"x", b""])
def test_every_split_of_the_input_gives_the_same_lines(text):
    whole = text + b"\n" if text and not text.endswith(b"\n") else text
    for many in range(4):
        for places in combinations(range(1, len(text)), many):
            source = Source("pieces", Pieces(cut(text, places)), None)
            assert b"".join(read_all(source)) == whole


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=8), st.integers(1, 50))
def test_any_bytes_any_pieces_any_buffer(text, places, size):
    text = b"1" + text  # not the beginning of something compressed
    pieces = cut(text, sorted(min(place, len(text)) for place in places))
    found = read_all(Source("pieces", Pieces(pieces), None), size)
    assert b"".join(found) == (text if text.endswith(b"\n") else text + b"\n")
    assert all(found)


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_a_line_longer_than_the_buffer_makes_it_grow(size):
    lines = [b"a" * length + b"\n" for length in (1, 500, 3, 4096, 0, 2)]
    source = Source("long", Pieces([b"".join(lines)]), None)
    assert b"".join(read_all(source, size)) == b"".join(lines)


def test_a_piece_is_handed_on_before_the_next_is_asked_for():
    """A pipe that trickles is learned from as it comes."""
    pipe = Pieces([b"1 1:1\n", b"1 2:1\n1 3", b":1\n"])
    seen = [
        (bytes(buffer[:stop]), len(pipe.pieces))
        for buffer, stop in chunks(Source("pipe", pipe, None))
    ]
    assert seen == [(b"1 1:1\n", 2), (b"1 2:1\n", 1), (b"1 3:1\n", 0)]


# ---- compression ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PACKERS)
def test_compression_is_told_by_the_first_bytes_not_by_the_name(kind, tmp_path):
    for name in ("data.svm", "data.gz", "data.zst"):
        (tmp_path / name).write_bytes(PACKERS[kind](TEXT))
        source = open_source(str(tmp_path / name))
        assert source.compressed == kind
        assert b"".join(read_all(source)) == TEXT
        source.close()


@pytest.mark.parametrize("name", ["data.gz", "data.bz2", "data.xz", "data.zst"])
def test_plain_text_may_have_any_name(name, tmp_path):
    (tmp_path / name).write_bytes(TEXT)
    source = open_source(str(tmp_path / name))
    assert source.compressed is None
    assert b"".join(read_all(source)) == TEXT
    source.close()


@pytest.mark.parametrize("kind", PACKERS)
@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1000])
def test_a_compressed_pipe_may_come_in_any_pieces(kind, piece):
    packed = PACKERS[kind](TEXT)
    source = Source("pipe", Pieces(cut(packed, range(piece, len(packed), piece))), None)
    assert source.compressed == kind
    assert b"".join(read_all(source)) == TEXT


@pytest.mark.parametrize("kind", PACKERS)
def test_compressed_parts_put_together_are_one_stream(kind):
    pack = PACKERS[kind]
    packed = pack(TEXT[:777]) + pack(b"") + pack(TEXT[777:])
    assert b"".join(read_all(Source("parts", Pieces([packed]), None))) == TEXT


@pytest.mark.parametrize("kind", PACKERS)
def test_an_empty_compressed_stream_is_empty(kind):
    assert read_all(Source("empty", Pieces([PACKERS[kind](b"")]), None)) == []


@pytest.mark.parametrize("kind", PACKERS)
def test_a_stream_cut_anywhere_is_never_taken_for_whole(kind):
    packed, random = PACKERS[kind](TEXT), Random(kind)
    places = {6, 7, len(packed) - 1, *(random.randrange(8, len(packed)) for _ in range(25))}
    for place in sorted(places):
        source = Source("cut", Pieces([packed[:place]]), None)
        with pytest.raises(IoFailure, match=f"^cut: broken {kind} data: "):
            read_all(source)


@pytest.mark.parametrize("kind", PACKERS)
def test_damage_in_a_stream_never_escapes_as_another_error(kind):
    packed, random, said = PACKERS[kind](TEXT), Random(kind), []
    for _ in range(60):
        broken = bytearray(packed)
        broken[random.randrange(6, len(packed))] ^= 1 << random.randrange(8)
        try:
            read_all(Source("broken", Pieces([bytes(broken)]), None))
        except IoFailure as error:
            said.append(str(error))
    assert said
    assert all(words.startswith(f"broken: broken {kind} data: ") for words in said)


def test_zstd_without_its_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    with pytest.raises(UsageError, match=r"streamlearn\[zstd\]"):
        Source("data", Pieces([zstd.compress(TEXT)]), None)


# ---- opening -------------------------------------------------------------------------------------


def test_a_file_tells_its_size_and_position(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(TEXT)
    source = open_source(str(path))
    assert (source.name, source.size, source.taken) == (str(path), len(TEXT), 0)
    read_all(source)
    assert source.taken == len(TEXT)
    source.close()
    assert source.under.closed


def test_a_compressed_file_tells_its_position_in_compressed_bytes(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(gzip.compress(TEXT))
    source = open_source(str(path))
    read_all(source)
    assert source.taken == source.size == path.stat().st_size
    source.close()
    assert source.under.closed


def test_a_pipe_has_no_size(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    keeper = os.open(path, os.O_RDWR)
    try:
        os.write(keeper, b"1\n")
        source = open_source(str(path))
        assert source.size is None
        source.close()
    finally:
        os.close(keeper)


def test_what_cannot_be_opened_is_named(tmp_path):
    with pytest.raises(NoInput, match="gone: no such file"):
        open_source(str(tmp_path / "gone"))
    with pytest.raises(NoInput, match="is a folder"):
        open_source(str(tmp_path))
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NoInput, match="cannot be opened"):
        open_source(str(tmp_path / "file" / "inside"))


def test_a_device_that_fails_is_named():
    with pytest.raises(IoFailure, match="disk: cannot be read"):
        Source("disk", Broken([]), None)
    with pytest.raises(IoFailure, match="disk: cannot be read"):
        read_all(Source("disk", Broken([b"1 1:1\n"]), None))
