r"""Softmax heads on inputs that are uniform on a cube, as in the published experiments.

Inputs :math:`x_i, x_q` with independent coordinates U(-1, 1); tasks N(0, I) and label noise as in
`iclimit.asymptotics.softmax.brackets`.  Given the query, the pairs are independent.  With the
scores :math:`a_i = \beta x_q \cdot x_i` and :math:`Z = \sum_i e^{a_i}`,

.. math:: \nabla_{x_q} \log Z = \beta \sum_i p_i x_i, \qquad
   \Delta_{x_q} \log Z = \beta^2 \Bigl(\sum_i p_i |x_i|^2 - \Bigl|\sum_i p_i x_i\Bigr|^2\Bigr),

and the mean of the Laplacian over a cube is the flux through its faces.  So the loss of one head
needs averages of one factor :math:`p_i` only,

.. math:: \mathcal L = \frac d3 - \frac{2v}\beta\,E \sum p a + v^2 \Bigl\{ d\,E \sum p x_1^2
   - \frac d\beta\,E\Bigl[\sum p x_1 \Big| x_{q,1} = 1\Bigr] + \sigma^2 q \Bigr\} .

For two heads with opposite keys and values the first bracket doubles, and the second becomes

.. math:: 2 \{\dots\} - 2 d\,E \Bigl[\sum p^+ x_1 \sum p^- x_1\Bigr] - 2 \sigma^2 E \sum p^+ p^- .

The averages are integrals as in `iclimit.asymptotics.softmax.weight_averages` and
`iclimit.asymptotics.softmax.pair_averages`.

*Quadrature.*  The mean over the query is a Gauss-Legendre rule for each coordinate, summed over
multisets of nodes, as the order of the coordinates does not matter.  The law of a score is a Gauss
rule: coordinates are added one by one, and each sum is reduced to few nodes by the Lanczos method.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import minimize_scalar

from iclimit.asymptotics.checks import check_integers, checked, require_whole
from iclimit.asymptotics.numbers import Number
from iclimit.asymptotics.softmax.heads import SoftmaxHead
from iclimit.threads import one_blas_thread

# Nodes of a coordinate of the inputs; more by 2 beta for cold scores, and 6 more for a score.
_NODES = 10

# Step of the logarithms of the integration variables, with an error of 1e-10.
_STEP = 0.3

# Largest exponent: squares of products of two such exponentials stay below 1e308.
_LARGEST_EXPONENT = 170.0

# Largest dimension: beyond, the multisets of nodes are too many.
_LARGEST = 12

Law = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class _Quadratic:
    """Loss at a temperature as a quadratic in the value."""

    null: float
    signal: float
    power: float

    @property
    def value(self) -> float:
        return float(self.signal / self.power)

    def loss(self, value: float) -> float:
        return float(self.null - 2 * value * self.signal + value**2 * self.power)


@one_blas_thread
def uniform_softmax(
    *, context: Number, dim: Number, noise_variance: Number = 0.0, heads: int = 1
) -> SoftmaxHead:
    r"""Best softmax head, or pair of opposite heads, for inputs uniform on a cube.

    Parameters
    ----------
    context : int from 2 to 1000
        Number N of context pairs.
    dim : int from 1 to 12
        Dimension d.
    noise_variance : number >= 0
        Variance of the label noise.
    heads : {1, 2}
        Number of heads; 2 have keys and values of opposite signs.

    Returns
    -------
    SoftmaxHead
        For coordinates U(-1, 1) and tasks of variance 1 per coordinate.  The null predictor has
        the loss d/3.  The ``error`` is that of a coarser rule, mostly an overestimate.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number.

    Notes
    -----
    One head takes half a second in dimension 5 and one in dimension 10, two heads twice as long,
    and dimension 12 four times.
    For other ranges of the inputs: coordinates U(-b, b) have the temperature
    :math:`\beta/b^2` and the loss :math:`b^2 \mathcal L` (noise :math:`b^2 \sigma^2`).

    References
    ----------
    Derived in module `iclimit.asymptotics.softmax.uniform_inputs`.

    Examples
    --------
    >>> from iclimit.asymptotics.softmax import uniform_softmax
    >>> best = uniform_softmax(context=10, dim=2)
    >>> round(best.loss, 5), round(best.inverse_temperature, 2), round(best.value, 2)
    (0.16542, 4.96, 0.93)
    """
    N, d, noise = _parse(context, dim, noise_variance, heads)
    few, many = _few_and_many(d)

    def profile(log_beta: float) -> float:
        best = _quadratic(float(np.exp(log_beta)), N, d, noise, heads, few)
        return best.loss(best.value)

    # In units of 1/sqrt(d/9), the scale of the scores, as for Gaussian inputs.
    scale = 3 / math.sqrt(d)
    ends = (0.2, 1.8 + 90 / N**2) if heads == 1 else (0.1, 1.8 + 16 / N**2)
    best = minimize_scalar(
        profile, bounds=np.log(np.array(ends) * scale), method="bounded", options={"xatol": 1e-3}
    ).x
    beta = float(np.exp(best))
    fine = _quadratic(beta, N, d, noise, heads, many)
    coarse = _quadratic(beta, N, d, noise, heads, many - 1)
    loss = fine.loss(fine.value)
    error = abs(coarse.loss(fine.value) / loss - 1) + 1e-9
    return SoftmaxHead(beta, fine.value, loss, error)


@one_blas_thread
def uniform_softmax_loss(
    inverse_temperature: Number,
    *,
    value: Number,
    context: Number,
    dim: Number,
    noise_variance: Number = 0.0,
    heads: int = 1,
) -> float:
    r"""Loss of one softmax head, or of two opposite ones, for inputs uniform on a cube.

    Parameters
    ----------
    inverse_temperature : number, not 0
        :math:`\beta`, the factor of the scores.
    value : number
        Factor v of the labels.
    context, dim, noise_variance, heads
        As in `uniform_softmax`.

    Returns
    -------
    float
        Mean squared error on a noiseless query label, with a relative error of about 1e-7 near
        the optimum.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number.

    References
    ----------
    Derived in module `iclimit.asymptotics.softmax.uniform_inputs`.

    Examples
    --------
    >>> from iclimit.asymptotics.softmax import uniform_softmax_loss
    >>> round(uniform_softmax_loss(2.0, value=0.8, context=10, dim=2, heads=2), 4)
    0.0985
    """
    N, d, noise = _parse(context, dim, noise_variance, heads)
    _, head = checked(
        systems="numpy",
        single=True,
        ranges={"value": "(-inf, inf)"},
        inverse_temperature=inverse_temperature,
        value=value,
    )
    beta = float(head.inverse_temperature)
    if beta == 0:
        raise ValueError("inverse_temperature must not be 0")
    # Keys and queries of the opposite sign see inputs of the opposite sign.
    parabola = _quadratic(abs(beta), N, d, noise, heads, _few_and_many(d)[1])
    return parabola.loss(float(head.value) * math.copysign(1.0, beta))


def _few_and_many(d: float) -> tuple[int, int]:
    """Nodes for a coordinate of the query: of the search, and of the result."""
    if d > 6:
        return 2, 4
    many = {1: 16, 2: 12, 3: 8, 4: 6}.get(int(d), 5)
    return many - 2, many


def _parse(
    context: Number, dim: Number, noise_variance: Number, heads: int
) -> tuple[float, float, float]:
    """Context length, dimension and noise variance, checked."""
    check_integers(heads=heads)
    if heads > 2:
        raise ValueError(f"heads must be 1 or 2, got {heads}")
    ranges = {"context": "[2, 1000]", "dim": f"[1, {_LARGEST}]"}
    _, values = checked(
        systems="numpy",
        single=True,
        ranges=ranges,
        context=context,
        dim=dim,
        noise_variance=noise_variance,
    )
    require_whole("context", values.context)
    require_whole("dim", values.dim)
    return float(values.context), float(values.dim), float(values.noise_variance)


def _quadratic(
    beta: float, N: float, d: float, noise: float, heads: int, nodes: int
) -> _Quadratic:
    """Loss at a temperature, with so many nodes for a coordinate of the query."""
    query, weight = _half_legendre(nodes)
    size = _NODES + int(2 * max(beta - 3, 0.0))
    x1, mass1 = np.polynomial.legendre.leggauss(size)
    mass1 = mass1 / 2
    averages = np.zeros(4)
    flux = 0.0
    for probability, (z, mass) in _score_laws(int(d) - 1, nodes, size):
        joint = np.outer(mass, mass1).reshape(-1)
        first = np.tile(x1, len(z))
        for q1, w1 in (*zip(query, weight, strict=True), (1.0, 0.0)):
            a = beta * np.add.outer(z, q1 * x1).reshape(-1)
            if w1 == 0:
                flux += probability * _means(a, joint, N, [first])[0]
                continue
            means = _means(a, joint, N, [a, first**2])
            cross = _cross_means(a, joint, first, N) if heads == 2 else (0.0, 0.0)
            terms = [*means, cross[0] * d + cross[1] * noise]
            averages += probability * w1 * np.array(terms)
    score, square, q, cross_term = averages
    power = d * square - d / beta * flux + noise * q
    if heads == 2:
        return _Quadratic(d / 3, 2 * score / beta, 2 * power - 2 * cross_term)
    return _Quadratic(d / 3, score / beta, power)


def _means(a: np.ndarray, mass: np.ndarray, N: float, functions: list[np.ndarray]) -> list[float]:
    """Means of sum p g for functions g of a pair, and of sum p^2."""
    _, x, decay, log_H0 = _grid(a, mass, N, 17.0)
    power = np.exp((N - 1) * log_H0)
    pushed = x * decay
    pushed_mean = power @ pushed
    means = [pushed_mean @ (mass * g) for g in functions]
    means.append((power @ (x * pushed)) @ mass)
    return [float(_STEP * N * mean) for mean in means]


def _cross_means(
    a: np.ndarray, mass: np.ndarray, first: np.ndarray, N: float
) -> tuple[float, float]:
    """Means of sum p+ x_1 sum p- x_1 and of sum p+ p-."""
    y, x, decay, _ = _grid(a, mass, N, 23.0)
    mirrored = np.exp(-_exponentials(-a, y))
    decay = decay * mass
    G = np.maximum(decay @ mirrored, np.finfo(float).tiny)
    along = (x * decay * first) @ mirrored
    log_G = np.log(G)
    total = np.add.outer(y, y)
    without_one = np.exp(total + (N - 1) * log_G)
    c = np.sum(G * without_one)
    own = np.sum(((decay * first**2) @ mirrored) * without_one)
    # The law of (a, x_1) is that of (-a, -x_1).
    others = -(N - 1) * np.sum(along * along.T * np.exp((N - 2) * log_G))
    return float(_STEP**2 * N * (own + others)), float(_STEP**2 * N * c)


def _exponentials(y: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Factors e^(y + a) of all pairs; where they are huge, their decay is 0 and they do not count.

    They are products of few exponentials, if these are finite.
    """
    if max(np.max(abs(y)), np.max(abs(a))) < _LARGEST_EXPONENT:
        return np.multiply.outer(np.exp(y), np.exp(a))
    return np.exp(np.minimum(np.add.outer(y, a), _LARGEST_EXPONENT))


