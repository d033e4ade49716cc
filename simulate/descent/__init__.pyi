from .learning_rate import LearningRateEstimate as LearningRateEstimate
from .learning_rate import estimate_learning_rate as estimate_learning_rate
from .learning_rate import simulate_learning_rate as simulate_learning_rate
from .schedules import ContextLosses as ContextLosses
from .schedules import CriticalDampening as CriticalDampening
from .schedules import simulate_critical_dampening as simulate_critical_dampening
from .schedules import simulate_schedule as simulate_schedule
from .training import train_attention as train_attention
