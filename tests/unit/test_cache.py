"""The cache of a file: what goes in comes out, and nothing but that; a stale one is not used."""

import gzip
import os
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlearn import cache as caching
from streamlearn.cache import SUFFIX, CachedFile, Caches
from streamlearn.cachefile import HEADER, Draft, Header, Kept, Step
from streamlearn.engine.block import Block
from streamlearn.engine.checksum import Checksum
from streamlearn.engine.libsvm import Parser
from streamlearn.engine.packed import HEAD_BYTES, pack, unpack
from streamlearn.errors import BadLine, DataError
from streamlearn.record import replace
from streamlearn.sources import Source, open_source
from streamlearn.training import BadLines, parse

LONG_AGO = 1_600_000_000_000_000_000

labels = st.floats(-1e49, 1e49) | st.sampled_from([-1.0, 1.0, 0.0, -0.0, 3.0])
weights = st.floats(0, 1e49) | st.just(1.0)
values = (st.floats(-1e40, 1e40).filter(lambda v: abs(v) >= 1e-50)
          | st.sampled_from([1.0, 0.5, -1.0, 0.1]))
ids = st.integers(0, 300) | st.integers(0, 2**32) | st.integers(0, 2**63 - 1)
row = st.tuples(labels, weights, st.dictionaries(ids, values, max_size=5), st.integers(1, 70_000))


def block_of(rows) -> Block:
    text = []
    parser, block = Parser("any"), Block()
    for label, weight, items, blank in rows:
        text += ["\n"] * (blank - 1)
        text.append(f"{label!r}:{weight!r} " + " ".join(f"{i}:{v!r}" for i, v in items.items()))
        text.append("\n")
    data = "".join(text).encode()
    parser.parse(data, 0, len(data), block)
    assert not parser.fault
    return block


def read(source, labels="any", bad=None):
    """(arrays of all blocks, blank lines, lines) of a source."""
    parser = Parser(labels)
    try:
        found = [b.arrays() for b in parse(source, parser, bad or BadLines(), Block())]
    finally:
        source.close()
    return found, parser.blank, parser.line


@pytest.fixture
def text() -> bytes:
    """Several chunks, with blank lines, comments, weights, ids of all sizes, some not rising."""
    random = Random(3)
    lines = []
    for i in range(9000):
        items = [(random.choice([5, 70_000, 2**40]) + random.randrange(1000), random.gauss(0, 1))
                 for _ in range(random.randrange(6))]
        label = random.choice(["-1", "+1"]) + random.choice(["", ":2.5"])
        lines.append(" ".join([label, *(f"{k}:{v:.5f}" for k, v in dict(items).items())]))
        lines += ["# nothing", ""] * (i % 50 == 0)
    return "\n".join(lines).encode()


@pytest.fixture
def path(tmp_path, text) -> str:
    place = tmp_path / "data.svm"
    place.write_bytes(text)
    os.utime(place, ns=(LONG_AGO, LONG_AGO))
    return str(place)


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def caches(warnings) -> Caches:
    return Caches(None, warnings.append)


def parts_of(caches, path) -> str:
    """Which part of a cached file was at work in a reading: Made, Kept, or Source after either."""
    source = caches.open(path)
    read(source)
    return type(source.part).__name__ if isinstance(source, CachedFile) else "Source"


# ---- checksum ------------------------------------------------------------------------------------


@given(st.binary(max_size=200), st.lists(st.integers(0, 200)))
def test_a_checksum_does_not_depend_on_the_pieces(data, cuts):
    whole, pieces = Checksum(), Checksum()
    whole.update(data)
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for start, stop in pairwise(places):
        pieces.update(data[start:stop])
    assert whole.value == pieces.value == pieces.value


