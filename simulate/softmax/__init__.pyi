from ..models.merged_heads import IsotropicHeads as IsotropicHeads
from ..models.merged_heads import MergedHeads as MergedHeads
from .simulated_heads import SimulatedHeads as SimulatedHeads
from .simulated_heads import simulate_softmax as simulate_softmax
from .trained_heads import train_softmax as train_softmax
