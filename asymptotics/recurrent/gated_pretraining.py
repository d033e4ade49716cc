r"""Pretraining with gates, drift and correlated tokens, and tests in which these differ.

In the setting of `iclimit.asymptotics.recurrent.context` the summary of a training context is
:math:`a w + \sqrt q\, z`, that of a test context :math:`a' w + \sqrt{q'}\, z`, with white noise z.
The pretrained matrix :math:`\Gamma`, which acts on h/a, is that of plain attention at the
effective context and the ridge :math:`\lambda/a^2`.  A test sees it with

.. math:: s = \frac{a'}a, \qquad Q = \frac{q'}{a^2}, \qquad
   e = 1 + \rho' - 2 s\, t_1 + (s^2 + Q)\, t_2, \qquad
   t_1 = \frac{\operatorname{tr} \Gamma}d, \quad t_2 = \frac{\lVert\Gamma\rVert_F^2}d .

Only where s = 1 a test is no more than another effective context.  On average over the noise of
training :math:`\Gamma` is :math:`\hat C/(\hat C + \nu)`, and that noise adds
:math:`e_{IDG} A/\tau` to :math:`t_2` only.  In the notation of
`iclimit.asymptotics.pretraining.icl` the averages over the spectrum of :math:`\hat C` are

.. math:: t_1 = 1 - \nu M = \frac Mw, \qquad
   t_2 = \frac Mw\, \frac{1 + \nu w (w - 1)}r + \frac A\tau\, e_{IDG} ,

and the variance of the eigenvalues of the mean is :math:`(\nu M)^2 M/(\kappa r)`.  So

.. math:: e_{ICL} = \rho' + (1 - s\, t_1)^2 + s^2\, \frac{(\nu M)^2 M}{\kappa r}
   + Q\, \frac Mw\, \frac{1 + \nu w (w - 1)}r + (s^2 + Q)\, \frac A\tau\, e_{IDG} ,

a sum of positive terms.  With the error :math:`e_0` of
endless tests at the effective context (:math:`s = 1, Q = \rho' = 0`) it is
:math:`\rho' + (1 - s) + s\, e_0 + (s^2 - s + Q)\, t_2`.

*Length.*  Summaries are means over the pairs, :math:`h = \frac d{\ell'} \sum_i g_i y_i x_i`: with
gates a longer test context has a smaller a'.  The state of a recurrent layer is a sum, which
nobody divides by the length of the test.  With ``running_sum`` it is
:math:`h = \frac d\ell \sum_i g_i y_i x_i` with the length :math:`\ell` of training, and s is
:math:`\alpha'/\alpha` times as large.

The formulas are derived here.
"""

from __future__ import annotations

from iclimit.asymptotics.checks import checked
from iclimit.asymptotics.numbers import Namespace, Number, Value
from iclimit.asymptotics.pretraining.icl import error_parts, errors_of, solve_fixed_point
from iclimit.asymptotics.recurrent.context import effective, signal_and_noise
from iclimit.asymptotics.recurrent.correlated_query import QueryErrors
from iclimit.asymptotics.spectra.resolvent import excess, resolvent
from iclimit.checks import check_flag

_TESTS = ("test_alpha", "test_rho", "test_forgetting", "test_drift", "test_correlation")


