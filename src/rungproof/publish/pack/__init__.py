"""The proof pack: a folder and a zip with all that a stranger needs to check a page offline. Same results, same bytes."""

from rungproof.publish.pack.building import Pack, build

__all__ = ["Pack", "build"]
