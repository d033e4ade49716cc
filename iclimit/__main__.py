"""Run as ``python -m iclimit``."""

import sys

from iclimit.cli import main

if __name__ == "__main__":
    sys.exit(main())
