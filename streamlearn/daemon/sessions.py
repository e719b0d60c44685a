"""Sessions: exactly once for each (client, seq). Part of every checkpoint.

A client numbers its batches 1, 2, 3, ... A batch whose number was answered before teaches nothing
and gets the answer it got then; one whose forerunner is missing is sent back. The clients heard of
last are remembered, each with the answers to its last batches.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from reprlib import repr as short
from typing import Any, NamedTuple

from streamlearn.training import whole
from streamlearn.wire import REMEMBERED, Refusal

CLIENTS = 4096  # remembered; the one silent for longest is forgotten first


class Ack(NamedTuple):
    """What became of a batch."""

    t: int  # examples learned in all, this batch included
    learned: int
    skipped: int
    rejected: int
    refusal: str = ""  # why the batch was refused, if it was

    def reply(self, **more: Any) -> dict[str, Any]:
        return {
            "t": self.t,
            "learned": self.learned,
            "skipped": self.skipped,
            "rejected": self.rejected,
            **more,
        }


class Sessions:
    """The table of clients. Owned by the learning thread."""

    def __init__(self, state: list[Any] | None = None) -> None:
        self.clients: OrderedDict[str, deque[tuple[int, Ack]]] = OrderedDict()
        for client, acks in state or ():
            if type(client) is not str:
                raise ValueError(f"{short(client)} is no client")
            self.clients[client] = deque(map(kept_ack, acks), maxlen=REMEMBERED)

    def is_next(self, client: str, seq: int, ahead: int | None = None) -> bool:
        """Whether a batch is the next in turn; False if it came before, else a refusal.

        `ahead` is the last one that was read but is not yet noted.
        """
        acks = self.clients.get(client)
        last = ahead or (acks[-1][0] if acks else 0)
        if seq > last + 1:
            raise Refusal(
                "SEQ_GAP",
                f"batch {seq} of client {client!r} came, {last + 1} is expected; send again from "
                "there",
                expected=last + 1,
            )
        return seq == last + 1

    def answer(self, client: str, seq: int) -> Ack | None:
        """What a batch that came before was answered; None if it never was."""
        acks = self.clients.get(client)
        if not acks or seq > acks[-1][0]:
            return None
        first, last = acks[0][0], acks[-1][0]
        if seq < first:
            raise Refusal(
                "BAD_REQUEST",
                f"batch {seq} of client {client!r} was answered long ago; the answers since "
                f"{first} are kept",
                expected=last + 1,
            )
        return acks[seq - first][1]

    def note(self, client: str, seq: int, ack: Ack) -> None:
        acks = self.clients.get(client)
        if acks is None:
            acks = self.clients[client] = deque(maxlen=REMEMBERED)
        acks.append((seq, ack))
        self.clients.move_to_end(client)
        if len(self.clients) > CLIENTS:
            self.clients.popitem(last=False)

    def state(self) -> list[Any]:
        return [
            [client, [[seq, *ack] for seq, ack in acks]]
            for client, acks in self.clients.items()
        ]


def kept_ack(entry: list[Any]) -> tuple[int, Ack]:
    """An ack as a checkpoint keeps it, behind the number of its batch."""
    seq, t, learned, skipped, rejected, *refusal = entry
    if [type(words) for words in refusal] not in ([], [str]):
        raise ValueError(f"{short(refusal)} is no refusal")
    return whole(seq), Ack(*map(whole, (t, learned, skipped, rejected)), *refusal)
