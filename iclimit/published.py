"""Published settings by name: ``iclimit.settings["lu2025-figure-1"]``.  There is no mathematics here.

A setting holds the parameters of a published figure, table or program under the names of the
notation, and says where they stand.  It is a mapping, so that it can be passed on.  The first word
of a name is the key of the paper in the bibliography.

Examples
--------
>>> import iclimit
>>> setting = iclimit.settings["lu2025-figure-1"]
>>> round(float(iclimit.icl_error(tau=0.5, alpha=10, **setting)), 3)
0.821
>>> print(setting.reference)
Lu, Letey, Zavatone-Veth, Maiti, Pehlevan, PNAS 122 (2025), arXiv:2405.11751, Figure 1
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

LU = "Lu, Letey, Zavatone-Veth, Maiti, Pehlevan, PNAS 122 (2025), arXiv:2405.11751"
VLADYMYROV = "Vladymyrov, von Oswald, Sandler, Ge, NeurIPS 2024, arXiv:2402.14180"


@dataclass(frozen=True)
class Setting(Mapping[str, Any]):
    """Parameters of a published result.

    Attributes
    ----------
    reference : str
        Paper, and place in it.
    parameters : dict
        By the names of the notation.
    """

    reference: str
    parameters: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.parameters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.parameters)

    def __len__(self) -> int:
        return len(self.parameters)


settings = {
    # Errors against tau at alpha = 1, 10 and 100, without a ridge.
    "lu2025-figure-1": Setting(f"{LU}, Figure 1", {"kappa": 0.5, "rho": 0.01}),
    # Difference of the errors against kappa.
    "lu2025-task-diversity": Setting(
        f"{LU}, task diversity; data of the repository incontext-asymptotics-experiments",
        {"tau": 10.0, "rho": 0.01, "ridge": 1e-6},
    ),
    # Losses of linear transformers and of ridge regression for ten laws of the noise level.
    "vladymyrov2024-table-1": Setting(f"{VLADYMYROV}, Table 1", {"context": 20, "dim": 10}),
}
"""All published settings by name."""
