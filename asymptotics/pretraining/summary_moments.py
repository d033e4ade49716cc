r"""Exact moments of the context summary for Gaussian inputs of any covariance.

For a task w, inputs of covariance :math:`\Sigma/d` and labels of variance
:math:`v = w^\top \Sigma w/d + \rho`, the summary
:math:`h = (\frac d\ell \sum_i y_i x_i, \frac1\ell \sum_i y_i^2)` of :math:`\ell` pairs has

.. math:: E\,h = (\Sigma w, v), \qquad E\,hh^\top = \begin{pmatrix}
   (1 + \frac1\ell)\,\Sigma w w^\top \Sigma + \frac{d v}\ell \Sigma
   & (1 + \frac2\ell)\,v \Sigma w \\
   (1 + \frac2\ell)\,v w^\top \Sigma & (1 + \frac2\ell)\,v^2 \end{pmatrix},

by Isserlis' theorem: :math:`E\,x_i y_i = \Sigma w/d`, and inputs and labels are jointly Gaussian.
Over a law of tasks, :math:`G = E\,hh^\top` and :math:`A = E\,hw^\top` need
:math:`E\,ww^\top`, :math:`E\,vw`, :math:`E\,v` and :math:`E\,v^2` only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iclimit.asymptotics.numbers import Number, Value


@dataclass(frozen=True)
class TaskMoments:
    r"""What the moments of the summary need of a law of tasks.

    Attributes
    ----------
    second : ndarray (d, d)
        :math:`E\,ww^\top`.
    mean, third : ndarray (d,)
        :math:`E\,w` and :math:`E\,vw`.
    label, label_square : float
        :math:`E\,v` and :math:`E\,v^2` of the variance v of a noisy label.
    """

    second: np.ndarray
    mean: np.ndarray
    third: np.ndarray
    label: Value
    label_square: Value


def centred_moments(
    second: np.ndarray, sigma: np.ndarray | None, rho: Value, *, sphere: bool
) -> TaskMoments:
    r"""Moments of tasks of mean zero: Gaussian ones, or a linear image of those on a sphere.

    With :math:`S = C \Sigma` and the second moment C, the variance of :math:`w^\top \Sigma w` is
    :math:`2 \operatorname{tr} S^2`, and for the sphere
    :math:`\frac2{d + 2} (d \operatorname{tr} S^2 - (\operatorname{tr} S)^2)`.
    """
    d = len(second)
    scatter = second if sigma is None else second @ sigma
    trace = np.trace(scatter)
    square = np.sum(scatter * scatter.T)
    spread = 2 * square
    if sphere:
        spread = 2 * (d * square - trace**2) / (d + 2)
    label = trace / d + rho
    zero = 0 * second[0]
    return TaskMoments(second, zero, zero, label, label**2 + spread / d**2)


def task_set_moments(
    tasks: np.ndarray, sigma: np.ndarray | None, rho: Number, shares: np.ndarray | None = None
) -> TaskMoments:
    """Moments of tasks that are drawn from the rows of an array (k, d), by default equally."""
    k, d = tasks.shape
    label = np.sum(tasks * (tasks if sigma is None else tasks @ sigma), axis=1) / d + rho
    if shares is None:
        return TaskMoments(
            second=tasks.T @ tasks / k,
            mean=np.sum(tasks, axis=0) / k,
            third=label @ tasks / k,
            label=np.sum(label) / k,
            label_square=np.sum(label**2) / k,
        )
    return TaskMoments(
        second=tasks.T @ (shares[:, None] * tasks),
        mean=shares @ tasks,
        third=(shares * label) @ tasks,
        label=shares @ label,
        label_square=shares @ label**2,
    )


def summary_moments(
    tasks: TaskMoments, context: Value, sigma: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    r"""Moments :math:`G = E\,hh^\top`, (d + 1, d + 1), and :math:`A = E\,hw^\top`, (d + 1, d).

    ``sigma`` is the covariance :math:`\Sigma` of the inputs times d; None if they are isotropic.
    Entries may be of any number system.
    """
    d = len(tasks.second)
    inputs = np.eye(d, dtype=tasks.second.dtype) if sigma is None else sigma
    head = tasks.second
    third = tasks.third[:, None]
    if sigma is not None:
        head = sigma @ head @ sigma
        third = sigma @ third
    corner = 1 + 2 / context
    head = d / context * tasks.label * inputs + (1 + 1 / context) * head
    tail = np.full((1, 1), corner * tasks.label_square)
    G = np.block([[head, corner * third], [corner * third.T, tail]])
    first = tasks.second if sigma is None else sigma @ tasks.second
    return G, np.vstack([first, tasks.third])
