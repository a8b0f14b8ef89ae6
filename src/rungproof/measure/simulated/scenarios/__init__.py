"""Scenarios: faults of servers and of streams that any client can be pointed at, by path or by the name of the model."""

from rungproof.measure.simulated.scenarios.scenario import Scenario
from rungproof.measure.simulated.scenarios.serve import Chosen, answer, chosen
from rungproof.measure.simulated.scenarios.table import SCENARIOS, document
from rungproof.measure.simulated.scenarios.talk import Hub

__all__ = ["SCENARIOS", "Chosen", "Hub", "Scenario", "answer", "chosen", "document"]
