"""The commands that talk to a daemon: send, predict, status, ping, checkpoint, shutdown, follow."""

from __future__ import annotations

import bz2
import gzip
import json
import re
import signal

import pytest

from daemon.conftest import adds_up, daemons, until
from streamlearn.wire import Refusal


@pytest.fixture(scope="module")
def daemon(tmp_path_factory, lines):
    """One that has learned all lines, for commands that only look."""
    with daemons(tmp_path_factory.mktemp("daemon")) as serve:
        daemon = serve()
        with daemon.client() as c:
            c.learn(b"".join(lines))
            c.snapshot()
        yield daemon


# ---- send ----------------------------------------------------------------------------------------


def test_send_from_a_pipe_and_files_plain_and_compressed(serve, run, tmp_path, rows, fitted):
    lines = rows(800, seed=6)
    daemon = serve()
    parts = [b"".join(lines[i : i + 200]) for i in range(0, 800, 200)]
    (tmp_path / "one.svm").write_bytes(parts[0].rstrip(b"\n"))  # no newline at its end
    (tmp_path / "two.gz").write_bytes(gzip.compress(parts[1]))
    (tmp_path / "three").write_bytes(bz2.compress(parts[2]))
    words = ("one.svm", "two.gz", "three", "-")
    sent = run("send", "--connect", daemon.endpoint, "--batch", "1k", *words, stdin=parts[3])
    assert sent.stdout == b""
    assert re.search(r"^ +800 +800 +0 ", sent.stderr, re.MULTILINE)
    with daemon.client() as c:
        status = c.status()
        assert (status["learned"], status["clients"]) == (800, 1)
        assert status["batches"] > 4
        assert adds_up(status)
        assert c.snapshot().to_bytes() == fitted(b"".join(lines)).to_bytes()


def test_send_tells_its_progress_to_machines(serve, run, lines):
    daemon = serve()
    words = ("send", "--connect", daemon.endpoint, "--progress")
    sent = run(*words, "jsonl", stdin=b"".join(lines * 3))
    figures = [json.loads(line) for line in sent.stderr.splitlines()]
    assert (figures[-1]["sent"], figures[-1]["learned"]) == (1800, 1800)
    assert run(*words, "none", stdin=b"".join(lines)).stderr == ""


def test_a_bad_line_stops_send_and_is_named(serve, run, tmp_path, lines, fitted):
    daemon = serve()
    good, bad = b"".join(lines[:300]), b"".join([*lines[:10], b"+1 7:x\n", *lines[10:]])
    (tmp_path / "good.svm").write_bytes(good)
    (tmp_path / "bad.svm").write_bytes(bad)
    words = ("send", "--connect", daemon.endpoint, "--progress", "none", "--batch", "100k")
    sent = run(*words, "good.svm", "bad.svm", code=65)
    assert "bad.svm:11:6: bad value 'x' for feature 7" in sent.stderr
    with daemon.client() as c:
        status = c.status()
        assert (status["learned"], status["rejected"]) == (300, len(lines) + 1)
        assert c.snapshot().to_bytes() == fitted(good).to_bytes()


def test_a_bad_line_deep_in_a_stream_has_its_own_number(serve, run, lines):
    daemon = serve()
    text = b"".join([*lines, *lines, b"+1 7:1 7:1\n"])
    words = ("send", "--connect", daemon.endpoint, "--progress", "none", "--batch", "2k")
    assert "<stdin>:1201:8: " in run(*words, stdin=text, code=65).stderr


def test_send_skips_bad_lines_when_told_to(serve, run, lines, fitted):
    daemon = serve()
    text = b"".join([*lines[:300], b"+1 7:x\nnonsense\n", *lines[300:]])
    words = ("send", "--connect", daemon.endpoint, "--batch", "4k", "--on-error", "skip")
    sent = run(*words, stdin=text)
    assert "<stdin>:301:6: bad value 'x' for feature 7" in sent.stderr
    with daemon.client() as c:
        assert (c.status()["learned"], c.status()["skipped"]) == (600, 2)
        expected = fitted(text, "--on-error", "skip").to_bytes()
        assert c.snapshot().to_bytes() == expected
    many = run(*words, "--max-errors", "1", stdin=text, code=65)
    assert "--max-errors is 1" in many.stderr


