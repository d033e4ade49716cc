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

from iclimit.notation import read_table

# Papers by their keys in the bibliography, as reports cite them.
PAPERS = {
    "lu2025": "Lu, Letey, Zavatone-Veth, Maiti, Pehlevan, PNAS 122 (2025), arXiv:2405.11751",
    "letey2025": "Letey, Zavatone-Veth, Lu, Pehlevan, arXiv:2509.26551",
    "vonoswald2023": "von Oswald et al., ICML 2023, arXiv:2212.07677",
    "he2025": "He, Pan, Chen, Yang, arXiv:2503.12734",
    "rossi2024": "Rossi, Yuan, Hannagan, ICLR 2024 blog post track",
    "vladymyrov2024": "Vladymyrov, von Oswald, Sandler, Ge, NeurIPS 2024, arXiv:2402.14180",
    "zhang2025": "Zhang, Singh, Latham, Saxe, ICML 2025, arXiv:2501.16265",
}


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


def _number(text: str) -> int | float | str:
    """Number of a table, or its text if it is none."""
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        return text


def _setting(row: dict[str, str]) -> Setting:
    parameters = dict(pair.split("=") for pair in row["parameters"].split())
    reference = f"{PAPERS[row['name'].partition('-')[0]]}, {row['place']}"
    return Setting(reference, {name: _number(text) for name, text in parameters.items()})


# All published settings by name: the rows of ``settings.csv``.
settings = {row["name"]: _setting(row) for row in read_table("settings.csv")}
