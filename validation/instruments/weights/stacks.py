r"""A stack of linear attention layers, read as GD++.

A layer with products :math:`P_h = c\, W_{O,h} W_{V,h}` and :math:`Q_h = W_{K,h}^\top W_{Q,h}` adds
:math:`\sum_h P_h G Q_h e` to every token, G being the second moments of the tokens.  It is linear
in the tensor :math:`M_{iabj} = \sum_h (P_h)_{ia} (Q_h)_{bj}`, made symmetric in a and b.  The
residual connection fixes the basis of the tokens, so nothing but this tensor is left of the
weights, and its parts have a meaning:

* :math:`\omega_{xx}`: inputs by moments of inputs, the preconditioning of GD++;
* :math:`\omega_{yx}`, or a matrix D for it: labels by moments of labels with inputs, the step of
  gradient descent;
* :math:`\omega_{xy}` and :math:`\omega_{yy}`: inputs and labels by the token's own label, the
  further numbers of diagonal transformers.

Each is the projection of M on tensors of this form.  Three models keep more and more of M:
"gd++" has :math:`\omega_{xx}` and :math:`\omega_{yx}`, "diag" all four, "preconditioned" the
matrices D besides.  What they miss is measured on prompts: the mean square of the difference of
the predictions over that of the stack's.  A projection is not the best fit of the predictions, so
a model that keeps more of M mostly, not always, misses less of them.

With N pairs and inputs of variance s, rates and strengths are
:math:`\eta_l = -N s\, \omega_{yx}` and :math:`\gamma_l = -N s\, \omega_{xx}`, as in
`iclimit.gdpp.simulate_gdpp`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from iclimit.asymptotics.checks import check_integers, real_number
from iclimit.checks import check_choice
from iclimit.drawing import COLOURS, Axes, finish
from iclimit.notation import explaining
from iclimit.problem import Problem
from iclimit.results import Estimate, Result
from iclimit.simulate.arrays import Seed, get_backend, seed_sequences
from iclimit.simulate.models.transformer import Layer, apply_layer, prediction
from iclimit.simulate.prompts import Prompts, draw_prompts, regression_tokens
from iclimit.tables import aligned
from iclimit.validation.instruments.ratios import ratio
from iclimit.validation.instruments.weights.layouts import (
    Layout,
    Products,
    Weights,
    get_layout,
    off_identity,
    parse_layer,
)
from iclimit.words import percent

# Models that a stack is compared with, from few numbers to more.
MODELS = ("gd++", "diag", "preconditioned")


@dataclass(frozen=True, repr=False)
class ReducedStack(Result):
    r"""Parameters of GD++ that a stack of layers has, and what they leave out.

    Attributes
    ----------
    rates : ndarray (L,)
        Rates :math:`\eta_l` of the mean over the pairs, for inputs of variance 1.
    gammas : ndarray (L - 1,)
        Strengths :math:`\gamma_l` of the preconditioning between the layers.
    preconditioners : ndarray (L, d, d)
        Matrix of each step over its mean diagonal: the identity for GD++.  Zero where that
        vanishes.
    omegas : ndarray (L, 2, 2)
        The four numbers :math:`\omega` of a diagonal transformer, for inputs as they are; the
        indices are 0 for x and 1 for y.
    ignored : dict of str to Estimate
        Share of the mean square of the prediction that "gd++", "diag" and "preconditioned" miss.
    errors : dict of str to Estimate
        Mean squared errors of the "stack" and of the three, in the units of the library.
    layout : Layout
        How the weights were read.
    """

    rates: np.ndarray
    gammas: np.ndarray
    preconditioners: np.ndarray
    omegas: np.ndarray
    ignored: dict[str, Estimate]
    errors: dict[str, Estimate]
    layout: Layout = field(repr=False)

    @property
    def anisotropy(self) -> np.ndarray:
        """Share of each preconditioner's squared norm that is no multiple of the identity."""
        return off_identity(self.preconditioners)

    def draw(self, ax: Axes) -> None:
        """Draw rates and strengths layer by layer."""
        layers = np.arange(1, len(self.rates) + 1)
        ax.plot(layers, self.rates, "o-", color=COLOURS[0], label=r"rate $\eta_l$")
        ax.plot(layers[:-1], self.gammas, "s-", color=COLOURS[1], label=r"$\gamma_l$")
        ax.axhline(0, color="0.6", linewidth=0.8)
        ax.locator_params(axis="x", integer=True)
        title = f"GD++ misses {percent(self.ignored['gd++'].mean, 3)} of the prediction"
        finish(ax, "layer", "", title=title, legend="")

    def __str__(self) -> str:
        """Short table."""
        layers = [["layer", "rate", "gamma", "step off the identity"]]
        for number, rate in enumerate(self.rates):
            strength = f"{self.gammas[number]:.4f}" if number < len(self.gammas) else "-"
            off = percent(self.anisotropy[number], 3)
            layers.append([str(number + 1), f"{rate:.4f}", strength, off])
        models = [["model", "missed of the prediction", "error"]]
        models.append(["stack", "", str(self.errors["stack"])])
        models += [[name, percent(self.ignored[name]), str(self.errors[name])] for name in MODELS]
        heading = f"{len(self.rates)} layers in layout {self.layout.describe()}"
        return "\n".join([heading, *aligned(layers), *aligned(models, "<>")])


