"""What the fuzzers found, each as small as it can be; and that it stays mended."""

from __future__ import annotations

import math
import resource
import socket as sockets
import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import msgpack
import pytest
import zmq
from daemon.conftest import until

from fuzz.frames import FLAGS, PATIENCE, Talk, greeting_of, ready, say, started
from fuzz.hunt import address_space
from fuzz.models import Models, sealed, taught
from streamlearn import container, wire
from streamlearn.catalogue import resolve
from streamlearn.daemon import journal
from streamlearn.delta import apply
from streamlearn.engine.block import Block
from streamlearn.engine.libsvm import Parser
from streamlearn.errors import Divergence, ModelError
from streamlearn.model import Model
from streamlearn.multiclass import model_from_bytes
from streamlearn.training import FORMAT as STATE
from streamlearn.training import Training


@pytest.mark.parametrize("line", [b"1 3:1e60 2:1\n", b"1:1e60 3:1 2:1\n", b"1e60 3:1 2:1\n"])
def test_a_line_refused_as_extreme_does_not_count_as_unsorted(line):
    parser = Parser("any")
    parser.parse(line, 0, len(line), Block())
    assert parser.fault
    assert parser.unsorted == 0


@pytest.mark.parametrize(
    "head", [b"\xdd\x00\x00\x03\xff", b"\xdc\x03\xff", b"\xdf\x00\x00\x00\x3f\xa1a"]
)
def test_lists_in_lists_take_no_memory_that_nobody_sent(head):
    """5 kB of them took 8 MB, and 11 ms of the thread that answers everybody."""
    message = b"\x82\xa2do\xa4ping\xa1v" + head * 1000
    tracemalloc.start()
    try:
        with pytest.raises(wire.Refusal, match="a message is one msgpack map"):
            wire.unpack(message)
        assert tracemalloc.get_traced_memory()[1] < 100 * len(message)
    finally:
        tracemalloc.stop()


# ---- files whose checksum is right and whose inside is not ---------------------------------------


@pytest.fixture(scope="module")
def part() -> Iterator[Models]:
    part = Models()
    yield part
    part.close()


def body_of(data: bytes, kind: str) -> dict:
    body = container.unpack(data, kind, "file")
    return {k: v for k, v in body.items() if k not in ("format", "version", "checksum")}


