"""`python -m rungproof.cli`"""

import sys

from rungproof.cli import main

if __name__ == "__main__":
    sys.exit(main())