def test_every_flipped_bit_zero_and_swap_changes_a_checksum():
    random = Random(1)
    data = random.randbytes(100)
    found = set()
    variants = [data[:cut] for cut in range(101)] + [data + bytes(n) for n in range(1, 70)]
    for i in range(len(data)):
        variants += [data[:i] + bytes([data[i] ^ 1 << bit]) + data[i + 1 :] for bit in range(8)]
    words = [data[i : i + 8] for i in range(0, 100, 8)]
    variants += [b"".join([words[i], *words[:i], *words[i + 1 :]]) for i in range(1, 12)]
    for variant in variants:
        checksum = Checksum()
        checksum.update(variant)
        found.add(checksum.value)
    assert len(found) == len(set(variants))


# ---- records -------------------------------------------------------------------------------------


@given(st.lists(row, max_size=6))
def test_a_block_comes_back_as_it_was(rows):
    block, again = block_of(rows), Block()
    assert unpack(pack(block, 7, 8, 9, 10), again) == (7, 8, 9, 10)
    assert again.arrays() == block.arrays()
    assert (again.rows, again.features, again.max_id) == (block.rows, block.features, block.max_id)


def test_plain_rows_take_little_room():
    ones = block_of([(1.0, 1.0, dict.fromkeys(range(i, i + 100), 1.0), 1) for i in range(50)])
    assert len(pack(ones, 0, 0, 0, 0)) < HEAD_BYTES + 50 * (4 + 2 + 200) + 64
    reals = block_of([(1.0, 1.0, dict.fromkeys(range(i, i + 100), 0.1), 1) for i in range(50)])
    assert len(pack(reals, 0, 0, 0, 0)) < HEAD_BYTES + 50 * (4 + 2 + 1000) + 64


def forged(record: bytes) -> bytes:
    """With a checksum that fits."""
    checksum = Checksum()
    checksum.update(record[8:])
    return checksum.value.to_bytes(8, "little") + record[8:]


@pytest.mark.parametrize("rows", [[], [(1.0, 2.0, {1: 0.1, 2**40: 3.0}, 2), (0.5, 1.0, {}, 1)]])
def test_no_byte_of_a_record_can_change(rows):
    record, block = pack(block_of(rows), 0, 1, 2, 3), Block()
    for i in range(len(record)):
        for flip in (1, 0x80, 0xFF):
            with pytest.raises(DataError):
                unpack(record[:i] + bytes([record[i] ^ flip]) + record[i + 1 :], block)
            assert len(block) == 0
    for cut in range(len(record)):
        with pytest.raises(DataError):
            unpack(record[:cut], block)


def test_forged_records_are_refused_or_hold_legal_rows():
    """Even with checksums that fit: bounded, no id twice, nothing that is not finite."""
    rows = [(1.0, 2.0, {7: 0.1, 2**40: 3.0}, 2), (0.5, 1.0, {1: 0.25}, 1)]
    records = [pack(block_of(rows), 0, 1, 2, 3), pack(block_of(rows[1:]), 0, 1, 2, 3)]
    random, refused = Random(5), 0
    for _ in range(20_000):
        record = bytearray(random.choice(records))
        for _ in range(random.randrange(1, 4)):
            place = random.randrange(8, len(record))
            record[place] = random.choice([0, 1, 255, random.getrandbits(8)])
        block = Block()
        try:
            unpack(forged(bytes(record)), block)
        except DataError:
            refused += 1
        else:
            Block.from_bytes(block.arrays())  # refuses what is not legal
    assert refused > 5000
    assert forged(records[0]) == records[0]


# ---- a file and its cache ------------------------------------------------------------------------


