"""Networks of attention and recurrent layers: models, gradients by hand, training."""

from iclimit.notation import explain_names
from iclimit.simulate.networks.lstm import LstmNetwork
from iclimit.simulate.networks.network import Network
from iclimit.simulate.networks.sine import SineTask
from iclimit.simulate.networks.training import TrainedNetwork, train_network

__all__ = ["LstmNetwork", "Network", "SineTask", "TrainedNetwork", "train_network"]

explain_names(__name__)