def test_send_without_acks_goes_through_the_feed(serve, run, lines, fitted):
    daemon = serve()
    run("send", "--connect", daemon.endpoint, "--no-ack", "--batch", "2k", stdin=b"".join(lines))
    with daemon.client() as c:
        until(lambda: c.status()["t"] == len(lines))
        assert c.status()["feed_messages"] > 1
        assert c.snapshot().to_bytes() == fitted(b"".join(lines)).to_bytes()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--batch", "huge"), 64),
        (("--on-error", "quarantine=aside.svm"), 64),
        (("missing.svm",), 66),
        (("-", "-"), 64),
    ],
)
def test_send_refuses_what_it_cannot_do(daemon, run, words, code):
    run("send", "--connect", daemon.endpoint, *words, stdin=b"1 1:1\n", code=code)


def test_send_that_is_interrupted_tells_what_was_acked(serve, start, lines):
    daemon = serve()
    sender = start("send", "--connect", daemon.endpoint, "--progress", "none")
    with daemon.client() as c:
        for upto in (300, 600):
            sender.write(b"".join(lines[upto - 300 : upto]))
            until(lambda: c.status()["t"] == upto)  # noqa: B023
        c.learn(lines[0])  # its ack is behind those of the sender
    sender.process.send_signal(signal.SIGINT)
    said = sender.finish(code=130).stderr
    assert "acked up to <stdin>:600: 600 learned, 0 skipped; of 600 lines sent" in said
    assert said.endswith("streamlearn: interrupted\n")


def test_send_whose_daemon_goes_away_tells_what_was_acked(serve, start, lines):
    daemon = serve()
    sender = start("send", "--connect", daemon.endpoint, "--progress", "none", "--timeout", "1")
    sender.write(b"".join(lines[:300]))
    with daemon.client() as c:
        until(lambda: c.status()["t"] == 300)
        c.learn(lines[0])
    daemon.process.kill()
    sender.write(b"".join(lines[300:]))
    sender.process.stdin.close()
    sender.process.stdin = None
    said = sender.finish(code=69).stderr
    assert "acked up to <stdin>:300: 300 learned" in said
    assert "no answer for 1 s" in said


def test_send_without_acks_claims_none(serve, start, lines):
    daemon = serve()
    sender = start("send", "--connect", daemon.endpoint, "--no-ack", "--progress", "none")
    sender.write(b"".join(lines))
    with daemon.client() as c:
        until(lambda: c.status()["t"] == 600)
    sender.process.send_signal(signal.SIGINT)
    assert "600 lines were sent and none acked" in sender.finish(code=130).stderr


def test_send_offers_only_what_it_does(run):
    said = run("send", "--help").stdout.decode()
    assert re.search(r"--on-error stop\|skip +a bad line: stop, or skip it", said)
    assert "quarantine" not in said


# ---- nobody there --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("send",),
        ("send", "--no-ack"),
        ("predict",),
        ("snapshot", "-o", "m.sl"),
        ("status",),
        ("ping",),
        ("checkpoint",),
        ("shutdown",),
        ("follow", "-o", "m.sl"),
    ],
    ids=" ".join,
)
def test_no_daemon_there(run, tmp_path, words):
    nowhere = ("--connect", f"ipc://{tmp_path}/nobody", "--timeout", "0.2")
    said = run(*words, *nowhere, stdin=b"1 1:1\n", code=69).stderr
    assert "nobody: no answer for 0.2 s; is the daemon running?" in said
    assert "streamlearn serve" in said
    assert not (tmp_path / "m.sl").exists()


def test_an_endpoint_that_is_none(run):
    assert "cannot connect to nonsense" in run("ping", "--connect", "nonsense", code=69).stderr


# ---- looking -------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", [None, "margin", "label"])
@pytest.mark.parametrize("live", [(), ("--live",)])
def test_a_daemon_predicts_what_its_model_predicts(daemon, run, data, output, live):
    what = ("--output", output) if output else ()
    with daemon.client() as c:
        c.snapshot(published=True).save(str(data.parent / "model.sl"))
    online = run("predict", "--connect", daemon.endpoint, *live, *what, data)
    assert online.stdout == run("predict", "-m", "model.sl", *what, data).stdout
    assert online.stdout.count(b"\n") == 600


