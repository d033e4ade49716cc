"""Backends by name, and the seeds of repeats."""

import importlib.util

import numpy as np
import pytest
from refusals import type_error, value_error

from iclimit.simulate.arrays import get_backend, seed_sequences, to_host


def states(rng, count):
    """First numbers of the seeds."""
    return [seed.generate_state(4).tolist() for seed in seed_sequences(rng, count)]


def test_seeds_do_not_depend_on_the_number_of_repeats():
    assert states(7, 5)[:3] == states(7, 3)


def test_seeds_differ_between_repeats_and_roots():
    drawn = states(7, 50) + states(8, 50)
    assert len({tuple(state) for state in drawn}) == 100


def test_int_and_seed_sequence_are_the_same_root():
    root = np.random.SeedSequence(7)
    assert states(root, 3) == states(7, 3) == states(np.int64(7), 3)
    assert states(root, 3) == states(root, 3)  # using it does not change it
    assert root.n_children_spawned == 0


def test_children_of_a_seed_sequence_are_roots_of_their_own():
    first, second = np.random.SeedSequence(7).spawn(2)
    assert states(first, 3) != states(second, 3)
    assert states(first, 1) != states(7, 1)


def test_generator_is_advanced_once():
    one = np.random.default_rng(7)
    two = np.random.default_rng(7)
    first = states(one, 3)
    assert first == states(two, 30)[:3]
    assert states(one, 3) != first
    two.integers(2**63)
    assert one.integers(2**63) == two.integers(2**63)


def test_other_seeds_are_refused():
    for rng in (None, "seed", 1.0, True, [1, 2]):
        type_error("rng must be an int, SeedSequence or Generator, got", seed_sequences, rng, 1)


def test_negative_seeds_are_refused():
    value_error("rng must be an integer >= 0, got -1", seed_sequences, -1, 1)


def test_numpy_backend():
    backend = get_backend("numpy")
    generator = backend.generator(np.random.SeedSequence(1))
    expected = np.random.default_rng(np.random.SeedSequence(1))
    np.testing.assert_array_equal(generator.random(3), expected.random(3))
    array = backend.asarray([1.0, 2.0])
    assert isinstance(array, np.ndarray)
    np.testing.assert_array_equal(to_host(array), [1.0, 2.0])


def test_unknown_backend():
    value_error("backend must be one of numpy, cupy, got 'torch'", get_backend, "torch")


@pytest.mark.skipif(importlib.util.find_spec("cupy") is not None, reason="CuPy is installed")
def test_missing_cupy_says_what_to_install():
    with pytest.raises(RuntimeError, match=r"needs cupy.*pip install 'iclimit\[gpu\]'"):
        get_backend("cupy")