@contextmanager
def memory_of(size: int):
    """No more than this may be asked for."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (address_space() + size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


NESTED: list = []
for _ in range(490):  # 511 levels are all that is packed; Python 3.11 shows fewer than a thousand
    NESTED = [NESTED]
LONG = (1 << 30, (1 << 63) - 1)


@pytest.mark.parametrize("number", LONG)
@pytest.mark.parametrize("where", ["recent", "pending", "rows"])
def test_a_number_in_place_of_bytes_is_not_taken_for_their_count(part, where, number):
    algo = "scd" if where == "rows" else "averagesl"
    body = body_of(taught(resolve(algo, "logistic", {}), b"1 1:1\n").to_bytes(), STATE)
    held = body["learner"][where]
    (held[1] if where == "recent" else held)["values"] = number
    with pytest.raises(ModelError):
        Training.from_bytes(container.pack(STATE, body))


@pytest.mark.parametrize("length", [1000, 60_000])
def test_lists_that_boast_of_their_length_get_no_memory(length):
    bomb = b"\xdd" + length.to_bytes(4, "big")
    data = b"\x82\xa6format" + bomb * 1000 + bytes(length)  # 480 MB, if they were believed
    with memory_of(1 << 27), pytest.raises(ModelError):
        container.unpack(sealed(data), STATE, "file")


@pytest.mark.parametrize("key", ["format", "version"])
def test_what_is_too_deep_to_be_shown_is_refused_in_words(key):
    parts = {"format": STATE, "version": 1, key: NESTED, "checksum": 0}
    data = wire.pack(parts)[:-1].replace(b"\x91" * 490, b"\x91" * 1010)
    with pytest.raises(ModelError, match="file: "):
        container.unpack(sealed(data), STATE, "file")


@pytest.mark.parametrize("labels", [[math.nan, 1.0], [-1.0, math.inf], ["1", "2"], [True, 0.0]])
def test_classes_of_a_model_are_numbers(labels):
    body = body_of(taught(resolve("averagesl", "logistic", {}), b"1 1:1\n").model().to_bytes(),
                   "streamlearn-model")  # fmt: skip
    with pytest.raises(ModelError):
        Model.from_bytes(container.pack("streamlearn-model", {**body, "labels": labels}))


@pytest.mark.parametrize("wrong", [1e200, -1.7976931348623157e308, math.inf])
@pytest.mark.parametrize("where", ["bias", "weights"])
def test_a_model_whose_predictions_would_overflow_is_refused(where, wrong):
    model = taught(resolve("averagesl", "logistic", {}), b"1 1:1\n-1 2:1\n").model()
    body = body_of(model.to_bytes(), "streamlearn-model")
    for weight, fine in ((wrong, False), (math.copysign(9e199, wrong), True)):
        body["ids"] = struct.pack("<2q", 1, 2)
        body["weights"] = struct.pack("<2d", 1.0, weight if where == "weights" else 1.0)
        body["bias"] = weight if where == "bias" else 0.0
        data = container.pack("streamlearn-model", body)
        if fine:
            assert math.isfinite(Model.from_bytes(data).margins([[0, -9e49, 9e49]])[0])
        else:
            with pytest.raises(ModelError, match="contradicts itself"):
                Model.from_bytes(data)


@pytest.mark.parametrize("negative", [math.nan, math.inf, 5, 1.0])
def test_the_negative_class_of_a_state_is_one_that_a_parser_finds(negative):
    body = body_of(taught(resolve("averagesl", "logistic", {}), b"1 1:1\n").to_bytes(), STATE)
    with pytest.raises(ModelError, match="not a whole state"):
        Training.from_bytes(container.pack(STATE, {**body, "negative": negative}))


@pytest.mark.parametrize("wrong", [0, -10, 11])
def test_whole_numbers_of_a_kernel_are_those_of_its_settings(wrong):
    """Truncating every 0 examples divided by it: SIGFPE."""
    body = body_of(taught(resolve("tg", "logistic", {}), b"1 1:1\n").to_bytes(), STATE)
    assert body["learner"]["scalars"]["every"] == 10
    body["learner"]["scalars"]["every"] = wrong
    with pytest.raises(ModelError, match="every"):
        Training.from_bytes(container.pack(STATE, body))


@pytest.mark.parametrize("wrong", [0, 7, 1 << 60, (1 << 63) - 1, -1])
@pytest.mark.parametrize(("algo", "clock"), [("asgd", "step"), ("rda", "scalars"),
                                             ("optimalsl", "second")])  # fmt: skip
def test_the_clocks_of_a_state_agree(algo, clock, wrong):
    """An average over 2^63 examples that never were took for ever."""
    settings = resolve(algo, "squared", {"weights": "suffix"} if algo == "asgd" else {})
    body = body_of(taught(settings, b"1 1:1\n" * 120).to_bytes(), STATE)
    learner = body["learner"]
    held = learner["scalars"]["step"] if clock == "step" else learner[clock]
    assert held["t"] == 120
    held["t"] = wrong
    with pytest.raises(ModelError, match="clocks differ"):
        Training.from_bytes(container.pack(STATE, body))


@pytest.mark.parametrize("wrong", [-math.inf, math.inf, math.nan, -1e6])
def test_the_time_of_a_state_begins_at_zero_or_later(wrong):
    """A mean over times long before the first example took for ever."""
    settings = resolve("asgd", "logistic", {"weights": "suffix"})
    body = body_of(taught(settings, b"1 1:1\n-1 2:1\n" * 60).to_bytes(), STATE)
    body["learner"]["scalars"]["step"]["t0"] = wrong
    with pytest.raises(ModelError, match="the state's t0 is"):
        Training.from_bytes(container.pack(STATE, body))


@pytest.mark.parametrize("wrong", [-1e9, math.inf, math.nan, 4.0])
def test_the_norms_of_waiting_rows_are_those_of_their_values(wrong):
    """A negative one made time begin long before the first example."""
    settings = resolve("asgd", "logistic", {"weights": "suffix"})
    body = body_of(taught(settings, b"1 1:1\n-1 2:1\n").to_bytes(), STATE)
    pending = body["learner"]["pending"]
    pending["norms"] = struct.pack("<d", wrong) + pending["norms"][8:]
    with pytest.raises(ModelError, match="is not that of its values"):
        Training.from_bytes(container.pack(STATE, body))


@pytest.mark.parametrize("wrong", [math.inf, math.nan, "3", True, None])
def test_the_labels_of_a_state_are_two_numbers(wrong):
    training = taught(resolve("sgd", "logistic", {}), b"2 1:1\n3 2:1\n", labels=(2.0, 3.0))
    body = body_of(training.to_bytes(), STATE)
    body["labels"] = [2.0, wrong]
    with pytest.raises(ModelError, match="not a whole state"):
        Training.from_bytes(container.pack(STATE, body))


@pytest.mark.parametrize("labels", [None, (0.0, 7.0), (0.0, 3.0, 7.0, 9.0), (0.0, 3.0, 7.0)])
def test_a_state_without_a_background_has_the_classes_that_were_declared(labels):
    """A class that came later had no learner to begin from: an AttributeError."""
    settings = resolve("averagesl", "logistic", {})
    declared = (0.0, 3.0, 7.0)
    training = taught(settings, b"0 1:1\n3 2:1\n7 3:1\n", labels=declared, multiclass=True)
    body = body_of(training.to_bytes(), STATE)
    assert body["learner"]["background"] is None
    data = container.pack(STATE, {**body, "labels": labels})
    if labels == declared:
        assert Training.from_bytes(data).to_bytes() == training.to_bytes()
        return
    with pytest.raises(ModelError, match="its classes are not those that were declared"):
        Training.from_bytes(data)


def test_weights_that_no_file_may_hold_are_not_handed_out():
    settings = resolve("perceptron", "logistic", {})
    body = body_of(taught(settings, b"1 1:1\n-1 2:1\n").to_bytes(), STATE)
    slots = body["learner"]["slots"]
    slots["w"] = struct.pack("<d", 1.7e308) + slots["w"][8:]
    with pytest.raises(Divergence, match="left the finite numbers"):
        Training.from_bytes(container.pack(STATE, body)).model()


def test_a_delta_too_deep_to_be_shown_is_refused_in_words(part):
    deep = msgpack.unpackb(b"\x91" * 1000 + b"\x01")
    with pytest.raises(ModelError, match="does not fit"):
        apply(part.old, {"from": deep})


@pytest.mark.parametrize("key", ["settings", "counters", "normalize"])
def test_a_model_of_no_classes_is_checked_like_any_other(key):
    nobody = taught(resolve("averagesl", "logistic", {}), b"", multiclass=True).model()
    data = nobody.to_bytes()
    assert model_from_bytes(data).to_bytes() == data
    body = body_of(data, "streamlearn-model")
    with pytest.raises(ModelError):
        model_from_bytes(container.pack("streamlearn-model", {**body, key: 1.5}))


@pytest.mark.parametrize(("algo", "key"), [("averagesl", "l2"), ("grades", "loss")])
def test_a_setting_too_deep_to_be_shown_is_refused_in_words(algo, key):
    loss = "squared" if algo == "grades" else "logistic"
    body = body_of(taught(resolve(algo, loss, {}), b"").to_bytes(), STATE)
    data = container.pack(STATE, {**body, "settings": {**body["settings"], key: NESTED}})
    with pytest.raises(ModelError, match="not a whole state"):
        Training.from_bytes(sealed(data[:-5].replace(b"\x91" * 490, b"\x91" * 1000)))


WRONG = [None, -1, "x", b"x", [], {}, 1.5, 1 << 63]


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("place", range(8))
def test_a_journal_entry_of_other_types_is_damage(part, place, wrong):
    seed = part.seeds["journal"][1]
    entries = container.unpacked(seed.data)
    entries[0][place] = wrong
    frame = seed.more
    payload = wire.pack(entries)
    start = frame.end - len(frame.payload) - journal.FRAME_SIZE
    whole = part.whole[part.segment]
    data = whole[:start] + journal.packed_frame(frame.number, frame.synced, payload)
    assert part.judge("journal", data + whole[frame.end :]).startswith("journal ")


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("key", ["frame", "learned", "client", "seq", "refusal"])
def test_a_checkpoint_of_other_types_is_refused(part, key, wrong):
    body = body_of(part.whole[part.checkpoint], "streamlearn-checkpoint")
    body["sessions"] = [["c", [[1, 2, 2, 0, 0, ""]]]]
    if key == "frame":
        body["frame"] = wrong
    elif key == "learned":
        body["counts"]["learned"] = wrong
    elif key == "client":
        body["sessions"][0][0] = wrong
    else:
        body["sessions"][0][1][0][0 if key == "seq" else 5] = wrong
    fine = type(wrong) is str and key in ("client", "refusal")
    fate = part.judge("checkpoint", container.pack("streamlearn-checkpoint", body))
    assert fate == ("checkpoint accepted" if fine else "checkpoint refused")


# ---- what came over the wire ---------------------------------------------------------------------


def test_words_of_a_follower_are_not_taken_for_its_leaving():
    """A message that is neither a subscription nor its end let all others wait in vain."""
    with started(*FLAGS) as daemon, zmq.Context() as context:
        talk = Talk(daemon, context)
        stranger = talk.peer(zmq.XSUB, "publish")
        try:
            assert talk.look()["subscribers"] == 1
            stranger.send(b"\2delta")
            stranger.send(b"\1snapshot")
            until(lambda: talk.ask(do="status")["status"]["subscribers"] != 1)
            assert talk.look()["subscribers"] == 2  # the follower heard of the new model
        finally:
            stranger.close()
            talk.close()


def test_the_end_of_a_subscription_that_never_began_silences_nobody():
    """libzmq's own clients do not send it; a peer of one's own making can."""
    with started(*FLAGS) as daemon, zmq.Context() as context:
        talk = Talk(daemon, context)
        with sockets.create_connection(daemon.address("publish"), timeout=PATIENCE) as liar:
            try:
                assert talk.look()["subscribers"] == 1
                say(liar, greeting_of(b"NULL") + ready(b"SUB") + b"\0\6\0delta")
                until(lambda: talk.ask(do="status")["status"]["subscribers"] == 0)
                talk.look()  # the follower hears of the next model all the same
            finally:
                talk.close()
