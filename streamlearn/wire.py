"""What goes over the sockets: msgpack maps, their limits and their codes. Knows no socket.

daemon/PROTOCOL.md describes every message; tests/golden holds the frames of this version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgpack

from streamlearn.errors import StreamlearnError

OLDEST, NEWEST = 1, 1  # versions of the protocol that are spoken
# Bytes of a message of the feed; a peer that sends an eighth more is cut off. ZeroMQ bounds what
# waits on a connection in messages, so this bounds it in bytes.
MAX_FEED = 1 << 16
MAX_MESSAGE = 16 << 20  # bytes of a request, unless --max-message says otherwise
WIDTHS = {0xC5: 2, 0xC6: 4}  # of the size of a long text, by its kind in msgpack
HEAD = 4096  # bytes of a request in which the key of its text is looked for
REMEMBERED = 64  # acks kept for each client: its largest window of unanswered batches

# What `predict` can be asked for, and the key of its answer.
OUTPUT_KEYS = {"margin": "margins", "probability": "probabilities", "label": "labels"}
SNAPSHOT_TOPIC, DELTA_TOPIC = b"snapshot", b"delta"

CODES = {
    "BAD_REQUEST": "not a request: no map, an unknown command or key, a value of the wrong type",
    "BAD_VERSION": "a version of the protocol that is not spoken here",
    "BAD_LINE": "at least one row cannot be learned from; nothing of the batch was learned",
    "TOO_LARGE": "a message beyond the limit; send smaller batches",
    "BUSY": "the queue is full, or this client is one too many or too fast; send again later",
    "SEQ_GAP": "a batch before this one has not arrived; send again from `expected`",
    "STORAGE": "the state folder cannot be written; nothing was learned, predictions go on",
    "DIVERGED": "learning left the finite numbers and has stopped; predictions go on",
    "MEMORY": "no memory to learn more, so learning has stopped; predictions go on",
    "STOPPING": "the daemon is shutting down; send again when it is back",
    "AUTH": "this key may not do that",
    "INTERNAL": "a fault of the daemon; its log has more",
}


# Exit codes of a command that was refused so; 65 for all others.
EXITS = {
    "INTERNAL": 70, "MEMORY": 71, "STORAGE": 74, "BUSY": 75, "STOPPING": 75, "BAD_VERSION": 76,
    "AUTH": 77,
}  # fmt: skip


class Refusal(StreamlearnError):
    """A request that was answered with an error: its code, its sentence, and any details."""

    def __init__(self, code: str, message: str, **details: Any) -> None:
        self.code, self.message, self.details = code, message, details
        self.exit_code = EXITS.get(code, 65)
        super().__init__(f"{code}: {message}")


def pack(body: Mapping[str, Any]) -> bytes:
    """The bytes of a message; a TypeError for what has no place in one."""
    return msgpack.packb(body, default=plain)


def pack_text(body: dict[str, Any]) -> bytes:
    """A message whose text, if it has one, comes last and is copied only once."""
    text = body.pop("text", None)
    if text is None:
        return pack(body)
    head, size = pack({**body, "text": b""}), len(text)
    width = 1 if size < 1 << 8 else 2 if size < 1 << 16 else 4
    kind = {1: b"\xc4", 2: b"\xc5", 4: b"\xc6"}[width]
    return b"".join((head[:-2], kind, size.to_bytes(width, "big"), text))


def unpack_request(data: memoryview) -> dict[str, Any]:
    """The map of a request. A long text that comes last, as `pack_text` puts it, is not copied.

    A map without its last value is read as it is with it; where what looks like the key of that
    value is something else, the map is read as a whole.
    """
    size = len(data)
    if size > HEAD:
        head = bytes(data[:HEAD])
        key = head.find(b"\xa4text", 1)
        width = WIDTHS.get(head[key + 5]) if 0 < key < HEAD - 10 else None
        start = key + 6 + (width or 0)
        if width and start + int.from_bytes(head[key + 6 : start], "big") == size:
            try:
                body = unpack(head[:key] + b"\xa4text\xc4\x00")
            except Refusal:
                return unpack(data)
            if next(reversed(body)) == "text":
                body["text"] = data[start:]
                return body
    return unpack(data)


def plain(value: Any) -> Any:
    """The number in a numpy scalar."""
    if not hasattr(value, "item"):
        raise TypeError(f"a {type(value).__name__} is neither text nor number")
    return value.item()


def unpack(data: bytes | memoryview, keys: int = 64, items: int = 16) -> dict[str, Any]:
    """The map of a message; anything else is a BAD_REQUEST.

    keys, items: the most in a map and in a list; -1 is what fits into the message. Requests are
    bounded, since they may come from anybody; replies are as large as they are. A list takes its
    memory before its items are there: 5 kB of lists in lists of 1,023 held everybody up for 11 ms.
    """
    try:
        body = msgpack.unpackb(
            data, max_map_len=keys, max_array_len=items, max_ext_len=0, strict_map_key=True
        )
    except (ValueError, msgpack.exceptions.UnpackException) as error:
        what = str(error) or "nested too deep"
        raise Refusal("BAD_REQUEST", f"a message is one msgpack map: {what}") from None
    if not isinstance(body, dict):
        raise Refusal("BAD_REQUEST", f"a message is one msgpack map, not {type(body).__name__}")
    return body
