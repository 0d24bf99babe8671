"""Metrics of a worker, read when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gt_worker.devices import Device
from gt_worker.executor import Executor


class _WorkerCollector(Collector):
    def __init__(self, executor: Executor, device: Device) -> None:
        self._executor = executor
        self._device = device

    def collect(self) -> Iterator[Metric]:
        executor = self._executor
        yield CounterMetricFamily("gt_worker_instructions", "Instructions run.", executor.instructions)
        yield CounterMetricFamily("gt_worker_busy_seconds", "Time spent on programs.", executor.busy)
        yield CounterMetricFamily("gt_worker_failures", "Instructions that failed here first.", executor.failed)
        yield GaugeMetricFamily("gt_worker_registers", "Tensors held.", len(executor.registers))
        yield GaugeMetricFamily("gt_worker_memory_bytes", "Memory of the device in use.", self._device.memory_used())


def registry(executor: Executor, device: Device) -> CollectorRegistry:
    """A registry that shows one worker."""
    collectors = CollectorRegistry()
    collectors.register(_WorkerCollector(executor, device))
    return collectors
