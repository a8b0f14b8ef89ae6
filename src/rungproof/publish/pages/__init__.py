"""The page of a campaign: one static file and its twins in CSV and JSON."""

from rungproof.publish.pages.render import render

__all__ = ["render"]
