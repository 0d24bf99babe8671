"""What the operator counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

API_CALLS = Counter("gt_operator_api_calls", "Calls to the API server, without watches.", ["method", "result"])
RECONCILES = Counter("gt_operator_reconciles", "Reconciliations.", ["kind", "result"])
RECONCILE_SECONDS = Histogram(
    "gt_operator_reconcile_seconds",
    "Duration of a reconciliation.",
    ["kind"],
    buckets=(0.005, 0.02, 0.1, 0.5, 1, 5, 15, 60),
)
QUEUE_LENGTH = Gauge("gt_operator_queue_length", "Objects that wait to be reconciled.")
LEADING = Gauge("gt_operator_leading", "1 while this process leads, else 0.")
