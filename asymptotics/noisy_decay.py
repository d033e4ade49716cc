r"""A decay that noise slows down: :math:`y + u\,(e^y - 1) = t`, by Lambert's function.

The excess error :math:`v = e^{-y}` of the best stochastic steps obeys
:math:`dv/dt = -v^2/(v + u)` from :math:`v = 1`, for tokens of a context and for prompts of a
pretraining alike; u is the noise in units of the first excess.
"""

from __future__ import annotations

from iclimit.asymptotics.numbers import MpMath, Namespace, SymPyMath, Value

# Newton's method reaches rounding in 6 steps for noise from 1e-12 to 100 and times from 1e-8 to
# 1e6.
_NEWTON_STEPS = 9


def noisy_decay(math_: Namespace, time: Value, noise: Value) -> Value:
    """exp(-y) with y + noise (exp(y) - 1) = time, for finite times."""
    if isinstance(math_, SymPyMath):
        from sympy import LambertW

        noisy = noise / LambertW(noise * math_.exp(noise + time))
        return math_.where(noise > 0, lambda: noisy, lambda: math_.exp(-time))
    # The left-hand side is convex and increases, so that Newton's method converges from above.
    positive = math_.where(noise > 0, lambda: noise, lambda: 1)
    bound = math_.log1p(math_.divide(time, positive))
    y = math_.where(bound < time, lambda: bound, lambda: time)
    for _ in range(_NEWTON_STEPS + 4 * isinstance(math_, MpMath)):
        y = y - (y + positive * math_.expm1(y) - time) / (1 + positive * math_.exp(y))
    return math_.where(noise > 0, lambda: math_.exp(-y), lambda: math_.exp(-time))
