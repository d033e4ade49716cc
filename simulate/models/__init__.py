"""Models that are trained or built: predictions, and gradients by hand in any array API."""
