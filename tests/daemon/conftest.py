"""Daemons in processes of their own, on free ports of the loopback. Tests nothing itself."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import (  # noqa: F401 - fixtures
    PATIENCE,
    data,
    environment,
    learned,
    lines,
    rows,
    run,
    start,
    unsurprised,
)

from streamlearn.client import Client
from streamlearn.multiclass import AnyModel, load_model

ANYWHERE = "tcp://127.0.0.1:*"
SOCKETS = ("requests", "feed", "publish")


class Daemon:
    """A running daemon: where it listens, what it has logged, how it ended."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.log: list[str] = []
        self.more = threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.endpoints: dict[str, str] = {}
        self.clients: list[Client] = []

    def read(self) -> None:
        for line in self.process.stderr:
            with self.more:
                self.log.append(line.decode().rstrip())
                self.more.notify_all()
        with self.more:
            self.log.append("<end>")
            self.more.notify_all()

    def wait_for(self, words: str, count: int = 1) -> str:
        """The first (or count-th) line of the log with these words."""

        def found() -> list[str]:
            return [line for line in self.log if words in line]

        with self.more:
            self.more.wait_for(
                lambda: len(found()) >= count or "<end>" in self.log, timeout=PATIENCE
            )
            assert len(found()) >= count, "\n".join(self.log)
            return found()[count - 1]

    def listen(self) -> Daemon:
        """Learn from the log where it listens."""
        for name in SOCKETS:
            self.endpoints[name] = self.wait_for(f"{name} on ").split(f"{name} on ")[1].split()[0]
        return self

    @property
    def endpoint(self) -> str:
        return self.endpoints["requests"]

    def client(self, **options: Any) -> Client:
        """A client of it, closed with the daemon: a test that fails must not spoil another."""
        self.clients.append(Client(self.endpoint, **{"timeout": PATIENCE, **options}))
        return self.clients[-1]

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self, code: int = 0, within: float = PATIENCE) -> str:
        """Wait for its end; the whole log."""
        assert self.process.wait(within) == code, "\n".join(self.log)
        self.reader.join(PATIENCE)
        text = "\n".join(self.log)
        unsurprised(text)
        return text

    def stop(self) -> str:
        """A shutdown over the wire, to the end."""
        with self.client() as c:
            c.shutdown()
        return self.ended()


@contextmanager
def daemons(folder: Path) -> Iterator[Callable[..., Daemon]]:
    """serve(*flags, bind=...): a daemon that listens; killed in the end if it still runs."""
    begun: list[Daemon] = []

    def serve(
        *flags: object,
        env: dict[str, str] | None = None,
        listens: bool = True,
        bind: str = ANYWHERE,
        **options: Any,
    ) -> Daemon:
        words = ["--bind", bind, "--bind-feed", ANYWHERE, "--bind-publish", ANYWHERE]
        process = subprocess.Popen(
            [sys.executable, "-m", "streamlearn", "serve", *words, *map(str, flags)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment(env),
            cwd=folder,
            # A test run in the background of a shell ignores Ctrl-C; the daemon must not.
            preexec_fn=options.pop(
                "preexec_fn", lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
            ),
            **options,
        )
        begun.append(daemon := Daemon(process))
        return daemon.listen() if listens else daemon

    try:
        yield serve
    finally:
        for daemon in begun:
            for client in daemon.clients:
                client.close()
            if daemon.process.poll() is None:
                daemon.process.kill()
            daemon.process.wait()
            daemon.reader.join()
            daemon.process.stderr.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    """serve(*flags, bind=...): a daemon that listens; killed if the test does not end it."""
    with daemons(tmp_path) as serve:
        yield serve


def until(condition: Callable[[], Any]) -> Any:
    """What the condition gives once it gives something; fails when that takes too long."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited in vain"
    return found


def offline(text: bytes, *flags: object, folder: Path) -> AnyModel:
    """What `fit` makes of a stream."""
    subprocess.run(
        [sys.executable, "-m", "streamlearn", "fit", "-o", "offline.sl", *map(str, flags)],
        input=text,
        cwd=folder,
        env=environment(),
        stderr=subprocess.DEVNULL,
        timeout=PATIENCE,
        check=True,
    )
    return load_model(str(folder / "offline.sl"))


@pytest.fixture
def fitted(tmp_path: Path) -> Callable[..., AnyModel]:
    """fitted(text, *flags): what `fit` makes of a stream."""
    return lambda text, *flags: offline(text, *flags, folder=tmp_path)


def status_when(client: Client, accept: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first status that is accepted; fails when none is in time."""
    deadline = time.monotonic() + PATIENCE
    while not accept(status := client.status()):
        assert time.monotonic() < deadline, status
    return status


def published_first(client: Client, line: bytes) -> None:
    """The very first model is published at once; what comes then waits for its time."""
    client.learn(line)
    status_when(client, lambda status: status["published_t"] == 1)


def wide_text() -> bytes:
    """Rows of many features, none of them twice: a model of more than a megabyte."""
    text = []
    for i in range(200):
        items = " ".join(f"{500 * i + j}:{1 + j % 3}" for j in range(1, 500))
        text.append(f"{1 - 2 * (i % 2):+d} {items}\n")
    return "".join(text).encode()


def adds_up(status: dict[str, Any]) -> bool:
    """The one equation of the counters."""
    parts = ("learned", "skipped", "rejected", "duplicate")
    return status["received"] == sum(status[name] for name in parts)
