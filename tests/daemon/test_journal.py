"""The journal: a torn tail is dropped and told of; damage is found, named, never learned."""

from __future__ import annotations

import os
import shutil
import struct
import tracemalloc
import zlib
from dataclasses import replace
from pathlib import Path
from random import Random

import msgpack
import pytest

from daemon.damage import (
    agree,
    cut_everywhere,
    flip_checkpoint,
    flip_journal,
    fresh,
    made,
    recovered,
)
from daemon.platter import File, FragileDisk, Killed, Platter
from streamlearn import container
from streamlearn.daemon.disk import Disk
from streamlearn.daemon.journal import (
    CRC,
    HEADER,
    HEADER_SIZE,
    MAGIC,
    VERSION,
    Journal,
    Reader,
    Torn,
    cut,
    packed_frame,
)
from streamlearn.daemon.state import FORMAT, StateFolder
from streamlearn.errors import Damaged, ModelError, NoInput


@pytest.fixture
def kept(tmp_path):
    return made(tmp_path / "state")


def test_a_journal_cut_at_any_byte_is_read_up_to_there(kept):
    assert cut_everywhere(kept) > 5000


def test_a_cut_journal_gives_the_model_of_its_whole_frames(kept):
    for size in Random(1).sample(range(len(kept.data)), 25):
        folder = kept.folder.with_name(str(size))
        shutil.copytree(kept.folder, folder)
        os.truncate(folder / kept.segment.name, size)
        whole = sum(end <= size for end in kept.ends[1:])
        assert recovered(folder) == kept.states[whole]
        assert recovered(folder) == kept.states[whole]  # and the repair lasts
        assert not Reader(folder, whole).torn


@pytest.mark.parametrize("size", [1, 27, 28, 512, 5000])
def test_a_tail_of_zeros_or_garbage_is_dropped(kept, size, caplog):
    random = Random(size)
    # Frames that were overwritten long ago are garbage as well, though whole.
    old = packed_frame(3, 2, b"x" * size) + random.randbytes(size)
    for tail in (bytes(size), random.randbytes(size), b"SLJF" * size, old):
        kept.segment.write_bytes(kept.data + tail)
        reader = Reader(kept.folder, 0)
        assert len(list(reader.frames())) == len(kept.states) - 1
        assert reader.torn
        assert (reader.torn.offset, reader.torn.size) == (
            len(kept.data),
            len(kept.data) + len(tail),
        )
    assert recovered(kept.folder) == kept.states[-1]
    assert f"from offset {len(kept.data):,d} on are no whole frame" in caplog.text
    assert recovered(kept.folder) == kept.states[-1]


def test_every_flipped_byte_of_a_journal_is_noticed(tmp_path):
    kept, random = made(tmp_path, frames=5, rows=48), Random(2)
    assert len(kept.data) > 15_000
    assert flip_journal(kept, lambda place: [random.randrange(8)]) == len(kept.data)


def test_every_flipped_byte_of_a_checkpoint_is_noticed(kept):
    random = Random(3)
    with StateFolder(str(kept.folder)) as state:
        state.checkpoint(state.recover(fresh, agree))
    assert flip_checkpoint(kept, lambda place: [random.randrange(8)]) > 1000


def test_a_frame_that_was_synced_is_missed_even_when_nothing_of_it_is_left(kept):
    first, second = kept.ends[2], kept.ends[3]
    kept.segment.write_bytes(kept.data[:first] + bytes(second - first) + kept.data[second:])
    with pytest.raises(Damaged, match=f"damaged at offset {first:,d}: no whole frame"):
        recovered(kept.folder)
    kept.segment.write_bytes(kept.data[:first] + kept.data[second:])
    with pytest.raises(Damaged, match=f"damaged at offset {first:,d}: no whole frame"):
        recovered(kept.folder)


@pytest.mark.parametrize("size", [4, 5, 64, 1000])
def test_a_frame_behind_damage_is_found_wherever_the_pieces_that_are_read_end(
    kept, monkeypatch, size
):
    monkeypatch.setattr("streamlearn.daemon.journal.PIECE", size)
    for end in kept.ends[:-2]:
        spoilt = bytearray(kept.data)
        spoilt[end] ^= 1
        kept.segment.write_bytes(spoilt)
        with pytest.raises(Damaged, match=f"damaged at offset {end:,d}: no whole frame"):
            list(Reader(kept.folder, 0).frames())


def test_a_journal_is_read_a_frame_at_a_time(tmp_path):
    journal = Journal(tmp_path, Disk(), 0)
    journal.begin()
    for _ in range(32):
        journal.append(bytes(1 << 20))
    journal.close()
    tracemalloc.start()
    try:
        assert sum(len(frame.payload) for frame in Reader(tmp_path, 0).frames()) == 32 << 20
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_whole_frame_that_makes_no_sense_is_damage(kept):
    for payload in (b"", b"\xc1", msgpack.packb(7), msgpack.packb([[1, 2]]),
                    msgpack.packb([["c", 9, 0, 0, 0, None, [b"x"] * 5]])):  # fmt: skip
        frame = packed_frame(len(kept.states), len(kept.states) - 1, payload)
        kept.segment.write_bytes(kept.data + frame)
        place = f"{kept.segment}: damaged at offset {len(kept.data):,d}: not what we write"
        with pytest.raises(Damaged) as error:
            recovered(kept.folder)
        assert place in str(error.value)


