"""Derivations as SymPy equations, step by step, with LaTeX for papers.

Each step is computed from the one before, not copied from a book: the optimal rate is where the
derivative of the loss vanishes, Wishart moments follow from Stein's recursion, and schedules from
the least value of a quadratic form in moments.
"""

from __future__ import annotations

from iclimit.asymptotics.checks import check_integers
from iclimit.asymptotics.derivation import Derivation
from iclimit.asymptotics.descent.best_rates import optimal_schedule
from iclimit.asymptotics.descent.learning_rate import MOMENTS, learning_rate_loss
from iclimit.asymptotics.numbers import Number, Value
from iclimit.asymptotics.spectra import MarchenkoPastur, Wishart
from iclimit.asymptotics.spectra.wishart import stein_terms, wishart_moment
from iclimit.checks import check_choice


def derive_learning_rate(
    input_law: str | None = None, *, normalization: str = "mean"
) -> Derivation:
    r"""Derive the optimal learning rate of one step from the loss, a quadratic in the rate.

    Parameters
    ----------
    input_law : {"gaussian", "uniform", "rademacher", "laplace"}, optional
        Input law to specialise to; moments :math:`m_2, m_4` stay symbols by default.
    normalization : {"mean", "sum"}
        Whether the step is the sum or the mean over the context.

    Returns
    -------
    Derivation
        Loss, stationarity, rate and least loss.

    Raises
    ------
    ValueError
        If the law or the normalization is unknown.

    Examples
    --------
    >>> from iclimit.asymptotics.descent import derive_learning_rate
    >>> steps = derive_learning_rate("uniform").steps
    >>> print(steps[2][1])
    Eq(eta, 15*N*a**2/(5*N*a**2 + 5*a**2*d - a**2 + 15*sigma**2))
    """
    import sympy

    N, d, eta, a, sigma, m2, m4 = sympy.symbols("N d eta a sigma m_2 m_4", positive=True)
    if input_law is not None:
        check_choice("input_law", input_law, tuple(MOMENTS))
        second, fourth = MOMENTS[input_law]
        m2 = sympy.Rational(*second)
        m4 = sympy.Rational(*fourth)
    loss = learning_rate_loss(
        eta,
        context=N,
        dim=d,
        input_law=(m2, m4),
        noise_variance=sigma**2,
        task_variance=a**2,
        normalization=normalization,
    )
    quadratic = sympy.collect(sympy.expand(loss), eta, sympy.factor)
    slope = sympy.diff(quadratic, eta)
    (rate,) = (sympy.factor(root) for root in sympy.solve(slope, eta))
    least = sigma**2 + sympy.factor(loss.subs(eta, rate) - sigma**2)
    L = sympy.Function(r"\mathcal{L}")
    steps = {
        "Loss on a noisy query label, in moments of the inputs:": sympy.Eq(L(eta), quadratic),
        "It is least where its derivative vanishes:": sympy.Eq(slope, 0),
        f"The optimal rate of the {normalization} over the context:": sympy.Eq(eta, rate),
        "The least loss:": sympy.Eq(sympy.Symbol(r"\mathcal{L}^*"), least),
    }
    return Derivation(tuple(steps.items()))


def derive_wishart_moment(order: int) -> Derivation:
    r"""Derive :math:`E \operatorname{tr} (X^\top X)^k` by Stein's recursion.

    Parameters
    ----------
    order : int >= 1
        The exponent k.

    Returns
    -------
    Derivation
        One step of the recursion for each mixed moment needed, lowest first.

    Raises
    ------
    ValueError
        If order is not a positive integer.

    Examples
    --------
    >>> from iclimit.asymptotics.descent import derive_wishart_moment
    >>> derive_wishart_moment(3).result
    N*d*(N**2 + 3*N*d + 3*N + d**2 + 3*d + 4)
    """
    import sympy

    check_integers(least=1, order=order)
    N, d = sympy.symbols("N d", positive=True)
    needed: list[tuple[int, ...]] = []

    def visit(powers: tuple[int, ...]) -> None:
        for _, part in stein_terms(powers, N, d):
            if part and part not in needed:
                visit(part)
        if powers not in needed:
            needed.append(powers)

    visit((order,))
    steps = []
    for powers in needed:
        value = sympy.factor(wishart_moment(powers, context=N, dim=d))
        terms = sum(c * _mean(part) for c, part in stein_terms(powers, N, d))
        text = f"Stein's lemma for the powers {', '.join(map(str, powers))}:"
        steps.append((text, sympy.Eq(_mean(powers), terms)))
        if terms != value:
            steps.append(("that is,", sympy.Eq(_mean(powers), value)))
    return Derivation(tuple(steps))


def _mean(powers: tuple[int, ...]) -> Value:
    import sympy

    if not powers:
        return sympy.Integer(1)
    return sympy.Symbol(r"E[" + " ".join(f"p_{{{k}}}" for k in powers) + "]")


def derive_schedule(
    steps: int, *, context: Number | None = None, dim: Number | None = None
) -> Derivation:
    r"""Derive the optimal noiseless schedule from the moments of the spectrum.

    Parameters
    ----------
    steps : int >= 1
        Number L of gradient-descent steps; up to 4 in reasonable time.
    context, dim : int >= 1 or SymPy expression, optional
        Finite size, for up to 2 steps if they are symbols; the limit, with the symbol c, by
        default.

    Returns
    -------
    Derivation
        Loss of a residual polynomial, the polynomial of least loss, its zeros in the limit, and
        the least loss.

    Raises
    ------
    ValueError
        If steps is not a positive integer, or only one of context and dim is given.

    Examples
    --------
    >>> from iclimit.asymptotics.descent import derive_schedule
    >>> derive_schedule(2).result
    c**2/(c**2 + c + 1)
    >>> derive_schedule(2, context=20, dim=10).result
    15827/93957
    """
    import sympy

    check_integers(steps=steps)
    if (context is None) != (dim is None):
        raise ValueError(f"give both context and dim, or neither, got {context} and {dim}")
    c, x = sympy.symbols("c lambda", positive=True)
    limit = context is None
    spectrum = MarchenkoPastur(c) if limit else Wishart(context=context, dim=dim)
    moments = [sympy.sympify(spectrum.moment(k)) for k in range(2 * steps + 1)]
    unknown = sympy.symbols(f"r_1:{steps + 1}")
    residual = [sympy.Integer(1), *unknown]
    loss = sum(
        p * q * moments[i + j] for i, p in enumerate(residual) for j, q in enumerate(residual)
    )
    solution = sympy.solve([sympy.diff(loss, r) for r in unknown], unknown, dict=True)[0]
    polynomial = sum(r.subs(solution) * x**k for k, r in enumerate(residual))
    least = sympy.factor(sympy.cancel(loss.subs(solution)))
    L = sympy.Symbol(r"\mathcal{L}")
    R = sympy.Function("R")
    name = "Marchenko-Pastur" if limit else "Wishart"
    collected = sympy.collect(sympy.expand(loss), unknown)
    equations = {
        f"Loss of a residual polynomial with R(0) = 1, in {name} moments:": sympy.Eq(L, collected),
        "It is least at": sympy.Eq(R(x), sympy.collect(sympy.factor(polynomial), x)),
    }
    if limit:
        rates = optimal_schedule(steps=steps, ratio=c).rates
        product = sympy.prod([1 - rate * x for rate in rates])
        equations["whose zeros are the reciprocal rates:"] = sympy.Eq(R(x), product)
    equations["The least loss:"] = sympy.Eq(sympy.Symbol(r"\mathcal{L}^*"), least)
    return Derivation(tuple(equations.items()))
