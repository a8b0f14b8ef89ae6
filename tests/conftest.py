"""What holds for all tests."""

import signal

from hypothesis import HealthCheck, settings

# The same examples everywhere, so that whoever reads of a failure can repeat it; `make fuzz` is what searches. No example fails for
# being slow: a machine may be.
settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")

# A shell that starts a run in the background has it ignore Ctrl-C, and so would every process that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
