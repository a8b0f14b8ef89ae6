"""The proof pack: a folder and a zip with all that a stranger needs to check a page offline. Same results, same bytes."""

from rungproof.publish.pack.building import build
from rungproof.publish.pack.merging import add_line, withdraw
from rungproof.publish.pack.placing import Pack

__all__ = ["Pack", "add_line", "build", "withdraw"]