def _grid(a: np.ndarray, mass: np.ndarray, N: float, tail: float) -> tuple[np.ndarray, ...]:
    """Grid of y where the integrals live, and there e^(y + a), its decay and log of mean decay."""
    spread = min(float(a.max()), 9.0 * math.sqrt(mass @ a**2))
    y = np.arange(-math.log(N) - spread - tail, 4.0 - a.min(), _STEP)
    x = _exponentials(y, a)
    decay = np.exp(-x)
    log_H0 = np.log(np.maximum(decay @ mass, np.finfo(float).tiny))
    kept = N * log_H0 > -42.0
    return y[kept], x[kept], decay[kept], log_H0[kept]


def _half_legendre(nodes: int) -> Law:
    """Rule for functions that are even in U(-1, 1): positive half of 2 n Legendre nodes."""
    node, mass = np.polynomial.legendre.leggauss(2 * nodes)
    return node[nodes:], mass[nodes:]


@lru_cache(maxsize=16)
def _score_laws(coordinates: int, nodes: int, size: int) -> list[tuple[float, Law]]:
    """Laws of x_q . x over so many coordinates, with probabilities, for all multisets of x_q.

    They are those of all temperatures of a search.
    """
    query, weight = _half_legendre(nodes)
    x, mass = np.polynomial.legendre.leggauss(size)
    mass = mass / 2
    laws: dict[tuple[int, ...], Law] = {(): (np.zeros(1), np.ones(1))}
    weighed = []
    for chosen in itertools.chain.from_iterable(
        itertools.combinations_with_replacement(range(len(query)), k)
        for k in range(coordinates + 1)
    ):
        if chosen:
            z, known = laws[chosen[:-1]]
            total = np.add.outer(z, query[chosen[-1]] * x).reshape(-1)
            laws[chosen] = _reduced(total, np.outer(known, mass).reshape(-1), size + 6)
        if len(chosen) == coordinates:
            counts = [chosen.count(k) for k in range(len(query))]
            ways = math.factorial(coordinates) / math.prod(map(math.factorial, counts))
            weighed.append((float(ways * np.prod(weight ** np.array(counts))), laws[chosen]))
    return weighed


def _reduced(nodes: np.ndarray, mass: np.ndarray, most: int) -> Law:
    """Gauss rule of few nodes for a rule of many."""
    size = min(most, len(nodes))
    if size == len(nodes):
        return nodes, mass
    basis = np.zeros((size, len(nodes)))
    basis[0] = np.sqrt(mass)
    diagonal = np.zeros(size)
    beside = np.zeros(size - 1)
    for k in range(size):
        vector = nodes * basis[k]
        diagonal[k] = vector @ basis[k]
        for _ in range(2):
            vector -= basis[: k + 1].T @ (basis[: k + 1] @ vector)
        if k + 1 < size:
            beside[k] = math.sqrt(vector @ vector)
            basis[k + 1] = vector / beside[k]
    matrix = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
    values, vectors = np.linalg.eigh(matrix)
    return values, vectors[0] ** 2
