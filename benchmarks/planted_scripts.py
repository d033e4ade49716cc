"""Experiments with one mistake each, as people's scripts make them.

Plain NumPy, dense, without anything from this package: prompts are drawn, the features of linear
attention are written out, ridge regression is solved, errors are measured on drawn tests.  A
`Script` without arguments is the experiment that the library's theory is about: inputs
N(0, I/d), tasks uniform with squared norm d, labels with noise of variance rho, and

    sum_mu (y_mu - <Gamma, x_mu h_mu'>)^2 + (n/d) ridge |Gamma|^2

over matrices Gamma of d rows and d + 1 columns, where h of a context is (d/l) sum y x and the mean
of y^2.  Each field is one place in which a script may differ.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# Prompts on which each of the two errors of a run is measured.
TEST_PROMPTS = 1000

# Time of a step of descent: small, so that steps are as good as flow.
STEP = 0.01

Generator = np.random.Generator
# From a generator, a shape whose last entry is d: an array of that shape.
Draw = Callable[[Generator, tuple[int, ...]], np.ndarray]


@dataclass(frozen=True)
class Sizes:
    """Sizes and noise of a run as its table states them."""

    dim: int
    context: int
    tasks: int
    prompts: int
    rho: float
    ridge: float


def gaussian_inputs(rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape) / np.sqrt(shape[-1])


def sphere_inputs(rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
    x = rng.standard_normal(shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def sign_inputs(rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
    return (2.0 * rng.integers(0, 2, shape) - 1.0) / np.sqrt(shape[-1])


def uniform_inputs(rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(-1, 1, shape) * np.sqrt(3 / shape[-1])


def heavy_inputs(rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Student's t with five degrees of freedom, of variance 1/d."""
    return rng.standard_t(5, shape) * np.sqrt(3 / 5 / shape[-1])


