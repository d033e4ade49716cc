"""A derivation as SymPy equations, step by step, with LaTeX for papers."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Derivation:
    """Steps of a derivation.

    Attributes
    ----------
    steps : tuple of (str, sympy.Eq)
        What is done, and the equation that results.  The last equation is the result.
    """

    steps: tuple[tuple[str, Any], ...]

    @property
    def result(self) -> Any:
        """Right-hand side of the last equation."""
        return self.steps[-1][1].rhs

    def latex(self) -> str:
        """All steps as text with displayed equations."""
        import sympy

        return "\n".join(f"{text}\n\\[ {sympy.latex(eq)} \\]" for text, eq in self.steps)
