"""Secure by default: who is not on the list does not come in, who is does what its roles allow."""

from __future__ import annotations

import itertools
import signal
import stat

import numpy as np
import pytest
import zmq

from daemon.conftest import PATIENCE, status_when, until
from streamlearn import wire
from streamlearn.client import Client
from streamlearn.errors import ConfigError, Unavailable
from streamlearn.keys import KeyFolder, new_pair, read_secret, write_secret
from streamlearn.wire import Refusal

CLIENTS = {"alice": ["learn", "predict"], "bob": ["predict"], "carl": ["learn"], "root": ["admin"]}
TEXT = "+1 1:1\n-1 2:1\n"
AT_ONCE = 5.0  # seconds; one where nothing else runs


@pytest.fixture
def keys(tmp_path):
    """A folder of keys; the secrets lie beside it."""
    folder = KeyFolder(str(tmp_path / "keys"))
    for name, roles in CLIENTS.items():
        folder.add(name, roles, tmp_path / f"{name}.secret")
    return folder


@pytest.fixture
def daemon(serve, keys):
    return serve("--keys", "keys")


def secret(keys, name):
    return str(keys.path.parent / f"{name}.secret")


def test_each_does_what_its_roles_allow_and_no_more(daemon, keys):
    with daemon.client(key=secret(keys, "alice")) as c:
        assert c.learn(TEXT)["learned"] == 2
        assert np.isfinite(c.margins(TEXT, live=True)).all()
        with pytest.raises(Refusal, match="AUTH: shutdown needs the role admin"):
            c.shutdown()
    with daemon.client(key=secret(keys, "bob")) as c:
        assert c.status()["learned"] == 2
        with pytest.raises(Refusal, match="AUTH: learn needs the role learn"):
            c.learn(TEXT)
    with daemon.client(key=secret(keys, "carl")) as c:
        c.learn(TEXT)
        for ask in (c.status, c.snapshot, c.config, lambda: c.margins(TEXT)):
            with pytest.raises(Refusal, match="AUTH"):
                ask()
    with daemon.client(key=secret(keys, "root")) as c:
        assert c.status()["learned"] == 4
        c.shutdown()
    daemon.ended()


def connected(daemon, socket, pair, server):
    socket.linger = 0
    if pair:
        socket.curve_publickey, socket.curve_secretkey = pair.public, pair.secret
        socket.curve_serverkey = server
    return socket


def test_strangers_reach_no_handler(daemon, keys):
    """No key, a key that is not on the list, the wrong key of the daemon: nothing gets through."""
    message = wire.pack({"v": 1, "id": 1, "do": "learn", "text": TEXT.encode()})
    server = keys.server().public
    with daemon.client(key=secret(keys, "root")) as c, zmq.Context() as context:
        sockets, asked = [], c.status()["requests"]
        for number in range(60):
            pair, known = ((None, server), (new_pair(), server), (new_pair(), new_pair().public))[
                number % 3
            ]
            for kind, door in ((zmq.DEALER, "requests"), (zmq.PUSH, "feed")):
                socket = connected(daemon, context.socket(kind), pair, known)
                socket.connect(daemon.endpoints[door])
                socket.send(message if kind == zmq.DEALER else TEXT.encode())
                sockets.append(socket)
        # 20 strangers have a pair of their own, at two doors each; each is asked about by name.
        own = itertools.count(asked + 1)
        status = status_when(c, lambda status: next(own) and status["refused_keys"] >= 40)
        assert status["requests"] == next(own) - 1  # all of them were our own
        assert status["received"] == status["feed_messages"] == 0
        for socket in sockets:
            socket.close()
    daemon.wait_for("refused a key from 127.0.0.1")


def test_feed_and_publications_need_their_roles(daemon, keys):
    server = keys.server().public
    with daemon.client(key=secret(keys, "alice")) as c, zmq.Context() as context:
        for name, door, kind in (("bob", "feed", zmq.PUSH), ("carl", "publish", zmq.SUB)):
            pair = read_secret(keys.path.parent / f"{name}.secret")
            socket = connected(daemon, context.socket(kind), pair, server)
            if kind == zmq.SUB:
                socket.subscribe(b"")
            count = c.status()["refused_keys"]
            socket.connect(daemon.endpoints[door])
            if kind == zmq.PUSH:
                socket.send(TEXT.encode())
            status_when(c, lambda status, count=count: status["refused_keys"] > count)
            socket.close()
        c.feed(TEXT.encode())
        status = status_when(c, lambda status: status["learned"] == 2)
        assert status["subscribers"] == 0
        assert status["feed_messages"] == 1


def test_a_revoked_key_is_out_at_once(daemon, keys):
    with daemon.client(key=secret(keys, "alice")) as c:
        c.learn(TEXT)
        keys.revoke("alice")
        daemon.signal(signal.SIGHUP)
        daemon.wait_for("3 keys are on the list")
        with pytest.raises(Refusal, match="AUTH: this key is not on the list any more"):
            c.learn(TEXT)
    with pytest.raises(Unavailable), daemon.client(key=secret(keys, "alice"), timeout=1) as c:
        c.status()
    with daemon.client(key=secret(keys, "bob")) as c:
        assert c.status()["learned"] == 2


def test_a_name_that_is_given_anew_does_not_let_the_old_key_in(daemon, keys):
    with daemon.client(key=secret(keys, "alice")) as c:
        c.learn(TEXT)
        keys.revoke("alice")
        keys.add("alice", ["learn"], keys.path.parent / "new-alice.secret")
        daemon.signal(signal.SIGHUP)
        daemon.wait_for("4 keys are on the list")
        with pytest.raises(Refusal, match="AUTH: this key is not on the list any more"):
            c.learn(TEXT)
    with daemon.client(key=secret(keys, "new-alice")) as c:
        assert c.learn(TEXT)["learned"] == 2


