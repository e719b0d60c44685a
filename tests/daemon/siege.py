"""A real daemon under load that is killed again and again, and a checker of all that it says.

Every ack carries t, the examples learned so far: the acks of all clients together must tile the
stream without a gap (something lost) or an overlap (something learned twice), and learning the
batches offline in that order must give the daemon's model, byte for byte.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import streamlearn
from daemon.history import NEVER, drive, ignore, text_of
from streamlearn.catalogue import resolve
from streamlearn.client import Client
from streamlearn.daemon.inbox import Inbox
from streamlearn.daemon.learning import Learning
from streamlearn.daemon.ledger import Ledger
from streamlearn.daemon.state import StateFolder
from streamlearn.errors import StreamlearnError
from streamlearn.training import Training
from streamlearn.wire import Refusal

PATIENCE = 60.0
FINAL = ("t", "learned", "skipped", "rejected")


@dataclass
class Sent:
    """One line of a client's log."""

    client: int
    body: dict[str, Any]
    reply: dict[str, Any] | None = None


class Sender:
    """A client that goes on by itself, whatever happens to the daemon."""

    def __init__(self, number: int, endpoint: str, siege: Siege) -> None:
        self.number, self.siege, self.random = number, siege, Random(f"{siege.seed} {number}")
        self.client = Client(endpoint, timeout=PATIENCE)
        self.client.heard, self.client.resend_seconds = self.heard, 0.2  # an impatient one
        self.name = self.client.name
        self.log: list[Sent] = []  # since the last check

    def heard(self, sent: Sent, reply: dict[str, Any]) -> None:
        with self.siege.progress:
            sent.reply = reply
            self.siege.acks += 1
            self.siege.repeats += bool(reply.get("duplicate"))
            self.siege.progress.notify_all()

    def batch(self) -> dict[str, Any]:
        random = self.random
        text, fate = text_of(random, random.randint(1, 12)), random.random()
        if fate < 0.05:
            return {"text": text + b"+1 oops\n"}
        if fate < 0.1:
            return {"text": b"\n+1 oops\n" + text, "on_error": "skip"}
        return {"text": text}

    def work(self, over: threading.Event) -> None:
        """Send until told to end, then wait for every answer."""
        try:
            while not over.is_set():
                sent = Sent(self.number, self.batch())
                self.log.append(sent)
                self.unless_bad(lambda: self.client.send(sent.body, sent))  # noqa: B023
            while self.client.batches or self.client.trouble:
                self.unless_bad(self.client.flush)
        except StreamlearnError as error:
            self.siege.violations.append(f"client {self.number}: {error}")

    def unless_bad(self, call: Any) -> None:
        try:
            call()
        except Refusal as error:
            if error.code != "BAD_LINE":
                raise


