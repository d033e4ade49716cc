"""Spectra of training tasks, test tasks and inputs, in the limit and at size d.

Eigenvalues of two spectra are paired by their ranks, in the same or in the opposite order.  A run
of dimension d needs d eigenvalues.  They are the means of a spectrum, as a function of the rank,
over d equal cells.  For a file that has d eigenvalues these are its eigenvalues themselves; at any
other d the file is resampled.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from iclimit.asymptotics.pretraining import JointSpectrum
from iclimit.asymptotics.pretraining.joint_spectrum import RankFunction
from iclimit.asymptotics.spectra import Atoms, SpectralMeasure, spectrum
from iclimit.asymptotics.spectra.measures import FILES
from iclimit.checks import check_flag
from iclimit.statement import Derived

# Spectra, with the symbols of their covariances.
_SYMBOLS = {"task_spectrum": "$C$", "test_spectrum": "$C'$", "input_spectrum": r"$\Sigma$"}

# Begins the description of a spectrum that is paired in the opposite order.
_REVERSE = "reversed:"

Spectrum: TypeAlias = str | SpectralMeasure | Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Structure:
    """Spectra of a setting.

    Attributes
    ----------
    task_spectrum : str, SpectralMeasure or array (n,)
        Spectrum of training tasks: a description (`iclimit.asymptotics.spectra.spectrum`), a
        measure, or eigenvalues.
    test_spectrum : str, SpectralMeasure or array (n,), optional
        The same for test tasks, paired with the training tasks in order of the eigenvalues;
        ``reversed:DESCRIPTION`` in the opposite order, ``reversed`` the spectrum of the training
        tasks in the opposite order.  None: test tasks as in training.
    input_spectrum : str, SpectralMeasure or array (n,), optional
        The same for inputs; a description or ``reversed:DESCRIPTION``.  None: isotropic.
    normalized : bool
        Divide each spectrum by its mean.

    Raises
    ------
    ValueError
        If a description is unknown, or an eigenvalue is not allowed.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining.structure import Structure
    >>> structure = Structure("atoms:0.4,1.6", test_spectrum="reversed")
    >>> structure.joint.task, structure.joint.test
    (array([0.4, 1.6]), array([1.6, 0.4]))
    >>> for name, eigenvalues in structure.covariances(4).items():
    ...     print(name, eigenvalues)
    task_covariance [0.4 0.4 1.6 1.6]
    test_covariance [1.6 1.6 0.4 0.4]
    """

    task_spectrum: Spectrum
    test_spectrum: Spectrum | None = None
    input_spectrum: Spectrum | None = None
    normalized: bool = False

    def __post_init__(self) -> None:
        for name in _SYMBOLS:
            if isinstance(given := getattr(self, name), (list, tuple, np.ndarray)):
                object.__setattr__(self, name, _parse(name, given))
        self.joint  # noqa: B018  wrong spectra raise here

    @cached_property
    def joint(self) -> JointSpectrum:
        """Joint spectrum in the limit."""
        task = self._functions.get("task_spectrum")
        test = self._functions.get("test_spectrum")
        inputs = self._functions.get("input_spectrum")
        assert task is not None
        return JointSpectrum.of_measures(
            task.measure,
            None if test is None else test.measure,
            input_spectrum=None if inputs is None else inputs.measure,
            pairing="reversed" if test and test.descending else "same",
            input_pairing="reversed" if inputs and inputs.descending else "same",
        )

    @property
    def measures(self) -> dict[str, SpectralMeasure]:
        """Spectra that are given."""
        return {name: function.measure for name, function in self._functions.items()}

    def covariances(self, dim: int) -> dict[str, np.ndarray]:
        """Eigenvalues (dim,) of the covariances that are given, in their common basis."""
        ends = np.arange(dim + 1) / dim
        return {
            name.replace("spectrum", "covariance"): function.means(ends)
            for name, function in self._functions.items()
        }

    def stated_covariances(self, dim: int) -> dict[str, Derived]:
        """Eigenvalues of `covariances` as arguments of a run, called by what was given."""
        return {
            name: Derived(values, self._statements[name.replace("covariance", "spectrum")])
            for name, values in self.covariances(dim).items()
        }

    @cached_property
    def _statements(self) -> dict[str, Any]:
        """Descriptions of the spectra that are given; of files and measures what is in them."""
        statements: dict[str, Any] = {}
        for name, description in self.described.items():
            spec = getattr(self, name)
            statements[name] = description
            if not isinstance(spec, str) or spec.endswith(FILES):
                reverse = isinstance(spec, str) and spec.startswith(_REVERSE)
                order = "descending" if reverse else "ascending"
                scale = "mean 1" if self.normalized else "as given"
                measure = _parse(name, spec.removeprefix(_REVERSE) if reverse else spec)
                statements[name] = (measure, order, scale)
        return statements

    @property
    def described(self) -> dict[str, str]:
        """Descriptions of the spectra that are given."""
        given = {name: getattr(self, name) for name in _SYMBOLS}
        more = " (mean 1)" if self.normalized else ""
        return {name: f"{spec}{more}" for name, spec in given.items() if spec is not None}

    @property
    def title(self) -> str:
        """Descriptions in the notation, for a picture."""
        return ", ".join(f"{_SYMBOLS[n]}: {_short(text)}" for n, text in self.described.items())

    @cached_property
    def _functions(self) -> dict[str, RankFunction]:
        """Eigenvalues as functions of the rank, by the names of the spectra that are given."""
        functions = {}
        for name in self.described:
            spec = getattr(self, name)
            descending = False
            if isinstance(spec, str) and name != "task_spectrum":
                descending = spec.startswith(_REVERSE)
                spec = spec.removeprefix(_REVERSE)
                if name == "test_spectrum" and spec == "reversed":
                    spec = self.task_spectrum
                    descending = True
            measure = _parse(name, spec)
            if self.normalized and measure.mean not in (0, 1):
                measure = measure.scaled(1 / measure.mean)
            functions[name] = RankFunction(measure, descending=descending)
        if inputs := functions.get("input_spectrum"):
            lowest = inputs.measure.support[0][0]
            if lowest <= 0:
                raise ValueError(f"input_spectrum must have eigenvalues > 0, got {lowest}")
        return functions


def parse_structure(
    task_spectrum: Spectrum | None = None,
    test_spectrum: Spectrum | None = None,
    input_spectrum: Spectrum | None = None,
    normalize: bool = False,
) -> Structure | None:
    """Structure from what a user gives; None if nothing is given.

    Tasks are isotropic where only the spectrum of the inputs is given.
    """
    if task_spectrum is None and test_spectrum is not None:
        raise ValueError(f"test_spectrum needs task_spectrum, got only {test_spectrum!r}")
    check_flag("normalize", normalize)
    if task_spectrum is None and input_spectrum is None:
        if normalize:
            raise ValueError("normalize needs a spectrum, got none")
        return None
    tasks = "isotropic" if task_spectrum is None else task_spectrum
    return Structure(tasks, test_spectrum, input_spectrum, normalize)


def _parse(name: str, spec: Spectrum) -> SpectralMeasure:
    if isinstance(spec, SpectralMeasure):
        return spec
    try:
        return spectrum(spec) if isinstance(spec, str) else Atoms(spec)
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name}: {error}") from None


def _short(text: str) -> str:
    text = text if len(text) <= 40 else f"{text[:12]}...{text[-24:]}"
    return text.replace("$", r"\$")
