"""Errors against the number of examples, which a user has measured."""
