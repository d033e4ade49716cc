"""What a function refuses."""

import re

import pytest


def refuse(message, function, *args, **kwargs):
    """Assert that a call is refused with a message that contains this text."""
    with pytest.raises((TypeError, ValueError, ArithmeticError), match=re.escape(message)):
        function(*args, **kwargs)
