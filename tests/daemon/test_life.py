"""How a daemon begins, and is told things by the system; test_stopping: how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket as sockets
import subprocess
import sys
from pathlib import Path

import pytest

from daemon.conftest import PATIENCE, environment, published_first, until
from daemon.test_stopping import NEVER, SLOW, WIDE, kept
from streamlearn import container
from streamlearn.catalogue import ALGORITHMS
from streamlearn.client import Client
from streamlearn.errors import Unavailable
from streamlearn.wire import Refusal

# ---- SIGHUP --------------------------------------------------------------------------------------


def test_sighup_takes_over_what_may_change(serve, tmp_path, lines):
    config = tmp_path / "serve.toml"
    config.write_text('publish_every = "100000s"\nlog_level = "warning"\nqueue_bytes = "1M"\n')
    daemon = serve("--config", config, listens=False, env={"STREAMLEARN_LOG_LEVEL": "info"})
    daemon.listen()
    with daemon.client() as c:
        published_first(c, lines[0])
        c.learn(b"".join(lines[1:]))
        assert c.status()["published_t"] == 1
        config.write_text("publish_every = nonsense\n")
        daemon.signal(signal.SIGHUP)
        daemon.wait_for("settings stay as they are")
        assert c.config()["publish_every"] == "100000s"
        config.write_text('publish_every = "0.01s"\nqueue_bytes = "2M"\n')
        daemon.signal(signal.SIGHUP)
        daemon.wait_for("publish_every is now 0.01s")
        daemon.wait_for("queue_bytes has changed; that needs a restart")
        until(lambda: c.status()["published_t"] == 600)
        assert c.config()["publish_every"] == "0.01s"
        assert c.config()["queue_bytes"] == 1 << 20
    assert "queue_bytes has changed" in daemon.stop()


def test_sighup_changes_how_much_is_logged(serve, tmp_path):
    config = tmp_path / "serve.toml"
    config.write_text('log_level = "info"\n')
    daemon = serve("--config", config)
    config.write_text('log_level = "error"\n')
    daemon.signal(signal.SIGHUP)
    daemon.wait_for("SIGHUP: reading the settings again")
    with daemon.client() as c:
        until(lambda: c.config()["log_level"] == "error")
    assert "stopping" not in daemon.stop()


def test_sighup_during_a_recovery_waits_until_somebody_listens(serve):
    daemon = serve(*SLOW, *NEVER, "--state", "state")
    with daemon.client() as c:
        c.learn(WIDE)
        c.learn(b"0 1:1\n1 2:1\n" * 1000)
    daemon.process.kill()
    daemon.ended(-signal.SIGKILL)
    daemon = serve("--state", "state", listens=False)
    blocked = Path("/proc", str(daemon.process.pid), "status")
    mask = 1 << (signal.SIGHUP - 1)
    until(lambda: int(blocked.read_text().split("SigBlk:")[1].split()[0], 16) & mask)
    daemon.signal(signal.SIGHUP)
    assert "requests on" not in "".join(daemon.log)
    daemon.listen()
    daemon.wait_for("SIGHUP: reading the settings again")
    with daemon.client() as c:
        assert c.status()["t"] == 2001


def test_sighup_without_a_file_changes_nothing(serve):
    daemon = serve()
    daemon.signal(signal.SIGHUP)
    daemon.wait_for("reading the settings again")
    with daemon.client() as c:
        assert c.status()["healthy"]
    assert "is now" not in daemon.stop()


# ---- the service manager -------------------------------------------------------------------------


def test_the_service_manager_hears_of_it(serve, tmp_path):
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE)
        told = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "400000"}
        daemon = serve(env=told)
        assert manager.recv(100) == b"READY=1"
        assert {manager.recv(100) for _ in range(4)} == {b"WATCHDOG=1"}
        daemon.signal(signal.SIGTERM)
        while (word := manager.recv(100)) == b"WATCHDOG=1":
            pass
        assert word == b"STOPPING=1"
        daemon.ended()


def test_an_abstract_address_and_no_watchdog(serve):
    name = f"streamlearn-test-{os.getpid()}"
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}")
        manager.settimeout(PATIENCE)
        daemon = serve(env={"NOTIFY_SOCKET": f"@{name}"})
        assert manager.recv(100) == b"READY=1"
        daemon.signal(signal.SIGTERM)
        assert manager.recv(100) == b"STOPPING=1"
        daemon.ended()


def test_a_manager_that_is_not_there_is_no_reason_not_to_run(serve, tmp_path):
    daemon = serve(env={"NOTIFY_SOCKET": str(tmp_path / "nobody"), "WATCHDOG_USEC": "1000"})
    daemon.stop()


# ---- the state folder ----------------------------------------------------------------------------


def test_a_folder_belongs_to_one_daemon(serve, lines):
    first = serve("--state", "state")
    second = serve("--state", "state", listens=False)
    log = second.ended(code=75)
    assert f"in use by the daemon with process id {first.process.pid}" in log
    with first.client() as c:
        c.learn(lines[0])
        c.checkpoint()
    first.process.kill()
    first.process.wait()
    third = serve("--state", "state")  # a lock does not outlive its owner
    with third.client() as c:
        assert c.status()["t"] == 1


def test_checkpoints_come_by_themselves(serve, lines, tmp_path, fitted):
    daemon = serve("--state", "state", "--checkpoint-every", "0.05s")
    with daemon.client() as c:
        c.learn(b"".join(lines))
        until(lambda: c.status()["checkpoint_t"] == 600)
        assert c.status()["state"] == "state"
    daemon.process.kill()
    daemon.process.wait()
    expected = fitted(b"".join(lines)).to_bytes()
    assert kept(tmp_path / "state").model().to_bytes() == expected


def test_a_damaged_checkpoint_is_refused_by_name(serve, lines, tmp_path):
    daemon = serve("--state", "state")
    with daemon.client() as c:
        c.learn(b"".join(lines))
    daemon.stop()
    path = tmp_path / "state" / "checkpoint.sl"
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:5000] + b"x" + whole[5001:], b"", b"not a checkpoint"):
        path.write_bytes(damaged)
        assert "state/checkpoint.sl: " in serve("--state", "state", listens=False).ended(code=65)
        assert path.read_bytes() == damaged
    path.write_bytes(container.pack("streamlearn-model", {}))  # of ours, but not this one
    assert "streamlearn-checkpoint" in serve("--state", "state", listens=False).ended(code=65)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--algo", "averagesl"), "--algo averagesl: the state state/checkpoint.sl was learned"),
        (("--evidence", "5"), "--evidence 5: the state"),
        (("--normalize", "l2"), "--normalize l2"),
        (("--labels", "2,3"), "--labels 2,3"),
        (("--l2", "0.5"), "--l2"),
    ],
)
def test_settings_that_contradict_the_state_are_refused(serve, learned, tmp_path, flags, words):
    (tmp_path / "state").mkdir()
    training = (learned / "state.sl").read_bytes()
    body = {"streamlearn": "0", "frame": 0, "sessions": [], "counts": {}, "training": training}
    (tmp_path / "state" / "checkpoint.sl").write_bytes(
        container.pack("streamlearn-checkpoint", body)
    )
    assert words in serve("--state", "state", *flags, listens=False).ended(code=64)


def test_state_in_an_impossible_place(serve, tmp_path):
    (tmp_path / "file").write_text("")
    log = serve("--state", "file/state", listens=False).ended(code=73)
    assert "file/state: cannot keep state there" in log


# ---- beginning -----------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", [name for name, a in ALGORITHMS.items() if a.batch])
def test_algorithms_that_need_all_data_are_refused(serve, algo):
    loss = (ALGORITHMS[algo].losses or ("logistic",))[0]
    refused = serve("--algo", algo, "--loss", loss, listens=False).ended(code=64)
    assert "a stream has no end" in refused


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (("--bind", "somewhere"), 64),
        (("--publish-every", "0"), 64),
        (("--queue-bytes", "many"), 64),
        (("--log-level", "loud"), 64),
        (("--passes", "2"), 64),
        (("--config", "missing.toml"), 66),
        (("--bind-feed", "tcp://192.0.2.1:5555"), 78),
        (("--bind", "ipc:///no/such/folder/socket"), 69),
    ],
)
def test_what_cannot_be_is_refused_at_the_start(serve, flags, code):
    serve(*flags, listens=False).ended(code, within=5.0)


def test_a_port_in_use_is_told_with_a_hint(serve):
    daemon = serve()
    log = serve(bind=daemon.endpoint, listens=False).ended(code=69)
    assert f"cannot listen on {daemon.endpoint}: Address already in use" in log
    assert "--bind" in log


def test_several_endpoints_and_ipc(serve, tmp_path, lines):
    path = tmp_path / "requests"
    places = f"tcp://127.0.0.1:*,ipc://{path},tcp://127.0.0.1:*"
    publish = f"ipc://{tmp_path}/publish"
    serve("--bind-publish", publish, "--bind-feed", f"ipc://{tmp_path}/feed", bind=places)
    with Client(f"ipc://{path}", timeout=PATIENCE) as c:
        told = c.ping()["endpoints"]
        assert [place.split(":")[0] for place in told["requests"]] == ["tcp", "ipc", "tcp"]
        assert c.learn(lines[0])["t"] == 1
        c.feed(lines[1])
        until(lambda: c.status()["t"] == 2)
        assert c.place("publish") == publish
        for place in told["requests"]:
            with Client(place, timeout=PATIENCE) as other:
                assert other.status()["t"] == 2
        with Client(told["requests"][0]) as other, pytest.raises(Unavailable, match="no feed"):
            other.feed(b"")


def test_an_ipc_path_is_not_taken_from_a_living_daemon(serve, tmp_path):
    place = f"ipc://{tmp_path}/requests"
    first = serve(bind=place)
    assert "Address already in use" in serve(bind=place, listens=False).ended(code=69)
    with Client(place, timeout=PATIENCE) as c:
        assert c.ping()["pid"] == first.process.pid
    first.process.kill()
    first.process.wait()
    third = serve(bind=place)  # what a dead one left behind is no hindrance
    with Client(place, timeout=PATIENCE) as c:
        assert c.ping()["pid"] == third.process.pid


def test_default_endpoints_are_in_a_folder_of_the_user(tmp_path, run):
    """Only the refusal is tested here: default ports may be in use on this machine."""
    (tmp_path / "run").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "run" / "streamlearn").symlink_to(tmp_path / "other")
    result = run("serve", env={"XDG_RUNTIME_DIR": str(tmp_path / "run")}, code=78)
    assert "belongs to somebody else; use --bind" in result.stderr


# ---- the log -------------------------------------------------------------------------------------


def test_a_start_that_fails_is_told_in_json_too(serve):
    daemon = serve("--log", "json", "--algo", "scd", listens=False)
    (line,) = daemon.ended(64).removesuffix("\n<end>").splitlines()
    assert json.loads(line)["message"].startswith("--algo scd needs all examples")


@pytest.mark.parametrize("path", ["ipc://" + "x" * 200, "ipc:///nowhere/requests"])
def test_an_ipc_path_that_cannot_be_is_told_without_a_guess(serve, path):
    log = serve(bind=path, listens=False).ended(69)
    assert f"cannot listen on {path}: " in log
    assert "another daemon" not in log


def test_the_counters_are_logged_in_the_end_as_status_told_them(serve, lines):
    daemon = serve()
    with daemon.client() as c:
        c.learn(b"".join(lines))
        c.learn(b"+1 1:1\n1 2:x\n", on_error="skip")
        with pytest.raises(Refusal, match="BAD_LINE"):
            c.learn(b"1 x:1\n")
        for _ in range(2):
            c.request("learn", text=lines[0] + lines[1], client="anna", seq=1)
        status = c.status()
    parts = ("received", "learned", "skipped", "rejected", "duplicate")
    assert [status[name] for name in parts] == [607, 603, 1, 1, 2]
    told = " ".join(f"{name}={status[name]}" for name in parts)
    assert daemon.stop().count(f"info: rows: {told}\n") == 1


def test_json_lines_parse(serve, lines):
    daemon = serve("--log", "json", "--state", "state", listens=False)
    where = json.loads(daemon.wait_for("requests on "))["message"].split()[-1]
    with Client(where, timeout=PATIENCE) as c:
        c.learn(b"".join(lines))
        c.shutdown()
    daemon.ended()
    events = [json.loads(line) for line in daemon.log if line != "<end>"]
    assert all(set(e) == {"time", "level", "message"} for e in events)
    assert {e["level"] for e in events} == {"info"}
    assert events[-1]["message"] == "stopped at 600 examples"


def test_quiet_when_told_to_be(serve, tmp_path):
    daemon = serve("--log-level", "error", bind=f"ipc://{tmp_path}/requests", listens=False)
    with Client(f"ipc://{tmp_path}/requests", timeout=PATIENCE) as c:
        c.shutdown()
    daemon.ended()
    assert daemon.log == ["<end>"]


@pytest.mark.parametrize("how", ["closed", "reader gone", "full"])
def test_nobody_reads_its_log(tmp_path, lines, how):
    """stderr closed from the start (2>&-), its reader gone, or a device that is full."""
    place = f"ipc://{tmp_path}/requests"
    flags = ["--bind", place, "--bind-feed", f"ipc://{tmp_path}/feed",
             "--bind-publish", f"ipc://{tmp_path}/publish", "--state", "state"]  # fmt: skip
    aims = {"closed": "2>&-", "reader gone": "", "full": "2>/dev/full"}
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen(
        ["sh", "-c", f'exec "$@" {aims[how]}', "sh",
         sys.executable, "-m", "streamlearn", "serve", *flags],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writer, cwd=tmp_path,
        env=environment(),
    )  # fmt: skip
    os.close(writer)
    try:
        with Client(place, timeout=PATIENCE) as c:
            c.learn(b"".join(lines[:300]))
            c.feed(b"bad\n" + b"".join(lines[300:]))  # a warning
            until(lambda: c.status()["t"] == 600)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
    assert kept(tmp_path / "state").learner.t == 600
