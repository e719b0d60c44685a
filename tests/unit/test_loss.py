"""The losses alone: values and slopes at extreme margins, and slopes against finite differences.

The table of the logistic loss comes from the decimal module at 60 digits, rounded once to a double:
    e = (-Decimal(z)).exp();  value = (1 + e).ln();  slope = -e / (1 + e)
with z = y m for y = 1; the slope changes its sign with y.
"""

import math

import numpy as np
import pytest

from reference import losses
from streamlearn.catalogue import LOSSES
from streamlearn.engine.loss import evaluate
from streamlearn.errors import UsageError

# z: (value, slope)
LOGISTIC = {
    -1e300: (1e300, -1.0),
    -750.0: (750.0, -1.0),
    -40.0: (40.0, -1.0),
    -36.0: (36.0, -0.9999999999999998),
    -2.0: (2.1269280110429727, -0.8807970779778824),
    -1e-12: (0.6931471805604453, -0.50000000000025),
    0.0: (0.6931471805599453, -0.5),
    1e-300: (0.6931471805599453, -0.5),
    2.0: (0.1269280110429725, -0.11920292202211756),
    36.0: (2.319522830243569e-16, -2.3195228302435686e-16),
    40.0: (4.248354255291589e-18, -4.248354255291589e-18),
    700.0: (9.85967654375977e-305, -9.85967654375977e-305),
    745.0: (5e-324, -5e-324),
    750.0: (0.0, 0.0),
    1e300: (0.0, 0.0),
}

# (loss, margin, y): (value, slope); exact
EXACT = {
    ("squared", 3.0, 3.0): (0.0, 0.0),
    ("squared", -2.0, 1.5): (6.125, -3.5),
    ("squared", 1e60, -1e50): (0.5 * (1e60 + 1e50) ** 2, 1e60 + 1e50),
    ("squared", 1e-200, 0.0): (0.0, 1e-200),
    ("hinge", 1.0, 1.0): (0.0, 0.0),  # the kink counts as flat
    ("hinge", -1.0, -1.0): (0.0, 0.0),
    ("hinge", 1.0 - 2.0**-53, 1.0): (2.0**-53, -1.0),
    ("hinge", 1e60, 1.0): (0.0, 0.0),
    ("hinge", 1e60, -1.0): (1e60, 1.0),
    ("squared_hinge", 1.0, 1.0): (0.0, 0.0),
    ("squared_hinge", 0.0, -1.0): (0.5, 1.0),
    ("squared_hinge", -3.0, 1.0): (8.0, -4.0),
    ("squared_hinge", 1e60, 1.0): (0.0, 0.0),
    ("squared_hinge", 1e60, -1.0): (0.5 * 1e60**2, 1e60),
}

KINKS = {"hinge": [1.0], "squared_hinge": [1.0]}  # in y m: a difference must not reach across


@pytest.mark.parametrize("z", LOGISTIC)
@pytest.mark.parametrize("y", [1.0, -1.0])
def test_logistic_is_exact_to_the_last_digits(z: float, y: float) -> None:
    value, slope = evaluate("logistic", y * z, y)
    assert value == pytest.approx(LOGISTIC[z][0], rel=4e-16, abs=0.0)
    assert y * slope == pytest.approx(LOGISTIC[z][1], rel=4e-16, abs=0.0)


@pytest.mark.parametrize("case", EXACT, ids=str)
def test_the_other_losses_are_exact(case: tuple[str, float, float]) -> None:
    assert evaluate(*case) == EXACT[case]


@pytest.mark.parametrize("loss", LOSSES)
def test_slopes_are_derivatives(loss: str) -> None:
    """Four points: (f(m-2h) - 8 f(m-h) + 8 f(m+h) - f(m+2h)) / 12h, off by O(h^4)."""
    rng = np.random.default_rng(50)
    h = 2.0**-11  # h^4 against rounding / h: about 1e-13 each
    labels = (-1.0, 1.0) if LOSSES[loss].classifies else (-3.0, 0.25, 7.0)
    for y in labels:
        for margin in rng.uniform(-8, 8, size=200):
            if any(abs(y * margin - kink) < 3 * h for kink in KINKS.get(loss, ())):
                continue
            f = [evaluate(loss, margin + k * h, y)[0] for k in (-2, -1, 1, 2)]
            difference = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h)
            assert evaluate(loss, margin, y)[1] == pytest.approx(difference, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_are_convex_and_agree_with_the_reference(loss: str) -> None:
    grid = np.linspace(-30, 30, 601)
    for y in (-1.0, 1.0):
        values, slopes = np.array([evaluate(loss, m, y) for m in grid]).T
        assert np.all(values >= 0.0)
        assert np.all(np.diff(slopes) >= 0.0)
        assert values == pytest.approx(losses.value(loss, grid, y), rel=1e-14, abs=1e-300)
        assert slopes == pytest.approx(losses.derivative(loss, grid, y), rel=1e-14, abs=1e-300)
        bound = losses.curvature(loss)
        if loss != "hinge":  # which has none
            assert np.all(np.diff(slopes) <= bound * np.diff(grid) * (1 + 1e-9))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("margin", [-1e60, -1e30, -800.0, 0.0, 800.0, 1e30, 1e60])
def test_nothing_overflows_within_the_margins_that_are_learned(loss: str, margin: float) -> None:
    for y in (-1.0, 1.0):
        assert all(math.isfinite(v) for v in evaluate(loss, margin, y))


def test_an_unknown_loss_is_refused() -> None:
    with pytest.raises(UsageError, match="log"):
        evaluate("log", 0.0, 1.0)
