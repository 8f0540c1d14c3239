"""`python -m cpsat_pim`."""

import sys

from cpsat_pim.cli import main

if __name__ == "__main__":  # worker processes import this module too
    sys.exit(main())
