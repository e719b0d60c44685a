"""The short forms of tools/fuzz; and that a hunt sees whatever can go wrong."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys

import msgpack
import pytest
import zmq
from cli.conftest import PATIENCE, environment, unsurprised

from fuzz.frames import FLAGS, Frames, Talk, besieged, requests, started
from fuzz.hunt import Bag, hunt, inputs
from fuzz.lines import Lines
from fuzz.mutation import Wrong, mutated, tokens_of
from fuzz.patience import Waits, measured
from fuzz.strangers import KINDS, guarded, turned_away
from streamlearn import wire
from streamlearn.keys import read_secret

# ---- the short forms -----------------------------------------------------------------------------


@pytest.mark.parametrize(("part", "count"), [("Lines", 60_000), ("Numbers", 60_000)])
def test_mutated_text_is_read_as_the_reference_reads_it(part, count):
    bag = hunt(f"fuzz.lines:{part}", count, seed=11)
    assert [v.what for v in bag.violations] == []
    assert bag.cases >= count


def test_mutated_files_are_refused_in_words_or_work():
    bag = hunt("fuzz.models:Models", 6000, seed=12)
    assert [v.what for v in bag.violations] == []
    assert bag.cases == 6000
    for kind in ("model", "state", "checkpoint", "journal", "delta"):
        assert bag.fates[f"{kind} refused"] > 50
        assert bag.fates[f"{kind} accepted"] > 5  # not all of them end at the first check


def test_mutated_frames_and_strangers_leave_a_daemon_as_it_was():
    bag, growth = besieged(6000, seed=13, connections=200)
    assert [v.what for v in bag.violations] == []
    assert bag.cases == 6000
    assert bag.fates.total() == 6000
    assert bag.fates["ok"] > 100
    assert bag.fates["BAD_REQUEST"] > 1000
    assert growth < 32 << 20


def test_a_good_client_is_measured_beside_every_kind_of_flood():
    waits = measured(300, seed=15)
    for found in (waits.alone, waits.small, waits.whole, waits.hostile):
        assert found
        assert min(found) > 0.0
    assert f"{waits.times(waits.whole):.2f} times" in str(waits)


def test_a_good_client_that_waits_twice_as_long_is_a_violation():
    """Against the promised baseline: as many predictions of one line."""
    waits = Waits(alone=[0.001] * 99, small=[0.01] * 99, whole=[0.9] * 99, hostile=[0.019] * 99)
    waits.judge()
    waits.hostile = [0.01] * 90 + [0.02] * 9
    with pytest.raises(Wrong, match=r"2\.00 times that beside as many predictions of a line"):
        waits.judge()


def test_keys_that_are_not_on_the_list_open_no_door():
    bag = turned_away(16)
    assert [v.what for v in bag.violations] == []
    assert bag.fates == dict.fromkeys(KINDS, 4)


# ---- a hunt that can fail ------------------------------------------------------------------------


def test_a_sound_part_has_no_violations():
    bag = hunt("fuzz.planted:Sound", 300, seed=1)
    assert (bag.cases, bag.violations, bag.fates) == (300, [], {"fine": 300})


@pytest.mark.parametrize(
    ("planted", "what"),
    [
        ("Objects", "seven is not liked"),
        ("Surprises", "KeyError: 'seven'"),
        ("Crashes", "the process ended with SIGSEGV"),
        ("Hangs", "took longer than it may"),
        ("Eats", "MemoryError"),
        ("Leaves", "the process ended with code 3"),
    ],
)
def test_a_hunt_sees_what_is_planted_and_goes_on(planted, what, tmp_path):
    bag = hunt(f"fuzz.planted:{planted}", 300, seed=1, most=3)
    assert len(bag.violations) == 3
    for violation in bag.violations:
        assert what in violation.what
        assert violation.data == b"7"
        assert violation.save(tmp_path).read_bytes() == b"7"
    assert len({violation.number for violation in bag.violations}) == 3


@pytest.mark.parametrize("planted", ["Objects", "Crashes"])
def test_every_case_is_counted_whatever_became_of_it(planted):
    bag = hunt(f"fuzz.planted:{planted}", 60, seed=1, most=60)
    assert bag.violations
    assert bag.cases == 60


@pytest.mark.parametrize("planted", ["Rounded", "Shifted"])
def test_a_parser_that_is_a_little_wrong_is_found(planted):
    (violation, *_) = hunt(f"fuzz.planted:{planted}", 2000, seed=1, most=1).violations
    assert re.match(r"line \d+ b.*the reference says .*, the parser ", violation.what)


def test_the_same_seed_makes_the_same_inputs_from_wherever_it_goes_on():
    whole = list(inputs(Lines(), 150, 5, 0))
    assert [number for number, _, _ in whole] == list(range(150))
    for start in (0, 1, 64, 100, 149):
        assert list(inputs(Lines(), 150, 5, start)) == whole[start:]
    assert list(inputs(Lines(), 150, 6, 0)) != whole


@pytest.fixture
def talk():
    with started(*FLAGS) as daemon, zmq.Context() as context:
        talk = Talk(daemon, context)
        yield talk
        talk.close()


def test_a_request_that_nobody_counted_is_noticed(talk):
    talk.look()
    talk.sent += 1
    with pytest.raises(Wrong, match="requests were counted where"):
        talk.look()


def test_an_answer_from_the_inside_is_noticed(talk):
    with pytest.raises(Wrong, match="INTERNAL"):
        talk.judge(wire.pack({"v": 1, "id": 1, "ok": False, "code": "INTERNAL", "message": ""}))


def test_a_fault_in_the_log_is_noticed(talk):
    talk.daemon.log.append("Traceback (most recent call last):")
    with pytest.raises(Wrong, match="in the log"):
        talk.look()


def test_a_stranger_that_comes_in_is_noticed(monkeypatch):
    with guarded() as doors:
        doors.keys.add("friend", ["learn"], doors.secrets / "friend")
        doors.reload(2)
        pair = read_secret(doors.secrets / "friend")
        monkeypatch.setattr("fuzz.strangers.new_pair", lambda: pair)
        with pytest.raises(Wrong, match="a key that nobody knows came in"):
            doors.knock(2, 0)


def test_a_word_of_a_stranger_that_is_heard_is_noticed():
    with guarded() as doors:
        doors.known -= 1
        with pytest.raises(Wrong, match="requests where"):
            doors.knock(2, 0)


def test_a_daemon_that_ends_is_noticed_and_the_frame_found():
    """A whole request to shut down is the one frame that the hunt must not send."""
    frames, bomb = Frames(1), [wire.pack({"v": 1, "id": 1, "do": "shutdown"})]
    count = 0

    def make() -> list[bytes]:
        nonlocal count
        count += 1
        return bomb if count == 150 else frames.make()

    bag, _ = besieged(400, seed=1, connections=0, make=make)
    (violation,) = bag.violations
    assert "not answered" in violation.what or "waits in vain" in violation.what
    assert msgpack.unpackb(violation.data) == bomb


# ---- mutation ------------------------------------------------------------------------------------


def test_every_object_of_a_message_is_known():
    for seed in requests():
        assert seed.tokens[0][:2] == (0, len(seed.data))
        for token in seed.tokens:
            msgpack.unpackb(seed.data[token.start : token.end])
        assert len(tokens_of(seed.data)) == len(seed.tokens)


def test_mutations_of_a_seed_differ_from_it_and_from_each_other():
    frames = Frames(2)
    seed = frames.seeds[3]
    found = {mutated(frames.random, seed, frames.seeds) for _ in range(300)}
    assert len(found) > 150
    assert sum(seed.data == data for data in found) <= 1


# ---- the tool ------------------------------------------------------------------------------------


def fuzz(root, folder, code, *args):
    words = [sys.executable, root / "tools" / "fuzz.py", *map(str, args)]
    result = subprocess.run(
        words, env=environment(), cwd=folder, capture_output=True, text=True, timeout=PATIENCE,
        check=False,
    )  # fmt: skip
    unsurprised(result.stderr)
    assert result.returncode == code, result.stderr
    return result


def test_the_tool_says_one_line_a_part(root, tmp_path):
    flags = ("--count", 400, "--connections", 8, "--seed", 3)
    lines = fuzz(root, tmp_path, 0, *flags).stdout.splitlines()
    parts = ["lines", "numbers", "frames", "models", "strangers"]
    assert [line.split(":")[0] for line in lines] == parts
    assert "a good client's p99" in lines[2]
    assert all(line.endswith(" 0 violations") for line in lines)
    assert list(tmp_path.iterdir()) == []


def test_the_tool_names_the_file_of_an_offending_input(root, tmp_path):
    args = ("--count", 100, "--plant", "fuzz.planted:Objects")
    result = fuzz(root, tmp_path, 1, "numbers", *args)
    (path, *_) = sorted(tmp_path.iterdir())
    assert f"VIOLATION: {path.name}: seven is not liked" in result.stderr
    again = fuzz(root, tmp_path, 1, "numbers", "--again", path, *args)
    assert "seven is not liked" in again.stderr


def test_the_tool_refuses_parts_that_it_has_not(root, tmp_path):
    assert "there are lines" in fuzz(root, tmp_path, 2, "letters").stderr


@pytest.mark.parametrize(("slow", "code"), [(0.011, 0), (0.021, 1)])
def test_the_long_form_has_10_000_strangers_and_judges_how_long_a_good_client_waits(
    root, tmp_path, monkeypatch, capsys, slow, code
):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", ["fuzz", "frames"])
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("fuzz_tool", root / "tools" / "fuzz.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    asked = []
    waits = Waits(*([seconds] * 100 for seconds in (0.001, 0.01, 0.01, slow)))
    monkeypatch.setattr(tool, "besieged", lambda *given: asked.append(given) or (Bag(), 0))
    monkeypatch.setattr(tool, "measured", lambda count, seed: waits)
    assert tool.main() == code
    assert asked == [(1_000_000, 1, 10_000)]
    said = capsys.readouterr()
    assert said.out.endswith(f" {code} violations\n")
    assert said.err.count("less than 2 times is promised") == code
