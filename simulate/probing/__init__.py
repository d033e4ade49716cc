"""Prompts to ask a model with, and the algorithms its answers are compared to."""
