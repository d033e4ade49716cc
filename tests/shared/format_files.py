"""Files of every format that iclimit writes: ``python tests/shared/format_files.py``.

Writes the folder ``formats``, once for each version of a format.  Files of older formats stay
there for ever: they are read, or refused by name.
"""

from dataclasses import replace
from pathlib import Path

from iclimit.gdpp import gdpp_transformer
from iclimit.networks import save_model, train_network
from iclimit.problem import Problem
from iclimit.runs.cell import Cell
from iclimit.runs.store import RunStore, StoredBatch
from iclimit.simulate.models.merged_heads import MergedHeads
from iclimit.simulate.pretraining import simulate_errors
from iclimit.simulate.training.checkpoints import save_checkpoint
from iclimit.validation.instruments.models.files import PromptFile, write_prompts

FOLDER = Path(__file__).with_name("formats")

CELL = Cell.of(simulate_errors, dim=3, context=3, tasks=4, prompts=40, rho=0.1, repeats=5)
PROBLEM = Problem(dim=1, context=2, scale=1)
PROMPTS = PromptFile(PROBLEM, test_prompts=10, float32=True)
SETTINGS = {"rate": 0.1, "steps": 5}
STATE = {"step": 3, "losses": [0.5, 0.25]}


def trained():
    """A network of a few steps."""
    return train_network(MergedHeads(dim=2), Problem(dim=2, context=4, scale=1), steps=3, rng=0)


def transformer():
    """A layer with known weights."""
    return gdpp_transformer([0.9], [], context=20, dim=3)


def main():
    FOLDER.mkdir(exist_ok=True)
    with RunStore(FOLDER / "runs-3.sqlite") as store:
        store.add(
            replace(
                StoredBatch.of(CELL, CELL.run(0), rng=0, backend="numpy", seconds=0.1), host="any"
            )
        )
    write_prompts(FOLDER / "prompts-1.npz", PROMPTS)
    save_model(trained(), FOLDER / "network-1.npz")
    save_model(transformer(), FOLDER / "transformer-1.npz")
    save_checkpoint(FOLDER / "checkpoint-1.npz", SETTINGS, STATE)


if __name__ == "__main__":
    main()
