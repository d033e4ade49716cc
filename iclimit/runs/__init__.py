"""Runs on record: cells, their execution and the store, whatever it is that a cell computes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "cell": ["Cell"],
        "execution": ["Outcome", "run_cells"],
        "store": ["RunStore", "StoreError"],
    },
)