@pytest.mark.parametrize("packer", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_cache_gives_the_blocks_of_the_text(path, caches, warnings, text, packer):
    with open(path, "wb") as stream:
        stream.write(packer(text))
    plain = read(open_source(path))
    assert len(plain[0]) > 1 or packer is not bytes
    assert [parts_of(caches, path) for _ in range(3)] == ["Made", "Kept", "Kept"]
    assert read(caches.open(path)) == plain
    os.unlink(path + SUFFIX)
    assert read(caches.open(path)) == plain
    assert warnings == []


@pytest.mark.parametrize("data", [b"", b"\n\n# x", b"1", b"1 1:1", b"1 1:1\n\n\n", b"\r\n1\r\n"])
def test_small_files(tmp_path, caches, data):
    path = tmp_path / "small.svm"
    path.write_bytes(data)
    plain = read(open_source(str(path)))
    assert read(caches.open(str(path))) == plain
    assert read(caches.open(str(path))) == plain
    assert parts_of(caches, str(path)) == "Kept"


def test_blank_chunks_are_counted(tmp_path, caches):
    path = tmp_path / "blank.svm"
    path.write_bytes(b"\n" * 600_000 + b"1 1:1\n" + b"\n" * 600_000)
    plain = read(open_source(str(path)))
    assert plain[1] == 1_200_000
    assert read(caches.open(str(path))) == plain
    assert read(caches.open(str(path))) == plain


def test_labels_are_kept_as_written(tmp_path, caches):
    path = tmp_path / "zero.svm"
    path.write_bytes(b"-0 1:1\n1 1:1\n-0 2:1\n")
    plain = {kind: read(open_source(str(path)), kind) for kind in ("any", "binary", "classes")}
    read(caches.open(str(path)), "binary")
    for kind, found in plain.items():
        assert read(caches.open(str(path)), kind) == found
    assert caches.given_up == set()


def test_a_touched_source_keeps_its_cache(path, caches):
    assert parts_of(caches, path) == "Made"
    before = os.stat(path + SUFFIX)
    os.utime(path, ns=(LONG_AGO + 1, LONG_AGO + 1))
    assert parts_of(caches, path) == "Kept"
    after = os.stat(path + SUFFIX)
    assert after.st_ino == before.st_ino
    with open(path + SUFFIX, "rb") as stream:
        assert Header.from_bytes(stream.read(HEADER.size)).mtime == LONG_AGO + 1
    assert parts_of(caches, path) == "Kept"


def test_a_source_with_its_old_time_is_not_read(path, caches, monkeypatch):
    parts_of(caches, path)
    monkeypatch.setattr(caching, "checksum_of_file", None)  # would raise
    assert parts_of(caches, path) == "Kept"


def test_a_source_of_another_content_makes_another_cache(path, caches, text, warnings):
    parts_of(caches, path)
    changed = text.replace(b"+1", b"-1", 1)
    with open(path, "wb") as stream:
        stream.write(changed)
    os.utime(path, ns=(LONG_AGO + 1, LONG_AGO + 1))
    plain = read(open_source(path))
    assert read(caches.open(path)) == plain
    assert read(caches.open(path)) == plain
    assert parts_of(caches, path) == "Kept"
    with open(path, "ab") as stream:
        stream.write(b"\n1 1:1\n")
    assert parts_of(caches, path) == "Made"
    assert warnings == []


def test_a_source_written_a_moment_ago_is_compared(path, caches, text):
    """It may be written once more within the same tick of the clock."""
    os.utime(path)
    found = os.stat(path)
    parts_of(caches, path)
    with open(path, "wb") as stream:
        stream.write(text.replace(b"+1", b"-1", 1))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert parts_of(caches, path) == "Made"


def test_a_cache_of_another_version_is_made_anew(path, caches, warnings):
    parts_of(caches, path)
    with open(path + SUFFIX, "r+b") as stream:
        header = Header.from_bytes(stream.read(HEADER.size))
        stream.seek(0)
        stream.write(replace(header, program=b"9").to_bytes())
    assert [parts_of(caches, path) for _ in range(2)] == ["Made", "Kept"]
    assert warnings == []


def test_a_source_that_changes_while_it_is_read_is_not_cached(path, caches, warnings):
    source = caches.open(path)
    blocks = parse(source, Parser("any"), BadLines(), Block())
    next(blocks)
    with open(path, "ab") as stream:
        stream.write(b"\n1 1:1\n")
    for _ in blocks:
        pass
    source.close()
    assert not os.path.exists(path + SUFFIX)
    assert warnings == [f"{path}: not cached: it changed while it was read"]
    assert parts_of(caches, path) == "Source"


def test_an_unfinished_reading_leaves_nothing(path, caches, tmp_path):
    source = caches.open(path)
    blocks = parse(source, Parser("any"), BadLines(), Block())
    next(blocks)
    blocks.close()
    source.close()
    assert [p.name for p in tmp_path.iterdir()] == ["data.svm"]


def test_files_with_names_serve_where_there_are_none_without(path, caches, tmp_path, monkeypatch):
    """O_TMPFILE is Linux only, and not for every file system."""
    monkeypatch.delattr(os, "O_TMPFILE")
    source = caches.open(path)
    blocks = parse(source, Parser("any"), BadLines(), Block())
    next(blocks)
    assert len(list(tmp_path.iterdir())) == 2
    blocks.close()
    source.close()
    assert [p.name for p in tmp_path.iterdir()] == ["data.svm"]
    assert [parts_of(caches, path) for _ in range(2)] == ["Made", "Kept"]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_for_all_keeps_files_of_one_name_apart(tmp_path, warnings):
    caches = Caches(str(tmp_path), warnings.append)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "data.svm").write_text(f"1 {ord(folder)}:1\n")
    for part in ("Made", "Kept"):
        for folder in ("a", "b"):
            assert parts_of(caches, str(tmp_path / folder / "data.svm")) == part
    assert len(list(tmp_path.glob("data.svm-*.slcache"))) == 2


