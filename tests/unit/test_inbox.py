"""The inbox: jobs come out in their order, and bytes count until they are done with."""

import threading
from dataclasses import dataclass

import pytest

from streamlearn.daemon.inbox import Inbox


@dataclass
class Batch:
    size: int
    number: int = 0


@dataclass
class Question:
    size: int = 0


def test_what_was_taken_counts_until_it_is_done_with():
    inbox = Inbox(100)
    inbox.put(Batch(60))
    assert inbox.has_room(40)
    assert not inbox.has_room(41)
    job = inbox.take(0.0)
    assert (inbox.held, inbox.open, len(inbox)) == (60, 1, 0)
    assert not inbox.has_room(41)
    inbox.done(job.size)
    assert (inbox.held, inbox.open) == (0, 0)
    assert inbox.has_room(10_000)  # anything fits into an empty one


def test_batches_behind_a_batch_are_taken_together_up_to_a_question():
    inbox = Inbox(1000)
    first = [Batch(10, number) for number in range(4)]
    question, last = Question(), Batch(10, 4)
    for job in (*first, question, last):
        inbox.put(job)
    assert inbox.take_more(Batch, 15, 9) == first[:2]  # the second makes up the size
    assert inbox.take_more(Batch, 100, 1) == first[2:3]
    assert inbox.take_more(Batch, 0, 9) == []
    assert inbox.take_more(Batch, 100, 9) == first[3:]
    assert len(inbox) == 2
    assert inbox.take_more(Batch, 100, 9) == []  # the question's turn comes first
    assert inbox.take(0.0) is question
    assert inbox.take(0.0) is last
    assert inbox.take(0.0) is None
    assert (inbox.open, len(inbox)) == (6, 0)


def test_who_waits_can_be_nudged_and_then_finds_nothing():
    inbox = Inbox(10)
    found = []
    waiting = threading.Thread(target=lambda: found.append(inbox.take(None)))
    waiting.start()
    inbox.nudge()
    waiting.join(20)
    assert found == [None]


@pytest.mark.parametrize("timeout", [0.0, 0.001])
def test_nothing_comes_of_an_empty_inbox(timeout):
    assert Inbox(10).take(timeout) is None


def test_two_threads_lose_no_byte():
    inbox, count = Inbox(1 << 30), 20_000
    taken = []

    def take_all():
        while len(taken) < count:
            if (job := inbox.take(20.0)) is not None:
                more = inbox.take_more(Batch, 50, 7)
                taken.extend(each.number for each in (job, *more))
                inbox.done(job.size + sum(each.size for each in more), 1 + len(more))

    taker = threading.Thread(target=take_all)
    taker.start()
    for number in range(count):
        inbox.put(Batch(number % 13, number))
    taker.join(60)
    assert taken == [*range(count)]
    assert (inbox.held, inbox.open) == (0, 0)