def test_a_key_is_revoked_though_the_settings_cannot_be_read(serve, keys, tmp_path):
    config = tmp_path / "serve.toml"
    config.write_text("")
    daemon = serve("--keys", "keys", "--config", config)
    keys.revoke("alice")
    config.write_text("nonsense\n")
    daemon.signal(signal.SIGHUP)
    daemon.wait_for("settings stay as they are")
    with pytest.raises(Unavailable), daemon.client(key=secret(keys, "alice"), timeout=1) as c:
        c.learn(TEXT)


@pytest.mark.parametrize("transport", ["tcp", "ipc"])
def test_a_revoked_key_follows_no_more_and_the_others_go_on(serve, keys, tmp_path, transport):
    """All subscribers are cut off; those on the list come back by themselves."""
    place = f"ipc://{tmp_path}/published" if transport == "ipc" else "tcp://127.0.0.1:*"
    daemon = serve("--keys", "keys", "--bind-publish", place, "--publish-every", "0.01s")
    server = keys.server().public
    with daemon.client(key=secret(keys, "root")) as c, zmq.Context() as context:
        followers = {}
        for name in ("alice", "bob"):
            pair = read_secret(keys.path.parent / f"{name}.secret")
            follower = followers[name] = connected(daemon, context.socket(zmq.SUB), pair, server)
            follower.subscribe(wire.SNAPSHOT_TOPIC)
            follower.connect(daemon.endpoints["publish"])
            assert follower.poll(int(1000 * PATIENCE))
            follower.recv_multipart()
        keys.revoke("alice")
        count = c.status()["refused_keys"]
        daemon.signal(signal.SIGHUP)
        status_when(c, lambda status: status["refused_keys"] > count)  # alice has come back
        # So does bob, who looks now and then: libzmq subscribes again only while it is looked at.
        until(lambda: followers["bob"].poll(10) or c.status()["subscribers"])
        while followers["alice"].poll(0):
            followers["alice"].recv_multipart()
        t = c.learn(TEXT)["t"]
        until(lambda: wire.unpack(followers["bob"].recv_multipart()[1])["t"] == t)
        assert not followers["alice"].poll(0)
        for follower in followers.values():
            follower.close()


@pytest.mark.parametrize("place", ["tcp://0.0.0.0:7311", "tcp://*:7311", "tcp://[::]:7311"])
@pytest.mark.parametrize("flag", ["--bind", "--bind-feed", "--bind-publish"])
def test_the_world_is_not_listened_to_without_keys(run, flag, place):
    shown = run("serve", flag, place, code=78, timeout=AT_ONCE)
    assert "streamlearn keys new" in shown.stderr
    assert place in shown.stderr


def test_secrets_are_for_their_owner_only(tmp_path, keys):
    for path in (keys.server_path, tmp_path / "alice.secret"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.chmod(0o640)
        with pytest.raises(ConfigError, match="chmod 600"):
            read_secret(path)
    assert "secret" not in repr(new_pair())


def test_a_daemon_refuses_a_key_folder_that_others_read(run, keys):
    keys.server_path.chmod(0o644)
    assert "chmod 600" in run("serve", "--keys", "keys", code=78, timeout=AT_ONCE).stderr


def test_keys_appear_in_no_log_and_no_status(serve, keys):
    daemon = serve("--keys", "keys", "--log-level", "debug")
    with daemon.client(key=secret(keys, "root")) as c:
        told = repr((c.status(), c.config(), c.ping(), c.help()))
        c.shutdown()
    told += daemon.ended()
    for path in (keys.server_path, *keys.path.parent.glob("*.secret")):
        pair = read_secret(path)
        assert pair.secret.decode() not in told
        assert pair.public.decode() not in told


def test_keys_command(run, tmp_path):
    run("keys", "new", "alice")
    run("keys", "new", "bob", "--role", "predict", "-o", "b")
    assert run("keys", "list").stdout == b"alice learn,predict\nbob predict\n"
    assert "has a key already" in run("keys", "new", "alice", "-o", "c", code=73).stderr
    assert "never overwritten" in run("keys", "new", "carl", "-o", "b", code=73).stderr
    assert run("keys", "list").stdout == b"alice learn,predict\nbob predict\n"
    run("keys", "revoke", "bob")
    assert run("keys", "list").stdout == b"alice learn,predict\n"
    assert "no client 'bob'" in run("keys", "revoke", "bob", code=66).stderr
    assert "no role 'king'" in run("keys", "new", "eve", "--role", "king", code=64).stderr
    assert "letters" in run("keys", "new", "../eve", code=64).stderr
    assert sorted(path.name for path in (tmp_path / "keys" / "clients").iterdir()) == ["alice.toml"]


@pytest.mark.parametrize("text", ["", "public = 3", 'public = "short"', "\x00", "= = ="])
def test_broken_key_files_are_errors_not_tracebacks(tmp_path, text):
    path = tmp_path / "x.secret"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError):
        read_secret(path)
    with pytest.raises(ConfigError):
        Client("tcp://127.0.0.1:9", key=str(path))


def test_pairs_are_kept_as_written(tmp_path):
    pair = new_pair(new_pair().public)
    write_secret(tmp_path / "a", pair)
    assert read_secret(tmp_path / "a") == pair
