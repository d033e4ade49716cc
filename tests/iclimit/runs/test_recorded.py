"""Single results from the store."""

from iclimit.runs.cell import Cell
from iclimit.runs.execution import run_recorded
from iclimit.runs.store import RunStore


def numbers(*, count, rng):
    raise AssertionError(f"only its identity is used, got {count}, {rng}")


def test_computed_once_kept_if_complete(tmp_path):
    calls = []

    def run(count, store, complete=True, rng=0):
        def compute():
            calls.append(count)
            return list(range(count))

        setting = {"rng": rng, "backend": "numpy", "store": store, "complete": lambda _: complete}
        return run_recorded(Cell.of(numbers, count=count), compute, **setting)

    with RunStore(tmp_path / "runs.sqlite") as store:
        assert run(3, store, complete=False) == run(3, store) == run(3, store) == [0, 1, 2]
        assert calls == [3, 3]
        run(2, store)
        run(3, store, rng=1)
        assert calls == [3, 3, 2, 3]
    run(3, None)
    assert len(calls) == 5
