"""`python -m rungproof.measure.simulated.scenarios`: the text of docs/scenarios.md."""

import sys

from rungproof.measure.simulated.scenarios import document

if __name__ == "__main__":
    sys.stdout.write(document())
