"""Results as text, and their named numbers."""

import collections
import enum
import json
import math
import pickle
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from refusals import type_error, value_error

from iclimit.results import Estimate
from iclimit.runs.encoding import decode, encode
from iclimit.runs.summary_numbers import summary_numbers
from iclimit.simulate.descent import simulate_learning_rate, simulate_schedule
from iclimit.simulate.models.linear_transformer import LinearTransformer
from iclimit.simulate.pretraining import simulate_errors

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text()
    | hnp.from_dtype(np.dtype("float32"))
    | hnp.from_dtype(np.dtype("int8"))
    | hnp.from_dtype(np.dtype("complex128"))
)
ARRAYS = hnp.arrays(
    st.sampled_from(["<f8", ">f8", "<f4", "i1", ">i4", "u8", "?", "<c16", "c8", "<U3"]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
RESULTS = st.recursive(
    SCALARS | ARRAYS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.text(), st.floats()), inner)
    ),
    max_leaves=8,
)


def fingerprint(value):
    """Everything that the value is made of, with bits for numbers."""
    if isinstance(value, (np.ndarray, np.generic)):
        little = np.asarray(value, np.asarray(value).dtype.newbyteorder("<"))
        return type(value), little.dtype.str, little.shape, little.tobytes()
    if isinstance(value, float):
        return float, "nan" if math.isnan(value) else value.hex()
    if isinstance(value, complex):
        return complex, fingerprint(value.real), fingerprint(value.imag)
    if isinstance(value, dict):
        return dict, [(fingerprint(k), fingerprint(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [fingerprint(each) for each in value]
    if hasattr(value, "__dataclass_fields__"):
        return type(value), fingerprint(dict(vars(value)))
    return type(value), value


@hypothesis_settings(max_examples=25)
@given(RESULTS)
def test_results_read_back_bit_for_bit(result):
    text = encode(result)
    assert fingerprint(decode(text)) == fingerprint(result)
    json.loads(text, parse_constant=pytest.fail)  # strict JSON has no NaN and Infinity
    assert text.isascii()


def test_results_of_cells_read_back_bit_for_bit():
    for result in (
        simulate_errors(
            dim=4, context=4, tasks=2, prompts=30, rho=0.1, ridge=0.1, rng=0, repeats=3
        ),
        simulate_learning_rate(contexts=50, dim=3, context=6, rng=0),
        simulate_schedule((0.3, 0.2), context=8, dim=3, contexts=5, rng=0),
        LinearTransformer("full", *np.arange(64.0).reshape(2, 2, 1, 4, 4)),
        {"whole": Estimate(math.nan, math.inf, 3), "parts": (Estimate.of([0.1, 0.3]), [1.5])},
    ):
        found = decode(encode(result))
        assert fingerprint(found) == fingerprint(result)
        assert pickle.dumps(summary_numbers(found)) == pickle.dumps(summary_numbers(result))


def test_the_order_in_memory_is_that_of_a_pickled_array():
    for array in (np.ones((3, 4), order="F"), np.ones((3, 4)), np.ones((4, 6))[::2]):
        found = decode(encode(array))
        pickled = pickle.loads(pickle.dumps(array))
        assert found.strides == pickled.strides
        assert found.flags.writeable


class Color(enum.IntEnum):
    RED = 1


@dataclass
class Foreign:
    x: int = 1


def test_what_cannot_be_encoded_is_named():
    for result, named in (
        (object(), "builtins.object"),
        ({1, 2}, "builtins.set"),
        ([1, (2, b"x")], "builtins.bytes"),
        (Color.RED, "Color"),
        (collections.OrderedDict(a=1), "collections.OrderedDict"),
        (np.array([None]), "numpy.ndarray of dtype object"),
        (np.array(["2020"], "datetime64[s]"), "numpy.ndarray of dtype datetime64"),
        (np.ma.array([1.0]), "MaskedArray of dtype float64"),
        (Foreign(), "Foreign"),
        ({"a": [len]}, "builtins.builtin_function_or_method"),
    ):
        type_error(f"result must be made of .*{named}", encode, result)


def test_damaged_text_is_a_value_error():
    for text in (
        "",
        "{",
        "{}",
        '{"type":"set"}',
        '{"type":"tuple"}',
        '{"type":"array","shape":[2],"order":"C","dtype":"<f8","data":"AAAA"}',
        '{"type":"array","shape":[-1],"order":"C","dtype":"<f8","data":""}',
        '{"type":"array","shape":[1],"order":"C","dtype":"|O","data":"AAAAAAAAAAA="}',
        '{"type":"array","shape":[10000000000],"order":"C","dtype":"<U0","data":""}',
        '{"type":"dict","items":[[[],1]]}',
        '{"type":"dataclass","module":"iclimit.no","name":"X","fields":{}}',
        '{"type":"dataclass","module":"iclimit.samples","name":"No","fields":{}}',
        '{"type":"dataclass","module":"iclimit.samples","name":"np.ndarray","fields":{}}',
        '{"type":"dataclass","module":"iclimit.samples","name":"Samples","fields":{}}',
        '{"type":"dataclass","module":5,"name":"X","fields":{}}',
        "[" * 5000 + "]" * 5000,
    ):
        value_error("text must be a result encoded by iclimit", decode, text)


def test_reading_imports_nothing_from_elsewhere():
    for module in ("subprocess", "this", "iclimitx.evil", "os.path", ""):
        text = json.dumps({"type": "dataclass", "module": module, "name": "Popen", "fields": {}})
        value_error("outside iclimit", decode, text)
        assert "this" not in sys.modules
        assert "iclimitx" not in sys.modules


def test_reading_does_not_call_the_class():
    """A model of an unknown kind: its constructor would refuse it."""
    text = encode(LinearTransformer("full", *np.zeros((2, 1, 1, 3, 3))))
    assert decode(text.replace('"full"', '"none"')).kind == "none"


def test_numbers_with_their_errors():
    assert summary_numbers(1.5) == {"value": (1.5, None)}
    assert summary_numbers(np.float32(2)) == {"value": (2.0, None)}
    assert summary_numbers(None) == summary_numbers("x") == summary_numbers(True) == {}
    assert summary_numbers([1.0, 2.0]) == summary_numbers(np.ones(3)) == {}
    found = {"a.0": (1.0, None), "a.1": (2.5, None), "b.3": (4.0, None)}
    assert summary_numbers({"a": (1, 2.5), "b": {3: 4.0}}) == found
    nested = {"losses": (Estimate(1.0, 0.1, 7), Estimate(2.0, 0.2, 7)), "_own": 1, "data": [1]}
    assert summary_numbers(nested) == {"losses.0": (1.0, 0.1), "losses.1": (2.0, 0.2)}
    schedules = simulate_schedule([(0.3,), (0.4,)], context=8, dim=3, contexts=5, rng=0)
    second = schedules.losses[1]
    assert summary_numbers((schedules,))["0.losses.1"] == (second.mean, second.standard_error)