def rotated(kept) -> list[Path]:
    """Three segments behind one checkpoint."""
    journal = Journal(kept.folder, Disk(), len(kept.states) - 1)
    for number in range(2):
        journal.begin()
        journal.append(msgpack.packb([["d", number + 1, 3, 3, 0, None, None]]))
        journal.sync()
    journal.close()
    return sorted(kept.folder.glob("journal-*.slj"))


def test_a_missing_or_torn_segment_in_the_middle_is_damage(kept):
    first, second, third = rotated(kept)
    data = second.read_bytes()
    second.write_bytes(data[:-1])
    with pytest.raises(Damaged) as error:
        recovered(kept.folder)
    assert f"{second}: damaged at offset {HEADER_SIZE:,d}" in str(error.value)
    second.unlink()
    with pytest.raises(Damaged) as error:
        recovered(kept.folder)
    assert f"{third}: damaged at offset 0: frames 9 to 9 are missing before it" in str(error.value)
    second.write_bytes(data)
    first.unlink()
    with pytest.raises(Damaged, match="frames 1 to 8 are missing"):
        recovered(kept.folder)
    first.write_bytes(kept.data)
    assert recovered(kept.folder) == kept.states[-1]


def test_a_torn_tail_before_the_next_segment_is_no_damage(kept):
    """A start that failed half way leaves it: every frame up to the next segment is there."""
    first, *_ = rotated(kept)
    first.write_bytes(kept.data + b"SLJF torn")
    assert recovered(kept.folder) == kept.states[-1]


def test_a_journal_that_is_gone_is_missed(kept):
    with StateFolder(str(kept.folder)) as state:
        state.checkpoint(state.recover(fresh, agree))
    for path in kept.folder.glob("journal-*"):
        path.unlink()
    with pytest.raises(Damaged, match="the journal is missing"):
        recovered(kept.folder)


def test_a_checkpoint_that_is_gone_is_missed(kept):
    (kept.folder / "checkpoint.sl").unlink()
    with pytest.raises(Damaged, match=r"checkpoint\.sl: is missing, but its journal is there"):
        recovered(kept.folder)


def test_an_unreadable_journal_is_no_traceback(kept):
    kept.segment.unlink()
    kept.segment.mkdir()
    with pytest.raises(NoInput, match="cannot be read: Is a directory"):
        recovered(kept.folder)


def test_files_of_a_newer_version_are_refused(kept):
    head = HEADER.pack(MAGIC, VERSION + 1, 1)
    kept.segment.write_bytes(head + CRC.pack(zlib.crc32(head)) + b"who knows")
    with pytest.raises(ModelError, match=r"journal-0+1\.slj: written by a newer streamlearn"):
        recovered(kept.folder)
    path = kept.folder / "checkpoint.sl"
    body = container.read_file(str(path), FORMAT)
    data = msgpack.packb({**body, "version": container.VERSION + 1})[:-5]
    path.write_bytes(data + b"\xce" + struct.pack(">I", zlib.crc32(data)))
    with pytest.raises(ModelError, match=r"checkpoint\.sl: written by a newer streamlearn"):
        recovered(kept.folder)


# ---- doctor --------------------------------------------------------------------------------------


def test_doctor_finds_nothing_wrong_with_a_killed_daemons_folder(kept, run):
    said = run("doctor", kept.folder).stdout.decode()
    assert "checkpoint: 0 examples, averagesl, after journal frame 0" in said
    assert f"journal: {kept.segment.name}, {len(kept.data):,d} bytes" in said
    assert "recoverable: 96 examples, checkpoint and journal are whole" in said


def test_doctor_tells_of_a_torn_tail_and_leaves_it_to_the_daemon(kept, run):
    kept.segment.write_bytes(kept.data[:-1])
    said = run("doctor", kept.folder).stdout.decode()
    assert f"torn tail: {kept.segment}: the " in said
    assert f"from offset {kept.ends[-2]:,d} on" in said
    assert "recoverable: 84 examples, those of all whole frames; what is dropped had been" in said
    assert kept.segment.read_bytes() == kept.data[:-1]


def test_doctor_does_not_call_a_spoilt_last_frame_all_that_was_acknowledged(kept, run):
    spoilt = bytearray(kept.data)
    spoilt[-1] ^= 1
    kept.segment.write_bytes(spoilt)
    said = run("doctor", kept.folder).stdout.decode()
    assert "had been acknowledged only if the file was damaged after it was written" in said


