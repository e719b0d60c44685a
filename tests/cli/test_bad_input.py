"""Bad lines, bad files, bad models: located and named, and nothing written that should not be."""

import bz2
import gzip
import lzma
import struct
import zlib

import msgpack
import pytest

from streamlearn.container import pack, unpack
from streamlearn.model import FORMAT as MODEL
from streamlearn.training import FORMAT as STATE

GOOD = b"+1 1:1 2:0.5\n-1 2:1 3:2\n"
BAD = {
    b"xyz 1:1": (1, "bad label 'xyz'"),
    b"1 1:1 2:abc": (9, "bad value 'abc' for feature 2"),
    b"1 1:nan": (5, "nan"),
    b"1 1:1e999": (5, "1e999"),
    b"  1 -4:1": (5, "bad feature id"),
    b"1 99999999999999999999:1": (3, "too large"),
    b"1 5:1 5:2": (7, "stands twice"),
    b"1 5": (3, "no ':'"),
    b"1:-2 5:1": (3, "weight"),
    b"\xff\xfe\x00": (1, "bad label"),
}


# ---- stop ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", BAD, ids=lambda line: line.decode("latin-1"))
def test_a_bad_line_stops_with_file_line_and_column(run, tmp_path, line):
    (tmp_path / "good.svm").write_bytes(GOOD)
    (tmp_path / "bad.svm").write_bytes(GOOD + b"# note\n" + line + b"\n" + GOOD)
    shown = run("fit", "good.svm", "bad.svm", code=65)
    column, what = BAD[line]
    assert f"bad.svm:4:{column}: " in shown.stderr
    assert what in shown.stderr
    assert not (tmp_path / "model.sl").exists()


def test_stopping_leaves_existing_files_untouched(run, lines, tmp_path):
    for name in ("model.sl", "state.sl"):
        (tmp_path / name).write_bytes(b"precious")
    run("fit", "--save-state", "state.sl", stdin=b"".join(lines) + b"oops\n", code=65)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {
        "model.sl": b"precious",
        "state.sl": b"precious",
    }


def test_stopping_leaves_no_new_files(run, lines, tmp_path):
    run("fit", "--save-state", "state.sl", stdin=b"".join(lines) + b"oops", code=65)
    assert list(tmp_path.iterdir()) == []


def test_a_line_is_located_whatever_the_block_it_is_in(run, lines):
    """The bad line lies in the third buffer of the reader."""
    many = lines * 20
    assert len(b"".join(many)) > 2 * 2**18
    shown = run("fit", stdin=b"".join([*many, b"+1 1:1 2:x\n"]), code=65)
    assert f"<stdin>:{len(many) + 1}:10: bad value 'x' for feature 2" in shown.stderr


def test_a_last_line_that_is_cut_off_is_located(run, lines):
    shown = run("fit", stdin=b"".join(lines[:3]) + b"+1 1:1 2:", code=65)
    assert "<stdin>:4:" in shown.stderr


@pytest.mark.parametrize("command", ["predict", "score"])
def test_reading_commands_stop_at_a_bad_line_too(run, learned, command):
    shown = run(command, "-m", learned / "model.sl", stdin=GOOD + b"1 x:1\n", code=65)
    assert "<stdin>:3:3: bad feature id" in shown.stderr


# ---- skip ----------------------------------------------------------------------------------------


def test_skipping_counts_and_warns_at_1_10_100(run, lines, model_of, tmp_path):
    text = b"".join(line + b"junk\n" for line in lines[:250])
    shown = run("fit", "--on-error", "skip", "-o", "skipped", stdin=text)
    warned = [line for line in shown.stderr.splitlines() if "warning" in line]
    assert [line.split(": ")[2] for line in warned] == ["<stdin>:2:1", "<stdin>:20:1",
                                                        "<stdin>:200:1"]
    for line, count in zip(warned, (1, 10, 100), strict=True):
        assert f"line skipped ({count} so far)" in line
        assert "--on-error stop" in line
    model = model_of(tmp_path / "skipped")
    assert model.counters["bad_lines"] == 250
    assert "250 bad lines left out" in shown.stderr
    run("fit", "-o", "good", stdin=b"".join(lines[:250]))
    good = model_of(tmp_path / "good")
    assert (model.bias, model.ids, model.weights) == (good.bias, good.ids, good.weights)


