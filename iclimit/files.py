"""Files that are written whole or not at all, and foreign text made safe for what shows it."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

Value = TypeVar("Value")


@contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """Give another file of the same name to write to; it replaces the file if nothing fails.

    It lies in a new folder of its own beside the file, so that it can be no link and no file of
    somebody else.  What is a pipe or a device is given itself.

    Parameters
    ----------
    path : path
        The file that is to be written; where it is a link, the file that it leads to.

    Yields
    ------
    Path
        Where to write, of the same ending.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from iclimit.files import replacing
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder) / "table.csv"
    ...     with replacing(table) as partial:
    ...         written = partial.write_text("1")
    ...     table.read_text()
    '1'
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        yield target
        return
    try:
        with tempfile.TemporaryDirectory(prefix=".iclimit-", dir=target.parent) as folder:
            partial = Path(folder) / target.name
            yield partial
            if target.exists():
                shutil.copymode(target, partial)
            os.replace(partial, target)
    except OSError as error:
        if error.filename is None and error.errno:
            error.filename = os.fspath(path)
        raise


def printable(text: str) -> str:
    """Text with escapes in place of what could steer a terminal; lines are kept."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def harmless(value: Value) -> Value | str:
    """Entry of a table; text that a spreadsheet would compute gets an apostrophe before it.

    What could steer a terminal is escaped.
    """
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
