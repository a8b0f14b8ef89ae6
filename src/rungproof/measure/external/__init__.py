"""Measuring a server that somebody else launched: the same client, bodies, parser and judge as a ladder, and no verdict.

What a campaign proves about its own servers (which settings are in force, that caches are empty, that nobody else is
served) cannot be known of a server that already runs. So its numbers are figures, never qualified points.
"""

from rungproof.measure.external.report import Report
from rungproof.measure.external.run import Ask, measure

__all__ = ["Ask", "Report", "measure"]
