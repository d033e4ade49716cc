"""What a function refuses."""

import re

import pytest

from iclimit.cli import main


def refuse(message, function, *args, **kwargs):
    """Assert that a call is refused with a message that contains this text."""
    with pytest.raises((TypeError, ValueError, ArithmeticError), match=re.escape(message)):
        function(*args, **kwargs)


def value_error(pattern, function, /, *args, **kwargs):
    """Assert that a call raises a ValueError whose message matches a pattern."""
    with pytest.raises(ValueError, match=pattern):
        function(*args, **kwargs)


def type_error(pattern, function, /, *args, **kwargs):
    """Assert that a call raises a TypeError whose message matches a pattern."""
    with pytest.raises(TypeError, match=pattern):
        function(*args, **kwargs)


def arithmetic_error(pattern, function, /, *args, **kwargs):
    """Assert that a call raises an ArithmeticError whose message matches a pattern."""
    with pytest.raises(ArithmeticError, match=pattern):
        function(*args, **kwargs)


def refused_command(capsys, words, status=2):
    """The one line on standard error with which the command line refuses these words."""
    try:
        ended = main([*map(str, words)])
    except SystemExit as stop:
        ended = stop.code
    captured = capsys.readouterr()
    assert ended == status
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err
