"""By how much a mean may differ from a printed one does not shrink with our own patience."""

import pytest

from reproduce.regression import off
from reproduce.results import Figure


def test_more_trials_than_the_yardstick_has_make_no_difference_larger():
    hundred = off(Figure(10.5, error=0.2, trials=100, printed="10.1"))
    more = off(Figure(10.5, error=0.1, trials=400, printed="10.1"))
    assert hundred == more == pytest.approx(2.0)


def test_fewer_trials_are_as_uncertain_as_they_are():
    few = off(Figure(10.5, error=0.4, trials=25, printed="10.1"))
    assert few == pytest.approx(1.0)


def test_what_is_far_off_is_far_off():
    assert off(Figure(11.5, error=0.1, trials=400, printed="10.1")) > 2.0
