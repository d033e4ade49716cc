"""Values with their errors as physicists write them."""

import pytest

from iclimit.validation.instruments.fitted_parameters import with_error


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (0.10123, 0.0983, 0.1041, r"0.101 \pm 0.003"),
        (1.5, 1.35, 1.65, r"1.50 \pm 0.15"),  # two digits of an error that begins with 1
        (1234.0, 1200.0, 1268.0, r"1234 \pm 34"),
        (0.00107, 0.0008, 0.00143, r"0.0011_{-0.0003}^{+0.0004}"),
        (2.34e-5, 2.1e-5, 2.9e-5, r"(2.3_{-0.2}^{+0.6}) \times 10^{-5}"),
        (-0.2, -0.25, -0.15, r"-0.20 \pm 0.05"),
        (0.0, -0.01, 0.01, r"0.000 \pm 0.010"),
        (3.0, 3.0, 3.5, "3"),  # an interval that is open has no error
    ],
)
def test_errors_have_the_digits_that_are_known(value, low, high, text):
    assert with_error(value, low, high) == text
