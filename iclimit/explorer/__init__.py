"""The explorer: the theory under one's fingers, as one HTML file."""

from iclimit.explorer.page import explorer_page

__all__ = ["explorer_page"]
