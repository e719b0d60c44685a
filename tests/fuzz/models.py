"""Mutated model, state, checkpoint, journal and delta bytes: a typed error, or what works.

The checksum at the end of a file finds nearly every change by itself. So most inputs get a new one
that fits: what is hunted for is behind it.
"""

from __future__ import annotations

import math
import struct
import zlib
from array import array
from collections.abc import Iterator
from pathlib import Path
from random import Random
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

from fuzz.mutation import Seed, Wrong, mutated
from streamlearn import container, delta, wire
from streamlearn.catalogue import ALGORITHMS, LOSSES, resolve
from streamlearn.cli.inspect import describe
from streamlearn.daemon import journal
from streamlearn.daemon.learning import Learning
from streamlearn.daemon.ledger import Ledger
from streamlearn.daemon.state import StateFolder
from streamlearn.engine.block import Block
from streamlearn.engine.libsvm import Parser
from streamlearn.errors import StreamlearnError
from streamlearn.model import Model
from streamlearn.multiclass import AnyModel, MulticlassModel, model_from_bytes
from streamlearn.training import Training

HUGE = (10**12, 2**53 + 1, 2**63 - 1)
TAIL = 5  # bytes of the checksum at the end of a file
KINDS = ("model", "state", "delta", "checkpoint", "journal")
SHARES = (45, 40, 8, 3, 4)  # of a hundred
MOST_ITERATIONS = 1000  # of a batch algorithm: more is what its settings ask for, not a hang


def lines(random: Random, rows: int, labels: tuple[str, ...]) -> bytes:
    """A small stream; now and then with ids far away."""
    found = []
    for _ in range(rows):
        ids = sorted({*random.sample(range(1, 12), 3), *random.sample(HUGE, random.random() < 0.3)})
        items = " ".join(f"{i}:{random.gauss(0, 1):.3g}" for i in ids)
        found.append(f"{random.choice(labels)} {items}\n")
    return "".join(found).encode()


def taught(settings: dict[str, Any], text: bytes, **options: Any) -> Training:
    training = Training(settings, **options)
    training.parser.parse(text, 0, len(text), training.block)
    training.learn_rows(training.block, "text")
    return training


def trainings() -> Iterator[Training]:
    """Every algorithm, within its warm-up and behind it, and many classes."""
    random = Random(1)
    for name, entry in ALGORITHMS.items():
        for loss in LOSSES:
            if not LOSSES[loss].classifies and entry.classifies_only:
                continue
            if entry.losses is not None and loss not in entry.losses:
                continue
            if loss not in ("logistic", "squared") and random.random() < 0.7:
                continue
            labels = ("-1", "+1") if LOSSES[loss].classifies else ("1.5", "-2", "0.1")
            settings = resolve(name, loss, {"max_features": 8} if name == "averagesl" else {})
            for rows in (5, 120):
                yield taught(settings, lines(random, rows, labels))
            if LOSSES[loss].classifies and loss == "logistic":
                yield taught(settings, lines(random, 110, ("0", "7", "-3")), multiclass=True)
    named = resolve("adaptivesl", "logistic", {})
    yield taught(named, lines(random, 110, ("2", "5")), labels=(2.0, 5.0), normalize="l2")
    yield taught(named, b"")


class Agreeable:
    """Stands in for zlib where a checksum would end the story too soon."""

    def __init__(self, checksum: Any) -> None:
        self.checksum = checksum

    def crc32(self, data: bytes) -> Any:
        return self.checksum


def sealed(data: bytes) -> bytes:
    """With a checksum that fits."""
    return data + b"\xce" + struct.pack(">I", zlib.crc32(data))


