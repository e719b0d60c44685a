"""The container: every damage is found, loading never runs code, writing is all or nothing."""

import math
import os
import struct
import zlib
from random import Random

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlearn import container
from streamlearn.catalogue import STREAMING as ALGORITHMS
from streamlearn.catalogue import resolve
from streamlearn.engine.checksum import crc32
from streamlearn.errors import CannotCreate, IoFailure, ModelError, NoInput, StreamlearnError
from streamlearn.model import Model
from streamlearn.training import BadLines, Training

KIND = "streamlearn-test"
BODY = {"name": "é", "t": 2**62, "ids": bytes(16), "bias": -0.1, "labels": None, "sums": {"a": 1}}

scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary()
scalars |= st.floats(allow_nan=False)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=4
)
keys = st.text().filter(lambda key: key not in ("format", "version", "checksum"))
bodies = st.dictionaries(keys, values, max_size=4)


def sealed(data: bytes) -> bytes:
    """The same bytes with the checksum they ought to have."""
    return data[:-4] + struct.pack(">I", zlib.crc32(data[:-5]))


def trained(algo: str = "adaptivesl", loss: str = "logistic", count: int = 30) -> Training:
    """A run over a few seeded rows."""

    class Text:
        name, size = "text", None

        def __init__(self) -> None:
            random = Random(1)
            rows = [f"{random.choice((-1, 1))} {random.randint(1, 9)}:1 20:2" for _ in range(count)]
            self.data = "\n".join(rows).encode()

        def readinto(self, view: memoryview) -> int:
            count = min(len(view), len(self.data))
            view[:count], self.data = self.data[:count], self.data[count:]
            return count

        def close(self) -> None:
            pass

    training = Training(resolve(algo, loss, {}))
    for _ in training.run([Text()], BadLines()):
        pass
    return training


# ---- bytes ---------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(bodies)
def test_what_is_packed_is_what_is_unpacked(body):
    data = container.pack(KIND, body)
    found = container.unpack(data, KIND, "name")
    assert (found.pop("format"), found.pop("version")) == (KIND, container.VERSION)
    assert found.pop("checksum") == zlib.crc32(data[:-5])
    assert found == body


def test_the_file_is_one_plain_msgpack_map():
    """Any language can read it: no framing around the map."""
    found = msgpack.unpackb(container.pack(KIND, BODY))
    assert list(found) == ["format", "version", *BODY, "checksum"]


