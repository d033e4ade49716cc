"""Published settings by name, such as ``iclimit.settings["lu2025-figure-1"]``: data only.

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

PAPERS = {
    "lu2025": "Lu, Letey, Zavatone-Veth, Maiti, Pehlevan, PNAS 122 (2025), arXiv:2405.11751",
    "letey2025": "Letey, Zavatone-Veth, Lu, Pehlevan, arXiv:2509.26551",
    "vonoswald2023": "von Oswald et al., ICML 2023, arXiv:2212.07677",
    "rossi2024": "Rossi, Yuan, Hannagan, ICLR 2024 blog post track",
    "vladymyrov2024": "Vladymyrov, von Oswald, Sandler, Ge, NeurIPS 2024, arXiv:2402.14180",
    "zhang2025": "Zhang, Singh, Latham, Saxe, ICML 2025, arXiv:2501.16265",
}
"""Papers by their keys in the bibliography, as reports cite them."""


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
    "lu2025-figure-1": Setting(f"{PAPERS['lu2025']}, Figure 1", {"kappa": 0.5, "rho": 0.01}),
    # Difference of the errors against kappa.
    "lu2025-task-diversity": Setting(
        f"{PAPERS['lu2025']}, task diversity", {"tau": 10.0, "rho": 0.01, "ridge": 1e-6}
    ),
    # Losses of linear transformers and of ridge regression for ten laws of the noise level.
    "vladymyrov2024-table-1": Setting(
        f"{PAPERS['vladymyrov2024']}, Table 1", {"context": 20, "dim": 10}
    ),
}
"""All published settings by name."""
