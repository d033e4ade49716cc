"""Arrays of prompts by name, for tests that go through all of them."""


def arrays_of(prompts):
    """Arrays that prompts have; those with linear labels have no others beside them."""
    return {name: array for name, array in vars(prompts).items() if array is not None}
