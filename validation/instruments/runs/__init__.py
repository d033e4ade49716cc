"""A table of runs, held against the theory at its integers."""
