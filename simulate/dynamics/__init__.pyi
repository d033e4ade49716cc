from ..training.loop import UnstableTraining as UnstableTraining
from ..training.results import TrainingCurves as TrainingCurves
from .attention_models import AttentionModel as AttentionModel
from .attention_models import initial_weights as initial_weights
from .gradient_descent import simulate_gradient_descent as simulate_gradient_descent
from .gradient_flow import FlowCurve as FlowCurve
from .gradient_flow import Plateaus as Plateaus
from .gradient_flow import simulate_gradient_flow as simulate_gradient_flow
