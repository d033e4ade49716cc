"""Control variates: means over Gaussian inputs, sharpened by moments that are known exactly."""

import numpy as np
from scipy.special import digamma

from iclimit.results import Estimate


def controlled(samples: np.ndarray, controls: np.ndarray) -> Estimate:
    """Mean of samples (n,) less their regression on controls (n, m), whose means are zero.

    The slopes for one half of the samples are fitted to the other half, so there is no bias.
    """
    remaining = samples.astype(float)
    even = slice(0, None, 2)
    odd = slice(1, None, 2)
    for mine, other in ((even, odd), (odd, even)):
        centred = controls[other] - np.mean(controls[other], axis=0)
        slopes = np.linalg.lstsq(centred, samples[other] - np.mean(samples[other]), rcond=None)[0]
        remaining[mine] -= controls[mine] @ slopes
    return Estimate.of(remaining)


def trace_controls(gram: np.ndarray, context: int) -> np.ndarray:
    """Traces of X^T X and of its square, (n, 2), scaled to mean one, less their means.

    The matrices X^T X (n, d, d) are those of N = context rows of standard normal inputs.
    """
    dim = gram.shape[-1]
    first = np.trace(gram, axis1=1, axis2=2) / (context * dim)
    second = np.sum(gram**2, axis=(1, 2)) / (context * dim * (context + dim + 1))
    return np.stack([first, second], axis=-1) - 1


def spectral_controls(eigenvalues: np.ndarray, context: int) -> np.ndarray:
    """The same from the eigenvalues (n, d), and the centred log-determinant, (n, 3); N >= d."""
    dim = eigenvalues.shape[-1]
    traces = trace_controls(eigenvalues[:, :, None] * np.eye(dim), context)
    # The determinant is a product of chi-squares of N, N - 1, ... degrees of freedom.
    mean = np.sum(digamma((context - np.arange(dim)) / 2) + np.log(2))
    logarithm = np.sum(np.log(eigenvalues), axis=-1) - mean
    return np.concatenate([traces, logarithm[:, None]], axis=-1)