@explaining
def reduced_stack(
    stack: Sequence[Weights],
    *,
    layout: str | Layout = "vonoswald2023",
    context: int,
    noise_variance: float,
    heads: int = 1,
    task_covariance: np.ndarray | None = None,
    input_covariance: np.ndarray | None = None,
    test_prompts: int = 10_000,
    rng: Seed = 0,
) -> ReducedStack:
    r"""Parameters of GD++ of a stack of linear attention layers, and what they miss.

    Parameters
    ----------
    stack : sequence of mappings, or of Layer
        Weights of the layers, each as in `reduced_gamma`; a layer that is applied again is
        repeated.
    layout : str or Layout
        Arrangement of a paper, in which the prediction is minus the last entry of the query's
        token: ``vonoswald2023``, ``blog2024``, ``ahn2023`` or ``versatile2024``.  Layers of
        `iclimit.train_attention` are in ``versatile2024``.
    context, noise_variance, heads
        As in `reduced_gamma`.
    task_covariance, input_covariance
        As in `reduced_gamma`; inputs and tasks of the sampled prompts are Gaussian.
    test_prompts : int >= 2
        Prompts on which the predictions are compared.
    rng : int, SeedSequence or Generator
        Seed of the prompts.

    Returns
    -------
    ReducedStack
        Rates, strengths, preconditioners, and the shares that they miss with standard errors.

    Raises
    ------
    ValueError
        If an argument is outside its range, a name is not known, or shapes do not fit.
    TypeError
        If an argument is of another kind.
    ArithmeticError
        If predictions overflow.

    References
    ----------
    GD++: von Oswald et al., arXiv:2212.07677.  Diagonal transformers: Vladymyrov et al.,
    arXiv:2402.14180.

    Examples
    --------
    >>> from iclimit.simulate.gdpp import gdpp_transformer
    >>> from iclimit.validation.instruments.weights.stacks import reduced_stack
    >>> model = gdpp_transformer([0.8, 0.9, 1.0], [0.2, 0.3], context=20, dim=3)
    >>> found = reduced_stack(
    ...     model.layers, layout="versatile2024", context=20, noise_variance=0.0, test_prompts=100
    ... )
    >>> found.rates.round(6), found.gammas.round(6)
    (array([0.8, 0.9, 1. ]), array([0.2, 0.3]))
    >>> found.ignored["gd++"].mean < 1e-20
    True
    """
    chosen = get_layout(layout)
    check_integers(least=2, test_prompts=test_prompts)
    layers = _parsed(stack, chosen, context, heads)
    d = layers[0].dim
    noise = real_number("noise_variance", noise_variance)
    units = chosen.convention.units(dim=d, context=context, noise_variance=noise)
    variance = units.value("input_variance")
    omegas = np.array([_omegas(layer) for layer in layers])
    steps = np.array([_step(layer) for layer in layers])
    law = Problem(
        dim=d,
        context=context,
        scale=math.sqrt(variance),
        noise_variance=noise,
        task_variance=units.value("task_variance"),
        input_covariance=input_covariance,
        task_covariance=task_covariance,
    )
    kept = {"gd++": omegas * [[1, 0], [1, 0]], "diag": omegas, "preconditioned": omegas}
    models = {
        name: [
            _diagonal(numbers, step if name == "preconditioned" else numbers[1, 0] * np.eye(d))
            for numbers, step in zip(kept[name], steps, strict=True)
        ]
        for name in MODELS
    }
    ignored, errors = _compared(layers, models, law, chosen, test_prompts, rng)
    label = float(units.factor("noise_variance"))
    scale = -context * variance
    mean = omegas[:, 1, 0, None, None]
    return ReducedStack(
        rates=scale * omegas[:, 1, 0],
        gammas=scale * omegas[:-1, 0, 0],
        preconditioners=np.divide(steps, mean, out=np.zeros_like(steps), where=mean != 0),
        omegas=omegas,
        ignored=ignored,
        errors={name: error.scaled(1 / label) for name, error in errors.items()},
        layout=chosen,
    )


