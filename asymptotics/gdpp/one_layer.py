"""Best single step of gradient descent when every prompt has its own noise level."""

from dataclasses import dataclass

from iclimit.asymptotics.checks import checked
from iclimit.asymptotics.numbers import Number, Value
from iclimit.results import Result


@dataclass(frozen=True, repr=False)
class OneLayer(Result):
    r"""Best single step of gradient descent.

    Attributes
    ----------
    rate : number, array or SymPy expression
        Step on the sum over the context: :math:`-w_{yx}` of the paper's layer.
    loss : number, array or SymPy expression
        Loss, not adjusted.
    """

    rate: Value
    loss: Value


def one_layer(mean_noise_variance: Number, *, context: Number, dim: Number) -> OneLayer:
    r"""Best single step of gradient descent, :math:`\hat w = \eta X^\top y`.

    Parameters
    ----------
    mean_noise_variance : number or array >= 0
        Mean noise variance :math:`E \sigma^2`.
    context, dim : number or array > 0
        Number N of pairs and dimension d.

    Returns
    -------
    OneLayer
        :math:`\eta = 1/(N + d + 1 + E \sigma^2)` and the loss :math:`\frac d2 (1 - N \eta)`;
        broadcast, and of the number system of the arguments (NumPy or another array library,
        mpmath, SymPy).

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number, or number systems mix.

    References
    ----------
    arXiv:2402.14180, the one-layer rows of Table 1; follows from
    :math:`E \operatorname{tr} S = N d` and :math:`E \operatorname{tr} S^2 = N d (N + d + 1)`.

    Examples
    --------
    >>> from iclimit.asymptotics.gdpp import one_layer
    >>> from sympy import symbols
    >>> N, d, v = symbols("N d v", positive=True)
    >>> one_layer(v, context=N, dim=d).loss
    d*(d + v + 1)/(2*N + 2*d + 2*v + 2)
    """
    ranges = {"context": "(0, inf)", "dim": "(0, inf)"}
    math_, (variance, context, dim) = checked(
        ranges=ranges, mean_noise_variance=mean_noise_variance, context=context, dim=dim
    )
    rest = dim + 1 + variance
    total = context + rest
    return OneLayer(math_.finish(1 / total), math_.finish(dim * rest / (2 * total)))