@pytest.mark.parametrize(
    "text",
    [b"junk\n", GOOD + b"junk\n", GOOD + b"junk\njunk", b"junk\n" + GOOD],
    ids=["alone", "last", "last two", "first"],
)
def test_every_skipped_line_is_counted_wherever_it_stands(run, model_of, tmp_path, text):
    shown = run("fit", "--on-error", "skip", stdin=text)
    counters = model_of(tmp_path / "model.sl").counters
    assert counters["bad_lines"] == text.count(b"junk")
    assert "bad lines left out" in shown.stderr


def test_blank_lines_are_counted_wherever_they_stand(run, model_of, tmp_path):
    run("fit", stdin=b"\n# note\n" + GOOD + b"\n")
    assert model_of(tmp_path / "model.sl").counters["blank_lines"] == 3
    run("fit", stdin=b"\n# note\n")
    assert model_of(tmp_path / "model.sl").counters["blank_lines"] == 2


def test_a_skipped_line_says_nothing_of_the_labels(run, model_of, tmp_path):
    run("fit", "--on-error", "skip", stdin=b"0 1:x\n-1 1:1\n+1 2:1\n")
    model = model_of(tmp_path / "model.sl")
    assert (model.t, model.labels) == (2, (-1.0, 1.0))


def test_predict_skips_and_warns(run, learned):
    shown = run("predict", "-m", learned / "model.sl", "--on-error", "skip",
                stdin=GOOD + b"junk\n" + GOOD)
    assert len(shown.stdout.splitlines()) == 4
    assert "<stdin>:3:1" in shown.stderr


# ---- quarantine ----------------------------------------------------------------------------------


def test_quarantine_sets_aside_exactly_the_bad_lines(run, lines, model_of, tmp_path):
    junk = [b"junk 1\n", b"1 2:abc\r\n", b"\xff\xfe\n", b"1 7:1 7:1\n", b"the end"]
    text = [*junk[:1], *lines[:100], *junk[1:3], *lines[100:101], *junk[3:4], *lines[101:200],
            *junk[4:]]
    shown = run("fit", "-", "--on-error", "quarantine=aside.txt", "-o", "m", stdin=b"".join(text))
    assert (tmp_path / "aside.txt").read_bytes() == b"".join(junk) + b"\n"
    assert "set aside (1 so far)" in shown.stderr
    run("fit", "-o", "good", stdin=b"".join(lines[:200]))
    model, good = model_of(tmp_path / "m"), model_of(tmp_path / "good")
    assert (model.bias, model.ids, model.weights) == (good.bias, good.ids, good.weights)
    assert (model.progress, model.labels) == (good.progress, good.labels)
    assert model.counters["bad_lines"] == len(junk)


def test_quarantine_of_clean_data_is_empty(run, data, tmp_path):
    run("fit", data, "--on-error", "quarantine=aside.txt")
    assert (tmp_path / "aside.txt").read_bytes() == b""


def test_quarantine_needs_a_place(run, data, tmp_path):
    shown = run("fit", data, "--on-error", "quarantine=nowhere/aside", code=73)
    assert "nowhere/aside" in shown.stderr
    assert not (tmp_path / "model.sl").exists()


# ---- a limit -------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["skip", "quarantine=aside"])
def test_more_bad_lines_than_allowed_stop_the_run(run, tmp_path, policy):
    said = ("--on-error", policy, "--max-errors", "3")
    run("fit", *said, "-o", "m", stdin=GOOD + b"junk\n" * 3 + GOOD)
    shown = run("fit", *said, stdin=GOOD + b"junk\n" * 4 + GOOD, code=65)
    assert "<stdin>:6:1" in shown.stderr
    assert "--max-errors is 3" in shown.stderr
    assert not (tmp_path / "model.sl").exists()


def test_a_limit_of_none_stops_at_the_first(run):
    shown = run("fit", "--on-error", "skip", "--max-errors", "0", stdin=GOOD + b"junk\n", code=65)
    assert "--max-errors is 0" in shown.stderr