def test_doctor_repairs_a_damaged_journal_and_the_daemon_starts(kept, run, serve):
    spoilt = bytearray(kept.data)
    spoilt[kept.ends[3] + 40] ^= 1
    kept.segment.write_bytes(spoilt)
    place = f"{kept.segment}: damaged at offset {kept.ends[3]:,d}"
    daemon = serve("--state", kept.folder, listens=False)
    log = daemon.ended(65)
    assert place in log
    assert f"streamlearn doctor {kept.folder}" in log
    said = run("doctor", kept.folder, code=65).stdout.decode()
    assert place in said
    assert "recoverable: 36 examples, by --repair" in said
    assert kept.segment.read_bytes() == spoilt  # only looked at
    done = run("doctor", "--repair", kept.folder)
    assert f"offset {kept.ends[3]:,d} on is in {kept.segment.stem}.damaged now" in done.stderr
    assert b"recoverable: 36 examples; what was cut off had been acknowledged" in done.stdout
    said = run("doctor", kept.folder).stdout.decode()  # and it does not forget that
    assert f"what is in {kept.segment.stem}.damaged had been acknowledged and is not among" in said
    assert kept.segment.with_suffix(".damaged").read_bytes() == spoilt[kept.ends[3] :]
    assert recovered(kept.folder) == kept.states[3]
    daemon = serve("--state", kept.folder, "--algo", "averagesl")
    with daemon.client() as c:
        assert c.status()["t"] == 36
        assert c.learn(b"+1 1:1\n")["learned"] == 1
    daemon.stop()


@pytest.mark.parametrize("what", ["header", "all", "segment"])
def test_doctor_repairs_whatever_is_wrong_with_the_journal(kept, run, what):
    paths = rotated(kept)
    if what == "header":
        paths[0].write_bytes(b"x" + kept.data[1:])
    elif what == "segment":
        paths[0].unlink()
    else:
        with StateFolder(str(kept.folder)) as state:
            state.checkpoint(state.recover(fresh, agree))
        for path in kept.folder.glob("journal-*"):
            path.unlink()
    run("doctor", kept.folder, code=65)
    done = run("doctor", "--repair", kept.folder)
    assert b"; what was cut off had been acknowledged" in done.stdout
    run("doctor", kept.folder)
    assert recovered(kept.folder) == kept.states[-1 if what == "all" else 0]


@pytest.mark.parametrize("offset", [0, 3])
def test_a_power_cut_during_a_repair_loses_no_byte_of_what_is_cut_off(kept, offset):
    """At every call of the disk, several times: each byte is in its file, or set aside."""
    rotated(kept)
    held = {path.name: path.read_bytes() for path in kept.folder.glob("journal-*")}
    damage = Torn(kept.segment, kept.ends[offset] if offset else 0, len(kept.data))
    ended = end = 0
    while not ended:
        end += 1
        for seed in range(6):
            folder = kept.folder.with_name(f"{end}-{seed}")
            folder.mkdir()
            platter = Platter(Random(f"{offset} {end} {seed}"))
            for name, data in held.items():
                (folder / name).write_bytes(data)
                platter.safe[folder / name] = platter.names[folder / name] = File(data)
            place = replace(damage, path=folder / damage.path.name)
            disk = FragileDisk(platter, end)
            try:
                ended = len(list(cut(folder, place, disk)))
            except Killed:
                for descriptor in list(disk.files):
                    disk.close(descriptor)
            platter.lose_power(folder)
            for name, data in held.items():
                path = folder / name
                start = place.offset if path == place.path else 0
                left = path.read_bytes() if path.exists() else b""
                aside = path.with_suffix(".damaged")
                assert left[:start] == data[:start]
                assert left == data or aside.read_bytes() == data[start:]
    assert ended == len(held)


def test_doctor_cannot_mend_a_checkpoint(kept, run, serve):
    path = kept.folder / "checkpoint.sl"
    path.write_bytes(path.read_bytes()[:-9])
    assert f"{path}: not a" in serve("--state", kept.folder, listens=False).ended(65)
    done = run("doctor", "--repair", kept.folder, code=65)
    assert f"checkpoint: {path}: not a" in done.stdout.decode()
    assert "restore the checkpoint from a backup" in done.stderr


def test_doctor_and_replay_leave_a_running_daemons_folder_alone(serve, run, tmp_path):
    daemon = serve("--state", tmp_path / "state")
    for words in (("doctor",), ("replay", "-o", tmp_path / "m.sl")):
        done = run(words[0], tmp_path / "state", *words[1:], code=75)
        assert f"process id {daemon.process.pid}" in done.stderr
    daemon.stop()
    for folder in (tmp_path, tmp_path / "nowhere"):
        assert "no daemon has kept its state there" in run("doctor", folder, code=66).stderr


def test_doctor_and_replay_read_a_copy_without_the_lock(kept, run, tmp_path):
    (kept.folder / "lock").unlink()
    assert b"recoverable: 96 examples" in run("doctor", kept.folder).stdout
    run("replay", kept.folder, "-o", tmp_path / "m.sl", "--save-state", tmp_path / "s.state")
    assert (tmp_path / "s.state").read_bytes() == kept.states[-1]
    (kept.folder / "checkpoint.sl").unlink()
    said = run("doctor", kept.folder, code=65).stdout.decode()
    assert "checkpoint.sl: is missing, but its journal is there" in said
    assert not (kept.folder / "lock").exists()  # only looked at