def gated_pretraining_errors(
    *,
    tau: Number,
    alpha: Number,
    kappa: Number,
    rho: Number,
    ridge: Number = 0.0,
    forgetting: Number = 0.0,
    drift: Number = 0.0,
    correlation: Number = 0.0,
    test_alpha: Number | None = None,
    test_rho: Number | None = None,
    test_forgetting: Number | None = None,
    test_drift: Number | None = None,
    test_correlation: Number | None = None,
    running_sum: bool = False,
) -> QueryErrors:
    r"""ICL and IDG error of gated linear attention, also in tests with other gates.

    Parameters
    ----------
    tau : number or array > 0, or inf
        Number of training prompts over the squared dimension.
    alpha : number or array in (0, inf)
        Context length over dimension.
    kappa : number or array > 0, or inf
        Number of training tasks over dimension.
    rho : number or array >= 0
        Variance of the label noise.
    ridge : number or array >= 0
        Ridge :math:`\lambda`, on the summary with its gates.
    forgetting : number or array >= 0
        Rate :math:`\omega` of the gate, which is :math:`e^{-\omega/d}` a token.
    drift : number or array >= 0
        Rate :math:`\vartheta` at which tasks change.
    correlation : number or array in (-1, 1)
        Correlation r of the inputs of neighbouring tokens; the query is independent of them.
    test_alpha : number or array > 0, or inf, optional
        Context length over dimension in the prompts behind the ICL error; None, here and below:
        as in training.
    test_rho, test_forgetting, test_drift, test_correlation : number or array, optional
        Label noise, gate, drift and correlation there.
    running_sum : bool
        Whether test summaries are divided by the context length of training, like the state of a
        recurrent layer, which is a sum over the pairs; otherwise by their own length.

    Returns
    -------
    QueryErrors
        With fields ``icl``, for fresh tasks in test prompts, and ``idg``, for the training tasks
        in prompts as in training; NumPy and other arrays, mpmath numbers, SymPy expressions (ridge
        0).
        ``inf`` where an error diverges: tau = 1 without a ridge, and endless sums without gates.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number, number systems mix, or a SymPy expression comes with a
        ridge.

    Notes
    -----
    In tests as in training it is `icl_error` at the `effective_context` and the ridge over
    :math:`a^2`.  At finite size `finite_size_errors` takes gates of any shape.

    float64 is within 1e-12 relative of exact arithmetic for tau and kappa in [1e-2, 1e4], contexts
    in [1e-3, 1e6], noise and rates in [0, 10], correlations in [-0.9, 0.9], ridge in {0} and
    [1e-6, 10].

    References
    ----------
    Module `iclimit.asymptotics.recurrent.gated_pretraining`.

    Examples
    --------
    A layer with a gate, in contexts as in training, and in some that are four times as long:

    >>> from iclimit.asymptotics.recurrent import gated_pretraining_errors
    >>> layer = {"tau": 20, "alpha": 2, "kappa": 8, "rho": 0.1, "forgetting": 1}
    >>> gated_pretraining_errors(**layer)
    QueryErrors(icl=0.561247, idg=0.533094)
    >>> for running_sum in (False, True):
    ...     longer = gated_pretraining_errors(**layer, test_alpha=8, running_sum=running_sum)
    ...     print(round(float(longer.icl), 4))
    0.8188
    0.5048
    """
    check_flag("running_sum", running_sum)
    math_, values = checked(
        ranges={"alpha": "(0, inf)"},
        optional=_TESTS,
        tau=tau,
        alpha=alpha,
        kappa=kappa,
        rho=rho,
        ridge=ridge,
        forgetting=forgetting,
        drift=drift,
        correlation=correlation,
        test_alpha=test_alpha,
        test_rho=test_rho,
        test_forgetting=test_forgetting,
        test_drift=test_drift,
        test_correlation=test_correlation,
    )
    tau = values.tau
    kappa = values.kappa
    rho = values.rho
    test_noise = _tested(values.test_rho, values.rho)
    with math_.quiet():
        a, q = signal_and_noise(
            math_, values.alpha, rho, values.forgetting, values.drift, values.correlation
        )
        signal, noise = _test_law(
            math_,
            values.alpha if running_sum else None,
            _tested(values.test_alpha, values.alpha),
            test_noise,
            _tested(values.test_forgetting, values.forgetting),
            _tested(values.test_drift, values.drift),
            _tested(values.test_correlation, values.correlation),
        )
        s = signal / a
        Q = noise / a**2
        q = q / a**2

        def cases(below: Value) -> tuple[Value, Value]:
            xi, eta = solve_fixed_point(math_, below, tau, q, kappa, values.ridge / a**2)
            M = resolvent(math_, q + xi, kappa, excess(math_, kappa, 1))
            parts = error_parts(tau, kappa, rho, q, xi, M)
            idg = errors_of(math_, tau, xi, eta, parts)[1]
            return test_noise + _excess(math_, kappa, q + xi, M, s, Q, parts[0] / tau, idg), idg

        return QueryErrors(*map(math_.finish, math_.branch(tau < 1, cases)))


def _tested(of_tests: Value, of_training: Value) -> Value:
    """Argument of the tests, which is that of training unless it is given."""
    return of_training if of_tests is None else of_tests


def _test_law(
    math_: Namespace,
    divisor: Value | None,
    alpha: Value,
    rho: Value,
    omega: Value,
    theta: Value,
    r: Value,
) -> tuple[Value, Value]:
    """Signal a' and noise q' of summaries that are divided by their own length or another one."""
    lost = omega + theta

    def finite() -> tuple[Value, Value]:
        ratio = 1 if divisor is None else alpha / divisor
        signal, noise = signal_and_noise(math_, alpha, rho, omega, theta, r)
        return ratio * signal, ratio**2 * noise

    def endless() -> tuple[Value, Value]:
        if divisor is None:  # of an endless context with gates or drift the mean keeps nothing
            return math_.where(lost > 0, lambda: 0, lambda: 1), 0 * rho
        signal = math_.where(lost > 0, lambda: math_.divide(1, lost * divisor), lambda: math_.inf)
        worth = effective(math_, math_.inf, rho, omega, theta, r)
        noise = math_.where(omega > 0, lambda: (1 + rho) * signal**2 / worth, lambda: math_.inf)
        return signal, noise

    endless_tests = math_.isinf(alpha)
    return (
        math_.where(endless_tests, lambda: endless()[0], lambda: finite()[0]),
        math_.where(endless_tests, lambda: endless()[1], lambda: finite()[1]),
    )


def _excess(
    math_: Namespace,
    kappa: Value,
    nu: Value,
    M: Value,
    s: Value,
    Q: Value,
    variance: Value,
    idg: Value,
) -> Value:
    """ICL error without the noise of the test label."""
    w = 1 + M / kappa
    r = 1 + nu * w**2
    # Either form of 1 - s t_1 is exact where the other one cancels.
    missed = math_.stable(s <= 1, lambda: (1 - s) + s * nu * M, lambda: 1 - s * M / w)
    mean = missed**2 + s**2 * (nu * M) ** 2 * M / (kappa * r)
    mean = mean + Q * M / w * (1 + nu * w * M / kappa) / r
    weight = s**2 + Q
    # Without a summary the matrix does not matter, even if it is infinite.
    of_noise = math_.where(weight > 0, lambda: weight * variance * idg, lambda: 0)
    return math_.where(math_.isinf(Q), lambda: math_.inf, lambda: mean + of_noise)
