"""iclimit: the theory of in-context learning, computed and checked.

Names are loaded on first use, so that importing the package is cheap.  The stub ``__init__.pyi``
lists them.

Examples
--------
>>> import iclimit
>>> round(float(iclimit.icl_error(tau=2, alpha=1, kappa=0.5, rho=0.01)), 4)
1.234
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

__version__ = "1.0.0"
