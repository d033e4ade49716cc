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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

PAPERS = {
    "lu2025": "Lu, Letey, Zavatone-Veth, Maiti, Pehlevan, PNAS 122 (2025), arXiv:2405.11751",
    "letey2025": "Letey, Zavatone-Veth, Lu, Pehlevan, arXiv:2509.26551",
    "vonoswald2023": "von Oswald et al., ICML 2023, arXiv:2212.07677",
    "he2025": "He, Pan, Chen, Yang, arXiv:2503.12734",
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


_MERGED: dict[str, Any] = {
    "heads": 8,
    "init_scale": 1e-6,
    "training_set": 5000,
    "normalization": "sum",
}
_SEPARATE: dict[str, Any] = {
    "model": "separate",
    "initialization": "per-head",
    "training_set": 80_000,
    "learning_rate": 0.02,
    "normalization": "sum",
}
_SINGLE_DROP = _MERGED | {"dim": 4, "learning_rate": 0.001, "steps": 6000}

settings = {
    # Errors against tau at alpha = 1, 10 and 100, without a ridge.
    "lu2025-figure-1": Setting(f"{PAPERS['lu2025']}, Figure 1", {"kappa": 0.5, "rho": 0.01}),
    # ICL error against tau with the ridges 1e-5, 0.1 and 1.
    "lu2025-figure-1-ridge": Setting(
        f"{PAPERS['lu2025']}, Figure 1", {"alpha": 10.0, "kappa": float("inf"), "rho": 0.01}
    ),
    # Errors against alpha for five kappa: IDG, ICL with few prompts, ICL with many.
    "lu2025-figure-2-idg": Setting(f"{PAPERS['lu2025']}, Figure 2", {"tau": 0.5, "rho": 0.5}),
    "lu2025-figure-2-icl": Setting(f"{PAPERS['lu2025']}, Figure 2", {"tau": 0.5, "rho": 0.1}),
    "lu2025-figure-2-long": Setting(f"{PAPERS['lu2025']}, Figure 2", {"tau": 20.0, "rho": 0.5}),
    # Difference of the errors against kappa; tau is a fifth of alpha.
    "lu2025-figure-4": Setting(
        f"{PAPERS['lu2025']}, Figure 4", {"tau": 2.0, "alpha": 10.0, "rho": 0.01}
    ),
    # Difference of the errors against kappa, at less cost.
    "lu2025-task-diversity": Setting(
        f"{PAPERS['lu2025']}, public code, small example of Figure 4",
        {"tau": 10.0, "rho": 0.01, "ridge": 1e-6},
    ),
    # Losses of linear transformers and of ridge regression for ten laws of the noise level.
    "vladymyrov2024-table-1": Setting(
        f"{PAPERS['vladymyrov2024']}, Table 1", {"context": 20, "dim": 10}
    ),
    # Curves of the public training script; inputs with eigenvalues D:...:1 and 31 pairs.
    "zhang2025-merged": Setting(
        f"{PAPERS['zhang2025']}, training script", {**_SINGLE_DROP, "model": "merged"}
    ),
    "zhang2025-cubic": Setting(
        f"{PAPERS['zhang2025']}, training script", {**_SINGLE_DROP, "model": "cubic"}
    ),
    "zhang2025-rank-1": Setting(
        f"{PAPERS['zhang2025']}, training script",
        {**_SEPARATE, "dim": 4, "heads": 5, "init_scale": 1e-2, "steps": 10_000},
    ),
    "zhang2025-rank-2": Setting(
        f"{PAPERS['zhang2025']}, training script",
        {**_SEPARATE, "dim": 8, "heads": 9, "rank": 2, "init_scale": 5e-3, "steps": 20_000},
    ),
    # Mixtures of random and shared tasks for four white inputs.
    "zhang2025-mixtures": Setting(
        f"{PAPERS['zhang2025']}, section 6",
        {**_MERGED, "model": "merged", "learning_rate": 0.0005, "steps": 4000},
    ),
}
"""All published settings by name."""