def test_who_may_not_read_the_source_may_not_read_the_cache(path, caches):
    for mode in (0o600, 0o640, 0o664):
        os.chmod(path, mode)
        parts_of(caches, path)
        assert os.stat(path + SUFFIX).st_mode & 0o777 == mode
        os.unlink(path + SUFFIX)


# ---- bad lines -----------------------------------------------------------------------------------


@pytest.mark.parametrize("warm", [False, True], ids=["no cache", "cache"])
@pytest.mark.parametrize("kind", ["binary", (2.0, 3.0), "classes"])
def test_a_label_that_only_some_runs_refuse_is_told_as_by_the_text(tmp_path, caches, kind, warm):
    good = {"binary": b"+1", (2.0, 3.0): b"3", "classes": b"1"}[kind]
    path = tmp_path / "labels.svm"
    path.write_bytes(b"\n".join(good + b" %d:0.5 9:1" % (i % 7) for i in range(60_000))
                     + b"\n\n  +2.50 4:1\n" + good + b" 1:1\n")
    if warm:
        assert parts_of(caches, str(path)) == "Made"
    told = []
    for source in (open_source(str(path)), caches.open(str(path)), caches.open(str(path))):
        parser, rows = Parser(kind), 0
        blocks = map(len, parse(source, parser, BadLines(), Block()))
        while True:
            try:
                rows += next(blocks)
            except BadLine as error:
                caught = str(error)
                break
        source.close()
        told.append((rows, parser.labels, parser.classes, parser.line, caught))
    assert told[0] == told[1] == told[2]
    assert told[0][0] == 60_000
    assert ":60002:3: label" in told[0][4]
    assert os.path.exists(str(path) + SUFFIX) == warm


@pytest.mark.parametrize("policy", ["skip", "quarantine"])
def test_a_source_with_bad_lines_is_read_as_text(tmp_path, caches, policy):
    class Aside(list):
        write = list.append

    path = tmp_path / "bad.svm"
    lines = [b"x y" if i % 30_000 == 7 else b"1 1:%d" % i for i in range(90_000)]
    path.write_bytes(b"\n".join(lines))
    told = []
    for source in (open_source(str(path)), caches.open(str(path)), caches.open(str(path))):
        aside, said = Aside(), []
        found = read(source, bad=BadLines(policy, None, aside, said.append))
        told.append((sum(len(a["labels"]) for a in found[0]), found[1:], aside,
                     [s for s in said if "cache" not in s]))
        assert any("without a cache" in s for s in said) == isinstance(source, CachedFile)
    assert told[0] == told[1] == told[2]
    assert told[0][0] == 8 * (90_000 - 3)
    assert not os.path.exists(str(path) + SUFFIX)
    assert caches.given_up == {str(path)}