def shifted_inputs(rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Inputs whose entries have a mean of one standard deviation."""
    return (rng.standard_normal(shape) + 1) / np.sqrt(shape[-1])


def sphere_tasks(rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
    w = rng.standard_normal(shape)
    return w * np.sqrt(shape[-1]) / np.linalg.norm(w, axis=-1, keepdims=True)


def unit_tasks(rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
    return sphere_tasks(rng, shape) / np.sqrt(shape[-1])


def gaussian_tasks(rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape)


def sparse_tasks(rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
    """A fifth of the entries is not zero."""
    return rng.standard_normal(shape) * (rng.random(shape) < 0.2) * np.sqrt(5)


def random_choice(rng: Generator, tasks: int, prompts: int) -> np.ndarray:
    return rng.integers(0, tasks, prompts)


def equal_choice(_: Generator, tasks: int, prompts: int) -> np.ndarray:
    """Every task has the same number of prompts, up to one."""
    return np.arange(prompts) % tasks


def repeated_choice(rng: Generator, tasks: int, prompts: int) -> np.ndarray:
    """Tasks of prompts, the first ones more often than the last."""
    weights = 1 / (1 + np.arange(tasks))
    return rng.choice(tasks, prompts, p=weights / np.sum(weights))


def full_features(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(d/l) sum y x and the mean of y^2, of contexts of l pairs."""
    context, dim = x.shape[1:]
    products = dim / context * np.einsum("nl,nld->nd", y, x)
    return np.hstack([products, np.mean(y**2, axis=1)[:, None]])


def without_squares(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return full_features(x, y)[:, :-1]


def with_bias(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.hstack([full_features(x, y), np.ones((len(y), 1))])


def summed(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.hstack([np.einsum("nl,nld->nd", y, x), np.sum(y**2, axis=1)[:, None]])


def averaged(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return full_features(x, y) / np.r_[np.full(x.shape[2], float(x.shape[2])), 1.0]


def dropped(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The last quarter of the context is not used."""
    kept = max(1, 3 * x.shape[1] // 4)
    return full_features(x[:, :kept], y[:, :kept])


def sign_only(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Only the signs of labels enter the sum."""
    return full_features(x, np.sign(y))


def plain_labels(_: Generator, signal: np.ndarray, noise: np.ndarray) -> np.ndarray:
    return signal + noise


def clipped_labels(_: Generator, signal: np.ndarray, noise: np.ndarray) -> np.ndarray:
    return np.clip(signal + noise, -1, 1)


def flipped_labels(rng: Generator, signal: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """A tenth of all labels has the wrong sign."""
    return (signal + noise) * np.where(rng.random(signal.shape) < 0.1, -1, 1)


def offset_labels(rng: Generator, signal: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """All labels of a prompt have one random offset in common."""
    return signal + noise + 0.5 * rng.standard_normal((len(signal), 1))


def saturated_labels(_: Generator, signal: np.ndarray, noise: np.ndarray) -> np.ndarray:
    return np.tanh(signal) + noise


def class_labels(_: Generator, signal: np.ndarray, noise: np.ndarray) -> np.ndarray:
    return np.sign(signal) + noise


def relu_labels(_: Generator, signal: np.ndarray, noise: np.ndarray) -> np.ndarray:
    return np.maximum(signal, 0) + noise


def flipped_classes(rng: Generator, signal: np.ndarray, noise: np.ndarray) -> np.ndarray:
    return flipped_labels(rng, np.sign(signal), noise)


def mean_square(errors: np.ndarray) -> float:
    return float(np.mean(errors**2))


def median_square(errors: np.ndarray) -> float:
    return float(np.median(errors**2))


def mean_size(errors: np.ndarray) -> float:
    return float(np.mean(np.abs(errors)))


def normalized_labels(_: Generator, signal: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Labels of a prompt over the root mean square of those of its context."""
    labels = signal + noise
    return labels / np.sqrt(np.mean(labels[:, :-1] ** 2, axis=1, keepdims=True))


@dataclass(frozen=True)
class Script:
    """One way to write the experiment; the defaults are the right one.

    Training is to the minimum, or by descent for a ``time`` (2/d times rate times steps) from
    weights of the variance ``start_variance`` over d.  ``penalty`` is what is added to the
    diagonal of the normal equations.  ``query_noise`` says whether the labels of queries have
    noise, in training and in tests; ``test_context`` multiplies the length of test contexts,
    ``test_rho`` the label noise of tests; ``dim`` is the true dimension of a stated one.
    ``score`` is what is reported of the errors of test prompts.
    """

    inputs: Draw = gaussian_inputs
    tasks: Draw = sphere_tasks
    choice: Callable[[Generator, int, int], np.ndarray] = random_choice
    features: Callable[[np.ndarray, np.ndarray], np.ndarray] = full_features
    labels: Callable[[Generator, np.ndarray, np.ndarray], np.ndarray] = plain_labels
    penalty: Callable[[Sizes], float] = lambda s: s.prompts / s.dim * s.ridge
    query_noise: tuple[bool, bool] = (True, True)
    test_context: float = 1.0
    test_rho: float = 1.0
    noise_variance: Callable[[float], float] = lambda rho: rho
    dim: Callable[[int], int] = lambda dim: dim
    score: Callable[[np.ndarray], float] = mean_square
    test_on_training: bool = False
    copies: int = 1
    time: float = np.inf
    start_variance: float = 0.0

    def prompts(
        self, rng: Generator, w: np.ndarray, context: int, variance: float, query_noise: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Features and query labels of one prompt for each task vector."""
        x = self.inputs(rng, (len(w), context + 1, w.shape[1]))
        noise = np.sqrt(variance) * rng.standard_normal((len(w), context + 1))
        if not query_noise:
            noise[:, -1] = 0
        y = self.labels(rng, np.einsum("nld,nd->nl", x, w), noise)
        h = self.features(x[:, :-1], y[:, :-1])
        return np.einsum("nd,nh->ndh", x[:, -1], h).reshape(len(w), -1), y[:, -1]

    def trained(
        self, rng: Generator, normal: np.ndarray, projected: np.ndarray, scale: float
    ) -> np.ndarray:
        """Weights that solve the normal equations, or come from small steps of descent."""
        if self.time == np.inf:
            return np.linalg.solve(normal, projected)
        # A matrix of d (d + 1) weights.
        dim = int(np.sqrt(len(projected)))
        sd = np.sqrt(self.start_variance / dim)
        gamma = sd * rng.standard_normal(projected.shape)
        for _ in range(round(self.time / STEP)):
            gamma = gamma + STEP * scale * (projected - normal @ gamma)
        return gamma

    def run(self, rng: Generator, sizes: Sizes) -> tuple[float, float]:
        """ICL and IDG error of one pretraining."""
        dim = self.dim(sizes.dim)
        task_set = self.tasks(rng, (sizes.tasks, dim))
        chosen = task_set[self.choice(rng, sizes.tasks, sizes.prompts // self.copies)]
        variance = self.noise_variance(sizes.rho)
        training = self.prompts(rng, chosen, sizes.context, variance, self.query_noise[0])
        features, labels = (np.concatenate([part] * self.copies) for part in training)
        normal = features.T @ features
        normal[np.diag_indices_from(normal)] += self.penalty(sizes)
        gamma = self.trained(rng, normal, features.T @ labels, sizes.dim / sizes.prompts)
        errors = []
        for w in (
            self.tasks(rng, (TEST_PROMPTS, dim)),
            task_set[rng.integers(0, sizes.tasks, TEST_PROMPTS)],
        ):
            tests = self.prompts(
                rng,
                w,
                max(1, round(self.test_context * sizes.context)),
                self.test_rho * variance,
                self.query_noise[1],
            )
            errors.append(self.score(tests[1] - tests[0] @ gamma))
        if self.test_on_training:
            errors[1] = self.score(labels - features @ gamma)
        return errors[0], errors[1]


def simulate(script: Script, sizes: Sizes, runs: int, seed: tuple[int, ...]) -> np.ndarray:
    """Errors of several runs, of shape (2, runs): ICL and IDG."""
    rng = np.random.default_rng(seed)
    return np.array([script.run(rng, sizes) for _ in range(runs)]).T
