"""Samplers of a `iclimit.Problem`: prompts, context summaries, training sets."""

from iclimit.simulate.prompts.sampling import Prompts as Prompts
from iclimit.simulate.prompts.sampling import context_summary as context_summary
from iclimit.simulate.prompts.sampling import draw_prompts as draw_prompts
from iclimit.simulate.prompts.sampling import prompt_blocks as prompt_blocks
from iclimit.simulate.prompts.sampling import regression_tokens as regression_tokens
from iclimit.simulate.prompts.sampling import sample_prompts as sample_prompts
