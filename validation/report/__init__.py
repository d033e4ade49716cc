"""How claims are judged: comparisons, pooling, verdicts, resolution, reports."""
