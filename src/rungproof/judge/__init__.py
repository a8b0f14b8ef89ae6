"""Whatever makes a number or a verdict: wire parser, rates, statistics, identity, gates, projection.

Pure: imports `rungproof.records` and the standard library only, opens no file, reads no clock, draws no random
number. So a pack's verifier can run a copy of this room with nothing installed.
"""
