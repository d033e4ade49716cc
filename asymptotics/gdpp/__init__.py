"""GD++ and regression with random noise levels: schedules, losses, ridge baselines."""

from iclimit.notation import attach_shelf

__all__ = attach_shelf(__name__, __file__)