# ---- labels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", [b"2", b"-2", b"0.5", b"7e3"])
def test_other_labels_are_refused_with_both_ways_out(run, label):
    shown = run("fit", stdin=b"1 1:1\n" + label + b" 1:1\n", code=65)
    assert f"<stdin>:2:1: label '{label.decode()}'" in shown.stderr
    assert "--labels" in shown.stderr
    assert "--loss squared" in shown.stderr


def test_named_labels_refuse_all_others(run):
    shown = run("fit", "--labels", "2,3", stdin=b"2 1:1\n1 1:1\n", code=65)
    assert "<stdin>:2:1: label '1' is neither 2 nor 3" in shown.stderr


@pytest.mark.parametrize("text", [b"0 1:1\n-1 1:1\n", b"-1 1:1\n1 2:1\n0 1:1\n"])
def test_zero_and_minus_one_are_not_mixed(run, text):
    shown = run("fit", stdin=text, code=65)
    assert "0 and -1" in shown.stderr


# ---- divergence ----------------------------------------------------------------------------------


def test_divergence_is_an_error_and_writes_nothing(run, tmp_path):
    text = b"1 1:1e40 2:-1e40\n-1 1:-1e40 3:1e40\n" * 200
    shown = run("fit", "--algo", "sgd", "--loss", "squared", "--t0", "0", "--step-cap", "off",
                "--l2", "1e-9", stdin=text, code=65)
    assert "diverged" in shown.stderr
    assert "<stdin>" in shown.stderr
    assert not (tmp_path / "model.sl").exists()


# ---- files that are not there, or broken ---------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "gone"),
        ("fit", "data.svm", "gone"),
        ("fit", "data.svm", "--resume", "gone"),
        ("fit", "data.svm", "--config", "gone"),
        ("fit", "."),
        ("predict", "-m", "gone", "data.svm"),
        ("predict", "-m", "m", "gone"),
        ("score", "-m", "m", "gone"),
        ("snapshot", "gone"),
        ("inspect", "gone"),
        ("inspect", "."),
        ("top", "gone"),
        ("top", "m", "--names", "gone"),
        ("check", "gone"),
    ],
    ids=" ".join,
)
def test_a_missing_input_is_named(run, data, learned, tmp_path, words):
    (tmp_path / "m").write_bytes((learned / "model.sl").read_bytes())
    shown = run(*words, code=66)
    assert f"streamlearn: {'.' if '.' in words else 'gone'}: " in shown.stderr.splitlines()[-1]
    assert not (tmp_path / "model.sl").exists()


