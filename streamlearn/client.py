"""Client: the daemon from Python. Learns exactly once, in order, across lost replies and restarts.

    with Client() as c:
        c.learn(text)            # libsvm text, or c.learn(X, y) with arrays
        c.predict(X)
        c.snapshot()             # a Model
        c.status()
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import zmq

from streamlearn import wire
from streamlearn.conversation import Batch, Conversation, answer_of
from streamlearn.errors import Unavailable
from streamlearn.payloads import as_bytes, text_bodies, to_learn, to_predict
from streamlearn.ports import DEFAULT_ENDPOINT

if TYPE_CHECKING:
    import numpy as np

    from streamlearn.multiclass import AnyModel

WINDOW_BATCHES = wire.REMEMBERED  # unanswered at a time: of all of them the answers are kept
WINDOW_BYTES = 4 << 20
LOOK_SECONDS = 0.02


class Client(Conversation):
    """One connection; not to be shared by threads.

    timeout: seconds of silence after which the daemon counts as gone.
    key: the secret file that `streamlearn keys new` made, for a daemon with --keys.
    """

    def __init__(
        self,
        endpoint: str = DEFAULT_ENDPOINT,
        timeout: float = 30.0,
        key: str | None = None,
        context: zmq.Context | None = None,
    ) -> None:
        self.feeder: zmq.Socket | None = None
        self.looked = 0.0  # when answers were last looked for
        super().__init__(endpoint, timeout, key, context)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self.close()

    def close(self) -> None:
        """Leave. Batches that were not answered may or may not have been learned."""
        if self.feeder is not None:
            self.feeder.close(linger=int(1000 * self.timeout))  # what is still to be sent
        super().close()

    # ---- learning --------------------------------------------------------------------------------

    def learn(
        self, data: Any, y: Any = None, weights: Any = None, on_error: str = "reject"
    ) -> dict[str, Any]:
        """Learn libsvm text, or rows X with labels y; returns when all of it is learned.

        Text may come line by line, from a list or an open file; rows and labels as a pair. The
        result counts rows learned, skipped and rejected; t is the examples learned in all. With
        on_error "reject" a bad row refuses its batch, and Refusal (BAD_LINE) is raised at the end.
        """
        total: dict[str, Any] = {"t": 0, "learned": 0, "skipped": 0, "rejected": 0, "errors": []}

        def add(tag: Any, ack: dict[str, Any]) -> None:
            for key in ("learned", "skipped", "rejected"):
                total[key] += ack.get(key, 0)
            total["errors"] += ack.get("errors", ())
            total["t"] = max(total["t"], ack.get("t", 0))

        self.flush()
        self.heard, before, sent = add, self.heard, False
        try:
            for body in to_learn(data, y, weights, self.room()):
                self.send({**body, "on_error": on_error})
                sent = True
            if not sent:  # nothing to learn, but t is to be told
                self.send({"text": b"", "on_error": on_error})
            self.flush()
        finally:
            self.heard = before
        return total

    def send(self, body: dict[str, Any], tag: Any = None) -> None:
        """Send one batch {text or rows, name, line, on_error}; waits only when many are under way.

        `heard(tag, reply)` is called with each answer; a refusal is raised by the next call of
        `send` or `flush`.
        """
        self.greet()
        message = self.pack_batch(self.seq + 1, body)
        self.seq += 1
        self.batches[self.seq] = Batch(message, tag)
        self.bytes_waiting += len(message)
        self.post(message)
        # Looking for answers costs as much as a batch does: look seldom, then for many.
        if self.fills(1.0):
            while self.fills(0.75):
                self.hear()
        now = time.monotonic()
        if now - self.looked > LOOK_SECONDS:
            self.looked = now
            self.look()
        self.complain()

    def fills(self, share: float) -> bool:
        """Whether what is under way takes this share of the window; one batch always may be."""
        return len(self.batches) >= share * WINDOW_BATCHES or (
            self.bytes_waiting > share * WINDOW_BYTES and len(self.batches) > 1
        )

    def flush(self) -> None:
        """Wait until every batch is answered; raises the first refusal."""
        while self.batches:
            self.hear()
        self.complain()

    def complain(self) -> None:
        if self.trouble is not None:
            trouble, self.trouble = self.trouble, None
            raise trouble

    def room(self) -> int:
        """Bytes of data that one request holds for certain, whatever goes with them."""
        return self.greet()["max_message"] // 2

    def feed(self, text: str | bytes) -> None:
        """Lines for the feed: not acknowledged. Blocks while the daemon's queue is full.

        A line beyond 64 KiB is refused: `learn` takes it.
        """
        lines = as_bytes(text, "feed")
        if self.feeder is None:
            self.feeder = self.opened(zmq.PUSH)
            self.feeder.sndtimeo = int(1000 * self.timeout)
            self.feeder.connect(self.place("feed"))
        for body in text_bodies([lines], wire.MAX_FEED):
            if len(body["text"]) > wire.MAX_FEED:
                raise wire.Refusal(
                    "TOO_LARGE",
                    f"feed:{body['line']}: a line of {len(body['text']):,d} bytes; the feed takes "
                    f"{wire.MAX_FEED:,d}: use learn",
                )
            try:
                self.feeder.send(body["text"])
            except zmq.Again:
                raise self.silence() from None

    # ---- asking ----------------------------------------------------------------------------------

    def predict(self, data: Any, live: bool = False) -> np.ndarray:
        """The label of each row (the value, for regression); data is X or libsvm text."""
        return self.scores(data, "label", live)[0]

    def margins(self, data: Any, live: bool = False) -> np.ndarray:
        return self.scores(data, "margin", live)[0]

    def probabilities(self, data: Any, live: bool = False) -> np.ndarray:
        return self.scores(data, "probability", live)[0]

    def scores(self, data: Any, output: str, live: bool = False) -> tuple[np.ndarray, int]:
        """Margins, probabilities or labels, and the t of the model that gave the last of them.

        With many classes margins and probabilities have a column for each, by rising class.
        """
        import numpy as np

        parts: list[np.ndarray] = []
        t = 0
        for body in to_predict(data, self.room()):
            reply = self.request(
                "predict", **body, output=output, model="live" if live else "snapshot"
            )
            found = np.frombuffer(reply[wire.OUTPUT_KEYS[output]])
            if "classes" in reply and output != "label":
                found = found.reshape(-1, len(reply["classes"]))
            parts.append(found)
            t = reply["t"]
        return np.concatenate(parts) if parts else np.empty(0), t

    def snapshot(self, published: bool = False, **options: float) -> AnyModel:
        """The exactly sparse model of now, all acked batches in it; or the one last published.

        options: evidence, smoothness, max_nonzeros.
        """
        from streamlearn.multiclass import model_from_bytes

        more = {"published": True} if published else {}
        return model_from_bytes(self.request("snapshot", **options, **more)["model"])

    def status(self) -> dict[str, Any]:
        return self.request("status")["status"]

    def config(self) -> dict[str, Any]:
        """Every setting in force."""
        return self.request("config")["settings"]

    def checkpoint(self) -> dict[str, Any]:
        """Have the state folder written; returns t and the path."""
        return answer_of(self.request("checkpoint"))

    def ping(self) -> dict[str, Any]:
        return answer_of(self.request("ping"))

    def help(self) -> dict[str, Any]:
        return answer_of(self.request("help"))

    def shutdown(self) -> dict[str, Any]:
        """Have it learn what is queued, checkpoint and end; returns the last t."""
        return answer_of(self.request("shutdown"))

    def place(self, what: str) -> str:
        """The endpoint of the `feed` or of `publish`, as seen from here."""
        places = self.greet()["endpoints"][what]
        transport = self.endpoint.split(":")[0]
        for place in places:
            if place.startswith(transport):
                host = self.endpoint.rsplit(":", 1)[0]
                return f"{host}:{place.rsplit(':', 1)[1]}" if transport == "tcp" else place
        raise Unavailable(f"{self.endpoint}: the daemon offers no {what} by {transport}")
