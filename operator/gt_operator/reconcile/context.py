"""What all reconcilers work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Self

from gt_operator.config import OperatorConfig
from gt_operator.kube.client import KubeClient
from gt_operator.kube.named_watches import NamedWatches
from gt_operator.objects import Key
from gt_operator.reconcile.applier import Applier
from gt_operator.reconcile.key_rings import KeyRings
from gt_operator.reconcile.namespaces import LeavingNamespaces
from gt_operator.reconcile.reporter import Reporter
from gt_operator.store import Store


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Context:
    """What all reconcilers work with.

    Attributes:
        config: Settings of the operator.
        client: The API server.
        store: What it last showed.
        watches: Watches of what users refer to.
        applier: Writes objects.
        keys: Keys of all clusters.
        reporter: Writes status.
        leaving: Namespaces in which nothing should be tried.
        now: The time.
    """

    config: OperatorConfig
    client: KubeClient
    store: Store
    watches: NamedWatches
    applier: Applier
    keys: KeyRings
    reporter: Reporter
    leaving: LeavingNamespaces = field(default_factory=LeavingNamespaces)
    now: Callable[[], datetime] = field(default=_now)

    @classmethod
    def make(cls, config: OperatorConfig, client: KubeClient, store: Store, changed: Callable[[Key], None]) -> Self:
        """Makes all parts for a client and a store.

        Args:
            config: Settings of the operator.
            client: The API server.
            store: What it last showed.
            changed: Is called for each object to be reconciled because something that it refers to has changed.
        """
        return cls(
            config=config,
            client=client,
            store=store,
            watches=NamedWatches(client, changed),
            applier=Applier(client, store),
            keys=KeyRings(client),
            reporter=Reporter(client, store),
        )


@dataclass(frozen=True)
class Outcome:
    """How a reconciliation ended.

    Attributes:
        retry: Whether something was refused that may be allowed later.
        check_again: Seconds until something may change without an event; None if nothing can.
    """

    retry: bool = False
    check_again: float | None = None
