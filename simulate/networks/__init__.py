"""Networks of attention and recurrent layers: models, gradients by hand, training."""

from iclimit.notation import explain_names
from iclimit.simulate.networks.embedded_descent import EmbeddedDescent
from iclimit.simulate.networks.files import load_network, save_network
from iclimit.simulate.networks.lstm import LstmNetwork
from iclimit.simulate.networks.network import Network
from iclimit.simulate.networks.repeats import TrainedRepeats, train_repeats
from iclimit.simulate.networks.sensitivities import TokenSensitivities, token_sensitivities
from iclimit.simulate.networks.sine import SineTask
from iclimit.simulate.networks.stack import AttentionNetwork
from iclimit.simulate.networks.training import TrainedNetwork, train_network

__all__ = [
    "AttentionNetwork",
    "EmbeddedDescent",
    "LstmNetwork",
    "Network",
    "SineTask",
    "TokenSensitivities",
    "TrainedNetwork",
    "TrainedRepeats",
    "load_network",
    "save_network",
    "token_sensitivities",
    "train_network",
    "train_repeats",
]

explain_names(__name__)
