"""Depth, width, context and time of linear attention: scaling laws of in-context learning."""

from iclimit.asymptotics.depth.online_sgd import OnlineErrors, online_sgd_errors
from iclimit.notation import explain_names

__all__ = ["OnlineErrors", "online_sgd_errors"]

explain_names(__name__)