def test_a_bad_line_to_predict_is_named(daemon, run, data):
    data.write_bytes(data.read_bytes() + b"1 1:x\n")
    said = run("predict", "--connect", daemon.endpoint, data, code=65).stderr
    assert "data.svm:601:5: bad value 'x'" in said


def test_counters_are_the_same_in_status_metrics_and_log(serve, run, lines):
    daemon = serve()
    at = ("--connect", daemon.endpoint)
    with daemon.client() as c:
        c.learn(b"".join(lines[:100]))
        c.learn(b"bad\n" + b"".join(lines[100:150]), on_error="skip")
        with pytest.raises(Refusal, match="BAD_LINE"):
            c.learn(b"bad\n" + lines[0])
        found = c.status()
    text = run("status", *at, "--metrics").stdout.decode()
    shown = dict(line.split() for line in text.splitlines() if not line.startswith("#"))
    names = ("received", "learned", "skipped", "rejected", "duplicate")
    assert [float(shown[f"streamlearn_{name}_total"]) for name in names] == [
        found[name] for name in names
    ] == [153, 150, 1, 2, 0]  # fmt: skip
    assert float(shown["streamlearn_healthy"]) == 1.0
    assert "# TYPE streamlearn_t gauge" in text
    told = daemon.stop().split("rows: ")[1].split("\n")[0]
    assert told == " ".join(f"{name}={found[name]}" for name in names)


def test_status_for_people_and_programs(daemon, run):
    found = json.loads(run("status", "--connect", daemon.endpoint, "--json").stdout)
    assert (found["t"], found["healthy"], found["pid"]) == (600, True, daemon.process.pid)
    lines = run("status", "--connect", daemon.endpoint).stdout.decode().splitlines()
    assert [line.split()[0] for line in lines] == list(found)
    shown = dict(line.split(None, 1) for line in lines)
    assert (shown["t"].strip(), shown["healthy"].strip(), shown["trouble"]) == ("600", "true", "-")


def test_ping_says_who_and_how_fast(daemon, run):
    said = run("ping", "--connect", daemon.endpoint).stdout.decode()
    pattern = rf"streamlearn \S+, process {daemon.process.pid}, protocol 1: [\d.]+ ms\n"
    assert re.fullmatch(pattern, said)


def test_follow_tells_two_daemons_of_equal_t_apart(serve, start, tmp_path, lines):
    other = serve("--state", "other")
    with other.client() as c:
        c.learn(b"".join(lines[300:]))
        expected = c.snapshot().to_bytes()
    other.stop()
    daemon = serve()
    with daemon.client() as c:
        c.learn(b"".join(lines[:300]))
        first = c.snapshot().to_bytes()
        follower = start("follow", "--connect", daemon.endpoint, "-o", "latest.sl")
        latest = tmp_path / "latest.sl"
        until(lambda: latest.exists() and latest.read_bytes() == first)
    daemon.process.kill()
    daemon.process.wait()
    place = daemon.endpoints
    serve("--state", "other", "--bind-publish", place["publish"], bind=place["requests"])
    until(lambda: latest.read_bytes() == expected)
    follower.process.send_signal(signal.SIGINT)
    follower.finish(code=130)


# ---- saving and ending ---------------------------------------------------------------------------


def test_checkpoint_without_a_folder(daemon, run):
    said = run("checkpoint", "--connect", daemon.endpoint, code=74).stderr
    assert "runs without a state folder; start with --state" in said


def test_checkpoint_and_shutdown(serve, run, lines, tmp_path):
    daemon = serve("--state", "state")
    at = ("--connect", daemon.endpoint)
    run("send", *at, stdin=b"".join(lines))
    assert run("checkpoint", *at).stdout == b"state/checkpoint.sl: 600 examples\n"
    first = (tmp_path / "state/checkpoint.sl").read_bytes()
    assert run("shutdown", *at).stdout == b"ended at 600 examples\n"
    daemon.ended()
    assert (tmp_path / "state/checkpoint.sl").read_bytes() == first  # there was nothing to add
