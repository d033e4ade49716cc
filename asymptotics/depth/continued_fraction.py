r"""Least polynomials of a discrete measure, from its continued fraction, without cancellation.

The Stieltjes transform of a measure :math:`\sigma` on positive numbers is a continued fraction
with the coefficients :math:`q_1, e_1, q_2, \dots` of Rutishauser.  All of them are positive, and

.. math:: \frac1{\mathcal L} = \sum_{k=0}^L \prod_{j \le k} \frac{q_j}{e_j} .

The coefficients are built up from the largest eigenvalue to the smallest: each adds a mass at the
origin, which then moves to the next eigenvalue.  Neither step subtracts anything but neighbouring
eigenvalues, so that float64 keeps full relative accuracy, where the Lanczos method would need
reorthogonalisation and would lose what is below :math:`10^{-16}` of the largest eigenvalue.  This
is the idea of Laurie, J. Comput. Appl. Math. 112 (1999) 165.

Here :math:`\mathcal L` is the least :math:`\int p^2 d\sigma` over polynomials of degree L with
p(0) = 1, for a measure of mass one.
"""

import numpy as np

# Bound on 1/loss beyond which the products of the continued fraction leave float64.
_OVERFLOW = 1e300


def continued_fraction(
    x: np.ndarray, mass: np.ndarray, depth: int
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients q_k, e_k, k = 1..depth, of more than depth eigenvalues > 0 in ascending order.

    Level k treats an eigenvalue one tick after level k - 1, so that all levels work at once.  An
    eigenvalue arrives at a level with three numbers: the share r that its mass leaves of q, the
    share 1 - r that goes to e, and the shift t.  Levels beyond the number of eigenvalues so far
    hold arbitrary numbers, which r = 0 wipes out when their turn comes.
    """
    padded = _entering(x[::-1], mass[::-1], depth)
    q = np.zeros(depth)
    e = np.zeros(depth)
    # Each level has numbers of its eigenvalue, which goes to the next one with every tick.
    levels = np.zeros((4, depth))
    kept, lost, shift, gap = levels
    for tick in range(padded.shape[1]):
        levels[:, 1:] = levels[:, :-1]
        levels[:, 0] = padded[:, tick]
        # Levels that this eigenvalue has not reached or all have left stay as they are.
        active = slice(max(0, tick - len(x) + 1), min(depth, tick + 1))
        moved = q[active] * lost[active]
        rest = q[active] * kept[active]
        grown = e[active] + moved
        new_q = rest + shift[active]
        kept[active] = np.divide(e[active], grown, out=np.ones_like(grown), where=grown > 0)
        lost[active] = np.divide(moved, grown, out=np.zeros_like(grown), where=grown > 0)
        e[active] = grown * (rest / new_q)
        shift[active] = gap[active] + grown * (shift[active] / new_q)
        q[active] = new_q
    return q, e


def christoffel_losses(q: np.ndarray, e: np.ndarray, at_zero: float, total: float) -> np.ndarray:
    """Least losses of depths 1, 2, ...: the share at 0 plus Christoffel functions of the rest."""
    with np.errstate(over="ignore"):
        sums = 1 + np.cumsum(np.cumprod(q / e))
    rest = np.where(sums < _OVERFLOW, (total - at_zero) / sums, 0.0)
    return (at_zero + rest) / total


def reciprocal_zeros(q: np.ndarray, e: np.ndarray) -> np.ndarray:
    """Reciprocal zeros of the orthogonal polynomial of x d sigma, of relative accuracy.

    They are the squared singular values of a bidiagonal matrix, which LAPACK finds to full
    relative accuracy.  Its entries come from q and e by one subtraction-free transformation.
    """
    size = len(q)
    squares = np.empty(size)
    mixed = np.empty(size - 1)
    carried = q[0]
    for k in range(size):
        squares[k] = carried + e[k]
        if k + 1 < size:
            mixed[k] = e[k] * (q[k + 1] / squares[k])
            carried = carried * (q[k + 1] / squares[k])
    bidiagonal = np.diag(np.sqrt(squares)) + np.diag(np.sqrt(mixed), 1)
    return np.sort(1 / np.linalg.svd(bidiagonal, compute_uv=False) ** 2)


def _entering(x: np.ndarray, mass: np.ndarray, depth: int) -> np.ndarray:
    """Shares of the mass before and of each eigenvalue, and twice its gap, tick by tick.

    The eigenvalues descend; zeros follow until the last one has been at all levels.
    """
    total = np.cumsum(mass)
    padded = np.zeros((4, len(x) + depth - 1))
    padded[0, 1 : len(x)] = total[:-1] / total[1:]
    padded[1, : len(x)] = mass / total
    padded[2:, : len(x)] = np.append(x[:-1] - x[1:], x[-1])
    return padded
