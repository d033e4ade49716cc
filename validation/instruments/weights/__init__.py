"""Reads weights: from the matrices of linear attention to what they compute, and how well."""
