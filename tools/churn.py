"""Clients that come, learn, predict and leave, again and again: does the daemon stay as it was?

Starts a daemon of its own on free ports of the loopback and ends it. Checks that neither its memory
nor its open files grow with the clients that have been there, that its counters add up, and that
what it learned is what `fit` learns from the batches in the order of their acks. Prints one line;
exit code 1 and a line for each violation otherwise.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random

import zmq

from streamlearn.catalogue import resolve
from streamlearn.client import Client
from streamlearn.daemon.sessions import CLIENTS
from streamlearn.training import Training

ALGO, LOSS = "averagesl", "logistic"
ANYWHERE = "tcp://127.0.0.1:*"
FEATURES, BATCHES = 500, 200  # all of them are met in the first round: what grows later is a leak
PATIENCE = 60.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clients", type=int, default=200, help="in a round (default: 200)")
    parser.add_argument("--rounds", type=int, default=50, help="default: 50")
    parser.add_argument("--at-once", type=int, default=20, help="clients at a time (default: 20)")
    parser.add_argument("--rows", type=int, default=20, help="in a batch (default: 20)")
    parser.add_argument(
        "--allow", type=float, default=4.0, help="MB of growth that are no leak (default: 4)"
    )
    return parser.parse_args()


def make_batches(rows: int) -> list[bytes]:
    random = Random(1)
    return [
        b"".join(
            b"%d %s\n"
            % (
                random.choice((-1, 1)),
                b" ".join(b"%d:%.3f" % (i, random.gauss(0, 1))
                          for i in sorted(random.sample(range(FEATURES), 10))),
            )
            for _ in range(rows)
        )
        for _ in range(BATCHES)
    ]  # fmt: skip


class Daemon:
    """The process under test, seen from outside."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.endpoint = ""
        for line in process.stderr or ():
            if "requests on " in line:
                self.endpoint = line.split()[-1]
                break

    @property
    def files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    @property
    def memory(self) -> int:
        statm = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii")
        return int(statm.split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def settled(self, files: int) -> int:
        """Open files once those of peers that left are closed, which takes it a moment."""
        deadline = time.monotonic() + PATIENCE
        while (found := self.files) > files and time.monotonic() < deadline:
            time.sleep(0.001)
        return found


@contextmanager
def started() -> Iterator[Daemon]:
    flags = ["--bind", ANYWHERE, "--bind-feed", ANYWHERE, "--bind-publish", ANYWHERE]
    process = subprocess.Popen(
        [sys.executable, "-m", "streamlearn", "serve", "--algo", ALGO, "--loss", LOSS, *flags],
        # Not here: a checkout that was not built would be found before what is installed.
        cwd="/", stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        daemon = Daemon(process)
        if not daemon.endpoint:
            sys.exit(f"the daemon did not start: exit code {process.wait()}")
        yield daemon
    finally:
        process.kill()
        process.wait()
        if process.stderr:
            process.stderr.close()


def visit(endpoint: str, context: zmq.Context, text: bytes) -> tuple[int, int, bytes]:
    """The life of a client; (t behind its batch, rows learned, text)."""
    with Client(endpoint, PATIENCE, context=context) as client:
        ack = client.learn(text)
        margins = client.margins(text.split(b"\n", 1)[0])
        assert len(margins) == 1
    return ack["t"], ack["learned"], text


def offline(batches: list[bytes]) -> bytes:
    """The model that these batches make in this order."""
    training = Training(resolve(ALGO, LOSS, {}))
    for text in batches:
        training.parser.start_file()
        training.parser.parse(text, 0, len(text), training.block)
        training.learn_rows(training.block, "batch")
    return training.model().to_bytes()


def main() -> int:
    args = arguments()
    batches = make_batches(args.rows)
    total = args.clients * args.rounds
    # The table of clients grows until it is full; only what grows behind that is a leak.
    warm = min(args.rounds // 2, 1 + CLIENTS // args.clients)
    acks: list[tuple[int, int, bytes]] = []
    wrong: list[str] = []
    begin = time.monotonic()
    with started() as daemon, zmq.Context() as context, ThreadPoolExecutor(args.at_once) as pool:
        files, most, memory = daemon.files, 0, 0
        for number in range(args.rounds):
            texts = [batches[(number + i) % BATCHES] for i in range(args.clients)]
            acks += pool.map(lambda text: visit(daemon.endpoint, context, text), texts)
            most = max(most, daemon.settled(files))
            if number == warm:
                memory = daemon.memory
        growth = daemon.memory - memory
        with Client(daemon.endpoint, PATIENCE, context=context) as client:
            status = client.status()
            model = client.snapshot().to_bytes()
            client.shutdown()
        code = daemon.process.wait(PATIENCE)
    seconds = time.monotonic() - begin

    if growth > 1e6 * args.allow:
        wrong.append(f"memory grew by {growth / 1e6:.1f} MB behind round {warm}")
    if most > files:
        wrong.append(f"{most} files are open without clients, {files} at first")
    acks.sort()
    t = 0
    for behind, learned, _ in acks:
        t += learned
        if (behind, learned) != (t, args.rows):
            wrong.append(f"an ack says {behind} examples where {t} were learned")
            break
    rows = total * args.rows
    expected = {"t": rows, "learned": rows, "predictions": total, "bad_frames": 0,
                "clients": min(total, CLIENTS), "batches": total}  # fmt: skip
    wrong += [f"{k} is {status[k]}, not {v}" for k, v in expected.items() if status[k] != v]
    if status["received"] != rows + status["duplicate"]:
        wrong.append(f"received {status['received']} does not add up")
    if model != offline([text for _, _, text in acks]):
        wrong.append("the model is not that of the batches in the order of their acks")
    if code:
        wrong.append(f"the daemon ended with exit code {code}")
    print(
        f"{total:,d} clients in {seconds:.1f} s: {rows:,d} examples, memory {growth / 1e6:+.1f} MB "
        f"behind round {warm}, {most} files open, {status['lost_replies']} replies lost, "
        f"{len(wrong)} violations"
    )
    for what in wrong:
        print(f"churn: {what}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
