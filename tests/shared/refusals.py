"""What a function refuses."""

import re

import pytest

from iclimit.cli import main


def refuse(message, function, *args, **kwargs):
    """Assert that a call is refused with a message that contains this text."""
    with pytest.raises((TypeError, ValueError, ArithmeticError), match=re.escape(message)):
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
