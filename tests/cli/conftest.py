"""Commands in processes of their own, and small data made from a seed. Tests nothing itself."""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import streamlearn
from streamlearn.model import Model

PATIENCE = 60.0  # seconds before a hanging command is a failed test
HUGE_IDS = (10**12, 2**53 + 1, 2**63 - 1)


# ---- processes -----------------------------------------------------------------------------------


def environment(extra: dict[str, str] | None = None) -> dict[str, str]:
    """Ours without settings of the user; the package that is tested here comes first."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("STREAMLEARN_", "PYTHON"))}
    kept["PYTHONPATH"] = str(Path(streamlearn.__file__).resolve().parents[1])
    kept["PYTHONWARNINGS"] = "error"
    return {**kept, **(extra or {})}


def unsurprised(stderr: str) -> None:
    """Whatever happens to a command, a user never sees the inside of the program."""
    assert "Traceback" not in stderr, stderr
    assert "Exception ignored" not in stderr, stderr


class Running:
    """A command that has not ended yet: feed it, wait for what it says, end it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process, self.said = process, b""

    def write(self, data: bytes) -> None:
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def wait_for(self, accept: Callable[[str], bool]) -> str:
        """The first line on stderr that is accepted; fails when it does not come in time."""
        deadline, looked = time.monotonic() + PATIENCE, 0
        while True:
            lines = self.said.split(b"\n")[:-1]
            for line in lines[looked:]:
                if accept(line.decode()):
                    return line.decode()
            looked = len(lines)
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self.process.stderr], [], [], max(left, 0.0))
            assert ready, f"nothing came in {PATIENCE} s; stderr so far: {self.said.decode()}"
            more = os.read(self.process.stderr.fileno(), 65536)
            assert more, f"the command ended; stderr: {self.said.decode()}"
            self.said += more

    def finish(self, code: int = 0) -> subprocess.CompletedProcess[Any]:
        """Close its input, wait for the end and check the exit code."""
        out, err = self.process.communicate(timeout=PATIENCE)
        stderr = (self.said + (err or b"")).decode()
        unsurprised(stderr)
        assert self.process.returncode == code, stderr
        return subprocess.CompletedProcess(self.process.args, code, out, stderr)


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[Any]]:
    """run(*args, stdin=b"", env={}, code=0): one command to its end; stdout bytes, stderr text."""

    def run(
        *args: object,
        stdin: bytes = b"",
        env: dict[str, str] | None = None,
        code: int = 0,
        cwd: Path = tmp_path,
        timeout: float = PATIENCE,
        **options: Any,
    ) -> subprocess.CompletedProcess[Any]:
        result = subprocess.run(
            [sys.executable, "-m", "streamlearn", *map(str, args)],
            input=stdin,
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=options.pop("stderr", subprocess.PIPE),
            env=environment(env),
            cwd=cwd,
            timeout=timeout,
            check=False,
            **options,
        )
        result.stderr = (result.stderr or b"").decode()
        unsurprised(result.stderr)
        assert result.returncode == code, f"exit code {result.returncode}: {result.stderr}"
        return result

    return run


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """start(*args, stdin=PIPE): a command that runs on, killed if the test does not end it."""
    begun: list[subprocess.Popen[bytes]] = []

    def start(*args: object, env: dict[str, str] | None = None, **options: Any) -> Running:
        process = subprocess.Popen(
            [sys.executable, "-m", "streamlearn", *map(str, args)],
            stdin=options.pop("stdin", subprocess.PIPE),
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=options.pop("stderr", subprocess.PIPE),
            bufsize=0,
            env=environment(env),
            cwd=tmp_path,
            # A test run started in the background by a shell ignores Ctrl-C; the command must not.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            **options,
        )
        begun.append(process)
        return Running(process)

    yield start
    for process in begun:
        if process.poll() is None:
            process.kill()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        process.wait()


# ---- data ----------------------------------------------------------------------------------------


def make_rows(
    count: int, seed: int, labels: tuple[str, str] | None = ("-1", "+1"), features: int = 40
) -> list[bytes]:
    """Lines of a noisy linear problem, ids rising, some huge; labels None makes it regression."""
    random = Random(seed)
    truth = {i: random.gauss(0, 2) if i % 3 == 0 else 0.0 for i in range(1, features + 1)}
    lines = []
    for _ in range(count):
        ids = sorted(random.sample(range(1, features + 1), random.randint(1, 9)))
        row = [(i, round(random.gauss(0, 1), 4) or 1.0) for i in ids]
        margin = 0.3 + sum(truth[i] * value for i, value in row)
        if random.random() < 0.2:
            row.append((random.choice(HUGE_IDS), 0.5))
        if labels is None:
            label = repr(round(10.0 + 3.0 * margin + random.gauss(0, 0.5), 3))
        else:
            label = labels[random.random() < 1.0 / (1.0 + math.exp(-2.0 * margin))]
        lines.append((" ".join([label, *(f"{i}:{v:g}" for i, v in row)]) + "\n").encode())
    return lines


@pytest.fixture(scope="session")
def rows() -> Callable[..., list[bytes]]:
    """rows(count, seed, labels): lines of a seeded problem."""
    return make_rows


@pytest.fixture(scope="session")
def lines() -> list[bytes]:
    """The 600 lines that most tests learn from."""
    return make_rows(600, seed=1)


@pytest.fixture
def data(tmp_path: Path, lines: list[bytes]) -> Path:
    """A file of those lines."""
    path = tmp_path / "data.svm"
    path.write_bytes(b"".join(lines))
    return path


@pytest.fixture(scope="session")
def learned(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> Path:
    """A folder with model.sl and state.sl, made by `fit` from those lines."""
    folder = tmp_path_factory.mktemp("learned")
    subprocess.run(
        [sys.executable, "-m", "streamlearn", "fit", "--save-state", "state.sl"],
        input=b"".join(lines),
        capture_output=True,
        cwd=folder,
        env=environment(),
        timeout=PATIENCE,
        check=True,
    )
    return folder


@pytest.fixture(scope="session")
def model_of() -> Callable[[Path], Model]:
    """The model in a file."""
    return lambda path: Model.load(str(path))
