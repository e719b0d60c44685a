"""Batches that wait are read and learned together: nobody can tell, except by the clock."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from streamlearn.catalogue import resolve
from streamlearn.daemon.inbox import Inbox
from streamlearn.daemon.learning import GROUP_BYTES, Every, Learn, Learning
from streamlearn.daemon.ledger import Ledger
from streamlearn.engine.block import Block
from streamlearn.engine.libsvm import Parser
from streamlearn.training import Training

Request = dict[str, Any]
ROWS = {
    "offsets": array("q", [0, 2, 3]).tobytes(),
    "ids": array("q", [1, 5, 2]).tobytes(),
    "values": array("d", [0.5, 1.0, 2.0]).tobytes(),
    "labels": array("d", [1.0, -1.0]).tobytes(),
}


def learning(algo: str = "averagesl", loss: str = "logistic", **settings: Any) -> Learning:
    training = Training(resolve(algo, loss, settings))
    return Learning(Ledger(training), Inbox(1 << 30), lambda published: None, Every(seconds=100.0))


def replies(of: Learning, requests: list[Request], together: bool) -> list[Request]:
    found: list[Request] = []
    for request in requests:
        of.inbox.put(Learn(request, len(request.get("text", b"")), found.append))
        if not together:
            of.learn(of.inbox.take(0.0))
    while len(of.inbox):
        of.learn(of.inbox.take(0.0))
    return found


def both(requests: list[Request], **settings: Any) -> tuple[list[Request], Ledger]:
    """What is answered, and what is kept: the same, together or one by one."""
    alone, together = learning(**settings), learning(**settings)
    expected = replies(alone, requests, together=False)
    assert replies(together, requests, together=True) == expected
    a, b = alone.ledger, together.ledger
    assert vars(a.counts) == vars(b.counts)
    assert a.sessions.state() == b.sessions.state()
    assert a.stopped == b.stopped
    if not a.stopped:  # a learner that has diverged makes no state
        assert a.training.to_bytes() == b.training.to_bytes()
    return expected, b


def test_whatever_the_batches_hold(lines):
    texts = [b"".join(lines[i : i + 20]) for i in range(0, 400, 20)]
    requests: list[Request] = [
        {"text": text, "client": "a", "seq": n, "name": "f", "line": 20 * n - 19}
        for n, text in enumerate(texts, 1)
    ]
    requests[3]["text"] = b"1 1:1\n1 x:1\n1 2:z\n"  # refused as a whole
    requests[5] |= {"text": b"1 1:1\nno\n\n-1 2:1", "on_error": "skip"}
    requests[7] = {"rows": ROWS, "client": "a", "seq": 8, "name": "f"}
    requests.insert(9, requests[3])  # duplicates
    requests.insert(10, requests[8])
    requests.insert(12, {"text": b"1 3:1\n", "client": "a", "seq": 99})  # a gap
    requests.insert(14, {"text": b"", "client": "b", "seq": 1})
    requests.insert(15, {"text": b"1 7:1\n", "client": "b", "seq": 2, "name": "other"})
    requests.append({"rows": {**ROWS, "labels": array("d", [1.0, 3.0]).tobytes()}})
    answered, ledger = both(requests)
    assert [reply["code"] for reply in answered if "code" in reply] == [
        "BAD_LINE", "BAD_LINE", "SEQ_GAP", "BAD_LINE",
    ]  # fmt: skip
    assert answered[3]["message"].startswith("f:62:3: bad feature id")
    assert sum(reply.get("duplicate", False) for reply in answered) == 2
    counts = ledger.counts
    assert counts.received == counts.learned + counts.skipped + counts.rejected + counts.duplicate


def test_what_a_refused_batch_showed_of_the_labels_is_forgotten():
    requests = [{"text": text} for text in (b"0 1:1\n1 x\n", b"-1 1:1\n1 2:1\n", b"0 1:1\n")]
    answered, ledger = both(requests)
    assert [reply.get("code") for reply in answered] == ["BAD_LINE", None, "BAD_LINE"]
    assert ledger.training.parser.labels == (-1.0, 1.0)


def test_more_than_a_group_holds(lines):
    text = b"".join(lines)
    count = 3 * GROUP_BYTES // len(text)
    answered, _ = both([{"text": text}] * count)
    assert [reply["t"] for reply in answered] == [len(lines) * n for n in range(1, count + 1)]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_divergence_in_the_middle(place):
    """Learned up to its row; the batch of that row and those behind it are refused."""
    good = b"1.0 1:1\n2.0 1:2\n"
    texts = [good] * 4
    texts[place] = b"".join(b"%d 1:99999.%d\n" % (i, i) for i in range(1, 300))
    requests = [{"text": text, "client": "c", "seq": n} for n, text in enumerate(texts, 1)]
    answered, ledger = both(requests, algo="sgd", loss="squared", t0=0.0, l2=1e-9)
    codes = [reply.get("code") for reply in answered]
    assert codes == [None] * place + ["DIVERGED"] * (4 - place)
    assert ledger.counts.learned == ledger.t >= 2 * place
    assert ledger.counts.batches == place + 1


def test_a_block_can_be_cut_parted_and_extended():
    text = b"1 1:1 2:2\n-1 3:3\n1\n-1 4:4 5:5 6:6\n"
    whole, parser = Block(), Parser()
    parser.parse(text, 0, len(text), whole)
    before = whole.arrays()
    again = whole.part(0, 2)
    again.extend(whole.part(2, 4))
    assert again.arrays() == before
    whole.cut(1)
    assert (len(whole), whole.features) == (1, 2)
    parser.start_file(before=1)
    rest = text[text.index(b"\n") + 1 :]
    parser.parse(rest, 0, len(rest), whole, append=True)
    assert whole.arrays() == before
    for first, stop in ((-1, 1), (2, 1), (0, 5)):
        with pytest.raises(IndexError, match="of 4"):
            whole.part(first, stop)
