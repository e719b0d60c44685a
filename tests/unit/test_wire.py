"""Requests whose text is not copied are read as those whose text is."""

import random
from typing import Any

import pytest

from streamlearn import wire
from streamlearn.wire import Refusal

TEXT = b"+1 1:0.5 2:0.25\n" * 600  # longer than the head in which its key is looked for
BODY = {"v": 1, "id": 7, "do": "learn", "client": "abc", "seq": 7, "name": "x.svm", "line": 1}


def read(unpack: Any, message: bytes) -> Any:
    try:
        body = unpack(message)
    except Refusal as error:
        return error.code
    if isinstance(body.get("text"), memoryview):
        body["text"] = bytes(body["text"])
    return body


def both(message: bytes) -> Any:
    """What is read of a message; the same without copies as with them."""
    found = read(lambda data: wire.unpack_request(memoryview(data)), message)
    assert found == read(wire.unpack, message)
    return found


@pytest.mark.parametrize("size", [0, 1, 255, 256, 4000, 65535, 65536, 200_000])
def test_a_text_of_any_length_is_read(size: int) -> None:
    text = (TEXT * (size // len(TEXT) + 1))[:size]
    assert both(wire.pack_text({**BODY, "text": text})) == {**BODY, "text": text}


def test_a_long_text_is_not_copied() -> None:
    message = wire.pack_text({**BODY, "text": TEXT})
    text = wire.unpack_request(memoryview(message))["text"]
    assert isinstance(text, memoryview)
    assert text.obj is message


@pytest.mark.parametrize(
    "body",
    [
        {"text": TEXT, **BODY},  # not the last
        {**BODY, "rows": {"text": TEXT}},
        {**BODY, "text": b"", "rows": {"text": TEXT}},
        {**BODY, "name": "\xa4text\xc5", "text": TEXT},
        {**BODY, "rows": {"ids": b"\xa4text\xc6" + TEXT}},
        {**BODY, "rows": {"ids": b"\xa4text\xc5" + len(TEXT).to_bytes(2, "big") + TEXT}},
        {**BODY, "text": "not bytes " * 1000},
        {"name": "x" * 5000, "text": TEXT},  # its key lies beyond the head
    ],
    ids=str,
)
def test_what_only_looks_like_a_text_at_the_end_is_read_as_it_is(body: dict[str, Any]) -> None:
    assert both(wire.pack(body)) == body


def test_a_text_that_stands_twice_is_read_as_before() -> None:
    twice = wire.pack_text({**BODY, "text": TEXT})
    both(bytes([twice[0] + 1]) + wire.pack({"text": b"x"})[1:] + twice[1:])


def test_damaged_messages_are_refused_alike() -> None:
    rng = random.Random(1)
    whole = wire.pack_text({**BODY, "text": TEXT})
    verdicts = set()
    for _ in range(5000):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(130)  # the head, and the first bytes of the text
            kind = rng.randrange(3)
            if kind == 0:
                damaged[at] = rng.randrange(256)
            elif kind == 1:
                del damaged[at]
            else:
                damaged.insert(at, rng.choice((0xA4, 0xC5, 0xC6, rng.randrange(256))))
        verdicts.add(type(both(bytes(damaged))))
    assert verdicts == {dict, str}
