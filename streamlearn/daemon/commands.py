"""The table of commands: what each takes, who may ask for it, and what answers.

A handler returns the reply, or None when the learning thread will answer later.
"""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from reprlib import repr as short
from typing import TYPE_CHECKING, Any

from streamlearn import wire
from streamlearn._version import __version__
from streamlearn.daemon.batches import check, rows_of
from streamlearn.daemon.learning import Answer, Ask, Learn
from streamlearn.daemon.predicting import INLINE_BYTES
from streamlearn.engine.block import Block
from streamlearn.engine.digits import probabilities
from streamlearn.engine.libsvm import Parser
from streamlearn.keys import Allowed
from streamlearn.multiclass import AnyModel, MulticlassModel, shares
from streamlearn.wire import Refusal

if TYPE_CHECKING:
    from streamlearn.daemon.server import Server

Reply = dict[str, Any] | None
NUMBER = (int, float)
BATCH = {"text": (bytes, memoryview), "rows": dict, "name": str, "line": int}
LARGEST = 1 << 63
OPTIONS = {"evidence": NUMBER, "smoothness": NUMBER, "max_nonzeros": int}


@dataclass(frozen=True)
class Command:
    """One row of the table."""

    run: Callable[[Server, dict[str, Any], Answer, int], Reply]
    takes: dict[str, Any]
    role: str
    help: str


def learn(server: Server, request: dict[str, Any], answer: Answer, size: int) -> Reply:
    if ("client" in request) != ("seq" in request):
        raise Refusal("BAD_REQUEST", "'client' and 'seq' go together")
    if request.get("seq", 1) < 1 or not 0 < len(request.get("client", "x")) <= 64:
        raise Refusal("BAD_REQUEST", "'seq' counts from 1; 'client' has 1 to 64 characters")
    if request.get("on_error", "reject") not in ("reject", "skip"):
        raise Refusal("BAD_REQUEST", "'on_error' is 'reject' or 'skip'")
    check(request)
    if "labels" not in request.get("rows", ("labels",)):
        raise Refusal("BAD_REQUEST", "rows to learn from need 'labels'")
    server.hand(Learn(request, size, answer))
    return None


def predict(server: Server, request: dict[str, Any], answer: Answer, size: int) -> Reply:
    output, which = request.get("output", "margin"), request.get("model", "snapshot")
    if output not in wire.OUTPUT_KEYS:
        raise Refusal("BAD_REQUEST", f"'output' is one of {', '.join(wire.OUTPUT_KEYS)}")
    if which not in ("snapshot", "live"):
        raise Refusal("BAD_REQUEST", "'model' is 'snapshot' or 'live'")
    check(request)
    published = server.learning.published.model
    if which == "snapshot" and size <= INLINE_BYTES:
        block = rows_to_score(request, server.reader, server.block)
        server.count_predictions(len(block))
        return predictions(published, block, output)
    if which == "snapshot":

        def large() -> dict[str, Any]:
            return predictions(published, counted(server, request), output)

        if not server.predicting.take(Ask(large, size, answer)):
            raise server.busy_with(server.predicting.inbox)
        return None
    live = server.learning.live

    def newest() -> dict[str, Any]:
        return predictions(live(), counted(server, request), output)

    server.hand(Ask(newest, size, answer))
    return None


def counted(server: Server, request: dict[str, Any]) -> Block:
    """The rows, read by the thread that scores them."""
    block = rows_to_score(request, Parser("any"), Block())
    server.count_predictions(len(block))
    return block


def rows_to_score(request: dict[str, Any], parser: Parser, block: Block) -> Block:
    block.clear()
    rows = rows_of(request, parser, block)
    if rows.bad:
        raise Refusal("BAD_LINE", rows.errors[0]["message"], errors=rows.errors)
    return block


def predictions(model: AnyModel, block: Block, output: str) -> dict[str, Any]:
    """{t, and float64 as bytes: one a row, or for many classes one for each of them}"""
    if output == "probability" and model.loss != "logistic":
        raise Refusal("BAD_REQUEST", f"loss {model.loss} gives no probabilities; ask for margins")
    key = wire.OUTPUT_KEYS[output]
    if isinstance(model, MulticlassModel):
        if not model.parts:
            raise Refusal("BAD_REQUEST", "no class is known yet; learn some examples first")
        table = zip(*model.block_margins(block), strict=True)
        found: Iterable[float]
        if output == "label":
            found = (model.classes[row.index(max(row))] for row in table)
        elif output == "probability":
            found = chain.from_iterable(map(shares, table))
        else:
            found = chain.from_iterable(table)
        return {"t": model.t, key: array("d", found).tobytes(), "classes": [*model.classes]}
    margins = model.block_margins(block)
    if output == "margin":
        return {"t": model.t, key: margins.tobytes()}
    if output == "probability":
        return {"t": model.t, key: bytes(probabilities(margins))}
    return {"t": model.t, key: array("d", map(model.label_of, margins)).tobytes()}


