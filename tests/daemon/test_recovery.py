"""What was acked survives kill -9 and power loss; a restart goes on with the same bits."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from random import Random

import numpy as np
import pytest

from contract.streams import PAIRS
from daemon.history import NEVER, Batch, World, drive, ignore, offline, same, text_of
from daemon.platter import FragileDisk, Killed, Platter
from streamlearn.catalogue import resolve
from streamlearn.daemon.disk import Disk
from streamlearn.daemon.inbox import Inbox
from streamlearn.daemon.learning import Learning
from streamlearn.daemon.ledger import Ledger
from streamlearn.daemon.state import StateFolder
from streamlearn.durability import Durability
from streamlearn.errors import CannotCreate
from streamlearn.model import Model
from streamlearn.multiclass import load_model
from streamlearn.training import Training
from streamlearn.wire import Refusal

SIZES = (1, 7, 64, 1000)


class Quick(Disk):
    """Nothing is lost here when the power goes: no need to wait for the real disk."""

    def sync(self, file):
        pass

    def sync_folder(self, path):
        pass


# ---- power loss ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "faulty", "worlds"),
    [("always", False, 120), ("always", True, 120), ("interval", False, 30), ("none", False, 30)],
)
def test_random_histories_end_in_legal_states(tmp_path, policy, faulty, worlds):
    """Five lives each, ended by kill -9 or a power cut at a random call of the disk."""
    cuts = repeats = refusals = learned = 0
    for seed in range(worlds):
        folder = tmp_path / str(seed)
        world = World(folder, seed, policy, faulty)
        for _ in range(5):
            world.live()
        cuts, repeats = cuts + world.cuts, repeats + world.repeats
        refusals, learned = refusals + world.refusals, learned + len(world.order)
        shutil.rmtree(folder)
    assert cuts > worlds  # these are no quiet lives
    assert repeats > worlds
    assert learned > 10 * worlds
    assert bool(refusals) == faulty


@pytest.mark.parametrize("seed", range(8))  # its name is lost in most of them
def test_a_checkpoint_whose_name_could_not_be_synced_is_not_built_on(tmp_path, seed):
    """A kill before the journal was synced, a start whose sync of the folder fails, one that finds
    nothing wrong, and then the power goes."""
    settings, random = resolve("averagesl", "logistic", {}), Random(seed)
    platter, order = Platter(random), []

    def started(disk):
        folder = StateFolder(str(tmp_path), Durability("always", 0.0), 1 << 20, disk)
        try:
            return folder, folder.recover(lambda: Training(settings), lambda held: None)
        except CannotCreate:
            folder.close()
            return folder, None

    folder, ledger = started(FragileDisk(platter))
    learning = Learning(ledger, Inbox(1 << 30), ignore, NEVER, folder)
    for seq in (1, 2):
        order.append(Batch("anna", seq, text_of(random, 5)))
        if seq == 2:  # written when the kill came, and not synced
            folder.disk.end = folder.disk.calls + 2
            with pytest.raises(Killed):
                drive(learning, [order[-1].request()])
        else:
            drive(learning, [order[-1].request()])
    folder.close()

    class Failing(FragileDisk):
        def sync_folder(self, path):
            self.platter.mix()
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    folder, ledger = started(Failing(platter))
    assert ledger is None
    folder, ledger = started(FragileDisk(platter))
    same(ledger, offline(settings, order))  # whoever sends the second batch again is told so
    folder.close()
    platter.lose_power(tmp_path)
    folder, ledger = started(FragileDisk(platter))
    same(ledger, offline(settings, order))
    folder.close()


def test_the_folder_itself_is_made_to_last(tmp_path):
    class Watching(Quick):
        def __init__(self):
            super().__init__()
            self.synced = []

        def sync_folder(self, path):
            self.synced.append(path)

    disk = Watching()
    StateFolder(str(tmp_path / "a" / "b"), disk=disk).close()
    assert disk.synced == [tmp_path / "a", tmp_path]
    StateFolder(str(tmp_path / "a" / "b"), disk=disk).close()
    assert len(disk.synced) == 2  # once


# ---- the same bits -------------------------------------------------------------------------------


class Split:
    """One stream learned by many daemons in turn, stopped, killed or told to save between."""

    def __init__(self, folder, settings, random, normalize="none"):
        self.folder, self.settings, self.random = folder, settings, random
        self.normalize = normalize
        self.open()

    def open(self):
        self.state = StateFolder(str(self.folder), Durability("always"), disk=Quick())
        fresh = Training(self.settings, normalize=self.normalize)
        self.ledger = self.state.recover(lambda: fresh, lambda held: None)
        self.learning = Learning(self.ledger, Inbox(1 << 30), ignore, NEVER, self.state)

    def break_off(self):
        how = self.random.choice(("stop", "kill", "save"))
        if how == "stop":
            self.learning.stop()
        elif how == "save":
            self.learning.save()
            return
        self.state.close()
        self.open()
        if how == "stop":
            assert self.state.reader.bytes <= 24  # a header: nothing to replay

    def learn(self, batches):
        at = 0
        while at < len(batches):
            many = self.random.randint(1, max(1, len(batches) // 3))
            requests = [{"text": text} for text in batches[at : at + many]]
            replies = drive(self.learning, requests)
            assert all("code" not in reply for reply in replies), replies
            at += many
            self.break_off()


def digests(training):
    """Of state and model."""
    model = training.model().to_bytes()
    return [hashlib.sha256(data).hexdigest() for data in (training.to_bytes(), model)]


def in_batches(lines, size):
    return [b"".join(lines[at : at + size]) for at in range(0, len(lines), size)]


@pytest.mark.parametrize(("algo", "loss"), PAIRS)
def test_split_anywhere_in_any_batches_is_one_run(tmp_path, algo, loss):
    random = Random(f"{algo} {loss}")
    normalize = random.choice(("none", "l2"))
    negative = None if loss == "squared" else random.choice(("-1", "0"))
    lines = text_of(random, 250, negative).splitlines(keepends=True)
    settings = resolve(algo, loss, {})
    whole = Training(settings, normalize=normalize)
    learning = Learning(Ledger(whole), Inbox(1 << 30), ignore, NEVER)
    drive(learning, [{"text": b"".join(lines)}])
    assert whole.learner.t == len(lines)
    for size in SIZES:
        split = Split(tmp_path / str(size), settings, random, normalize)
        split.learn(in_batches(lines, size))
        assert digests(split.ledger.training) == digests(whole), f"batches of {size}"
        split.state.close()


def test_looking_changes_nothing_that_is_learned(tmp_path):
    random = Random(4)
    settings = resolve("adaptivesl", "logistic", {})
    batches = [text_of(random, 5) for _ in range(60)]
    quiet = Split(tmp_path / "quiet", settings, random)
    watched = Split(tmp_path / "watched", settings, random)
    for text in batches:
        for each in (quiet, watched):
            drive(each.learning, [{"text": text}])
        watched.learning.publish()
        watched.learning.live()
        watched.learning.snapshot(max_nonzeros=3)
        watched.learning.snapshot(evidence=2.0)
        watched.learning.save()
    assert digests(watched.ledger.training) == digests(quiet.ledger.training)
    for each in (quiet, watched):
        each.state.close()
        each.open()
    assert digests(watched.ledger.training) == digests(quiet.ledger.training)
    for each in (quiet, watched):
        each.state.close()


# ---- exactly once --------------------------------------------------------------------------------


def test_a_chaotic_client_is_learned_exactly_once_and_in_order(tmp_path):
    """30 % duplicates, 10 % lost answers, batches out of turn, a kill now and then."""
    random = Random(5)
    settings = resolve("averagesl", "logistic", {})
    batches = [Batch("c", seq, text_of(random, 4)) for seq in range(1, 301)]
    split, acked, gaps, copies = Split(tmp_path, settings, random), 0, 0, 0
    while acked < len(batches):
        under_way = batches[acked : acked + random.randint(1, 30)]
        if random.random() < 0.2:
            under_way = under_way[random.randrange(len(under_way)) :]
        if random.random() < 0.2:
            random.shuffle(under_way)
        under_way += [random.choice(batches[max(0, acked - 20) : acked + 1])
                      for _ in range(3) if random.random() < 0.3]  # fmt: skip
        for batch, reply in zip(
            under_way, drive(split.learning, [b.request() for b in under_way]), strict=True
        ):
            copies += bool(reply.get("duplicate"))
            if reply.get("code") == "SEQ_GAP":
                gaps += 1
                assert reply["expected"] < batch.seq
                continue
            assert reply["learned"] == 4
            assert reply["t"] == 4 * batch.seq  # the first time or again: the same answer
            if random.random() > 0.1 and batch.seq == acked + 1:
                acked += 1
        if random.random() < 0.2:
            split.break_off()
    assert gaps > 50
    assert copies > 50
    same(split.ledger, offline(settings, batches))
    split.state.close()


def test_nothing_is_learned_behind_a_divergence_live_or_again(tmp_path):
    settings = resolve("sgd", "squared", {"t0": 0.0, "l2": 1e-9})
    split = Split(tmp_path, settings, Random(6))
    good = Batch("c", 1, b"1 1:1\n")
    wild = Batch("c", 2, b"".join(b"%d 1:99999.%d\n" % (i, i) for i in range(1, 300)))
    later = [Batch("c", 3, b"1 2:1\n"), wild, Batch("d", 1, b"1 3:1\n"), good]
    replies = drive(split.learning, [b.request() for b in [good, wild, *later]])
    codes = [reply.get("code") for reply in replies]
    assert codes == [None, "DIVERGED", "DIVERGED", "DIVERGED", "DIVERGED", None]
    assert replies[-1]["duplicate"]
    before = split.ledger
    assert split.learning.figures["healthy"] is False
    split.state.close()
    split.open()
    assert str(split.ledger.stopped) == str(before.stopped).replace("batch:", "journal:")
    assert split.ledger.sessions.state() == before.sessions.state()
    # As before the batch that diverged: that still makes a model, and says no to the rest.
    assert split.ledger.counts.learned == split.ledger.t == 1
    assert split.learning.published.model.t == 1
    replies = drive(split.learning, [b.request() for b in [wild, Batch("e", 1, b"1 1:1\n")]])
    assert [reply["code"] for reply in replies] == ["DIVERGED", "DIVERGED"]
    split.state.close()


def test_a_daemon_that_diverged_starts_again_and_predicts(serve, run, tmp_path):
    flags = ("--algo", "sgd", "--loss", "squared", "--t0", "0", "--l2", "1e-9")
    daemon = serve("--state", tmp_path / "state", *flags)
    with daemon.client() as c:
        c.learn(b"1 1:1\n3 2:1\n")
        margins = c.margins(b"0 1:1\n", live=True)
        with pytest.raises(Refusal, match="DIVERGED"):
            c.learn(b"".join(b"%d 1:99999.%d\n" % (i, i) for i in range(1, 300)))
    daemon.process.kill()
    daemon.ended(-9)
    daemon = serve("--state", tmp_path / "state", *flags)
    with daemon.client() as c:
        assert (c.margins(b"0 1:1\n") == margins).all()
        assert not c.status()["healthy"]
        with pytest.raises(Refusal, match="DIVERGED"):
            c.learn(b"1 1:1\n")
    daemon.stop()
    done = run("replay", tmp_path / "state", "-o", tmp_path / "again.sl")
    assert "learning stopped behind this" in done.stderr
    assert Model.load(str(tmp_path / "again.sl")).t == 2


def test_a_full_journal_is_replaced_by_a_checkpoint_whatever_came(tmp_path):
    """Also when nothing was learned, when none were asked for, and across restarts."""
    settings = resolve("averagesl", "logistic", {})
    for _ in range(4):
        with StateFolder(str(tmp_path), Durability("always"), 2000, Quick()) as state:
            ledger = state.recover(lambda: Training(settings), lambda held: None)
            learning = Learning(ledger, Inbox(1 << 30), ignore, NEVER, state)
            for _ in range(30):
                (reply,) = drive(learning, [{"text": b"+1 oops\n"}])
                assert reply["code"] == "BAD_LINE"
                learning.keep_up()
                held = sum(path.stat().st_size for path in tmp_path.glob("journal-*"))
                assert held < 2100
    assert ledger.counts.rejected == 120


# ---- old files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["state-1", "state-many-1"])  # two classes, and four
def test_files_of_version_1_load_for_ever(tmp_path, root, name):
    golden = root / "tests" / "golden" / name
    told = json.loads((golden / "told.json").read_text())
    model = load_model(str(golden / "model.sl"))
    assert model.t == told["t"]
    shutil.copytree(golden, tmp_path / "state")
    with StateFolder(str(tmp_path / "state")) as state:
        ledger, frame = state.load()
        assert (ledger.t, frame) == (told["checkpoint_t"], told["frame"])
        state.replay(ledger, frame)
    assert ledger.t == told["t"]
    assert vars(ledger.counts) == told["counts"]
    assert ledger.sessions.state() == told["sessions"]
    # Learning may change one day, in the last digits or in its ways: the files must load even then.
    rebuilt, margins = ledger.training.model(), np.array(told["margins"])
    assert rebuilt.margins(told["rows"]) == pytest.approx(margins, rel=1e-6)
    assert model.margins(told["rows"]) == pytest.approx(margins, rel=1e-12)