@explaining
def stack_parts(
    stack: Sequence[Weights],
    *,
    by: str = "layers",
    layout: str | Layout = "vonoswald2023",
    context: int,
    heads: int = 1,
) -> StackParts:
    """The parts of a stack of linear attention layers, as `iclimit.validation.probe_parts` asks.

    Parameters
    ----------
    stack, layout, context, heads
        As in `reduced_stack`.
    by : {"layers", "heads"}
        The answers that are read out after each layer, or what each head of each layer adds to the
        answer, which is the sum of these.

    Returns
    -------
    StackParts
        A function of inputs, labels and query; ``names`` has its columns.

    Raises
    ------
    ValueError
        If an argument is outside its range, a name is not known, or shapes do not fit.
    TypeError
        If an argument is of another kind.

    Examples
    --------
    >>> import iclimit
    >>> from iclimit.simulate.gdpp import gdpp_transformer
    >>> model = gdpp_transformer([0.5, 0.5], [0.0], context=20, dim=4)
    >>> parts = iclimit.validation.stack_parts(model.layers, layout="versatile2024", context=20)
    >>> parts.names
    ('layer 1', 'layer 2')
    >>> from iclimit.simulate.prompts import sample_prompts
    >>> prompts = sample_prompts(iclimit.Problem(dim=4, context=20, scale=1), 3, rng=0)
    >>> parts(prompts.inputs, prompts.labels, prompts.query).shape
    (3, 2)
    """
    check_choice("by", by, ("layers", "heads"))
    chosen = get_layout(layout)
    layers = _parsed(stack, chosen, context, heads)
    return StackParts(tuple(_stack(layers)), by, chosen.include_query)


