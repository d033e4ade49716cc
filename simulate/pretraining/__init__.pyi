from .cells import SimulatedErrors as SimulatedErrors
from .cells import sample as sample
from .cells import simulate_errors as simulate_errors
from .cost import CellCost as CellCost
from .cost import cost as cost
from .cost import estimate_cost as estimate_cost
from .cost import largest_dimension as largest_dimension
from .estimators import simulate_estimator as simulate_estimator
