"""Plans that were made, found again by what they depend on."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from typing import TypeAlias

from gt_dispatcher.planner.plan import Plan, Prepare

#: Kind of plan or key of a call, then the layouts and the region that it depends on.
PlanKey: TypeAlias = tuple[object, ...]


class PlanCache:
    """Keeps the latest plans, and knows which of their numbers the workers may forget.

    Args:
        capacity: Number of plans to keep.
    """

    def __init__(self, capacity: int = 8192) -> None:
        self.capacity = capacity
        self._plans: OrderedDict[PlanKey, Plan | Prepare] = OrderedDict()
        self._next_number = 0
        self._retired: list[int] = []
        self.get = self._plans.get

    def __len__(self) -> int:
        """Number of plans kept."""
        return len(self._plans)

    def add(self, key: PlanKey, plan: Plan) -> Plan:
        """Keeps a plan under a new number."""
        numbered = dataclasses.replace(plan, number=self._next_number)
        self._next_number += 1
        self._plans[key] = numbered
        return numbered

    def add_prepare(self, key: PlanKey, prepare: Prepare) -> Prepare:
        """Keeps what must happen before there can be a plan."""
        self._plans[key] = prepare
        return prepare

    def retire(self) -> list[int]:
        """Drops what is beyond the capacity, oldest first; to be called between blocks.

        Returns:
            Numbers that will not be used again.
        """
        while len(self._plans) > self.capacity:
            self._retire(self._plans.popitem(last=False)[1])
        retired, self._retired = self._retired, []
        return retired

    def clear(self) -> None:
        """Drops all: the workers have changed."""
        for plan in self._plans.values():
            self._retire(plan)
        self._plans.clear()

    def _retire(self, plan: Plan | Prepare) -> None:
        if isinstance(plan, Plan):
            self._retired.append(plan.number)
