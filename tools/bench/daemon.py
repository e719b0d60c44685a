"""The daemon on the loopback, in ratios measured in one run.

    batches   learning over ZeroMQ in 64 kB text batches, against `fit` from the same file
    feed      one example a message, against a bare loop that only receives; VW's daemon if there
    predict   round trip of one example while learning runs flat out, against a bare echo
    durability  1 MB batches with every ack synced, against none; recovery of what kill -9 left

Every part is repeated, the sides taking turns; medians and extremes are printed, and at the end
every goal, met or MISSED.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import zmq
from workloads import rcv1_like, short_rows, vw_form

from streamlearn import Client

ANYWHERE = "tcp://127.0.0.1:*"
# -P: what is installed, not the sources in the folder we are in.
STREAMLEARN = [sys.executable, "-P", "-m", "streamlearn"]


def begun(*flags: str) -> tuple[subprocess.Popen[str], dict[str, str], str]:
    """A daemon of our own that listens; its endpoints by name, and what it said until then."""
    words = ["--bind", ANYWHERE, "--bind-feed", ANYWHERE, "--bind-publish", ANYWHERE]
    process = subprocess.Popen(
        [*STREAMLEARN, "serve", *words, *flags], stderr=subprocess.PIPE, text=True
    )
    places: dict[str, str] = {}
    said = ""
    while len(places) < 3:
        line = process.stderr.readline()
        if not line:
            raise SystemExit(f"the daemon did not start: {said}")
        said += line
        for name in ("requests", "feed", "publish"):
            if f" {name} on " in line:
                places[name] = line.split(" on ")[1].split()[0]
    threading.Thread(target=process.stderr.read, daemon=True).start()
    return process, places, said


@contextmanager
def daemon(*flags: str) -> Iterator[dict[str, str]]:
    """One that is stopped in the end."""
    process, places, _ = begun(*flags)
    try:
        yield places
    finally:
        with suppress(Exception), Client(places["requests"], timeout=10) as c:
            c.shutdown()
        process.wait(20)


def seconds(words: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


# ---- batches -------------------------------------------------------------------------------------


def batches(folder: Path, repeats: int, algo: str) -> dict[str, float]:
    """All sides include the start of a Python that reads the file.

    The daemon reads and learns in one thread, since the sender needs the other core; so `fit` with
    one thread is measured, too.
    """
    path = rcv1_like(folder)
    size = path.stat().st_size / 1e6
    fit: dict[str, list[float]] = {"2": [], "1": []}
    send = []
    for _ in range(repeats):
        for threads, found in fit.items():
            found.append(seconds(
                [*STREAMLEARN, "fit", "--algo", algo, "--progress", "none", "--threads", threads,
                 "-o", str(folder / "m.sl"), str(path)]
            ))  # fmt: skip
        with daemon("--algo", algo) as places:
            send.append(seconds([*STREAMLEARN, "send", "--batch", "64k", "--progress", "none",
                                 "--connect", places["requests"], str(path)]))  # fmt: skip
            with Client(places["requests"]) as c:
                assert c.status()["learned"] == c.status()["t"] > 0
    ratios = {n: statistics.median(found) / statistics.median(send) for n, found in fit.items()}
    print(
        f"batches {algo}: fit {spread(fit['2'])} s, with one thread {spread(fit['1'])} s, "
        f"send {spread(send)} s, {size:.0f} MB"
    )
    print(
        f"batches {algo}: {100 * ratios['2']:.0f} % of fit's throughput, "
        f"{100 * ratios['1']:.0f} % of that of fit with one thread"
    )
    return {"batches": ratios["2"], "batches_one_thread": ratios["1"]}


# ---- feed ----------------------------------------------------------------------------------------


def push(endpoint: str, path: Path) -> None:
    """One line a message, as fast as Python can."""
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.sndhwm = 10_000
        socket.connect(endpoint)
        send = socket.send
        with open(path, "rb") as file:
            for line in file:
                send(line)
        socket.linger = -1


def receive(count: int) -> None:
    """The bare loop: bind, tell the port, take `count` messages, tell the seconds."""
    with zmq.Context() as context, context.socket(zmq.PULL) as socket:
        socket.rcvhwm = 10_000
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        print(port, flush=True)
        take = socket.recv
        take()
        begin = time.perf_counter()
        for _ in range(count - 1):
            take()
        print(time.perf_counter() - begin, flush=True)


def feed(folder: Path, repeats: int, algo: str) -> dict[str, float]:
    path, count = short_rows(folder)
    pushing = [sys.executable, __file__, "--push"]
    bare, ours, vw = [], [], []
    for _ in range(repeats):
        with subprocess.Popen(
            [sys.executable, __file__, "--receive", str(count)], stdout=subprocess.PIPE, text=True
        ) as taker:
            port = taker.stdout.readline().strip()
            subprocess.run([*pushing, f"tcp://127.0.0.1:{port}", str(path)], check=True)
            bare.append(count / float(taker.stdout.readline()))
        with daemon("--algo", algo) as places, Client(places["requests"]) as c:
            sender = subprocess.Popen([*pushing, places["feed"], str(path)])
            while not c.status()["t"]:
                time.sleep(0.0005)
            begin = time.perf_counter()
            while c.status()["t"] < count:
                time.sleep(0.002)
            ours.append(count / (time.perf_counter() - begin))
            sender.wait()
        if (rate := vw_rate(folder, path, count)) is not None:
            vw.append(rate)
    found = {"feed": statistics.median(ours) / statistics.median(bare)}
    print(f"feed {algo}: bare loop {rates(bare)}, daemon {rates(ours)} rows/s")
    print(f"feed {algo}: {100 * found['feed']:.0f} % of a loop that only receives")
    if vw:
        found["feed_vw"] = statistics.median(ours) / statistics.median(vw)
        print(f"feed {algo}: VW daemon, pipelined {rates(vw)} rows/s; {found['feed_vw']:.1f} times")
    else:
        print("feed: no VW command here to compare with")
    return found


def rates(values: list[float]) -> str:
    return f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def vw_rate(folder: Path, path: Path, count: int) -> float | None:
    """Rows a second of VW's daemon, the same rows written to its socket without waiting."""
    if not shutil.which("vw"):  # the Python package accepts connections but does not answer
        return None
    text = vw_form(path).read_bytes()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        ["vw", "--daemon", "--foreground", "--num_children", "1", "--port", str(port), "--quiet",
         "--loss_function", "logistic", "-b", "18"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                link = socket.create_connection(("127.0.0.1", port))
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    return None
        with link:
            begin = time.perf_counter()
            writer = threading.Thread(target=lambda: link.sendall(text), daemon=True)
            writer.start()
            answers = 0
            while answers < count:
                chunk = link.recv(1 << 16)
                if not chunk:
                    return None
                answers += chunk.count(b"\n")
            return count / (time.perf_counter() - begin)
    finally:
        process.terminate()
        process.wait(10)


# ---- predict -------------------------------------------------------------------------------------


TRIPS = 20_000  # more than a second: a sender that begins again and again is met at every stage


def echo() -> None:
    """The bare ROUTER: tell the port, send everything back."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        print(socket.bind_to_random_port("tcp://127.0.0.1"), flush=True)
        poller = zmq.Poller()
        poller.register(socket, zmq.POLLIN)
        while True:
            poller.poll()
            socket.send_multipart(socket.recv_multipart())


def round_trips(endpoint: str, message: bytes, count: int) -> list[float]:
    times = []
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.connect(endpoint)
        socket.send(message)
        socket.recv()
        for _ in range(count):
            begin = time.perf_counter()
            socket.send(message)
            socket.recv()
            times.append(time.perf_counter() - begin)
        socket.linger = 0
    return sorted(times)


def predict(folder: Path, repeats: int, algo: str) -> dict[str, float]:
    path = rcv1_like(folder)
    line = path.open("rb").readline()
    from streamlearn import wire

    message = wire.pack({"v": 1, "id": 1, "do": "predict", "text": line})
    ours: list[list[float]] = []
    bare: list[list[float]] = []
    with (
        daemon("--algo", algo) as places,
        subprocess.Popen(
            [sys.executable, __file__, "--echo"], stdout=subprocess.PIPE, text=True
        ) as echoing,
    ):
        port = echoing.stdout.readline().strip()
        sending = subprocess.Popen(
            ["sh", "-c", 'while :; do "$@" || exit; done', "sh", *STREAMLEARN, "send", "--progress",
             "none", "--connect", places["requests"], str(path)],
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            with Client(places["requests"]) as c:
                while not c.status()["t"]:
                    time.sleep(0.01)
            for _ in range(repeats):
                ours.append(round_trips(places["requests"], message, TRIPS))
                bare.append(round_trips(f"tcp://127.0.0.1:{port}", message, TRIPS))
        finally:
            os.killpg(sending.pid, 15)
            sending.wait()
            echoing.terminate()
    found = {}
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        of = [[run[int(share * len(run))] * 1e3 for run in side] for side in (ours, bare)]
        found[f"predict_{name}"] = statistics.median(of[0]) / statistics.median(of[1])
        print(
            f"predict {name}: daemon {spread(of[0])} ms, echo {spread(of[1])} ms, "
            f"{found[f'predict_{name}']:.2f} times"
        )
    return found


# ---- durability ----------------------------------------------------------------------------------


def durability(folder: Path, repeats: int, algo: str) -> dict[str, float]:
    """What a killed daemon left is replayed by a command, then recovered by the next daemon."""
    path = rcv1_like(folder)
    text, journal = path.stat().st_size / 1e6, 0.0
    speeds: dict[str, list[float]] = {"always": [], "none": [], "replay": [],
                                     "start": [], "recovery": []}  # fmt: skip
    for _ in range(repeats):
        for policy in ("none", "always"):
            with tempfile.TemporaryDirectory(dir=folder) as place:
                # No checkpoint comes between: all of the file is in the journal when it is killed.
                flags = ("--algo", algo, "--state", place, "--durability", policy,
                         "--checkpoint-every", "0", "--journal-bytes", "4G")  # fmt: skip
                process, places, _ = begun(*flags)
                try:
                    speeds[policy].append(text / seconds(
                        [*STREAMLEARN, "send", "--batch", "1M", "--progress", "none",
                         "--connect", places["requests"], str(path)]
                    ))  # fmt: skip
                    with Client(places["requests"]) as c:
                        t = c.status()["t"]
                finally:
                    process.kill()
                    process.wait()
                if policy == "always":
                    journal = sum(file.stat().st_size for file in Path(place).glob("*.slj")) / 1e6
                    speeds["replay"].append(journal / seconds(
                        [*STREAMLEARN, "replay", place, "-o", str(folder / "m.sl")]
                    ))  # fmt: skip
                    begin = time.perf_counter()
                    process, places, said = begun(*flags)
                    speeds["start"].append(journal / (time.perf_counter() - begin))
                    own = re.search(r"recovered .* of journal in ([\d.]+) s", said)
                    speeds["recovery"].append(journal / max(float(own[1]), 0.01))
                    with Client(places["requests"]) as c:
                        assert c.status()["t"] == t > 0
                    process.kill()
                    process.wait()
    middle = {name: statistics.median(found) for name, found in speeds.items()}
    found = {"durability_always": middle["always"] / middle["none"]}
    found |= {f"durability_{name}": middle[name] for name in ("recovery", "replay", "start")}
    pairs = [a / n for a, n in zip(speeds["always"], speeds["none"], strict=True)]
    shown = {name: f"{statistics.median(x):.0f} ({min(x):.0f} to {max(x):.0f}) MB/s"
             for name, x in speeds.items()}  # fmt: skip
    print(f"durability {algo}: {text:.0f} MB: always {shown['always']}, none {shown['none']}")
    print(
        f"durability {algo}: always is {100 * found['durability_always']:.0f} % of none "
        f"({100 * min(pairs):.0f} to {100 * max(pairs):.0f} from pair to pair)"
    )
    print(
        f"durability {algo}: recovery of {journal:.0f} MB of journal: {shown['recovery']}; with "
        f"the start of Python, `replay` {shown['replay']}, `serve` until it listens and has "
        f"written a checkpoint {shown['start']}"
    )
    return found


# What is asked of each figure: at least, or at most; and what is aimed at.
GOALS: dict[str, tuple[str, float, float | None]] = {
    "batches": (">=", 0.6, 0.8),
    "feed": (">=", 0.4, 0.6),
    "feed_vw": (">=", 3.0, None),
    "predict_p50": ("<=", 2.0, None),
    "predict_p99": ("<=", 5.0, None),
    "durability_always": (">=", 0.5, None),
    "durability_recovery": (">=", 200.0, None),
}


def show_goals(found: dict[str, float]) -> None:
    print(f"\n{'goals':<24} {'figure':>8}  asked")
    for name, (sign, asked, aim) in GOALS.items():
        if name in found:
            figure = found[name]
            met = figure >= asked if sign == ">=" else figure <= asked
            aimed = f", aim {aim:g}" if aim else ""
            word = "met" if met else "MISSED"
            print(f"{name:<24} {figure:>8.2f}  {f'{sign} {asked:g}{aimed}':<16} {word}")


PARTS = {"batches": batches, "feed": feed, "predict": predict, "durability": durability}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=f"{', '.join(PARTS)} (default: all)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--algo", default="averagesl")
    parser.add_argument("--folder", type=Path, help="keeps the data files (default: a new one)")
    parser.add_argument("--json", type=Path, help="save the ratios")
    for hidden in ("--push", "--receive", "--echo"):
        parser.add_argument(hidden, nargs="?", const=True, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.push:
        push(args.push, Path(args.parts[0]))
    elif args.receive:
        receive(int(args.receive))
    elif args.echo:
        echo()
    else:
        with tempfile.TemporaryDirectory() as scratch:
            folder = args.folder or Path(scratch)
            found = {}
            for part in args.parts or PARTS:
                found |= PARTS[part](folder, args.repeats, args.algo)
            show_goals(found)
            if args.json:
                args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
