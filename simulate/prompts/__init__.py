"""Samplers of a `iclimit.Problem`: prompts, context summaries, training sets."""

from iclimit.simulate.prompts.sampling import (
    Prompts,
    context_summary,
    draw_prompts,
    prompt_blocks,
    regression_tokens,
    sample_prompts,
)

__all__ = [
    "Prompts",
    "context_summary",
    "draw_prompts",
    "prompt_blocks",
    "regression_tokens",
    "sample_prompts",
]
