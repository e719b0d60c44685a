"""How long a good client waits for its answers while somebody else floods the daemon.

The client is a process of its own, so that it shares no interpreter with the flood. It asks for one
prediction after the other, with a pause between them. What is compared is its 99th percentile while
mutated frames and strangers come, while as many of the same requests come whole, and while as many
predictions of one line come, in turns. All of it is made before it is sent: the flood itself takes
the same either way. On two cores the flood, the daemon's threads and the client share them.

What is promised: less than twice the wait beside as many predictions of one line.

    python -m fuzz.patience ENDPOINT     is that client, until its stdin is closed
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

import msgpack
import zmq

import streamlearn
from fuzz.frames import FLAGS, ROUND, Frames, Talk, started
from fuzz.mutation import Wrong

LINE = b"1:1 2:0.5\n"
PAUSE = 0.001  # seconds between two questions
SECONDS = 60  # until an answer is given up
TURNS, MOST = 10, 20_000  # frames of each kind in a turn, so that there are answers to tell from
ENOUGH = TURNS * MOST  # frames; of fewer the 99th percentile is a matter of luck
STRANGERS = 50  # in each turn
PROMISED = 2.0  # times the baseline, at which it is broken


@dataclass
class Waits:
    """Seconds for which each answer was waited for."""

    alone: list[float] = field(default_factory=list)  # nobody else asks
    small: list[float] = field(default_factory=list)  # beside predictions of one line
    whole: list[float] = field(default_factory=list)  # beside the requests that are mutated
    hostile: list[float] = field(default_factory=list)  # beside mutated ones, and strangers

    def times(self, baseline: list[float]) -> float:
        return p99(self.hostile) / p99(baseline)

    def judge(self) -> None:
        """Raises Wrong when a good client waits longer than is promised."""
        if self.times(self.small) >= PROMISED:
            raise Wrong(
                f"a good client's p99 is {self.times(self.small):.2f} times that beside as many "
                f"predictions of a line; less than {PROMISED:g} times is promised"
            )

    def __str__(self) -> str:
        whole, small = self.times(self.whole), self.times(self.small)
        return (
            f"a good client's p99 {1e3 * p99(self.hostile):.2f} ms: {whole:.2f} times that beside "
            f"the same requests whole, {small:.2f} times that beside as many predictions of a line "
            f"({1e3 * p99(self.small):.2f} ms; alone {1e3 * p99(self.alone):.2f} ms)"
        )


def p99(waits: list[float]) -> float:
    return sorted(waits)[int(0.99 * len(waits))]


def measured(count: int, seed: int) -> Waits:
    """The waits beside so many frames of each kind, or as many as it takes."""
    frames, random, waits = Frames(seed), Random(f"patience {seed}"), Waits()
    small = [msgpack.packb({"v": 1, "id": 0, "do": "predict", "text": LINE})]
    turns, many = (TURNS if count > ROUND else 1), max(1, min(count // TURNS, MOST))
    with started(*FLAGS) as daemon, zmq.Context() as context:
        talk = Talk(daemon, context)
        try:
            talk.look()
            endpoint = daemon.endpoints["requests"]
            files = daemon.files
            for _ in range(turns):
                waits.alone += waited(endpoint, partial(time.sleep, 0.5))
                waits.small += waited(endpoint, partial(flood, talk, [small] * many))
                messages = [[random.choice(frames.seeds).data] for _ in range(many)]
                waits.whole += waited(endpoint, partial(flood, talk, messages))
                messages = [frames.make() for _ in range(many)]
                waits.hostile += waited(endpoint, partial(assault, talk, messages, random, frames))
                talk.settle(files)
                talk.look()
        finally:
            talk.close()
    return waits


def flood(talk: Talk, messages: list[list[bytes]]) -> None:
    talk.pour(iter(messages).__next__, len(messages))


def assault(talk: Talk, messages: list[list[bytes]], random: Random, frames: Frames) -> None:
    flood(talk, messages)
    talk.knock(random, frames, STRANGERS)


def waited(endpoint: str, work: Callable[[], None]) -> list[float]:
    """What the good client waited for while the work was done."""
    here, package = Path(__file__).resolve().parents[1], Path(streamlearn.__file__).resolve()
    paths = {"PYTHONPATH": f"{here}{os.pathsep}{package.parents[1]}"}
    with subprocess.Popen(
        [sys.executable, "-m", "fuzz.patience", endpoint], cwd="/", text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **paths},
    ) as process:  # fmt: skip
        assert process.stdin
        assert process.stdout
        if process.stdout.readline() != "ready\n":
            raise Wrong("a good client could not begin")
        try:
            work()
        finally:
            process.stdin.close()
        said = process.stdout.read()
    if process.returncode:
        raise Wrong(f"a good client ended with {process.returncode}: {said}")
    return json.loads(said)


def ask_on(endpoint: str) -> None:
    waits: list[float] = []
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger, socket.rcvtimeo = 0, 1000 * SECONDS
        socket.connect(endpoint)
        number, over = 0, False
        while not over:
            number += 1
            begin = time.perf_counter()
            socket.send(msgpack.packb({"v": 1, "id": number, "do": "predict", "text": LINE}))
            reply = msgpack.unpackb(socket.recv())
            waits.append(time.perf_counter() - begin)
            if not reply["ok"] or reply["id"] != number:
                sys.exit(f"answered {reply}")
            if number == 1:  # which had to connect first
                waits.clear()
                print("ready", flush=True)
            over = bool(select.select([sys.stdin], [], [], PAUSE)[0]) and bool(waits)
    json.dump(waits, sys.stdout)


if __name__ == "__main__":
    ask_on(sys.argv[1])
