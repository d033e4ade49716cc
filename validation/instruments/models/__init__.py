"""What a model does in context, seen from outside: its errors, and the algorithms it resembles."""
