"""Spectra of training tasks, test tasks and inputs, in the limit and at size d.

Eigenvalues are paired by their ranks, in order or one of the spectra reversed.  At size d they are
the means of their functions of the rank over d equal cells.  These are the eigenvalues of a file
that has d of them; at another d it is resampled.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from iclimit.asymptotics.pretraining import JointSpectrum
from iclimit.asymptotics.spectra import SpectralMeasure, spectrum
from iclimit.asymptotics.spectra.rank_function import RankFunction

_REVERSED = "reversed"

Spectrum: TypeAlias = str | SpectralMeasure


@dataclass(frozen=True)
class Structure:
    """Spectra of a setting.

    Attributes
    ----------
    task : str or SpectralMeasure
        Spectrum of training tasks: a description (`iclimit.asymptotics.spectra.spectrum`), or a
        measure.
    test : str or SpectralMeasure, optional
        The same for test tasks, paired with the training tasks in order of the eigenvalues;
        ``reversed:DESCRIPTION`` in the opposite order, ``reversed`` the spectrum of the training
        tasks in the opposite order.  None: test tasks as in training.
    inputs : str or SpectralMeasure, optional
        The same for inputs; a description or ``reversed:DESCRIPTION``.  None: isotropic.

    Raises
    ------
    ValueError
        If a description is unknown, or an eigenvalue is not allowed.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> from iclimit.diagrams.structure import Structure
    >>> structure = Structure("atoms:0.4,1.6", test="reversed")
    >>> structure.joint.task, structure.joint.test
    (array([0.4, 1.6]), array([1.6, 0.4]))
    >>> structure.covariances(4)
    {'task': array([0.4, 0.4, 1.6, 1.6]), 'test': array([1.6, 1.6, 0.4, 0.4])}
    """

    task: Spectrum
    test: Spectrum | None = None
    inputs: Spectrum | None = None

    def __post_init__(self) -> None:
        self.joint  # noqa: B018  wrong spectra are told here

    @cached_property
    def joint(self) -> JointSpectrum:
        """Joint spectrum in the limit."""
        task, test, inputs = (self._functions.get(n) for n in ("task", "test", "inputs"))
        assert task is not None
        return JointSpectrum.of_measures(
            task.measure,
            None if test is None else test.measure,
            input_spectrum=None if inputs is None else inputs.measure,
            pairing="reversed" if test and test.descending else "same",
            input_pairing="reversed" if inputs and inputs.descending else "same",
        )

    def covariances(self, d: int) -> dict[str, np.ndarray]:
        """Eigenvalues (d,) of the covariances that are given, in their common basis."""
        ends = np.arange(d + 1) / d
        return {name: f.means(ends) for name, f in self._functions.items()}

    @property
    def described(self) -> dict[str, str]:
        """Descriptions, by the names of the arguments that they are given as."""
        named = {
            "task_spectrum": self.task,
            "test_spectrum": self.test,
            "input_spectrum": self.inputs,
        }
        return {name: str(given) for name, given in named.items() if given is not None}

    @property
    def title(self) -> str:
        """Descriptions in the notation, for a picture."""
        symbols = ("$C$", "$C'$", r"$\Sigma$")
        given = (self.task, self.test, self.inputs)
        return ", ".join(
            f"{symbol}: {_short(str(spec))}"
            for symbol, spec in zip(symbols, given, strict=True)
            if spec is not None
        )

    @cached_property
    def _functions(self) -> dict[str, RankFunction]:
        task = _parsed("task_spectrum", self.task)
        functions = {"task": RankFunction(task)}
        if self.test == _REVERSED:
            functions["test"] = RankFunction(task, descending=True)
        elif self.test is not None:
            functions["test"] = _paired("test_spectrum", self.test)
        if self.inputs is not None:
            functions["inputs"] = _paired("input_spectrum", self.inputs)
            lowest = functions["inputs"].measure.support[0][0]
            if lowest <= 0:
                raise ValueError(f"input_spectrum must have eigenvalues > 0, got {lowest}")
        return functions


def given_structure(
    *,
    task_spectrum: Spectrum | None = None,
    test_spectrum: Spectrum | None = None,
    input_spectrum: Spectrum | None = None,
) -> Structure | None:
    """Structure from what a user gives; None if nothing is given.

    Tasks are isotropic where the spectrum of the inputs only is given.
    """
    if task_spectrum is None and test_spectrum is not None:
        raise ValueError(f"test_spectrum needs task_spectrum, got only {test_spectrum!r}")
    if task_spectrum is None and input_spectrum is None:
        return None
    return Structure(
        "isotropic" if task_spectrum is None else task_spectrum, test_spectrum, input_spectrum
    )


def _parsed(name: str, spec: Spectrum) -> SpectralMeasure:
    if isinstance(spec, SpectralMeasure):
        return spec
    try:
        return spectrum(spec)
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name}: {error}") from None


def _paired(name: str, spec: Spectrum) -> RankFunction:
    if isinstance(spec, str) and spec.startswith(f"{_REVERSED}:"):
        return RankFunction(_parsed(name, spec.partition(":")[2]), descending=True)
    return RankFunction(_parsed(name, spec))


def _short(text: str) -> str:
    text = text if len(text) <= 40 else f"{text[:12]}...{text[-24:]}"
    return text.replace("$", r"\$")
