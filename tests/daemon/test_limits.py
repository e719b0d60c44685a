"""Limits on clients and rates: who is beyond them is told BUSY, counted, and served later."""

from __future__ import annotations

import resource
import signal

import pytest

from daemon.conftest import adds_up, until
from streamlearn.daemon import limits
from streamlearn.daemon.limits import IDLE_SECONDS, Limits
from streamlearn.wire import Refusal


def test_one_client_too_many_is_turned_away_until_another_falls_silent():
    bound = Limits(clients=2, rate=0)
    bound.admit("anna", 10, 0.0)
    bound.admit("bert", 10, 1.0)
    with pytest.raises(Refusal, match="BUSY: 2 clients are served, --max-clients"):
        bound.admit("carl", 10, 2.0)
    bound.admit("anna", 10, 50.0)
    bound.admit("carl", 10, 1.0 + IDLE_SECONDS)  # bert was silent for so long
    with pytest.raises(Refusal):
        bound.admit("bert", 10, 2.0 + IDLE_SECONDS)
    assert set(bound.peers) == {"anna", "carl"}
    assert bound.turned_away == 2


def test_each_client_has_a_rate_of_its_own():
    bound = Limits(clients=0, rate=100)
    bound.admit("anna", 60, 0.0)
    bound.admit("anna", 60, 0.0)  # overdrawn by 20
    with pytest.raises(Refusal, match="BUSY: more than 100 bytes a second") as refused:
        bound.admit("anna", 1, 0.1)
    bound.admit("bert", 100, 0.1)
    wait = refused.value.details["wait"]
    assert wait == pytest.approx(0.11)
    bound.admit("anna", 1, 0.1 + wait)


def test_over_a_long_time_the_rate_holds_whatever_the_sizes():
    bound = Limits(clients=0, rate=1000)
    sent, largest = 0, 5000
    for step in range(100_000):
        size = (step * 7919) % largest
        try:
            bound.admit("anna", size, step / 1000)
        except Refusal:
            continue
        sent += size
    assert 0.99 * 100 * 1000 < sent < 100 * 1000 + 1000 + largest


def test_without_bounds_nothing_is_kept():
    bound = Limits(0, 0)
    for number in range(100):
        bound.admit(number, 1 << 30, 0.0)
    assert not bound.peers


def test_silent_clients_are_forgotten_though_only_rates_are_bounded():
    bound = Limits(clients=0, rate=1000)
    for number in range(1000):
        bound.admit(number, 1, float(number))
    assert len(bound.peers) == IDLE_SECONDS


def test_a_process_may_open_all_the_files_it_can_and_warns_when_they_are_few(monkeypatch):
    asked = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 1000))
    monkeypatch.setattr(resource, "setrlimit", lambda which, pair: asked.append(pair))
    assert limits.allow_files(500) is None
    assert asked == [(1000, 1000)]
    assert "only 1000 files may be open here: too few for 4096 clients" in limits.allow_files(4096)


# ---- real daemons --------------------------------------------------------------------------------


def test_a_crowd_is_turned_away_and_a_place_that_is_given_up_is_taken(serve, lines, tmp_path):
    config = tmp_path / "serve.toml"
    config.write_text("max_clients = 2\n")
    daemon = serve("--config", config)
    one, two, late = daemon.client(), daemon.client(), daemon.client(timeout=0.3)
    assert one.learn(lines[0])["learned"] == two.learn(lines[1])["learned"] == 1
    with pytest.raises(Refusal, match="BUSY: 2 clients are served"):
        late.learn(lines[2])
    assert one.status()["busy"] > 1  # it asked again for as long as it had patience
    config.write_text("max_clients = 3\n")
    daemon.signal(signal.SIGHUP)
    daemon.wait_for("max_clients is now 3")
    assert late.learn(lines[2])["t"] == 3
    assert adds_up(one.status())


def test_a_client_that_is_too_fast_is_slowed_down_and_loses_nothing(serve, rows, fitted):
    lines = rows(600, 5)
    size = sum(map(len, lines))
    daemon = serve("--max-rate", str(size))  # all in about a second
    with daemon.client() as c:
        for start in range(0, len(lines), 10):
            c.send({"text": b"".join(lines[start : start + 10])})
        c.flush()
        for start in range(0, len(lines), 10):
            c.send({"text": b"".join(lines[start : start + 10])})
        c.flush()
        status = c.status()
        assert status["busy"] > 0
        assert status["learned"] == 1200
        assert adds_up(status)
        assert len(c.predict(b"".join(lines))) == 600
        model = until(c.snapshot)
    assert model.to_bytes() == fitted(b"".join(lines) * 2).to_bytes()
