"""A derivation as SymPy equations, step by step, with LaTeX for papers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iclimit.checks import check_flag

if TYPE_CHECKING:
    import sympy

# Characters of LaTeX that fit, set, on a line of a paper.
LINE = 120


@dataclass(frozen=True)
class Derivation:
    """Steps of a derivation.

    Attributes
    ----------
    steps : tuple of (str, sympy.Eq)
        What is done, and the equation that results.  The last equation is the result.
    """

    steps: tuple[tuple[str, sympy.Eq], ...]

    @property
    def result(self) -> sympy.Expr:
        """Right-hand side of the last equation."""
        return self.steps[-1][1].rhs

    def latex(self, *, compact: bool = False) -> str:
        """All steps as text with displayed equations.

        Compact, it is one display, a few lines long, of the result and of what defines the symbols
        in it.
        """
        import sympy

        check_flag("compact", compact)
        if not compact:
            return "\n".join(f"{text}\n\\[ {sympy.latex(eq)} \\]" for text, eq in self.steps)
        needed = {self.steps[-1][1].lhs}
        lines = list[str]()
        for _, equation in reversed(self.steps):
            if equation.lhs not in needed:
                continue
            needed = (needed - {equation.lhs}) | equation.rhs.free_symbols
            latex = sympy.latex(equation)
            if lines and len(latex) + len(lines[-1]) <= LINE:
                lines[-1] = rf"{latex}, \quad {lines[-1]}"
            else:
                lines.append(latex)
        display = ", \\\\\n".join(reversed(lines))
        return f"\\begin{{gather*}}\n{display}\n\\end{{gather*}}"