# ---- damage --------------------------------------------------------------------------------------


def test_a_damaged_byte_anywhere_is_found_and_the_text_is_read(tmp_path, caches, warnings):
    path = str(tmp_path / "data.svm")
    with open(path, "wb") as stream:
        stream.write(b"+1 1:0.1 3:2\n\n-1:2 70000:1\n-1\n")
    os.utime(path, ns=(LONG_AGO, LONG_AGO))
    plain = read(open_source(path), "binary")
    read(caches.open(path))
    with open(path + SUFFIX, "rb") as stream:
        good = stream.read()
    damaged = [good[:i] + bytes([good[i] ^ flip]) + good[i + 1 :]
               for i in range(len(good)) for flip in (1, 0x10, 0xFF)]
    damaged += [good[:cut] for cut in range(len(good))]
    damaged += [good + b"\0", good + good, good[:HEADER.size] + good[-HEAD_BYTES:]]
    for bytes_ in damaged:
        with open(path + SUFFIX, "wb") as stream:
            stream.write(bytes_)
        warnings.clear()
        source = caches.open(path)
        assert read(source, "binary") == plain
        assert len(warnings) == 1, warnings
        assert "damaged" in warnings[0]
        read(caches.open(path))
        with open(path + SUFFIX, "rb") as stream:
            assert stream.read() == good


def test_damage_in_the_middle_is_met_before_it_is_learned(path, caches, warnings):
    plain = read(open_source(path))
    read(caches.open(path))
    with open(path + SUFFIX, "rb") as stream:
        good = stream.read()
    for place in range(HEADER.size, len(good), len(good) // 9):
        with open(path + SUFFIX, "wb") as stream:
            stream.write(good[:place] + bytes([good[place] ^ 4]) + good[place + 1 :])
        source = caches.open(path)
        found = read(source)
        assert isinstance(source.part, Source)
        assert found[1:] == plain[1:]
        for name in ("ids", "values", "labels", "weights", "norms", "lines"):
            assert b"".join(a[name] for a in found[0]) == b"".join(a[name] for a in plain[0])
    assert len(warnings) >= 9


def test_records_of_another_cache_or_in_another_order_are_refused(tmp_path, path, caches):
    read(caches.open(path))
    with open(path + SUFFIX, "rb") as stream:
        kept = Kept(stream.raw)
        starts = [kept.at]
        while kept.fill(Block()):
            starts.append(kept.at)
    with open(path + SUFFIX, "rb") as stream:
        good = stream.read()
    records = [good[a:b] for a, b in zip(starts, [*starts[1:], None], strict=True)]
    assert len(records) > 3
    plain = read(open_source(path))
    for other in ([records[1], records[0], *records[2:]], [*records[:1], *records[2:]],
                  records[:-1], [*records[:2], records[-1]], [records[0], *records]):
        with open(path + SUFFIX, "wb") as stream:
            stream.write(good[: HEADER.size] + b"".join(other))
        found = read(caches.open(path))
        for name in ("ids", "values", "lines"):
            assert b"".join(a[name] for a in found[0]) == b"".join(a[name] for a in plain[0])
        assert not os.path.exists(path + SUFFIX)


def test_a_draft_that_is_given_up_leaves_nothing(tmp_path):
    draft = Draft(tmp_path / "x", 0o600)
    draft.add(block_of([(1.0, 1.0, {1: 1.0}, 1)]), Step(1, 1, 0))
    draft.close()
    assert list(tmp_path.iterdir()) == []
