"""Training curves, held against the theory of gradient flow."""