@pytest.mark.parametrize("packing", ["gzip", "bzip2", "xz", "zstd"])
def test_a_compressed_file_that_is_cut_short_is_an_error(run, lines, tmp_path, packing):
    text = b"".join(lines)
    if packing == "zstd":
        packed = pytest.importorskip("backports.zstd").compress(text)
    else:
        packed = {"gzip": gzip, "bzip2": bz2, "xz": lzma}[packing].compress(text)
    (tmp_path / "model.sl").write_bytes(b"precious")
    (tmp_path / "data").write_bytes(packed[: len(packed) * 2 // 3])
    shown = run("fit", "data", code=74)
    assert f"data: broken {packing} data" in shown.stderr
    assert (tmp_path / "model.sl").read_bytes() == b"precious"


def test_a_damaged_gzip_file_is_an_error(run, lines, tmp_path):
    packed = bytearray(gzip.compress(b"".join(lines)))
    packed[-6] ^= 1  # in the checksum
    (tmp_path / "checksum").write_bytes(packed)
    packed[len(packed) // 2 : len(packed) // 2 + 40] = bytes(40)
    (tmp_path / "middle").write_bytes(packed)
    for name in ("checksum", "middle"):
        shown = run("fit", name, "--on-error", "skip", code=74)
        assert f"{name}: broken gzip data" in shown.stderr
    assert not (tmp_path / "model.sl").exists()


# ---- models and states that are not ours ---------------------------------------------------------


def damaged(kind: str, data: bytes) -> dict[str, bytes]:
    """Files that no command may read, by what is wrong with them."""
    body = unpack(data, kind, "good")
    rest = {k: v for k, v in body.items() if k not in ("format", "version", "checksum")}
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 0x10
    newer = pack(kind, rest).replace(b"\xa7version\x01", b"\xa7version\x02")
    return {
        "empty": b"",
        "cut short": data[:-1],
        "cut in the middle": data[: len(data) // 2],
        "longer": data + b"\x00",
        "one bit": bytes(flipped),
        "text": b"solver_type L2R_LR\nnr_class 2\nw\n0.5\n",
        "other msgpack": msgpack.packb({"hello": "world"}),
        "foreign kind": pack("somebody-else", rest),
        "newer": sealed(newer),
        "half": pack(kind, {k: rest[k] for k in list(rest)[:3]}),
        "nothing inside": pack(kind, {}),
        "no map": sealed(b"\x93\x01\xa8checksum\xce0000"),
    }


def sealed(data: bytes) -> bytes:
    """The same bytes with the checksum they ought to have."""
    return data[:-4] + struct.pack(">I", zlib.crc32(data[:-5]))


DAMAGES = ["empty", "cut short", "cut in the middle", "longer", "one bit", "text",
           "other msgpack", "foreign kind", "newer", "half", "nothing inside", "no map"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_model_is_refused_with_a_sentence(run, learned, tmp_path, damage):
    (tmp_path / "m").write_bytes(damaged(MODEL, (learned / "model.sl").read_bytes())[damage])
    shown = run("inspect", "m", code=65)
    assert len(shown.stderr.splitlines()) == 1
    assert shown.stderr.startswith("streamlearn: m: ")
    assert shown.stdout == b""


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_state_is_refused_with_a_sentence(run, lines, learned, tmp_path, damage):
    (tmp_path / "s").write_bytes(damaged(STATE, (learned / "state.sl").read_bytes())[damage])
    shown = run("fit", "--resume", "s", stdin=b"".join(lines), code=65)
    assert len(shown.stderr.splitlines()) == 1
    assert shown.stderr.startswith("streamlearn: s: ")
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


@pytest.mark.parametrize("words", [("predict", "-m", "m"), ("score", "-m", "m"), ("top", "m")])
def test_every_reading_command_refuses_a_damaged_model(run, learned, tmp_path, words):
    (tmp_path / "m").write_bytes(damaged(MODEL, (learned / "model.sl").read_bytes())["one bit"])
    shown = run(*words, stdin=GOOD, code=65)
    assert "m: damaged: the checksum does not fit" in shown.stderr


def test_a_newer_file_says_upgrade(run, learned, tmp_path):
    (tmp_path / "s").write_bytes(damaged(STATE, (learned / "state.sl").read_bytes())["newer"])
    shown = run("snapshot", "s", code=65)
    assert "format version 2, this one reads 1" in shown.stderr
    assert "upgrade" in shown.stderr


@pytest.mark.parametrize("freeze", [-1, 3])
def test_a_state_that_would_go_back_in_time_is_refused(run, lines, tmp_path, freeze):
    """A good checksum over a wrong inside: phase one of optimalsl would end before the present."""
    run("fit", "--algo", "optimalsl", "--save-state", "s", stdin=b"".join(lines[:300]))
    body = unpack((tmp_path / "s").read_bytes(), STATE, "s")
    body["learner"]["next_freeze"] = freeze
    rest = {k: v for k, v in body.items() if k not in ("format", "version", "checksum")}
    (tmp_path / "s").write_bytes(pack(STATE, rest))
    shown = run("fit", "--resume", "s", "-o", "m", stdin=b"".join(lines[300:]), code=65, timeout=8)
    assert shown.stderr.splitlines()[-1].startswith("streamlearn: s: ")


def test_a_state_is_not_taken_for_a_model_nor_the_other_way_round(run, learned):
    shown = run("predict", "-m", learned / "state.sl", stdin=GOOD, code=65)
    assert "'streamlearn-state', expected 'streamlearn-model'" in shown.stderr
    shown = run("snapshot", learned / "model.sl", code=65)
    assert "'streamlearn-model', expected 'streamlearn-state'" in shown.stderr