@dataclass(frozen=True)
class StackParts:
    """Answers of a stack by layers, or by heads; see `stack_parts`.

    Attributes
    ----------
    layers : tuple of Layer
        The layers.
    by : {"layers", "heads"}
        What the parts are.
    include_query : bool
        Whether the query's token is among the keys and values.
    """

    layers: tuple[Layer, ...]
    by: str
    include_query: bool

    @property
    def names(self) -> tuple[str, ...]:
        """What the columns are."""
        numbers = range(1, len(self.layers) + 1)
        if self.by == "layers":
            return tuple(f"layer {number}" for number in numbers)
        return tuple(
            f"layer {number}, head {head + 1}"
            for number, layer in zip(numbers, self.layers, strict=True)
            for head in range(len(layer.key))
        )

    def __call__(self, inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> np.ndarray:
        """Answers (batch, parts)."""
        tokens = regression_tokens(Prompts(inputs, labels, query))
        columns = []
        for layer in self.layers:
            updates = [
                apply_layer(tokens, _head(layer, number), include_query=self.include_query)
                for number in range(len(layer.key))
            ]
            added = [update - tokens for update in updates]
            tokens = tokens + sum(added)
            columns += [tokens] if self.by == "layers" else added
        return -np.stack([column[:, -1, -1] for column in columns], axis=1)


def _head(layer: Layer, number: int) -> Layer:
    """A layer of one of its heads."""
    parts = (layer.key, layer.query, layer.value, layer.projection)
    return Layer(*(matrices[number : number + 1] for matrices in parts))


def _parsed(stack: Sequence[Weights], layout: Layout, context: int, heads: int) -> list[Products]:
    """Layers on tokens of one size, in a layout that reads minus the label's entry."""
    if layout.sign > 0:
        raise ValueError(
            "layout must be one in which the prediction is minus the label's entry "
            f"(vonoswald2023, blog2024, ahn2023, versatile2024), got {layout.name!r}"
        )
    check_integers(heads=heads, context=context)
    if isinstance(stack, (str, bytes)) or not isinstance(stack, Sequence) or not stack:
        raise TypeError(f"stack must be a sequence of one layer or more, got {stack!r}")
    layers = [_scaled(parse_layer(weights, layout, heads), layout, context) for weights in stack]
    sizes = {layer.dim for layer in layers}
    if len(sizes) > 1 or any(len(layer.output[0]) != layer.dim + 1 for layer in layers):
        raise ValueError(f"stack must have layers on tokens of one size, got d = {sorted(sizes)}")
    return layers


def _scaled(products: Products, layout: Layout, context: int) -> Products:
    return Products(products.lookup, layout.factor(context) * products.output)


def _step(layer: Products) -> np.ndarray:
    """Matrix D, (d, d): the label of a token x changes by x^T D (sum of label times input)."""
    d = layer.dim
    output = layer.output
    lookup = layer.lookup
    matrix = np.einsum("ha,hi->ia", output[:, d, :d], lookup[:, d, :d])
    return matrix + np.einsum("h,hai->ia", output[:, d, d], lookup[:, :d, :d])


def _omegas(layer: Products) -> np.ndarray:
    """The four numbers of a diagonal transformer, by projection: (2, 2)."""
    d = layer.dim
    output = layer.output
    lookup = layer.lookup
    heads = output[:, :d, :d]
    diagonal = lookup[:, :d, :d]
    # The tensor (delta_ia delta_bj + delta_ib delta_aj) / 2 has the squared norm (d^2 + d) / 2.
    traces = np.einsum("hii->h", heads) * np.einsum("hii->h", diagonal)
    xx = (np.sum(traces) + np.sum(heads * diagonal)) / (d**2 + d)
    xy = np.sum(np.einsum("hii->h", heads) * lookup[:, d, d])
    xy += np.sum(output[:, :d, d] * lookup[:, :d, d])
    yy = np.sum(output[:, d, d] * lookup[:, d, d])
    return np.array([[xx, xy / d], [np.trace(_step(layer)) / d, yy]])


def _diagonal(omegas: np.ndarray, step: np.ndarray) -> Products:
    """Layer of two heads, for inputs and for labels, with a matrix for the step."""
    d = len(step)
    output, lookup = np.zeros((2, 2, d + 1, d + 1))
    output[0, :d, :d] = np.eye(d)
    output[1, d, d] = 1.0
    lookup[0, :d, :d] = omegas[0, 0] * np.eye(d)
    lookup[0, d, d] = omegas[0, 1]
    lookup[1, :d, :d] = step.T
    lookup[1, d, d] = omegas[1, 1]
    return Products(lookup, output)


def _compared(
    layers: list[Products],
    models: dict[str, list[Products]],
    law: Problem,
    layout: Layout,
    count: int,
    rng: Seed,
) -> tuple[dict[str, Estimate], dict[str, Estimate]]:
    """Shares that the models miss, and errors of the stack and the models, on the same prompts."""
    backend = get_backend("numpy")
    prompts = draw_prompts(law, backend, backend.generator(seed_sequences(rng, 1)[0]), count)
    tokens = regression_tokens(prompts)
    options = {"include_query": layout.include_query}
    with np.errstate(over="ignore", invalid="ignore"):
        predictions = {"stack": prediction(tokens, _stack(layers), **options)}
        predictions |= {name: prediction(tokens, _stack(model)) for name, model in models.items()}
    if not all(np.all(np.isfinite(answers)) for answers in predictions.values()):
        raise ArithmeticError("predictions overflow: normalization or layout may be another one")
    total = predictions["stack"] ** 2
    ignored = {
        name: ratio((predictions[name] - predictions["stack"]) ** 2, total) for name in models
    }
    errors = {
        name: Estimate.of((answers - prompts.query_label) ** 2, keep=False)
        for name, answers in predictions.items()
    }
    return ignored, errors


def _stack(layers: list[Products]) -> list[Layer]:
    """The layers in the form of the simulator."""
    stack = []
    for layer in layers:
        eye = np.broadcast_to(np.eye(layer.dim + 1), layer.lookup.shape)
        stack.append(Layer(key=eye, query=layer.lookup, value=layer.output, projection=eye))
    return stack
