"""No pauses of Python's own while measuring."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_pauses() -> Iterator[None]:
    """No garbage collection inside: what lives already is set aside, and nothing is collected until the end."""
    enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()
