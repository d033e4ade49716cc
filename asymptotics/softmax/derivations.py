"""Derivations of softmax attention as SymPy equations, step by step, with LaTeX for papers.

Each step is computed from the one before: best values and temperatures are where derivatives
vanish.
"""

from typing import Any

from iclimit.asymptotics.checks import check_integers
from iclimit.asymptotics.derivation import Derivation
from iclimit.asymptotics.softmax.functional import finite_rank_loss
from iclimit.asymptotics.softmax.heads import softmax_loss


def derive_softmax_head(heads: int = 1) -> Derivation:
    r"""Derive the best softmax head, or pair of opposite heads, in the limit of large N and d.

    Parameters
    ----------
    heads : {1, 2}
        Number of heads; 2 have keys and values of opposite signs.

    Returns
    -------
    Derivation
        Loss, best value, the loss with it, best temperature and least loss, with c = d/N,
        :math:`v = \sigma^2/N`, :math:`t = \beta\sqrt d` and u = value over :math:`\sqrt d`.

    Raises
    ------
    ValueError
        If heads is neither 1 nor 2.

    Examples
    --------
    >>> from iclimit.asymptotics.softmax import derive_softmax_head
    >>> derive_softmax_head().result
    E*(c + v)/(E*c + E*v + 1)
    >>> derive_softmax_head(2).result
    (c + v)/(c + v + 1)
    """
    import sympy

    check_integers(heads=heads)
    if heads > 2:
        raise ValueError(f"heads must be 1 or 2, got {heads}")
    t, u, c, v = sympy.symbols("t u c v", positive=True)
    L = sympy.Function(r"\mathcal{L}")
    loss = softmax_loss(t, value=u, ratio=c, noise_ratio=v, heads=heads)
    slope = sympy.diff(loss, u)
    (value,) = sympy.solve(slope, u)
    profile = sympy.simplify(loss.subs(u, value))
    efficiency = sympy.simplify((1 / profile - 1) * (c + v))
    eff = sympy.Function(r"\mathrm{eff}")
    steps = {
        "Loss per dimension at inverse temperature t and value u:": sympy.Eq(L(t, u), loss),
        "It is quadratic in the value, and least at": sympy.Eq(u, sympy.simplify(value)),
        "There it is that of a context shortened by the efficiency": sympy.Eq(eff(t), efficiency),
        "since": sympy.Eq(L(t), (c + v) / (eff(t) + c + v)),
    }
    if heads == 1:
        rising = sympy.factor(sympy.diff(efficiency, t))
        (best,) = [root for root in sympy.solve(rising, t) if root.is_positive]
        steps["The efficiency is largest where its derivative vanishes:"] = sympy.Eq(rising, 0)
        steps["that is at"] = sympy.Eq(t, best)
        least = efficiency.subs(t, best)
    else:
        least = sympy.limit(efficiency, t, 0)
        series = sympy.series(efficiency, t, 0, 6).removeO()
        steps["It decreases with the temperature from"] = sympy.Eq(eff(t), series)
    result = sympy.factor((c + v) / (least + c + v))
    steps["The least loss per dimension:"] = sympy.Eq(sympy.Symbol(r"\mathcal{L}^*"), result)
    return Derivation(tuple(steps.items()))


def derive_long_context() -> Derivation:
    r"""Derive the best temperature at fixed dimension, as the context length N grows.

    Returns
    -------
    Derivation
        N times the loss at :math:`b = \beta^2`, the condition for b, and the best b, with
        :math:`s = \sigma^2`.

    Examples
    --------
    >>> from iclimit.asymptotics.softmax import derive_long_context
    >>> print(derive_long_context().steps[-2][1])
    Eq(b**2*(-d**2 - 2*d*s - 2*d - 4*s) + b*(d**2 + d*s + 4*d + 4*s) - d - s, 0)
    """
    import sympy

    b, d, s, r = sympy.symbols("b d s r", positive=True)
    L = sympy.Symbol(r"N \mathcal{L}")
    E = sympy.Function(r"\operatorname{E}")
    growth = (1 - 2 * b) ** (-d / 2)
    second = sympy.simplify(sympy.diff(growth, b))
    loss = sympy.factor((sympy.simplify(second) * b + (d + s) * growth) / b)
    slope = sympy.numer(sympy.together(sympy.simplify(sympy.diff(sympy.log(loss), b))))
    condition = sympy.collect(sympy.expand(slope / sympy.gcd_terms(slope).as_coeff_Mul()[0]), b)
    if condition.subs(b, 0).subs({d: 1, s: 1}) > 0:
        condition = sympy.collect(sympy.expand(-condition), b)
    A = condition.coeff(b, 2)
    B = condition.coeff(b, 1)
    C = condition.coeff(b, 0)
    root = 2 * C / (-B - sympy.sqrt(sympy.factor(B**2 - 4 * A * C)))
    steps = {
        "Mean of the growing weights over queries:": sympy.Eq(E(sympy.exp(b * r**2)), growth),
        "and its derivative by b:": sympy.Eq(E(r**2 * sympy.exp(b * r**2)), second),
        "Loss at the best value, 1/sqrt(b):": sympy.Eq(L, loss),
        "Its logarithm is stationary where": sympy.Eq(condition, 0),
        "with the root below 1/2": sympy.Eq(b, root),
    }
    return Derivation(tuple(steps.items()))


def derive_sine_optimum() -> Derivation:
    r"""Derive the least loss of an embedding and one attention layer on sines.

    Returns
    -------
    Derivation
        For :math:`y = a \sin(x + \phi)`, :math:`\phi` from :math:`U(0, \pi)` independent of a, x
        from U(-X, X) and :math:`\kappa = E a^2/2`: covariance, second moments of the features, and
        the loss.

    Examples
    --------
    >>> from iclimit.asymptotics.softmax import derive_sine_optimum
    >>> derive_sine_optimum().result
    kappa*(-l_+*(l_+ - 1)/(N*l_+ - l_+ + 1) - l_-*(l_- - 1)/(N*l_- - l_- + 1))
    """
    import sympy

    x, z, phase = sympy.symbols("x x' phi", real=True)
    N, X, kappa, plus, minus = sympy.symbols("N X kappa l_+ l_-", positive=True)
    product = 2 * kappa * sympy.sin(x + phase) * sympy.sin(z + phase)
    covariance = sympy.simplify(sympy.integrate(product, (phase, 0, sympy.pi)) / sympy.pi)
    C = sympy.Function("C")
    steps = {"Covariance of the function at two inputs:": sympy.Eq(C(x, z), covariance)}
    texts = (
        "that is, cosine and sine with coefficients of variance kappa; their second moments are",
        "and",
    )
    losses: list[Any] = []
    for text, share, feature in zip(texts, (plus, minus), (sympy.cos, sympy.sin), strict=True):
        moment = sympy.integrate(feature(x) ** 2, (x, -X, X)) / (2 * X)
        steps[text] = sympy.Eq(share, sympy.expand(moment))
        # One feature of variance kappa; the variance of a label is kappa at every input.
        loss = finite_rank_loss(
            task_covariance=sympy.Matrix([[kappa]]),
            feature_moments=sympy.Matrix([[share]]),
            scaled_moments=sympy.Matrix([[share / kappa]]),
            context=N,
        )
        losses.append(sympy.factor(loss / kappa))
    least = sympy.Symbol(r"\mathcal{L}^*")
    steps["They are not correlated, so that the least loss is a sum:"] = sympy.Eq(
        least, kappa * sum(losses)
    )
    return Derivation(tuple(steps.items()))
