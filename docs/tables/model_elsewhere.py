"""A model that knows nothing of iclimit answers a file of prompts: the page "Your model".

Run beside prompts.npz: python model_elsewhere.py
"""

import numpy as np


def model(inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> np.ndarray:
    """One gradient step at the rate 0.6: arrays (b, N, d), (b, N), (b, d) -> (b,)."""
    weights = 0.6 * np.einsum("bnd,bn->bd", inputs, labels) / labels.shape[1]
    return np.sum(weights * query, axis=1)


def main() -> None:
    with np.load("prompts.npz", allow_pickle=False) as file:
        inputs, labels, query = (file[name] for name in ("inputs", "labels", "query"))
    answers = []
    for start in range(0, len(query), 1024):
        part = slice(start, start + 1024)
        answers.append(model(inputs[part], labels[part], query[part]))
    np.savez("predictions.npz", predictions=np.concatenate(answers))


if __name__ == "__main__":
    main()
