"""What is public stays as it is: names, parameters, defaults, options of the console."""

from public_names import committed, public_names


def test_public_names_are_those_committed():
    """After a change that is meant: ``python tests/shared/public_names.py``, and CHANGELOG.md."""
    known = committed()
    now = dict(public_names())
    gone = sorted(known.keys() - now.keys())
    new = sorted(now.keys() - known.keys())
    changed = {name: (known[name], now[name]) for name in known.keys() & now.keys()}
    changed = {name: pair for name, pair in changed.items() if pair[0] != pair[1]}
    assert (gone, new, changed) == ([], [], {})