def snapshot(server: Server, request: dict[str, Any], answer: Answer, size: int) -> Reply:
    options = {name: request[name] for name in OPTIONS if name in request}
    if not all(0 <= value < LARGEST for value in options.values()):
        raise Refusal("BAD_REQUEST", f"{', '.join(OPTIONS)} are numbers from 0 to 2^63-1")
    for name in options:
        if OPTIONS[name] is NUMBER:  # 2 is 2.0: equal models have equal bytes
            options[name] = float(options[name])
    if request.get("published"):
        if options:
            raise Refusal("BAD_REQUEST", "the published model is as it is; leave 'published' out")
        return as_file(server.learning.published.model)
    learning = server.learning
    server.hand(Ask(lambda: as_file(learning.snapshot(**options)), size, answer))
    return None


def as_file(model: AnyModel) -> dict[str, Any]:
    return {"t": model.t, "nonzeros": model.nonzeros, "model": model.to_bytes()}


def status(server: Server, request: dict[str, Any], answer: Answer, size: int) -> Reply:
    return {"status": server.status()}


def config(server: Server, request: dict[str, Any], answer: Answer, size: int) -> Reply:
    return {"settings": server.settings}


def checkpoint(server: Server, request: dict[str, Any], answer: Answer, size: int) -> Reply:
    server.hand(Ask(server.learning.checkpoint, size, answer))
    return None


def ping(server: Server, request: dict[str, Any], answer: Answer, size: int) -> Reply:
    return {
        "streamlearn": __version__,
        "protocols": [wire.OLDEST, wire.NEWEST],
        "endpoints": server.endpoints,
        "max_message": server.max_message,
        "pid": os.getpid(),
        "time": time.time(),
    }


def help_(server: Server, request: dict[str, Any], answer: Answer, size: int) -> Reply:
    return {
        "commands": {
            name: {"help": command.help, "takes": sorted(command.takes), "role": command.role}
            for name, command in COMMANDS.items()
        },
        "codes": wire.CODES,
    }


def shutdown(server: Server, request: dict[str, Any], answer: Answer, size: int) -> Reply:
    server.stop("asked over the wire", answer)
    return None


COMMANDS = {
    "learn": Command(
        learn,
        {**BATCH, "client": str, "seq": int, "on_error": str},
        "learn",
        "learn a batch of rows; answered when learned",
    ),
    "predict": Command(
        predict,
        {**BATCH, "output": str, "model": str},
        "predict",
        "margins, probabilities or labels from the published model, or from the live one",
    ),
    "snapshot": Command(
        snapshot,
        {**OPTIONS, "published": bool},
        "predict",
        "the exactly sparse model of now, as a model file",
    ),
    "status": Command(status, {}, "predict", "counters, loss, non-zeros, rates, memory, lag"),
    "config": Command(config, {}, "predict", "every setting in force"),
    "checkpoint": Command(checkpoint, {}, "admin", "write the state folder's checkpoint now"),
    "ping": Command(ping, {}, "predict", "version, protocol versions, endpoints, limits"),
    "help": Command(help_, {}, "predict", "this table and the error codes"),
    "shutdown": Command(shutdown, {}, "admin", "learn what is queued, checkpoint, end"),
}

EVERY = {"v", "id", "do"}


def check_role(name: Any, who: Allowed | None) -> None:
    """Whether a client may ask for a command at all."""
    role = COMMANDS[name].role if isinstance(name, str) and name in COMMANDS else "predict"
    if who is None:
        raise Refusal("AUTH", "this key is not on the list any more")
    if not (who.may(role) or name == "ping"):
        raise Refusal("AUTH", f"{name} needs the role {role}; {who.name} has not got it")


def perform(server: Server, request: dict[str, Any], answer: Answer, size: int) -> Reply:
    """Check a request against the table and do it."""
    version, name = request.get("v"), request.get("do")
    spoken = type(version) is int and wire.OLDEST <= version <= wire.NEWEST
    if not spoken and name != "ping":  # which tells whoever asks what is spoken here
        raise Refusal(
            "BAD_VERSION",
            f"protocol version {short(version)}; this daemon speaks {wire.OLDEST} to {wire.NEWEST}",
            protocols=[wire.OLDEST, wire.NEWEST],
        )
    command = COMMANDS.get(name) if isinstance(name, str) else None
    if command is None:
        raise Refusal("BAD_REQUEST", f"no command {short(name)}; there are {', '.join(COMMANDS)}")
    takes = command.takes
    for key, value in request.items():
        wanted = takes.get(key)
        if wanted is None:
            if key in EVERY:
                continue
            known = ", ".join(takes) or "nothing"
            raise Refusal("BAD_REQUEST", f"{name} takes {known}; not {short(key)}")
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            raise Refusal("BAD_REQUEST", f"{key!r} of {name} has a value of the wrong type")
    return command.run(server, request, answer, size)
