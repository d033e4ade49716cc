"""Which runs answer a question, for the least cost."""
