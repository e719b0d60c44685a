"""A daemon left alone with work: does it learn every row once, stay in its memory, keep its disk?

For so many minutes one client teaches without a pause while others predict, follow, ask for
snapshots and checkpoints, and every now and then the daemon is stopped in order and started again.
In the end the model must be that of `fit` over the same stream, the counters must add up, memory
and open files must not have grown behind the first quarter, and the state folder must be bounded.
Prints one line; exit code 1 and a line for each violation otherwise.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from random import Random

from streamlearn.catalogue import resolve
from streamlearn.client import Client
from streamlearn.engine.block import Block
from streamlearn.errors import StreamlearnError
from streamlearn.training import Training
from streamlearn.wire import Refusal

ALGO, LOSS = "averagesl", "logistic"
FEATURES, ROWS = 2000, 100
JOURNAL = 4 << 20
ALLOWED_MB, ALLOWED_FILES = 16.0, 4
WARM = 100  # questions: twice every kind of them


def text_of(number: int) -> bytes:
    """Batch `number` of the stream: the same whenever it is asked for."""
    random = Random(number)
    lines = []
    for _ in range(ROWS):
        ids = sorted(random.sample(range(FEATURES), 10))
        items = " ".join(f"{i}:{random.gauss(0, 1):.3f}" for i in ids)
        lines.append(f"{random.choice((-1, 1))} {items}\n")
    return "".join(lines).encode()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Soak:
    """The daemon under test, its clients, and what they found wrong."""

    def __init__(self, folder: Path, seconds: float, restarts: int) -> None:
        self.folder, self.restarts = folder, restarts
        self.places = [f"tcp://127.0.0.1:{free_port()}" for _ in range(3)]
        self.end = time.monotonic() + seconds
        self.begin = time.monotonic()
        self.seconds = seconds
        self.over = threading.Event()
        self.batches = self.questions = 0
        self.marks: list[tuple[int, int]] = []  # memory and open files, since the last start
        self.violations: list[str] = []
        self.asked_before = 0

    def start(self) -> None:
        flags = ["--bind", self.places[0], "--bind-feed", self.places[1], "--bind-publish",
                 self.places[2], "--state", str(self.folder / "state"), "--journal-bytes",
                 str(JOURNAL), "--publish-every", "0.2s"]  # fmt: skip
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "streamlearn", "serve", "--algo", ALGO, *flags],
                stdin=subprocess.DEVNULL, stderr=log,
            )  # fmt: skip
        self.marks = []
        self.asked_before = self.questions

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        if (code := self.process.wait(60)) != 0:
            self.violations.append(f"the daemon ended with {code}")

    def client(self) -> Client:
        return Client(self.places[0], timeout=60)

    # ---- the work --------------------------------------------------------------------------------

    def teach(self) -> None:
        with self.client() as c:
            while not self.over.is_set():
                c.send({"text": text_of(self.batches)})
                self.batches += 1

    def ask(self, number: int) -> None:
        with self.client() as c:
            while not self.over.is_set():
                try:
                    self.ask_once(c, self.questions + number)
                except Refusal as refused:
                    if refused.code != "STOPPING":  # of a life that ends: ask the next one
                        raise
                self.questions += 1

    def ask_once(self, c: Client, number: int) -> None:
        text = text_of(number % 50)
        match number % 50:
            case 0:
                c.snapshot(max_nonzeros=10)
            case 1:
                c.margins(text, live=True)
            case 2:
                c.checkpoint()
            case _:
                if len(c.margins(text)) != ROWS:
                    self.violations.append("rows without a prediction")

    def guarded(self, work: object, *words: int) -> None:
        try:
            work(*words)  # type: ignore[operator]
        except StreamlearnError as error:
            self.violations.append(f"a client: {error}")

    def look(self) -> None:
        """Memory and open files; what they grew by behind the first quarter of a life counts.

        A life begins when every kind of question was answered: what is needed is loaded by then.
        """
        if self.questions < self.asked_before + WARM:
            return
        place = Path(f"/proc/{self.process.pid}")
        with suppress(OSError, IndexError):
            pages = int((place / "statm").read_text(encoding="ascii").split()[1])
            self.marks.append((pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir(place / "fd"))))

    def judge_growth(self) -> float:
        quarter = len(self.marks) // 4
        if len(self.marks) < 8:
            return 0.0
        early, late = self.marks[quarter : quarter + 2], self.marks[-2:]
        growth = (max(m for m, _ in late) - max(m for m, _ in early)) / 1e6
        files = min(f for _, f in late) - max(f for _, f in early)
        if growth > ALLOWED_MB:
            self.violations.append(f"memory grew by {growth:.1f} MB")
        if files > ALLOWED_FILES:
            self.violations.append(f"open files grew by {files}")
        return growth

    def run(self) -> str:
        self.start()
        threads = [threading.Thread(target=self.guarded, args=(self.teach,))]
        threads += [threading.Thread(target=self.guarded, args=(self.ask, n)) for n in range(2)]
        for thread in threads:
            thread.start()
        lives, growth = 1, 0.0
        while time.monotonic() < self.end and not self.violations:
            time.sleep(self.seconds / (20 * (self.restarts + 1)))
            self.look()
            if time.monotonic() > self.begin + self.seconds * lives / (self.restarts + 1):
                growth = max(growth, self.judge_growth())
                if lives <= self.restarts:
                    self.stop()
                    self.start()
                    lives += 1
        self.over.set()
        for thread in threads:
            thread.join()
        self.check()
        self.stop()
        disk = sum(f.stat().st_size for f in (self.folder / "state").iterdir())
        if disk > 3 * JOURNAL:
            self.violations.append(f"the state folder holds {disk:,d} bytes")
        return (
            f"{time.monotonic() - self.begin:.0f} s, {lives} lives: {self.batches * ROWS:,d} rows "
            f"learned, {self.questions:,d} questions, memory {growth:+.1f} MB, "
            f"{disk / 1e6:.1f} MB on disk, {len(self.violations)} violations"
        )

    def check(self) -> None:
        with self.client() as c:
            status, model = c.status(), c.snapshot()
        rows = self.batches * ROWS
        if not status["t"] == status["learned"] == rows:
            self.violations.append(f"{rows:,d} rows sent, {status['learned']:,d} learned")
        if status["received"] != rows + status["duplicate"]:
            self.violations.append("the counters do not add up")
        training, block = Training(resolve(ALGO, LOSS, {})), Block()
        for number in range(self.batches):
            text = text_of(number)
            training.parser.parse(text, 0, len(text), block)
            training.learn_rows(block, "stream")
        if training.model().to_bytes() != model.to_bytes():
            self.violations.append("the model is not that of the stream")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="default: 60")
    parser.add_argument("--restarts", type=int, default=5, help="default: 5")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder), 60 * args.minutes, args.restarts)
        try:
            line = soak.run()
        finally:
            soak.over.set()
            soak.process.kill()
            soak.process.wait()
        for violation in soak.violations:
            print(f"VIOLATION: {violation}", file=sys.stderr)
        print(f"soak: {line}")
    return 1 if soak.violations else 0


if __name__ == "__main__":
    sys.exit(main())