@dataclass
class Siege:
    """A folder, fixed ports, and the daemons that live there one after the other."""

    folder: Path
    seed: int = 1
    clients: int = 3
    durability: str = "always"
    algo: str = "averagesl"
    acks: int = 0
    repeats: int = 0
    kills: int = 0
    failpoints: dict[str, int] = field(default_factory=dict)  # where it died
    batches: int = 0
    replayed: int = 0
    violations: list[str] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.progress = threading.Condition()
        self.ports = free_ports(3)
        self.settings = resolve(self.algo, "logistic", {})
        self.replica = Learning(Ledger(Training(self.settings)), Inbox(1 << 30), ignore, NEVER)
        self.rejected = self.skipped = 0
        self.began = time.monotonic()
        self.senders = [Sender(n, self.place(0), self) for n in range(self.clients)]
        self.watcher = Client(self.place(0), timeout=PATIENCE)
        self.watcher.resend_seconds = 0.2
        self.failpoint = ""

    def place(self, index: int) -> str:
        return f"tcp://127.0.0.1:{self.ports[index]}"

    def close(self) -> None:
        self.kill()
        for each in (*(sender.client for sender in self.senders), self.watcher):
            each.close()

    # ---- the daemon ------------------------------------------------------------------------------

    def start(self, failpoint: str = "") -> None:
        """A daemon on the same ports and folder; it may die before it listens, if told to."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("STREAMLEARN_")}
        kept["PYTHONPATH"] = str(Path(streamlearn.__file__).resolve().parents[1])
        if failpoint:
            kept["STREAMLEARN_FAILPOINT"] = failpoint
        self.failpoint = failpoint.partition(":")[0]
        with open(self.folder.with_suffix(".log"), "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "streamlearn", "serve", "--state", str(self.folder),
                 "--bind", self.place(0), "--bind-feed", self.place(1),
                 "--bind-publish", self.place(2), "--algo", self.algo,
                 "--durability", self.durability, "--checkpoint-every", "0.3s",
                 "--journal-bytes", "100k", "--publish-every", "0.2s"],
                # Elsewhere: a checkout that was not built would be found before what is installed.
                cwd=self.folder.parent, env=kept, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=log,
            )  # fmt: skip

    def died(self) -> bool:
        """Whether its failpoint ended it; any other end is a violation."""
        assert self.process
        code = self.process.poll()
        if code is None:
            return False
        if code != -signal.SIGKILL or not self.failpoint:
            self.violations.append(f"the daemon ended by itself, with {code}")
        return True

    def kill(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()

    def bury(self) -> None:
        """Look at what it left: nothing damaged, nothing missing that was acked."""
        if self.process and self.failpoint and self.process.poll() is not None:
            self.failpoints[self.failpoint] = self.failpoints.get(self.failpoint, 0) + 1
        with self.progress:
            acked = max((sent.reply.get("t", 0) for sender in self.senders for sent in sender.log
                         if sent.reply), default=0)  # fmt: skip
        if not (self.folder / "lock").exists():
            return  # it never came that far
        try:
            with StateFolder(str(self.folder), reading=True) as state:
                if kept := state.load():
                    ledger, reader = state.rebuild(*kept)
                    self.replayed += reader.bytes
                    if ledger.t < acked:
                        self.violations.append(f"acked up to {acked}, kept {ledger.t}")
                elif acked:
                    self.violations.append(f"acked up to {acked}, kept nothing")
        except StreamlearnError as error:
            self.violations.append(str(error))

    # ---- one cycle -------------------------------------------------------------------------------

    def cycle(self, failpoint: str = "") -> None:
        """Load, death at a random moment or at the failpoint of this life, restart, check."""
        over = threading.Event()
        threads = [threading.Thread(target=s.work, args=(over,)) for s in self.senders]
        if self.process is None:
            self.start()
        for thread in threads:
            thread.start()
        if self.failpoint:
            self.wait(self.died)
        else:
            target = self.acks + self.random.randint(1, 300)
            self.wait(lambda: self.acks >= target or self.died())
            self.kills += 1
        self.kill()
        self.bury()
        self.start(failpoint)
        over.set()
        while any(thread.is_alive() for thread in threads):
            for thread in threads:
                thread.join(0.05)
            if self.died():  # the next failpoint is here already
                self.bury()
                self.start()
        if not self.violations:
            self.check()

    def wait(self, reached: Any) -> None:
        deadline = time.monotonic() + PATIENCE
        with self.progress:
            while not reached() and not self.violations:
                self.progress.wait(0.05)
                if time.monotonic() > deadline:
                    self.violations.append(f"{self.failpoint or 'load'}: nothing in {PATIENCE} s")

    def check(self) -> None:
        """Everything sent was answered; the answers tile the stream; offline gives the same."""
        sent = [line for sender in self.senders for line in sender.log]
        self.batches += len(sent)
        for sender in self.senders:
            if sender.client.name != sender.name:
                self.violations.append(f"client {sender.number} was forgotten")
            sender.log = []
        for line in sent:
            if line.reply is None or line.reply.get("code") not in (None, "BAD_LINE"):
                self.violations.append(f"client {line.client}: answered {line.reply}")
                return
            self.rejected += line.reply["rejected"]
            self.skipped += line.reply["skipped"]
        learned = sorted((line for line in sent if line.reply["learned"]),
                         key=lambda line: line.reply["t"])  # fmt: skip
        for line in learned:
            (again,) = drive(self.replica, [line.body])
            if any(again[name] != line.reply[name] for name in FINAL):
                what = {name: line.reply[name] for name in FINAL}
                self.violations.append(f"client {line.client}: {what}, but offline {again}")
                return
        self.compare()

    def compare(self) -> None:
        """Counters and model; dies a daemon meanwhile, the next one is asked."""
        found: dict[str, Any] = {}

        def ask() -> None:
            try:
                found.update(self.watcher.status(), model=self.watcher.snapshot().to_bytes())
            except StreamlearnError as error:
                self.violations.append(f"asked for status and model: {error}")

        asking = threading.Thread(target=ask)
        asking.start()
        while asking.is_alive():
            asking.join(0.05)
            if self.died():
                self.bury()
                self.start()
        if not found:
            return
        t = self.replica.ledger.t
        parts = ("learned", "skipped", "rejected", "duplicate")
        if found["received"] != sum(found[name] for name in parts):
            self.violations.append(f"counters do not add up: {found}")
        expected = {"t": t, "learned": t, "skipped": self.skipped, "rejected": self.rejected}
        if any(found[name] != value for name, value in expected.items()):
            self.violations.append(f"status says {found}, the clients say {expected}")
        if found["model"] != self.replica.training.model().to_bytes():
            self.violations.append(f"the model of {t} examples is not the one learned offline")

    def summary(self) -> str:
        seconds = time.monotonic() - self.began
        points = sum(self.failpoints.values())
        resent = sum(sender.client.resent for sender in self.senders)
        return (
            f"{self.kills + points} deaths ({self.kills} SIGKILL, {points} at "
            f"{len(self.failpoints)} failpoints), {self.clients} clients, {self.batches:,d} "
            f"batches, {self.replica.ledger.t:,d} examples, {resent:,d} sent again, "
            f"{self.repeats:,d} answered as duplicates, {self.replayed / 1e6:.1f} MB replayed: "
            f"{len(self.violations)} violations in {seconds:.0f} s"
        )


def free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports
