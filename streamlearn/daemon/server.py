"""The poll thread: owns the sockets, hands work to the learning thread, answers the rest itself.

    requests  ROUTER  one msgpack map each way; pipelining, many clients
    feed      PULL    libsvm lines, not acknowledged; not read while the inbox is full
    publish   XPUB    handed to the publishing thread
"""

from __future__ import annotations

import errno
import gc
import logging
import os
import signal
import socket as sockets
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import zmq

from streamlearn import wire
from streamlearn.daemon.commands import check_role, perform
from streamlearn.daemon.cores import Cores
from streamlearn.daemon.guard import Guard
from streamlearn.daemon.inbox import Inbox
from streamlearn.daemon.learning import Answer, Ask, Every, Learn, Learning, ending, refusal
from streamlearn.daemon.ledger import Ledger
from streamlearn.daemon.limits import Limits
from streamlearn.daemon.notify import Manager
from streamlearn.daemon.predicting import Predicting
from streamlearn.daemon.publisher import Publisher
from streamlearn.daemon.state import StateFolder
from streamlearn.engine.block import Block
from streamlearn.engine.libsvm import Parser
from streamlearn.errors import IoFailure, StreamlearnError, Unavailable
from streamlearn.keys import KeyFolder
from streamlearn.wire import Refusal

log = logging.getLogger("streamlearn")

# As numbers: to combine libzmq's names for them takes as long as to send something.
AT_ONCE, MORE = int(zmq.NOBLOCK), int(zmq.NOBLOCK | zmq.SNDMORE)
EVENTS, READABLE = int(zmq.EVENTS), int(zmq.POLLIN)
TURN = 64  # requests handled before looking at the other sockets again
FEED_MESSAGES, FEED_BYTES = 4096, 1 << 18  # of the feed, learned as one batch
JOB_BYTES = 1024  # what a request that waits takes besides its message
LARGE = 1 << 16  # bytes of a reply beyond which it is lent
LONGEST_ID = 128
REBIND_SECONDS = 5.0
ROWS = ("received", "learned", "skipped", "rejected", "duplicate")  # counters told in the end
PAUSE_SECONDS = 1.0  # until the feed is read again after lines of it could not be kept
LAST_SECONDS = 1.0  # of reading what the feed had brought when a stop came
DRAIN_SECONDS = 6.0  # after that, a stop sends back what is still queued; it ends within 10


@dataclass
class Options:
    """How a daemon runs; what it learns is in its Training."""

    requests: list[str]
    feed: list[str]
    publish: list[str]
    publish_every: Every = field(default_factory=lambda: Every(seconds=1.0))
    checkpoint_every: float = 60.0
    queue_bytes: int = 64 << 20
    max_message: int = wire.MAX_MESSAGE
    max_clients: int = 4096
    max_rate: int = 0  # bytes a second from each client
    own_core: bool = False  # for the learning thread, while it is busy
    manager: Manager = field(default_factory=Manager)
    keys: KeyFolder | None = None


