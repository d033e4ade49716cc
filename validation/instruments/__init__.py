"""Instruments for a user's own work: tables of runs, training curves, models and weights."""
