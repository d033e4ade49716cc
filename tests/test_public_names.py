"""What a release promised holds until the change log says otherwise."""

import re
from pathlib import Path

from public_names import committed, public_names

CHANGES = Path(__file__).resolve().parent.parent / "CHANGELOG.md"


def is_named(name, section):
    """Whether a section of the change log names a function, or the class of a method, as code."""
    parts = re.split(r"[. ]", name)[1:]
    words = [part for part in parts[-2:] if part[:1].isupper()] + parts[-1:]
    return any(re.search(rf"`[^`\n]*\b{re.escape(word)}\b[^`\n]*`", section) for word in words)


def test_what_changed_since_the_last_release_is_in_the_change_log():
    """Say in the first section of CHANGELOG.md what replaces a name that goes or changes."""
    section = CHANGES.read_text(encoding="utf-8").split("\n## ")[1]
    now = dict(public_names())
    silent = [
        f"{name}: {call} -> {now.get(name, 'gone')}"
        for name, call in committed().items()
        if now.get(name) != call and not is_named(name, section)
    ]
    assert not silent, "\n".join(silent)
