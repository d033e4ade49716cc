"""The explorer: the theory as one interactive HTML file."""
