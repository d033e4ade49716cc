"""Joint spectra against traces of matrices and expectations of coupled quantiles."""

import numpy as np
import pytest
from scipy.special import beta

from iclimit.asymptotics.pretraining.joint_spectrum import JointSpectrum
from iclimit.asymptotics.spectra import Atoms, MarchenkoPastur, PowerLaw, Uniform

ROUNDING = 1e-12


def rotation(d, seed):
    basis, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))
    return basis


def mean(spectrum, values):
    return float(spectrum.weight @ values)


def test_traces_of_matrices_in_any_basis():
    """All that the errors depend on are traces of f(C, Sigma) with and without C_test."""
    d = 6
    turn = rotation(d, 0)
    tests = rotation(d, 1)
    C = turn @ np.diag([2.0, 2.0, 1.0, 1.0, 0.5, 0.0]) @ turn.T
    Sigma = turn @ np.diag([0.5, 1.5, 0.5, 1.5, 1.0, 1.0]) @ turn.T
    C_test = tests @ np.diag(np.arange(6.0)) @ tests.T
    spectrum = JointSpectrum.of_matrices(C, C_test, Sigma)
    c = spectrum.task
    t = spectrum.test
    s = spectrum.inputs
    for matrix, values in [
        (C @ C, c**2),
        (C @ Sigma @ Sigma, c * s**2),
        (C_test @ C @ Sigma, t * c * s),
        (np.linalg.inv(C + Sigma) @ C_test, t / (c + s)),
    ]:
        assert mean(spectrum, values) == pytest.approx(np.trace(matrix) / d, rel=ROUNDING)


def test_isotropic_matrices_are_one_atom():
    spectrum = JointSpectrum.of_matrices(np.eye(120))
    for values in (spectrum.task, spectrum.test, spectrum.inputs, spectrum.weight):
        assert np.array_equal(values, [1.0])


def test_eigenvalues_stand_for_a_diagonal_matrix():
    values = np.array([3.0, 1.0, 2.0])
    given = JointSpectrum.of_matrices(values, values[::-1])
    matrices = JointSpectrum.of_matrices(np.diag(values), np.diag(values[::-1]))
    assert np.array_equal(given.task, [1, 2, 3])
    assert np.array_equal(given.test, [1, 3, 2])
    for name in ("task", "test", "inputs", "weight"):
        assert np.array_equal(getattr(given, name), getattr(matrices, name))


LAW = Uniform(0.0, 2.0)
# Means over 60 cells of the rank.
COUPLING = 1e-3


@pytest.mark.parametrize(
    ("pairing", "expected"),
    # Of E[U f(U)] with f = U, 2 - U and the mean 1, for U uniform on [0, 2].
    [("same", 4 / 3), ("reversed", 2 / 3), ("independent", 1.0)],
)
def test_pairings_of_quantiles(pairing, expected):
    spectrum = JointSpectrum.of_measures(LAW, LAW, order=60, pairing=pairing)
    c = spectrum.task
    t = spectrum.test
    assert mean(spectrum, c * t) == pytest.approx(expected, rel=COUPLING)
    assert (mean(spectrum, c), mean(spectrum, t)) == pytest.approx((1, 1), rel=ROUNDING)


def test_levels_that_are_paired_in_reverse_stay_levels():
    """Ranks at which a level ends are those of the other direction."""
    laws = Atoms([1.0, 2.0], [0.2, 0.8]), Atoms([1.0, 3.0], [0.3, 0.7])
    spectrum = JointSpectrum.of_measures(*laws, pairing="reversed")
    rows = sorted(zip(spectrum.task, spectrum.test, spectrum.weight, strict=True))
    assert np.array(rows) == pytest.approx(np.array([[1, 3, 0.2], [2, 1, 0.3], [2, 3, 0.5]]))


def test_inputs_are_paired_as_well():
    """E[U^2 V] with V of the law of U: E U^3 = 2, and E U^2 (2 - U) = 2/3."""
    for pairing, expected in (("same", 2.0), ("reversed", 2 / 3)):
        spectrum = JointSpectrum.of_measures(
            LAW, input_spectrum=LAW, order=60, input_pairing=pairing
        )
        moment = mean(spectrum, spectrum.task * spectrum.test * spectrum.inputs)
        assert moment == pytest.approx(expected, rel=COUPLING)


def test_a_single_measure_keeps_its_rule():
    spectrum = JointSpectrum.of_measures(MarchenkoPastur(0.5))
    assert mean(spectrum, spectrum.task**2) == pytest.approx(1.5, rel=ROUNDING)
    assert np.array_equal(spectrum.task, spectrum.test)


def test_different_measures_converge_with_the_order():
    gaps = []
    for order in (20, 40, 80):
        spectrum = JointSpectrum.of_measures(
            MarchenkoPastur(0.5), LAW, order=order, pairing="same"
        )
        gaps.append(mean(spectrum, spectrum.task * spectrum.test))
    assert abs(gaps[2] - gaps[1]) < abs(gaps[1] - gaps[0]) < 3 * COUPLING


def test_heavy_tails_keep_their_trace():
    """E of c(u) c(1 - u) for c(u) = (1 - p) u^-p is (1 - p)^2 B(1 - p, 1 - p)."""
    law = PowerLaw(0.6)
    p = 0.6
    spectrum = JointSpectrum.of_measures(law, law, pairing="reversed")
    assert mean(spectrum, spectrum.task) == pytest.approx(1, rel=1e-4)
    assert mean(spectrum, spectrum.test) == pytest.approx(1, rel=1e-4)
    product = mean(spectrum, spectrum.task * spectrum.test)
    assert product == pytest.approx((1 - p) ** 2 * beta(1 - p, 1 - p), rel=1e-2)


def test_arrays_cannot_be_changed():
    spectrum = JointSpectrum.of_matrices([1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        spectrum.task[0] = 5


def test_rounding_of_a_null_space_is_zero():
    turn = rotation(6, 0)
    C = turn @ np.diag([2.0, 1.0, 0.5, 0.0, 0.0, 0.0]) @ turn.T
    C = (C + C.T) / 2
    inside = JointSpectrum.of_matrices(C, C @ C)
    assert np.array_equal(inside.task == 0, inside.test == 0)
    assert inside.weight[inside.task == 0].sum() == pytest.approx(0.5)
    small = JointSpectrum.of_matrices([1e-20, 1.0])
    assert np.array_equal(small.task, [1e-20, 1.0])  # nothing is rounding on a diagonal


def test_nodes_are_eigenvalues():
    """The rule of Marchenko-Pastur has a node at 0, where there is no eigenvalue for c < 1."""
    c = 0.9
    spectrum = JointSpectrum.of_measures(MarchenkoPastur(c))
    assert spectrum.task.min() >= MarchenkoPastur(c).edges[0]
    assert mean(spectrum, 1 / spectrum.task) == pytest.approx(1 / (1 - c), rel=1e-9)
