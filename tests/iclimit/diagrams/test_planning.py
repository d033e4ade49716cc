"""Plans of simulations: counts, what is on record, memory that does not suffice."""

import pytest

from iclimit.diagrams import planning
from iclimit.diagrams.planning import plan_cells
from iclimit.diagrams.quantities import QUANTITIES
from iclimit.diagrams.simulated_points import cells_at
from iclimit.diagrams.simulated_points import cells_of as cells_of_quantity
from iclimit.diagrams.simulation import Simulation, simulate_values
from iclimit.runs.store import RunStore
from iclimit.simulate.pretraining.cell_cost import cell_memory
from iclimit.words import TIMES, in_units

POINT = {"tau": 2.0, "alpha": 1.0, "kappa": 0.5, "rho": 0.1, "ridge": 0.1}


def cells_of(points, simulation):
    sizes = list(zip(simulation.sizes, simulation.first_repeats, strict=True))
    return list(
        dict.fromkeys(c for point in points for size in sizes for c in cells_at(point, *size))
    )


def test_cells_are_counted_once(tmp_path):
    simulation = Simulation((10, 12), repeats=3, jobs=1)
    cells = cells_of([POINT, POINT | {"kappa": 1.0}, POINT], simulation)
    assert len(cells) == 8  # two points, two sizes, run and prediction
    with RunStore(tmp_path / "runs.sqlite") as store:
        options = {"rng": 0, "jobs": 1, "backend": "numpy", "store": store}
        plan = plan_cells(cells, **options)
        assert (plan.cells, plan.recorded, plan.workers) == (8, 0, 1)
        assert plan.memory_bytes == cell_memory(dim=12, prompts=288)
        assert plan.seconds > 0
        recorded = Simulation((10, 12), repeats=3, jobs=1, store=store)
        simulate_values(QUANTITIES["icl_error"], [POINT], recorded)
        after = plan_cells(cells, **options)
        assert (after.cells, after.recorded) == (8, 4)
        more = cells_of([POINT], Simulation((10, 12), repeats=20, jobs=1))
        # The predictions are the same.
        assert plan_cells(more, **options).recorded == 2
    assert str(plan).startswith("8 simulations, 0 of them in the store; about ")
    assert "in each of 1 process; there is memory for d up to " in str(plan)


def test_it_is_announced_before_anything_runs():
    announced = []

    def stop(plan):
        announced.append(plan)
        raise KeyboardInterrupt

    large = Simulation((300,), jobs=1, announce=stop)
    with pytest.raises(KeyboardInterrupt):
        simulate_values(QUANTITIES["icl_error"], [POINT], large)
    [plan] = announced
    assert plan.memory_bytes > 2**28


def test_runs_on_all_positions_are_planned():
    quantity = QUANTITIES["all_position_icl"]
    point = {"sequence_ratio": 2.0, "alpha": 1.0, "alpha_min": 0.5, "rho": 0.1, "ridge": 0.1}
    cells = cells_of_quantity(quantity, point, 8, 3)
    plan = plan_cells(cells, rng=0, jobs=1, backend="numpy", store=None)
    assert (plan.cells, plan.recorded) == (2, 0)
    # 16 sequences with a query after 4, 5, ... 8 examples.
    assert plan.memory_bytes == cell_memory(dim=8, prompts=16 * 5)
    assert plan.seconds > 0


def test_cells_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr(planning, "free_memory", lambda: 2 * cell_memory(dim=20, prompts=800))
    cells = cells_of([POINT], Simulation((20,), jobs=1))
    options = {"rng": 0, "backend": "numpy", "store": None}
    assert (plan_cells(cells, jobs=1, **options).largest_dimension or 0) >= 20
    with pytest.raises(ValueError, match=r"dim must be at most \d+ for 3 processes .* got 20"):
        plan_cells(cells, jobs=3, **options)


def test_a_gpu_computes_runs_while_the_cores_predict(monkeypatch):
    free = {"cupy": 2 * cell_memory(dim=20, prompts=800)}
    monkeypatch.setattr(planning, "free_memory", free.get)
    cells = cells_of([POINT], Simulation((20,), jobs=1))
    options = {"rng": 0, "jobs": 3, "backend": "cupy", "store": None}
    plan = plan_cells(cells, **options)
    assert (plan.cells, plan.on_gpu) == (2, 1)
    assert "at most, 1 on the GPU with" in str(plan)
    assert "1 on the cores at the same time" in str(plan)
    free["cupy"] = 1000
    with pytest.raises(ValueError, match=r"dim must be at most \d+ on the GPU, got 20"):
        plan_cells(cells, **options)


def test_a_cluster_shares_what_one_core_would_take(monkeypatch):
    monkeypatch.setattr(planning, "free_memory", lambda: 0)
    # The speed of this machine would decide between seconds and minutes.
    monkeypatch.setattr(planning, "_seconds", lambda _, count: 0.02 * count)
    cells = cells_of([POINT], Simulation((20,), repeats=1000))
    plan = plan_cells(cells, rng=0, jobs=1, backend="numpy", store=None, scheduler="tcp://host:1")
    assert plan.workers is plan.largest_dimension is None
    assert plan.seconds == pytest.approx(20, rel=0.01)  # 1000 repeats, and a prediction
    assert "about 20 s on one core like this machine's, to be shared by those of" in str(plan)


def test_durations():
    for seconds, text in ((0.4, "0 s"), (59, "59 s"), (90, "1.5 min"), (7200, "2.0 h")):
        assert in_units(seconds, TIMES) == text