class Server:
    """A daemon. `run` returns when it was stopped and everything is in order."""

    def __init__(
        self,
        ledger: Ledger,
        options: Options,
        folder: StateFolder | None = None,
        settings: dict[str, Any] | None = None,
        reload: Callable[[Server], None] | None = None,
        max_nonzeros: int | None = None,
    ) -> None:
        self.options, self.folder, self.settings = options, folder, settings or {}
        self.reload = reload
        self.max_message = options.max_message
        self.reader, self.block = Parser("any"), Block()
        self.inbox = Inbox(options.queue_bytes)
        self.limits = Limits(options.max_clients, options.max_rate)
        self.replies: deque[tuple[list[bytes], Any, bytes | dict[str, Any]]] = deque()
        self.awake = False
        self.counting = threading.Lock()
        self.began = time.time()
        self.busy = self.bad_frames = self.lost_replies = self.requests_seen = 0
        self.predictions = self.feed_messages = self.feed_skipped = self.feed_lost = 0
        self.feed_at = 0.0  # when the feed may be read again
        self.rates: deque[tuple[float, int]] = deque(maxlen=12)
        self.stopping: float | None = None  # when to stop draining
        self.stop_answers: list[Answer] = []
        self.finished = False
        self.abandoned = False  # threads may be anywhere: leave them and their sockets alone
        self.failure: BaseException | None = None

        self.guard = Guard(options.keys) if options.keys else None
        self.sockets: list[zmq.Socket] = []  # of the poll thread
        self.context = zmq.Context()
        self.context.set(zmq.MAX_SOCKETS, 65536)
        if self.guard:
            self.guard.start(self.context)
        # Plain sockets: one of libzmq's cost each round of the poll loop 5 us.
        self.woken, self.waker = sockets.socketpair()
        self.woken.setblocking(False)
        self.waker.setblocking(False)
        self.endpoints: dict[str, list[str]] = {}
        self.router = self.bound(zmq.ROUTER, "requests", options.requests)
        self.feed = self.bound(zmq.PULL, "feed", options.feed)
        publishing = self.bound(zmq.XPUB, "publish", options.publish)
        self.sockets.remove(publishing)
        self.predicting = Predicting(options.queue_bytes, self.wake)
        self.learning = Learning(
            ledger,
            self.inbox,
            lambda published: self.publisher.announce(published),
            options.publish_every,
            folder,
            options.checkpoint_every,
            max_nonzeros,
            self.wake,
            Cores(options.own_core),
        )
        self.publisher = Publisher(
            self.context, publishing, self.learning.published.model, self.publish_again
        )

    # ---- sockets ---------------------------------------------------------------------------------

    def bound(self, kind: int, name: str, endpoints: list[str]) -> zmq.Socket:
        self.endpoints[name] = []
        socket = self.opened(kind, name, endpoints)
        self.sockets.append(socket)
        for endpoint in endpoints:
            try:
                if answers(endpoint):  # libzmq would take an ipc path away from its owner
                    raise zmq.ZMQError(errno.EADDRINUSE)
                socket.bind(endpoint)
                # A port given as * is known by now.
                self.endpoints[name].append(socket.getsockopt_string(zmq.LAST_ENDPOINT))
            except zmq.ZMQError as error:
                self.close()
                hint = "Choose other endpoints with --bind, --bind-feed and --bind-publish"
                if error.errno == errno.EADDRINUSE:
                    hint = f"is another daemon running? {hint}"
                raise Unavailable(
                    f"cannot listen on {endpoint}: {error.strerror}; {hint}"
                ) from error
        return socket

    def publish_again(self) -> zmq.Socket:
        """For the publishing thread, which has closed its socket: one at the same places."""
        socket = self.opened(zmq.XPUB, "publish", self.endpoints["publish"])
        for endpoint in self.endpoints["publish"]:
            deadline = time.monotonic() + REBIND_SECONDS
            while True:
                try:
                    if answers(endpoint):  # an ipc path could be taken over, and then be lost
                        raise zmq.ZMQError(errno.EADDRINUSE)
                    socket.bind(endpoint)
                    break
                except zmq.ZMQError:  # the old socket is closed behind our back, in its own time
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.002)
        return socket

    def opened(self, kind: int, name: str, endpoints: list[str]) -> zmq.Socket:
        """A socket with all that keeps us safe from those who connect."""
        socket = self.context.socket(kind)
        if self.guard:
            self.guard.lock(socket, name)
        # A peer that sends more is cut off, without a word: what is a little too large is heard.
        more = wire.MAX_FEED + (1 << 13) if kind == zmq.PULL else self.max_message + (1 << 20)
        socket.maxmsgsize = more
        socket.linger = 0
        socket.handshake_ivl = 5000
        # With a domain, libzmq refuses peers of ZMTP 1 and 2, for which any text at the port is
        # messages: lines that reached the feed from a plain connection were learned in pieces.
        if not self.guard:
            socket.zap_domain = b"streamlearn"
        socket.heartbeat_ivl, socket.heartbeat_timeout = 5000, 15000
        socket.ipv6 = any("[" in endpoint for endpoint in endpoints)
        if kind == zmq.ROUTER:
            socket.router_mandatory = 1  # a reply that cannot be delivered is an error, and counted
            socket.router_handover = 0
            socket.rcvhwm, socket.sndhwm = 256, 1000
        elif kind == zmq.PULL:
            socket.rcvhwm = 1000  # at 250 lines of one message each came 10 % slower
        elif kind == zmq.XPUB:
            socket.setsockopt(zmq.XPUB_VERBOSER, 1)  # each subscriber gets a whole model first
            socket.sndhwm = 8  # models; who misses one is told by the next, and asks for all of it
        return socket

    def close(self) -> None:
        """Ours; the other threads close their own when the context ends."""
        for socket in (*self.sockets, self.woken, self.waker):
            socket.close()
        self.context.term()

    # ---- the loop --------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until stopped. Raises whatever kept it from ending in order."""
        threads = [
            threading.Thread(target=self.guarded, args=(work,), name=name, daemon=True)
            for name, work in (
                ("learning", self.learn_all),
                ("predicting", self.predicting.run),
                ("publishing", self.publisher.run),
            )
        ]
        for thread in threads:
            thread.start()
        gc.freeze()  # what is here stays: to look for garbage among it held everybody up for 10 ms
        with Signals(self) as signals:
            for name, places in self.endpoints.items():  # from now on it can be told things
                log.info("%s on %s", name, " and ".join(places))
            self.options.manager.tell("READY=1")
            self.poll(signals)
        if not self.abandoned:
            for thread in threads:
                thread.join()
            self.flush()
            self.router.setsockopt(zmq.LINGER, 1000)  # the last replies
            self.close()
        counts = vars(self.learning.ledger.counts)
        log.info("rows: %s", " ".join(f"{name}={counts[name]}" for name in ROWS))
        if self.failure:
            raise self.failure

    def guarded(self, work: Callable[[], None]) -> None:
        """A thread that dies takes the daemon with it: no half-living process."""
        try:
            work()
        except BaseException:
            log.critical("a fault of the daemon: it ends", exc_info=True)
            self.failure = SystemExit(StreamlearnError.exit_code)
            self.finished = self.abandoned = True  # the poll thread looks once a second

    def learn_all(self) -> None:
        self.learning.run()
        self.predicting.close()
        self.publisher.close()
        self.finished = True
        self.wake()

    def poll(self, signals: Signals) -> None:
        poller = zmq.Poller()
        poller.register(self.woken, zmq.POLLIN)
        poller.register(signals.reader, zmq.POLLIN)
        poller.register(self.router, zmq.POLLIN)
        watched = False  # whether the feed is in the poller
        while not self.finished:
            readable = self.takes_feed
            if readable != watched:
                (poller.register if readable else poller.unregister)(self.feed)
                watched = readable
            ready = dict(poller.poll(self.patience))
            if self.woken.fileno() in ready:
                self.woken.recv(64)
                self.awake = False
            self.flush()
            if self.router in ready:
                self.take_requests()
            if watched and self.feed in ready:
                self.take_feed()
            if signals.reader.fileno() in ready:
                signals.handle()
            self.tick()

    @property
    def takes_feed(self) -> bool:
        """Nobody is told what became of a line: it stays with its sender while it would be lost."""
        return (
            self.inbox.has_room(FEED_BYTES)
            and not self.stopping
            and not self.learning.ended
            and time.monotonic() >= self.feed_at
        )

    @property
    def patience(self) -> int:
        """Milliseconds to wait for something to happen."""
        seconds = min(1.0, self.options.manager.seconds or 1.0)
        pause = self.feed_at - time.monotonic()
        return int(1000 * (min(seconds, pause + 0.001) if pause > 0.0 else seconds))

    def tick(self) -> None:
        now = time.monotonic()
        if not self.rates or now - self.rates[-1][0] >= 1.0:
            self.rates.append((now, self.learning.figures["t"]))
        self.options.manager.alive(now)
        if self.stopping and now > self.stopping and not self.learning.hurried:
            log.warning("not all is learned after %g s; the rest is sent back", DRAIN_SECONDS)
            self.learning.hurried = True

    # ---- requests --------------------------------------------------------------------------------

    def take_requests(self) -> None:
        receive = self.router.recv
        for _ in range(TURN):
            try:
                route = [receive(AT_ONCE)]
            except zmq.Again:
                return
            # Frame by frame: recv_multipart costs as much as handling a prediction does.
            frame, parts = receive(copy=False), 2
            if frame.more and not len(frame):
                route.append(b"")
            while frame.more:
                frame, parts = receive(copy=False), parts + 1
            self.requests_seen += 1
            self.handle(route, parts, frame)
            if not self.router.getsockopt(EVENTS) & READABLE:  # cheaper than to try in vain
                return

    def handle(self, route: list[bytes], parts: int, frame: zmq.Frame) -> None:
        """[peer, (empty,) request]: do it, or queue it, or say why not."""
        who = self.guard.who(frame) if self.guard else None
        body, number = frame.buffer, None
        # Whatever it is, it is charged for; who is turned away is told so under the request's id.
        too_many = self.limits.refused(
            who.name if who else route[0], len(body), time.monotonic()
        )
        try:
            if parts != len(route) + 1:
                raise Refusal("BAD_REQUEST", "a request is one frame, behind an empty one or not")
            if len(body) > self.max_message:
                raise Refusal(
                    "TOO_LARGE",
                    f"{len(body):,d} bytes; the limit is {self.max_message:,d}: send smaller "
                    "batches, or raise --max-message",
                )
            request = wire.unpack_request(body)
            number = request.get("id")
            if not (number is None or type(number) is int or is_short(number)):
                number = None
                raise Refusal(
                    "BAD_REQUEST", f"'id' is a whole number or a string of up to {LONGEST_ID}"
                )
            if too_many:
                raise too_many
            if self.guard:
                check_role(request.get("do"), who)
            tell = self.tell if request.get("do") == "learn" else self.answer
            answer = partial(tell, route, number)
            reply = perform(self, request, answer, len(body) + JOB_BYTES)
        except Refusal as error:
            self.bad_frames += error.code in ("BAD_REQUEST", "BAD_VERSION", "TOO_LARGE")
            reply = refusal(error)
        except Exception as error:  # one request must not end the service of all others
            log.exception("a request failed")
            reply = refusal(Refusal("INTERNAL", f"{type(error).__name__}; the log has more"))
        if reply is not None:
            self.send(route, number, packed(number, reply))

    def hand(self, job: Learn | Ask) -> None:
        """To the learning thread, if there is room."""
        if self.stopping:
            raise ending()
        if not self.inbox.has_room(job.size):
            raise self.busy_with(self.inbox)
        self.inbox.put(job)

    def busy_with(self, inbox: Inbox) -> Refusal:
        self.busy += 1
        return Refusal("BUSY", f"{inbox.held:,d} bytes are waiting; send again later")

    def count_predictions(self, rows: int) -> None:
        """From any thread."""
        with self.counting:
            self.predictions += rows

    def answer(self, route: list[bytes], number: Any, reply: dict[str, Any]) -> None:
        """From another thread: the poll thread will send it when it is woken."""
        self.replies.append((route, number, packed(number, reply)))

    def tell(self, route: list[bytes], number: Any, reply: dict[str, Any]) -> None:
        """The same for what is small: the poll thread, which has more time, makes the message."""
        self.replies.append((route, number, reply))

    def wake(self) -> None:
        """From another thread."""
        if not self.awake:
            self.awake = True
            with suppress(BlockingIOError):  # it is full of such words
                self.waker.send(b"\0")

    def flush(self) -> None:
        while self.replies:
            route, number, reply = self.replies.popleft()
            message = reply if isinstance(reply, bytes) else packed(number, reply)
            self.send(route, number, message)

    def send(self, route: list[bytes], number: Any, message: bytes) -> None:
        if len(message) > LARGE:  # nobody knows whether the peer reads: lend it only so much
            try:
                self.limits.lend(route[0], len(message), time.monotonic())
            except Refusal as error:
                message = packed(number, refusal(error))
        try:
            for frame in route:
                self.router.send(frame, MORE)
            self.router.send(message, AT_ONCE)
        except zmq.ZMQError:  # gone, or it does not read its replies
            self.lost_replies += 1

    # ---- the feed --------------------------------------------------------------------------------

    def take_feed(self) -> None:
        """Many messages become one batch: Python is paid for a batch, the lines by the engine."""
        receive, nowait = self.feed.recv if self.guard is None else self.take_guarded, zmq.NOBLOCK
        lines: list[bytes] = []
        size = 0
        try:
            while size < FEED_BYTES and len(lines) < FEED_MESSAGES:
                line = receive(nowait)
                lines.append(line)
                size += len(line)
        except zmq.Again:
            pass
        self.feed_messages += len(lines)
        text = b"\n".join(lines)
        if b"\n\n" in text:  # messages that end their lines themselves
            text = b"".join([x if x.endswith(b"\n") else x + b"\n" for x in lines])
        if self.limits.rate:  # all senders together are one client, who waits
            self.feed_at = time.monotonic() + size / self.limits.rate
        request = {"text": text, "on_error": "skip", "name": "feed"}
        self.inbox.put(Learn(request, len(text), partial(self.note_feed, text)))

    def take_guarded(self, flags: int) -> bytes:
        """A message of the feed; empty if its sender is no longer on the list."""
        assert self.guard
        frame = self.feed.recv(flags, copy=False)
        who = self.guard.who(frame)
        return frame.bytes if who and who.may("learn") else b""

    def note_feed(self, text: bytes, reply: dict[str, Any]) -> None:
        """Nobody waits for it: what was bad or lost is logged at 1, 10, 100, ..."""
        if bad := reply.get("skipped", 0):
            before, self.feed_skipped = self.feed_skipped, self.feed_skipped + bad
            if has_grown(before, self.feed_skipped):
                message = reply["errors"][0]["message"]
                log.warning("%s; skipped (%d so far)", message, self.feed_skipped)
        if "code" in reply and not reply.get("kept"):
            self.feed_at = time.monotonic() + PAUSE_SECONDS
            # Of the batch in which learning ended the rows are counted, as rejected.
            lost = 0 if "rejected" in reply else sum(map(bool, map(bytes.strip, text.split(b"\n"))))
            before, self.feed_lost = self.feed_lost, self.feed_lost + lost
            if has_grown(before, self.feed_lost):
                message = reply["message"]
                log.error("%d lines of the feed are lost so far: %s", self.feed_lost, message)
        self.wake()  # there may be room again

    # ---- stopping --------------------------------------------------------------------------------

    def stop(self, why: str, answer: Answer | None = None) -> None:
        """Take nothing new, learn what is queued, checkpoint, end."""
        if answer:
            self.stop_answers.append(answer)
        if self.stopping:
            return
        log.info("stopping: %s", why)
        self.options.manager.tell("STOPPING=1")
        end = time.monotonic() + LAST_SECONDS  # whoever goes on sending shall not keep us
        while self.feed.poll(0) and self.inbox.has_room(FEED_BYTES) and time.monotonic() < end:
            self.take_feed()  # what had arrived
        self.stopping = time.monotonic() + DRAIN_SECONDS
        self.inbox.put(Ask(self.learning.stop, 0, self.stopped))

    def stopped(self, reply: dict[str, Any]) -> None:
        """From the learning thread: its last answer, to all who wait for it."""
        for answer in self.stop_answers:
            answer(reply)
        if "code" in reply:
            self.failure = IoFailure(f"what was learned last is not saved: {reply['message']}")

    # ---- looking ---------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        figures = self.learning.figures
        now, t = time.monotonic(), figures["t"]
        then, before = self.rates[0] if self.rates else (now, t)
        return {
            **figures,
            "lag": t - figures["published_t"],
            "rate": (t - before) / (now - then) if now > then else 0.0,
            "queued": self.inbox.open,
            "queued_bytes": self.inbox.held,
            "requests": self.requests_seen,
            "predictions": self.predictions,
            "feed_messages": self.feed_messages,
            "feed_lost": self.feed_lost,
            "bad_frames": self.bad_frames,
            "busy": self.busy + self.limits.turned_away,
            "lost_replies": self.lost_replies,
            "refused_keys": self.guard.refused if self.guard else 0,
            "subscribers": sum(self.publisher.subscribers.values()),
            "published_messages": self.publisher.messages,
            "memory": resident_bytes(),
            "uptime": time.time() - self.began,
            "pid": os.getpid(),
            "algo": self.learning.training.settings["algo"],
            "state": str(self.folder.path) if self.folder else None,
        }


def packed(number: Any, reply: dict[str, Any]) -> bytes:
    return wire.pack({"v": wire.NEWEST, "id": number, "ok": "code" not in reply, **reply})


def has_grown(before: int, now: int) -> bool:
    """Whether a count has a digit more, so that it is logged now and then."""
    return now > 0 and (before == 0 or len(str(before)) < len(str(now)))


def is_short(text: Any) -> bool:
    return isinstance(text, str) and len(text) <= LONGEST_ID


def answers(endpoint: str) -> bool:
    """Whether somebody listens at this ipc endpoint."""
    path = endpoint.removeprefix("ipc://")
    if path == endpoint:
        return False
    with sockets.socket(sockets.AF_UNIX) as probe:
        try:
            return probe.connect_ex(path) == 0
        except OSError as error:  # a path that is too long for any socket
            raise zmq.ZMQError(errno.ENAMETOOLONG) from error


def resident_bytes() -> int:
    """Memory in use, where the system tells it."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class Signals:
    """SIGTERM and SIGINT drain; a second one ends at once; SIGHUP reads the settings again."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.reader, self.writer = sockets.socketpair()
        self.reader.setblocking(False)
        self.writer.setblocking(False)

    def __enter__(self) -> Signals:
        self.wakeup = signal.set_wakeup_fd(self.writer.fileno(), warn_on_full_buffer=False)
        self.before = {
            number: signal.signal(number, lambda *_: None)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        }
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # one may have come meanwhile
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self.wakeup)
        for number, handler in self.before.items():
            signal.signal(number, handler)
        self.reader.close()
        self.writer.close()

    def handle(self) -> None:
        for number in self.reader.recv(64):
            name = signal.Signals(number).name
            if number == signal.SIGHUP:
                log.info("%s: reading the settings again", name)
                if self.server.reload:
                    self.server.reload(self.server)
            elif self.server.stopping:
                log.warning("%s again: ending at once", name)
                os._exit(128 + number)  # acked batches are in the journal
            else:
                self.server.stop(name)
