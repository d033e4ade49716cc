"""Linear transformers and GD++ on regression with random noise levels."""

from iclimit.notation import attach_shelf

__all__ = attach_shelf(__name__, __file__)
