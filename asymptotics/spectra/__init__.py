"""Spectral measures and their transforms.

.. page: spectra/resolvent: The Wishart resolvent and the Marchenko-Pastur law
"""

from iclimit.notation import attach_shelf

__all__ = attach_shelf(__name__, __file__)
