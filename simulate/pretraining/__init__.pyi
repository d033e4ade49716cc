from .cell_cost import CellCost as CellCost
from .cell_cost import cost as cost
from .cell_cost import estimate_cost as estimate_cost
from .cell_cost import largest_dimension as largest_dimension
from .cells import sample as sample
from .cells import simulate_errors as simulate_errors
from .estimators import simulate_estimator as simulate_estimator
