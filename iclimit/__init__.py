"""iclimit: the theory of in-context learning, computed and checked."""
