"""`python -m rungproof.measure.simulated`."""

import sys

from rungproof.measure.simulated.server import main

if __name__ == "__main__":
    sys.exit(main())
