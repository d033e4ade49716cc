r"""Which pairs of its context a recurrent memory uses: attention to the past.

In the setting of `iclimit.asymptotics.recurrent.errors` with isotropic inputs, the weights
:math:`c_i` of the pairs in a memory u, whatever it is, are those that minimise

.. math:: E\, \bigl|u - \textstyle\sum_i c_i\, z_i\bigr|^2, \qquad z_i = y_i x_i ,

so that :math:`\sum_i c_i z_i` is the linear attention that is nearest to the memory.  They solve
:math:`G c = b` with :math:`b_j = E \langle u, z_j\rangle` and

.. math:: G_{ij} = E \langle z_i, z_j\rangle = \frac{\phi^{|i - j|}}d, \quad i \ne j, \qquad
   G_{ii} = 1 + \frac2d + \rho .

A token at which the memory decays and is written changes the products with all earlier pairs, and
has one with its own, in which R is :math:`E \langle u, w\rangle/d` before it:

.. math:: b_j \leftarrow \gamma \Bigl(1 - \frac\beta d\Bigr) b_j
   + \frac{\eta\, \phi^{t - j}}d \quad (j < t), \qquad
   b_t = \gamma R\, \Bigl[1 - \beta \Bigl(1 + \frac2d\Bigr)\Bigr]
   + \eta \Bigl(1 + \frac2d + \rho\Bigr) .

With keys :math:`x/|x|` the writes :math:`\eta` carry a factor :math:`m_1 = E |x|`, and the token's
own product has :math:`1 - \beta` and :math:`1 + 1/d + \rho` for its two brackets.

Without correction :math:`c_i` is the product of the later gates; a delta rule forgets a pair by
about :math:`\gamma (1 - \beta/d)` at every later token.  The formulas are derived here.
"""

import numpy as np

from iclimit.asymptotics.recurrent.errors import Numbers, mean_norm, recurrent_errors


def memory_weights(
    *,
    context: int,
    dim: int,
    rho: float = 0.0,
    drift: float = 0.0,
    gates: Numbers = 1.0,
    step_sizes: Numbers = 0.0,
    writes: Numbers | None = None,
    unit_keys: bool = False,
) -> np.ndarray:
    r"""Weight of each pair of a context in a memory that decays before it is written.

    Parameters
    ----------
    context : int >= 1
        Number of pairs.
    dim : int >= 1
        Dimension d.
    rho : float >= 0
        Variance of the label noise.
    drift : float >= 0
        Rate :math:`\vartheta` at which tasks change.
    gates : float or array (context,) in [0, 1]
        Gate of each token.
    step_sizes : float or array (context,) >= 0
        Step :math:`\beta` of each token; 0 for a memory without correction.
    writes : float or array (context,), optional
        Factor :math:`\eta` of what is written; by default the steps, and 1 where they are all 0.
    unit_keys : bool
        Whether keys are inputs divided by their norms.

    Returns
    -------
    ndarray (context,)
        From the first pair to the last.

    Raises
    ------
    ValueError
        If an argument is outside its range or has another length.
    TypeError
        If an argument is not a number or an array of them.

    References
    ----------
    Module `iclimit.asymptotics.recurrent.positions`.

    Examples
    --------
    >>> from iclimit.asymptotics.recurrent import memory_weights
    >>> memory_weights(context=4, dim=20, gates=0.9).round(3)
    array([0.729, 0.81 , 0.9  , 1.   ])
    >>> memory_weights(context=4, dim=20, rho=0.25, step_sizes=0.6).round(3)
    array([0.55 , 0.554, 0.557, 0.56 ])
    """
    _require_given("gates", gates)
    _require_given("step_sizes", step_sizes)
    if writes is None:
        writes = step_sizes if np.any(step_sizes) else 1.0
    known = recurrent_errors(
        "gated-delta",
        context=context,
        dim=dim,
        rho=rho,
        drift=drift,
        gates=gates,
        step_sizes=step_sizes,
        writes=writes,
        unit_keys=unit_keys,
    )
    gate = np.broadcast_to(gates, context)
    step = np.broadcast_to(step_sizes, context)
    write = np.broadcast_to(writes, context)
    age = np.arange(context)
    kept = np.exp(-drift / dim * np.abs(age[:, None] - age))
    second = 1 + 2 / dim
    # Mean of the norm of an input over that of its key.
    norm = mean_norm(dim) if unit_keys else 1
    # Means with two more factors of the input, for reading and for writing.
    read = 1.0 if unit_keys else second
    written = 1 + 1 / dim if unit_keys else second
    write = norm * write
    products = np.zeros(context)
    for t in range(context):
        products[:t] = gate[t] * (1 - step[t] / dim) * products[:t] + write[t] * kept[t, :t] / dim
        own = gate[t] * known.signal[t] * (1 - step[t] * read)
        products[t] = own + write[t] * (written + rho)
    gram = kept / dim + (second + rho - 1 / dim) * np.eye(context)
    return np.linalg.solve(gram, products)


def _require_given(name: str, value: Numbers | None) -> None:
    if value is None:
        raise TypeError(f"{name} must be a number or an array, got None")