def test_every_flipped_bit_is_found():
    data = container.pack(KIND, BODY)
    for place in range(8 * len(data)):
        broken = bytearray(data)
        broken[place // 8] ^= 1 << place % 8
        with pytest.raises(ModelError, match=r"^name: "):
            container.unpack(bytes(broken), KIND, "name")


def test_every_truncation_is_found():
    data = container.pack(KIND, BODY)
    for length in range(len(data)):
        with pytest.raises(ModelError, match=r"^name: "):
            container.unpack(data[:length], KIND, "name")


def test_bytes_behind_the_end_are_found():
    data = container.pack(KIND, BODY)
    for more in (b"\x00", b"\n", data):
        with pytest.raises(ModelError):
            container.unpack(data + more, KIND, "name")
    with pytest.raises(ModelError):
        container.unpack(sealed(data + data), KIND, "name")


@pytest.mark.parametrize("version", [0, 2, 77, None, "1", 1.5])
def test_another_version_is_refused_with_both_numbers(version):
    data = msgpack.packb({"format": KIND, "version": version, "checksum": 0})[:-1]
    with pytest.raises(ModelError, match=rf"version {version}, this one reads 1"):
        container.unpack(sealed(data + b"\xce0000"), KIND, "name")


def test_another_kind_is_refused_with_both_names():
    with pytest.raises(ModelError, match="'other', expected 'streamlearn-test'"):
        container.unpack(container.pack("other", BODY), KIND, "name")


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_any_bytes_with_a_good_checksum_are_refused_in_words(data):
    with pytest.raises(ModelError):
        container.unpack(sealed(data + b"\xce0000"), KIND, "name")


@pytest.mark.parametrize(
    "opening", [b"\x81", b"\x91", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"]
)
def test_deep_or_boastful_bytes_are_refused_in_words(opening):
    with pytest.raises(ModelError):
        container.unpack(sealed(opening * 5000 + b"\xce0000"), KIND, "name")


# ---- models and states with a good checksum and a wrong inside -----------------------------------

WRONG = [None, True, -1, 3, 2**63, 0.5, math.nan, math.inf, "", "x", b"", b"12345678", b"123", [],
         [1], [1, 2], [1, 2, 3], ["a", "b"], {}, {"a": 1}]


def parts(body: dict) -> dict:
    return {k: v for k, v in body.items() if k not in ("format", "version", "checksum")}


def usable(model: Model) -> None:
    """A model that was accepted works: it can be told about, and written again."""
    from streamlearn.cli.inspect import describe

    describe(model)
    assert model.loss in ("logistic", "squared", "hinge", "squared_hinge")
    assert len(model.scorer.margins(trained().block)) % 8 == 0
    assert model.label_of(0.5) is not None
    again = Model.from_bytes(model.to_bytes())
    assert again.ids == model.ids


MODEL_KEYS = list(parts(container.unpack(trained().model().to_bytes(), "streamlearn-model", "m")))


@pytest.mark.parametrize("key", MODEL_KEYS)
def test_a_model_with_a_wrong_part_is_refused_or_usable(key):
    body = parts(container.unpack(trained().model().to_bytes(), "streamlearn-model", "m"))
    for wrong in WRONG:
        data = container.pack("streamlearn-model", {**body, key: wrong})
        try:
            model = Model.from_bytes(data, "m")
        except ModelError:
            continue
        usable(model)
    with pytest.raises(ModelError, match=key):
        Model.from_bytes(
            container.pack("streamlearn-model", {k: v for k, v in body.items() if k != key}), "m"
        )


@pytest.mark.parametrize(
    ("ids", "weights"),
    [
        ([2, 1], [1.0, 1.0]),
        ([1, 1], [1.0, 1.0]),
        ([-1, 1], [1.0, 1.0]),
        ([1, 2], [1.0]),
        ([1], [math.nan]),
        ([1], [-math.inf]),
    ],
)
def test_weights_that_cannot_be_ours_are_refused(ids, weights):
    body = parts(container.unpack(trained().model().to_bytes(), "streamlearn-model", "m"))
    body |= {"ids": struct.pack(f"<{len(ids)}q", *ids),
             "weights": struct.pack(f"<{len(weights)}d", *weights)}
    with pytest.raises(ModelError, match="m: "):
        Model.from_bytes(container.pack("streamlearn-model", body), "m")


STATE_KEYS = list(parts(container.unpack(trained().to_bytes(), "streamlearn-state", "s")))
LEARNER_KEYS = list(trained().learner.state())


def refused_or_goes_on(data: bytes, path) -> None:
    """A state is refused in words, or learning goes on from it."""
    path.write_bytes(data)
    try:
        training = Training.load(str(path))
    except StreamlearnError:
        return
    try:
        training.learner.learn(trained().block)
        training.model().to_bytes()
        training.to_bytes()
    except StreamlearnError:
        return


@pytest.mark.parametrize("key", STATE_KEYS)
def test_a_state_with_a_wrong_part_is_refused_or_usable(key, tmp_path):
    body = parts(container.unpack(trained().to_bytes(), "streamlearn-state", "s"))
    for wrong in WRONG:
        data = container.pack("streamlearn-state", {**body, key: wrong})
        refused_or_goes_on(data, tmp_path / "s")
    (tmp_path / "s").write_bytes(
        container.pack("streamlearn-state", {k: v for k, v in body.items() if k != key})
    )
    if key != "streamlearn":  # the version that wrote it is for people
        with pytest.raises(ModelError):
            Training.load(str(tmp_path / "s"))


@pytest.mark.parametrize("key", LEARNER_KEYS)
def test_a_learner_with_a_wrong_part_is_refused_or_usable(key, tmp_path):
    body = parts(container.unpack(trained().to_bytes(), "streamlearn-state", "s"))
    for wrong in WRONG:
        data = container.pack(
            "streamlearn-state", {**body, "learner": {**body["learner"], key: wrong}}
        )
        refused_or_goes_on(data, tmp_path / "s")


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_state_read_and_written_again_has_the_same_bytes(algo, tmp_path):
    for count in (0, 7, 300):
        data = trained(algo, count=count).to_bytes()
        (tmp_path / "s").write_bytes(data)
        assert Training.load(str(tmp_path / "s")).to_bytes() == data


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_model_read_and_written_again_has_the_same_bytes(algo):
    data = trained(algo, count=300).model().to_bytes()
    assert Model.from_bytes(data).to_bytes() == data


# ---- files ---------------------------------------------------------------------------------------


def test_a_file_is_written_and_read(tmp_path):
    path = str(tmp_path / "c")
    container.write_file(path, container.pack(KIND, BODY))
    assert parts(container.read_file(path, KIND)) == BODY
    assert os.listdir(tmp_path) == ["c"]


def test_a_file_that_is_not_there_has_its_own_error(tmp_path):
    with pytest.raises(NoInput, match="no such file"):
        container.read_file(str(tmp_path / "gone"), KIND)
    with pytest.raises(NoInput, match="cannot be read"):
        container.read_file(str(tmp_path), KIND)


def test_a_folder_that_is_not_there_has_its_own_error(tmp_path):
    with pytest.raises(CannotCreate, match="cannot be created"):
        container.write_file(str(tmp_path / "nowhere" / "c"), b"data")


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, call):
    def fail(*_):
        raise OSError(28, "No space left on device")

    path = tmp_path / "c"
    path.write_bytes(b"precious")
    monkeypatch.setattr(f"streamlearn.container.os.{call}", fail)
    with pytest.raises(IoFailure, match="No space left on device; nothing was replaced"):
        container.write_file(str(path), b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"precious"
    assert os.listdir(tmp_path) == ["c"]


def test_a_writer_that_fails_leaves_the_old_file_and_no_other(tmp_path):
    def write(stream):
        stream.write(b"half")
        raise KeyboardInterrupt

    path = tmp_path / "c"
    path.write_bytes(b"precious")
    with pytest.raises(KeyboardInterrupt):
        container.with_atomic_file(str(path), write)
    assert path.read_bytes() == b"precious"
    assert os.listdir(tmp_path) == ["c"]


def test_the_file_is_synced_before_it_takes_the_name_and_the_folder_after(tmp_path, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace

    def watched_fsync(fd):
        done.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        fsync(fd)

    def watched_replace(*names):
        done.append("replace")
        replace(*names)

    monkeypatch.setattr("streamlearn.container.os.fsync", watched_fsync)
    monkeypatch.setattr("streamlearn.container.os.replace", watched_replace)
    container.write_file(str(tmp_path / "c"), b"data")
    assert done[0].endswith(".tmp")
    assert done[1:] == ["replace", tmp_path.name]


def test_a_full_device_has_its_own_error():
    with pytest.raises((IoFailure, CannotCreate), match="/dev/full"):
        container.write_file("/dev/full", b"data" * 10_000)


def test_a_device_is_written_to_and_not_replaced():
    container.write_file("/dev/null", b"data")
    assert not os.path.isfile("/dev/null")


@pytest.mark.parametrize("size", [0, 1, 63, 64, 1023, 1024, 1025, 1087, 1088, 4096, 100_003])
def test_long_data_has_the_crc_that_zlib_finds(size):
    data = Random(size).randbytes(size)
    for value in (0, 1, 0xFFFFFFFF, 0x12345678):
        assert crc32(data, value) == zlib.crc32(data, value)
    for start in (1, 3, 15):  # wherever it lies
        assert crc32(memoryview(data)[start:]) == zlib.crc32(data[start:])


@given(st.lists(st.integers(0, 5000), max_size=5), st.randoms(use_true_random=False))
def test_a_crc_goes_on_from_piece_to_piece(sizes, random):
    pieces = [random.randbytes(size) for size in sizes]
    value = 0
    for piece in pieces:
        value = crc32(piece, value)
    assert value == zlib.crc32(b"".join(pieces))


def test_every_flipped_bit_changes_the_crc():
    data = bytearray(Random(4).randbytes(1500))
    found = {crc32(data)}
    for place in range(0, len(data), 7):
        for bit in range(8):
            data[place] ^= 1 << bit
            found.add(crc32(data))
            data[place] ^= 1 << bit
    assert len(found) == 1 + 8 * len(range(0, len(data), 7))
