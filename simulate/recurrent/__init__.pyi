from ..models.recurrent_layer import RecurrentLayer as RecurrentLayer
from .classification import simulate_classification as simulate_classification
from .layers import SimulatedRecurrence as SimulatedRecurrence
from .layers import simulate_recurrent as simulate_recurrent
from .regression import simulate_forgetting as simulate_forgetting
