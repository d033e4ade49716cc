"""What a file may hold that nobody should run."""

import os


class Bomb:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("harmed",)
