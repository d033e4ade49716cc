"""Spectra as typed on a command line."""

from __future__ import annotations

from collections.abc import Callable

from iclimit.asymptotics.spectra.atoms import Atoms
from iclimit.asymptotics.spectra.marchenko_pastur import MarchenkoPastur
from iclimit.asymptotics.spectra.measure import SpectralMeasure
from iclimit.asymptotics.spectra.measures import Exponential, PowerLaw, Uniform

_FORMS = (
    "isotropic, powerlaw:EXPONENT, exponential:DECAY, mp:RATIO (mean 1), uniform:LOWER,UPPER, "
    "atoms:V1,V2,...[;W1,W2,...] (as they are), or a file .csv or .txt of one eigenvalue per row "
    "or of a square matrix"
)
_SHAPES: dict[str, Callable[[float], SpectralMeasure]] = {
    "powerlaw": PowerLaw,
    "exponential": Exponential,
    "mp": MarchenkoPastur,
}


def spectrum(spec: str) -> SpectralMeasure:
    """Spectral measure of a covariance from its description.

    Parameters
    ----------
    spec : str
        ``isotropic``, ``powerlaw:0.9``, ``exponential:3``, ``mp:0.5`` (shapes: their mean is 1),
        ``uniform:0.5,1.5``, ``atoms:0.4,1.6``, ``atoms:0.4,1.6;0.3,0.7`` with weights, or the path
        of a .csv or .txt file of one eigenvalue per row or of a square matrix (eigenvalues as
        they are given).

    Raises
    ------
    ValueError
        If the description is none of these, a parameter is outside its range or an eigenvalue
        negative.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> from iclimit.asymptotics.spectra import spectrum
    >>> spectrum("atoms:0.4,1.6;0.3,0.7").atoms
    ((0.4, 0.3), (1.6, 0.7))
    >>> spectrum("powerlaw:0.9")
    PowerLaw(0.9)
    """
    measure = _parse(spec)
    lower = measure.support[0][0]
    if lower < 0:
        raise ValueError(f"spec must have eigenvalues >= 0, got {spec!r} with {lower}")
    return measure


def _parse(spec: str) -> SpectralMeasure:
    if not isinstance(spec, str):
        raise TypeError(f"spec must be a string, got {spec!r}")
    if spec == "isotropic":
        return Atoms([1.0])
    if spec.endswith((".csv", ".txt")):
        return Atoms.from_file(spec)
    name, _, rest = spec.partition(":")
    groups = [_numbers(part) for part in rest.split(";")]
    sizes = [len(group) for group in groups]
    if name in _SHAPES and sizes == [1]:
        return _SHAPES[name](groups[0][0])
    if name == "uniform" and sizes == [2]:
        return Uniform(*groups[0])
    if name == "atoms" and len(sizes) <= 2 and min(sizes):
        return Atoms(*groups)
    raise ValueError(f"spec must be one of {_FORMS}; got {spec!r}")


def _numbers(text: str) -> list[float]:
    """Numbers separated by commas; none if something else is among them."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        return []
