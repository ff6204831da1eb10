"""`python -m wavespec` is `wavespec`."""

import sys

from wavespec.cli import main

if __name__ == "__main__":
    sys.exit(main())
