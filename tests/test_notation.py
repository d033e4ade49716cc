"""Public signatures use the names of the notation, with its types, and document them."""

import inspect
import pickle
import re

import pytest
from public_functions import FUNCTIONS, documented_names, parameters_of
from refusals import type_error

import iclimit
from iclimit.diagrams.quantities import QUANTITIES
from iclimit.diagrams.simulation import Simulation
from iclimit.notation import PARAMETERS


def test_parameters_are_rows_of_the_notation():
    for name, (function, _) in FUNCTIONS.items():
        unknown = [p.name for p in parameters_of(function) if p.name not in PARAMETERS]
        assert not unknown, f"{name}: no rows of iclimit/notation.csv: {', '.join(unknown)}"


def annotation_of(parameter):
    """Annotation as it is written; that of a Number is spelt out."""
    annotation = parameter.annotation
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def test_integers_of_the_notation_are_annotated_as_such():
    for name, (function, _) in FUNCTIONS.items():
        for parameter in parameters_of(function):
            row = PARAMETERS.get(parameter.name)
            annotation = annotation_of(parameter)
            if row is None or row.range is None:
                continue
            # In the limit and for symbols, sizes are numbers.
            integer = any(kind in annotation for kind in ("int", "Number", "sympy.Expr"))
            if row.integer:
                assert integer, f"{name}: {parameter.name} is an integer, not {annotation}"
            else:
                whole = re.fullmatch(r"int( \| None)?", annotation)
                assert not whole, f"{name}: {parameter.name} is real, not {annotation}"


def test_docstrings_list_the_parameters_of_the_signature():
    for name, (function, text) in FUNCTIONS.items():
        documented = documented_names(text)
        signature = [parameter.name for parameter in parameters_of(function)]
        if documented is not None:
            assert sorted(documented) == sorted(signature), f"{name} takes {signature}"
        elif signature and "." not in function.__qualname__:
            assert re.search("Parameters.* are those of", text), f"{name}: no list of parameters"


def test_every_row_of_the_notation_is_used():
    used = {p.name for function, _ in FUNCTIONS.values() for p in parameters_of(function)}
    used |= {name for each in QUANTITIES.values() for name in (*each.parameters, *each.optional)}
    used |= set(inspect.signature(Simulation).parameters)
    used |= set(inspect.signature(iclimit.Problem).parameters)
    assert used >= PARAMETERS.keys(), f"not used: {', '.join(PARAMETERS.keys() - used)}"


def test_synonyms_are_other_names():
    for name, row in PARAMETERS.items():
        assert name not in row.synonyms
        assert len(set(row.synonyms)) == len(row.synonyms)


def test_unknown_arguments_are_answered_with_what_was_meant():
    for function, name, message in (
        (
            iclimit.icl_error,
            "kapa",
            "icl_error takes tau, alpha, kappa, rho, ridge, link, flips, got 'kapa'; ",
        ),
        (iclimit.icl_error, "kapa", "'kapa'; did you mean kappa?"),
        (iclimit.icl_error, "l", "'l'; did you mean alpha (context length over dimension)?"),
        (iclimit.simulate_errors, "l", "'l'; did you mean context (context length)?"),
        (iclimit.simulate_errors, "n", "'n'; did you mean prompts (pretraining prompts)?"),
        (iclimit.simulate_errors, "k", "'k'; did you mean tasks (pretraining tasks)?"),
        (iclimit.simulate_errors, "d", "'d'; did you mean dim (dimension of the inputs)?"),
        (iclimit.optimal_schedule, "N", "'N'; did you mean context (context length)?"),
        (iclimit.Problem, "N", "Problem takes dim, context, "),
    ):
        type_error(re.escape(message), function, **{name: 1})


def test_missing_arguments_are_named():
    type_error(r"^icl_error needs kappa, rho, got tau, alpha$", iclimit.icl_error, tau=1, alpha=1)
    type_error(r"^Problem needs dim, got context$", iclimit.Problem, context=3)


def test_arguments_without_names_are_answered_with_their_names():
    message = r"^icl_error takes 0 arguments .* as tau=\.\.\., alpha=\.\.\., .*; got 1 without$"
    type_error(message, iclimit.icl_error, 1, alpha=1, kappa=1, rho=0)
    type_error(r"^curve takes 1 arguments .* NAME=", iclimit.curve, "icl_error", [1, 2])


def test_other_errors_of_a_call_are_as_they_are():
    with pytest.raises(TypeError, match="tau must be a real number or an array, got 'a'"):
        iclimit.icl_error(tau="a", alpha=1, kappa=1, rho=0)


def test_functions_are_found_under_their_names():
    """By worker processes, which look for them where they are defined."""
    for name, (function, _) in FUNCTIONS.items():
        if "." not in function.__qualname__:
            assert pickle.loads(pickle.dumps(function)) is function, name


def test_typical_values_are_in_their_ranges():
    """Of every number that a function needs; those of lists are numbers of their own."""
    for name, row in PARAMETERS.items():
        values = row.typical if isinstance(row.typical, list) else [row.typical]
        outside = [v for v in values if isinstance(v, int | float) and v not in (row.range or [v])]
        assert not outside, f"{name} must be {row.allowed}, got {outside}"
        assert not row.integer or all(value is None or value == int(value) for value in values)
