"""Tables, and long texts that are folded, in the markup of the documentation."""


def table(widths, rows, style="stacked"):
    """A table of text, which becomes one block a row where the screen is narrow.

    In the styles "numbers" and "wide" it is scrolled there.
    """
    lines = [
        ".. list-table::",
        f"   :class: {style}",
        "   :header-rows: 1",
        f"   :widths: {widths}",
        "",
    ]
    for first, *others in rows:
        lines += [f"   * - {first}", *(f"     - {cell}" for cell in others)]
    return "\n".join(lines) + "\n"


def folded(head, text):
    """Text that a click on its heading shows."""
    body = [f"   {line}".rstrip() for line in text.splitlines()]
    return "\n".join([f".. dropdown:: {head}", "", *body, "", ""])
