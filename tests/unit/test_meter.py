"""The meter: rows of the progress table from sums, and what data sorted by class looks like."""

from itertools import groupby
from random import Random

import pytest

from streamlearn.meter import Meter, sorted_by_class

NOTHING = {"examples": 0, "weight": 0.0, "loss": 0.0, "errors": 0.0}


def sums(examples, weight, loss, errors):
    return {"examples": examples, "weight": weight, "loss": loss, "errors": errors}


def test_a_row_has_means_of_all_and_of_what_is_new():
    meter = Meter(True, NOTHING)
    first = meter.row(sums(10, 20.0, 8.0, 5.0), 2.0, 3, 0.25)
    assert (first.examples, first.loss, first.since, first.error) == (10, 0.4, 0.4, 0.25)
    assert (first.nonzeros, first.density, first.rate, first.elapsed) == (3, 0.25, 5.0, 2.0)
    second = meter.row(sums(30, 40.0, 10.0, 6.0), 4.0)
    assert (second.loss, second.since, second.error) == (0.25, 0.1, 0.15)
    assert (second.nonzeros, second.density, second.rate) == (None, None, 10.0)


def test_regression_has_no_error_rate():
    assert Meter(False, NOTHING).row(sums(10, 10.0, 8.0, 5.0), 1.0).error is None


def test_a_resumed_run_counts_its_rates_from_where_it_began():
    meter = Meter(True, sums(100, 100.0, 50.0, 30.0))
    row = meter.row(sums(110, 110.0, 51.0, 30.0), 1.0)
    assert (row.examples, row.rate, row.since) == (110, 10.0, 0.1)
    assert row.loss == 51.0 / 110


def test_nothing_new_and_no_time_divide_by_nothing():
    meter = Meter(True, NOTHING)
    row = meter.row(NOTHING, 0.0)
    assert (row.loss, row.since, row.error, row.rate) == (0.0, 0.0, 0.0, 0.0)
    meter.row(sums(5, 0.0, 0.0, 0.0), 1.0)
    assert meter.row(sums(5, 0.0, 0.0, 0.0), 1.0).rate == 0.0


def test_the_sums_are_copied_not_kept():
    meter, live = Meter(True, NOTHING), sums(10, 10.0, 8.0, 5.0)
    meter.row(live, 1.0)
    live |= sums(20, 20.0, 9.0, 5.0)
    assert meter.row(live, 2.0).since == pytest.approx(0.1)


# ---- sorted by class -----------------------------------------------------------------------------


def runs(labels):
    longest = max((len(list(run)) for _, run in groupby(labels)), default=0)
    return {"examples": len(labels), "positive": sum(labels), "longest_run": longest}


@pytest.mark.parametrize("share", [0.5, 0.8, 0.95, 0.99, 0.999])
@pytest.mark.parametrize("count", [60, 1000, 50_000])
def test_shuffled_labels_are_never_suspected(share, count):
    for seed in range(20 if count < 50_000 else 3):
        random = Random(seed)
        assert not sorted_by_class(runs([random.random() < share for _ in range(count)]))


@pytest.mark.parametrize("share", [0.5, 0.2, 0.05])
@pytest.mark.parametrize("count", [1000, 100_000])
def test_sorted_labels_are_suspected(share, count):
    positive = int(share * count)
    labels = [True] * positive + [False] * (count - positive)
    assert sorted_by_class(runs(labels))
    assert sorted_by_class(runs(labels[::-1]))


def test_one_class_and_no_examples_are_not_suspected():
    assert not sorted_by_class(runs([]))
    assert not sorted_by_class(runs([True] * 10_000))
    assert not sorted_by_class(runs([False] * 10_000))
    assert not sorted_by_class(runs([True] * 20 + [False] * 20))