class Models:
    """Files and what goes over the wire in their place."""

    units, seconds, room = 1, 10.0, 1 << 29

    def __init__(self) -> None:
        held = list(trainings())
        self.seeds = {
            "model": [Seed("model", t.model().to_bytes()) for t in held],
            "state": [Seed("state", t.to_bytes()) for t in held],
        }
        later = [m for t in held if isinstance(m := t.model(), Model)]
        self.old = next(model for model in later if model.nonzeros > 3)
        self.seeds["delta"] = [
            Seed("delta", wire.pack({"kind": "delta", **delta.difference(self.old, new)}))
            for new in later
        ]
        self.folder = Path(mkdtemp())
        self.keep_a_journal(held[1])
        # Seldom enough that it is mutated again and again, long enough that all ids are met.
        self.block = Block()
        Parser("any").parse(text := lines(Random(2), 6, ("1", "-1")), 0, len(text), self.block)

    def keep_a_journal(self, training: Training) -> None:
        """A folder as a killed daemon leaves it: a checkpoint, and a segment of two frames."""
        random = Random(3)
        with StateFolder(str(self.folder)) as state:
            ledger = state.recover(lambda: training, lambda held: None)
            from daemon.history import NEVER, drive, ignore

            from streamlearn.daemon.inbox import Inbox

            learning = Learning(ledger, Inbox(1 << 30), ignore, NEVER, state)
            for batch in (1, 2, 3):
                text = lines(random, 4, ("-1", "+1"))
                texts = [text, b"+1 oops\n"] if batch == 2 else [text]
                drive(learning, [
                    {"client": f"c{n}", "seq": min(batch, batch - n), "text": text}
                    for n, text in enumerate(texts)
                ])  # fmt: skip
        self.segment = next(self.folder.glob("journal-*.slj"))
        self.checkpoint = self.folder / "checkpoint.sl"
        self.whole = {p: p.read_bytes() for p in (self.segment, self.checkpoint)}
        frames = list(journal.Reader(self.folder, 0).frames())
        self.seeds["journal"] = [
            Seed("journal", bytes(frame.payload), more=frame) for frame in frames
        ]
        self.seeds["checkpoint"] = [Seed("checkpoint", self.whole[self.checkpoint])]

    def close(self) -> None:
        """In a hunt the folder goes with all that the process leaves."""
        rmtree(self.folder)

    # ---- making ----------------------------------------------------------------------------------

    def make(self, random: Random) -> tuple[str, bytes]:
        (kind,) = random.choices(KINDS, SHARES)
        seeds = self.seeds[kind]
        seed, honest = random.choice(seeds), random.random() < 0.05
        if kind == "journal":
            return kind, self.make_journal(random, seed, honest)
        if kind == "delta":
            return kind, mutated(random, seed, seeds)
        if kind == "checkpoint" and random.random() < 0.5:
            inner = random.choice(self.seeds["state"])
            state = mutated(random, inner, self.seeds["state"], len(inner.data) - TAIL)
            body = container.unpack(seed.data, "streamlearn-checkpoint", "c")
            body = {k: v for k, v in body.items() if k not in ("format", "version", "checksum")}
            body["training"] = sealed(state)
            return kind, container.pack("streamlearn-checkpoint", body)
        data = mutated(random, seed, seeds, len(seed.data) - TAIL)
        return kind, data + seed.data[-TAIL:] if honest else sealed(data)

    def make_journal(self, random: Random, seed: Seed, honest: bool) -> bytes:
        """The segment with one of its frames mutated, in a frame that fits or as it is."""
        whole = self.whole[self.segment]
        frame: journal.Frame = seed.more
        start = frame.end - len(frame.payload) - journal.FRAME_SIZE
        payload = mutated(random, seed, self.seeds["journal"])
        if honest:
            return whole[: frame.end - len(frame.payload)] + payload + whole[frame.end :]
        number, synced = frame.number, frame.synced
        if random.random() < 0.1:
            number, synced = (random.choice((0, 1, 2, 7, 1 << 63)) for _ in range(2))
        return whole[:start] + journal.packed_frame(number, synced, payload) + whole[frame.end :]

    # ---- judging ---------------------------------------------------------------------------------

    def judge(self, kind: str, data: bytes) -> str:
        try:
            getattr(self, f"judge_{kind}")(data)
        except StreamlearnError as error:
            if not str(error):
                raise Wrong(f"{type(error).__name__} without words") from error
            return f"{kind} refused"
        return f"{kind} accepted"

    def judge_model(self, data: bytes) -> None:
        self.usable(model_from_bytes(data))

    def judge_delta(self, data: bytes) -> None:
        message = wire.unpack(data)
        delta.zlib = Agreeable(message.get("checksum"))
        try:
            self.usable(delta.apply(self.old, message))
        finally:
            delta.zlib = zlib

    def judge_state(self, data: bytes) -> None:
        self.goes_on(Training.from_bytes(data))

    def judge_checkpoint(self, data: bytes) -> None:
        self.judge_folder(self.checkpoint, data)

    def judge_journal(self, data: bytes) -> None:
        self.judge_folder(self.segment, data)

    def judge_folder(self, path: Path, data: bytes) -> None:
        """A start of the daemon on a folder in which one file is another."""
        path.write_bytes(data)
        try:
            with StateFolder(str(self.folder), reading=True) as folder:
                kept = folder.load()
                if kept is None:
                    raise Wrong("a checkpoint that is there was not read")
                ledger, _ = folder.rebuild(*kept)
            self.sound_ledger(ledger)
        finally:
            path.write_bytes(self.whole[path])

    def sound_ledger(self, ledger: Ledger) -> None:
        ledger.sessions.state()
        if ledger.stopped is None:
            self.goes_on(ledger.training)

    def goes_on(self, training: Training) -> None:
        """Learning goes on from a state that was accepted, to a model that can be used."""
        if training.settings.get("iterations", 0) > MOST_ITERATIONS:
            return
        block = Block()
        text = b"+1 1:1 3:0.5\n1 2:-1 1000000000000:1\n"
        training.parser.start_file()
        training.parser.parse(text, 0, len(text), block)
        training.learn_rows(block, "text")
        training.to_bytes()
        self.usable(training.model())

    def usable(self, model: AnyModel) -> None:
        """A model that was accepted has finite weights, predicts and can be told about."""
        parts = model.parts if isinstance(model, MulticlassModel) else (model,)
        for part in parts:
            weights = array("d", part.weights)
            if not all(map(math.isfinite, [part.bias, *weights])):
                raise Wrong("a weight is not finite")
            margins = part.block_margins(self.block)
            if not all(map(math.isfinite, margins)):
                raise Wrong(f"a margin is not finite: {margins.tolist()}")
            names = part.labels or ()
            if not all(type(name) in (int, float) and math.isfinite(name) for name in names):
                raise Wrong(f"the labels {names} are no numbers")
        describe(model)
        model.to_bytes()
        if isinstance(model, MulticlassModel) and not parts:
            return
        model.block_margins(self.block)


