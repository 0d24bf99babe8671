"""The dispatcher's metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from gt_dispatcher.core import Core


class CoreCollector(Collector):
    """Reads the core's figures when they are asked for.

    Args:
        core: The core.
    """

    def __init__(self, core: Core) -> None:
        self._core = core

    def collect(self) -> list[GaugeMetricFamily | CounterMetricFamily]:
        """The figures of this moment."""
        state = self._core.state
        return [
            GaugeMetricFamily("gt_dispatcher_workers", "Workers accepted.", value=len(state.pool)),
            GaugeMetricFamily("gt_dispatcher_sessions", "Sessions.", value=len(state.sessions)),
            GaugeMetricFamily("gt_dispatcher_pending_reads", "Reads that wait for workers.", value=len(state.fetches)),
            GaugeMetricFamily("gt_dispatcher_plans", "Plans kept.", value=len(state.keeper.plans)),
            CounterMetricFamily(
                "gt_dispatcher_instructions", "Instructions taken from clients.", value=state.instructions
            ),
        ]


def registry(core: Core) -> CollectorRegistry:
    """A registry with the metrics of a core."""
    collectors = CollectorRegistry()
    collectors.register(CoreCollector(core))
    return collectors
