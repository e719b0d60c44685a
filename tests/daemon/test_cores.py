"""While there is much to learn, the learning thread has a core of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from daemon.conftest import until
from streamlearn.daemon import cores as module
from streamlearn.daemon.cores import BUSY_SECONDS, CHECK_SECONDS, REST_SECONDS, Cores

ALL = os.sched_getaffinity(0)
needs_two = pytest.mark.skipif(len(ALL) < 2, reason="there is one core")


class Clock:
    now = 100.0
    ran = waited = 0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Time and what the system counts, as the test says."""
    clock = Clock()
    monkeypatch.setattr(module.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(module, "waits", lambda: (clock.ran, clock.waited))
    return clock


@pytest.fixture
def other() -> Iterator[int]:
    """A thread that does nothing."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    yield thread.native_id
    end.set()
    thread.join()
    for each in module.threads():
        module.bind(each, sorted(ALL))


def worked(cores: Cores, clock: Clock) -> int | None:
    """After work that went on for long enough."""
    cores.busy(went_on=False)
    clock.now += 2 * BUSY_SECONDS
    cores.busy(went_on=True)
    return cores.own


@needs_two
def test_who_is_kept_busy_gets_a_core_and_all_others_the_rest(clock: Clock, other: int) -> None:
    cores = Cores()
    own = worked(cores, clock)
    assert own in ALL
    assert os.sched_getaffinity(0) == {own}
    assert os.sched_getaffinity(other) == ALL - {own}
    with cores.shared():
        assert os.sched_getaffinity(0) == ALL
        assert os.sched_getaffinity(other) == ALL - {own}
    assert os.sched_getaffinity(0) == {own}
    assert cores.patience(None) == cores.patience(9.0) == REST_SECONDS
    assert cores.patience(0.0) == 0.0
    clock.now += 0.9 * REST_SECONDS
    cores.rest()  # too soon: something else was due
    assert os.sched_getaffinity(0) == {own}
    clock.now += 0.2 * REST_SECONDS
    cores.rest()
    assert os.sched_getaffinity(0) == os.sched_getaffinity(other) == ALL
    assert cores.own is None
    assert cores.patience(None) is None


@needs_two
def test_what_fails_with_all_cores_leaves_its_own_behind(clock: Clock, other: int) -> None:
    cores = Cores()
    own = worked(cores, clock)
    with pytest.raises(ZeroDivisionError), cores.shared():
        _ = 1 // 0
    assert os.sched_getaffinity(0) == {own}


@needs_two
def test_work_with_pauses_needs_no_core(clock: Clock, other: int) -> None:
    cores = Cores()
    for _ in range(10):
        cores.busy(went_on=False)
        clock.now += 0.9 * BUSY_SECONDS
        cores.busy(went_on=True)
        clock.now += 1.0
    assert cores.own is None
    assert os.sched_getaffinity(0) == os.sched_getaffinity(other) == ALL


@needs_two
def test_a_core_that_somebody_else_uses_is_left(clock: Clock, other: int) -> None:
    cores = Cores()
    own = worked(cores, clock)
    for share, stays in ((0.1, True), (0.5, False), (0.1, True)):
        clock.now += 2 * CHECK_SECONDS
        clock.ran += int(1e9 * (1 - share))
        clock.waited += int(1e9 * share)
        cores.busy(went_on=True)
        assert (cores.own == own) == stays
        own = cores.own
        assert os.sched_getaffinity(0) == {own}
        assert os.sched_getaffinity(other) == ALL - {own}


@needs_two
def test_a_thread_that_began_later_is_sent_away_too(clock: Clock, other: int) -> None:
    cores = Cores()
    own = worked(cores, clock)
    module.bind(other, sorted(ALL))
    clock.now += 2 * CHECK_SECONDS
    cores.busy(went_on=True)
    assert os.sched_getaffinity(other) == ALL - {own}


@pytest.mark.parametrize("why", ["unwanted", "one core"])
def test_nothing_is_divided(
    clock: Clock, other: int, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    if why == "one core":
        monkeypatch.setattr(module.os, "sched_getaffinity", lambda _: {min(ALL)})
    cores = Cores(divided=why != "unwanted")
    monkeypatch.undo()
    assert worked(cores, clock) is None
    assert os.sched_getaffinity(0) == os.sched_getaffinity(other) == ALL


def test_the_system_tells_how_long_a_thread_waited() -> None:
    ran, waited = module.waits()
    assert ran >= 0
    assert waited >= 0
    if os.path.exists("/proc/thread-self/schedstat"):
        assert ran > 0


def affinities(pid: int) -> list[set[int]]:
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with suppress(ProcessLookupError):  # it has ended meanwhile
            found.append(os.sched_getaffinity(int(task)))
    return found


def is_divided(pid: int) -> bool:
    """One thread has a core, all others have the rest."""
    found = affinities(pid)
    for own in ALL:
        if found.count({own}) == 1 and found.count(ALL - {own}) == len(found) - 1:
            return True
    return False


@needs_two
@pytest.mark.parametrize("flags", [(), ("--no-own-core",)], ids=["own core", "none"])
def test_a_daemon_divides_the_cores_while_it_is_busy(serve, flags) -> None:
    daemon = serve(*flags)
    pid, end = daemon.process.pid, threading.Event()
    batch = b"".join(b"%+d %d:1 %d:0.5\n" % (1 - 2 * (i % 2), i, i + 7) for i in range(3000))

    def flood() -> None:
        with daemon.client() as c:
            while not end.is_set():
                c.send({"text": batch})

    client = daemon.client()
    assert client.config()["own_core"] == (not flags)
    sender = threading.Thread(target=flood)
    sender.start()
    try:
        if flags:
            until(lambda: client.status()["t"] > 200 * 3000)
            assert not is_divided(pid)
        else:
            until(lambda: is_divided(pid))
    finally:
        end.set()
        sender.join()
    until(lambda: all(found == ALL for found in affinities(pid)))
    daemon.stop()
