"""Servers under measurement: started, proven, watched and ended by a supervisor that outlives the job that asked.

`start` and `stop` are a session's two ends; `repair` closes what a killed run left open; `supervised` tells whether
anybody still watches it.
"""

from rungproof.measure.serving.lock import path_of as lock_path
from rungproof.measure.serving.order import Order
from rungproof.measure.serving.procfs import alive, owner_of
from rungproof.measure.serving.session import repair, start, stop, supervised

__all__ = ["Order", "alive", "lock_path", "owner_of", "repair", "start", "stop", "supervised"]
