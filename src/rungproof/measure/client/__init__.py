"""The measured path: one batch of requests on plain sockets, every received byte kept with its stamp."""

from rungproof.measure.client.batch import run_batch
from rungproof.measure.client.kept import Kept
from rungproof.measure.client.planned import Address, Planned

__all__ = ["Address", "Kept", "Planned", "run_batch"]
