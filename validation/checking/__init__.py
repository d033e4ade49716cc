"""Check of a user's own results against the theory."""
