"""Ahead: the items of an iterator, in order, from another thread; errors in their turn."""

import threading
import time
from itertools import islice

import pytest

from streamlearn.ahead import Ahead


def test_items_come_in_order_from_another_thread():
    seen = set()

    def items():
        for i in range(1000):
            seen.add(threading.get_ident())
            yield i

    assert list(Ahead(items(), 2)) == list(range(1000))
    assert seen
    assert threading.get_ident() not in seen


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_no_more_than_depth_plus_two_are_alive(depth):
    alive, worst = [0], [0]

    def items():
        for i in range(200):
            alive[0] += 1
            worst[0] = max(worst[0], alive[0])
            yield i

    for i in Ahead(items(), depth):
        assert i >= 0
        if i % 50 == 0:  # let it run into its bound
            waiting = threading.Event()
            waiting.wait(0.01)
        alive[0] -= 1
    assert worst[0] <= depth + 2


def test_an_error_comes_behind_the_items_before_it():
    def items():
        yield 1
        yield 2
        raise KeyError("three")

    ahead = iter(Ahead(items(), 2))
    assert [next(ahead), next(ahead)] == [1, 2]
    with pytest.raises(KeyError, match="three"):
        next(ahead)


@pytest.mark.parametrize("taken", [0, 1, 5])
@pytest.mark.parametrize("pause", [0.0, 0.05])
def test_a_closed_one_has_closed_its_items_and_ended_its_thread(taken, pause):
    closed = []

    def endless():
        try:
            while True:
                time.sleep(pause)  # close comes while an item is made, or while it waits for room
                yield 0
        finally:
            closed.append(threading.current_thread())

    ahead = Ahead(endless(), 2)
    assert list(islice(ahead, taken)) == [0] * taken
    ahead.close()
    assert not ahead.thread.is_alive()
    assert closed == [ahead.thread]


def test_one_that_waits_for_a_pipe_is_left_behind():
    byte = threading.Event()

    def silent():
        byte.wait()
        yield 0

    ahead = Ahead(silent(), 2)
    ahead.close()  # returns
    assert ahead.thread.is_alive()
    byte.set()
    ahead.thread.join(30.0)
    assert not ahead.thread.is_alive()
