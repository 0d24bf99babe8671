"""Changes where storages lie, together with every tensor that shares them."""

from __future__ import annotations

from collections.abc import Callable

from gt_dispatcher.directory import Storage, Tensor
from gt_dispatcher.emission import Emission
from gt_dispatcher.listing import ListedCall
from gt_dispatcher.planner.layout import Layout, LayoutTable, Mesh
from gt_dispatcher.planner.plan import Change, Plan, Prepare, Region
from gt_dispatcher.planner.planner import Planner
from gt_dispatcher.plans import PlanCache, PlanKey
from gt_dispatcher.regions import RegionStack
from gt_protocol.blocks import TensorMeta
from gt_protocol.errors import GTError
from gt_protocol.placements import Partial, Placement, Replicate
from gt_protocol.programs import AliasStep, Routine

#: Origin of steps that belong to no instruction of the client's.
NO_ORIGIN = -1

_ALIAS = Routine(1, 1, 0, 0, (AliasStep(0, 1),), "alias")


class StorageKeeper:
    """Plans, and moves storages.

    Args:
        planner: The planner.
        layouts: All layouts.
        registers: Gives a register number that was never used.
    """

    def __init__(self, planner: Planner, layouts: LayoutTable, registers: Callable[[], int]) -> None:
        self._planner = planner
        self._layouts = layouts
        self._register = registers
        self.plans = PlanCache()

    def plan(self, listed: ListedCall, layouts: tuple[Layout, ...], regions: RegionStack) -> Plan | Prepare:
        """The plan of a call, made now if it is not there.

        Raises:
            GTError: It can't be planned.
        """
        key = (listed.key, regions.key, *[layout.id for layout in layouts])
        known = self.plans.get(key)
        if known is not None:
            return known
        if regions.home is None:
            raise GTError("no worker has joined yet: wait until the cluster is Ready")
        try:
            answer = self._planner.plan(listed.call, layouts, regions.current, regions.home)
        except GTError:
            raise
        except Exception as error:
            # PyTorch's sharding rules run in there on whatever a client sent: what they raise is that call's fault.
            raise GTError(f"{listed.name} can't be planned: {error!r}") from error
        return self.plans.add(key, answer) if isinstance(answer, Plan) else self.plans.add_prepare(key, answer)

    def prepare(self, tensor: Tensor, change: Change, emission: Emission) -> None:
        """Changes a tensor's storage as the planner asked for.

        Raises:
            GTError: It can't be done.
        """
        if change is Change.REDUCE:
            self.reduce(tensor, emission)
        else:
            self._replicate(tensor, emission)

    def reduce(self, tensor: Tensor, emission: Emission) -> None:
        """Makes partial sums whole, in place, for every tensor of the storage."""
        layout = _layout(tensor)
        plan = self._cached(("reduce", layout.id), lambda: self._planner.reduce_in_place(layout))
        emission.run(plan, NO_ORIGIN, (tensor.register,), [], [])
        storage = tensor.storage
        for member in [tensor] if storage is None else storage.members.values():
            if member.layout is not None:
                member.move(self._whole(member.layout), member.register)
        if storage is not None:
            storage.root = self._whole(storage.root)

    def place(self, source: Tensor, number: int, region: Region | None, emission: Emission) -> Tensor:
        """Makes a tensor that is another one placed by a rule.

        A tensor that is alone in its storage moves as a whole, and the result shares its storage. Any other is copied.

        Raises:
            GTError: The rule does not fit the tensor.
        """
        layout = _layout(source)
        if region is None:
            return self._alias(source, number, emission)
        target = region.mesh, region.placements_for(layout.meta.shape)
        if (layout.mesh, layout.placements) == target:
            return self._alias(source, number, emission)
        if layout.partial and source.storage is not None:
            self.reduce(source, emission)
            layout = _layout(source)
        plan = self._relayout(layout, *target)
        if source.storage is None:
            self._move(source, plan, emission)
            return self._alias(source, number, emission)
        made = Tensor(number, plan.outputs[0], self._register())
        emission.run(plan, NO_ORIGIN, (source.register, made.register), [], [])
        return made

    def _alias(self, source: Tensor, number: int, emission: Emission) -> Tensor:
        layout = _layout(source)
        made = Tensor(number, layout, self._register())
        plan = self._cached(("alias", layout.mesh), lambda: Plan(dict.fromkeys(layout.mesh.workers, _ALIAS), (layout,)))
        emission.run(plan, NO_ORIGIN, (source.register, made.register), [], [])
        storage = source.storage or Storage(source, layout)
        storage.members[number] = made
        made.storage = storage
        return made

    def _replicate(self, tensor: Tensor, emission: Emission) -> None:
        """Gives each worker of a storage's mesh the whole of it, and makes its views anew."""
        storage = tensor.storage
        if storage is None:
            layout = _layout(tensor)
            plan = self._relayout(layout, layout.mesh, (Replicate(),) * len(layout.placements))
            self._move(tensor, plan, emission)
            return
        old_root, old_register = storage.root, storage.root_register
        plan = self._relayout(old_root, old_root.mesh, (Replicate(),) * len(old_root.placements))
        root, register = plan.outputs[0], self._register()
        emission.run(plan, NO_ORIGIN, (old_register, register), [], [])
        for member in storage.members.values():
            if member.layout is None:
                continue
            if member.register == old_register:
                member.move(root, register)
                continue
            view = self._restride(root, member.layout.meta)
            fresh = self._register()
            emission.run(view, NO_ORIGIN, (register, fresh), [], [])
            emission.free(member.layout, member.register)
            member.move(view.outputs[0], fresh)
        emission.free(old_root, old_register)
        storage.root, storage.root_register = root, register

    def _move(self, tensor: Tensor, plan: Plan, emission: Emission) -> None:
        old, register = _layout(tensor), self._register()
        emission.run(plan, NO_ORIGIN, (tensor.register, register), [], [])
        emission.free(old, tensor.register)
        tensor.move(plan.outputs[0], register)

    def _relayout(self, source: Layout, mesh: Mesh, placements: tuple[Placement, ...]) -> Plan:
        key = ("relayout", source.id, mesh, placements)
        return self._cached(key, lambda: self._planner.relayout(source, mesh, placements))

    def _restride(self, root: Layout, meta: TensorMeta) -> Plan:
        return self._cached(("restride", root.id, meta), lambda: self._planner.restride(root, meta))

    def _cached(self, key: PlanKey, make: Callable[[], Plan]) -> Plan:
        known = self.plans.get(key)
        if isinstance(known, Plan):
            return known
        return self.plans.add(key, make())

    def _whole(self, layout: Layout) -> Layout:
        placements = tuple(Replicate() if isinstance(place, Partial) else place for place in layout.placements)
        return self._layouts.get(layout.mesh, placements, layout.meta)


def _layout(tensor: Tensor) -> Layout:
    if tensor.layout is None:
        raise GTError(f"tensor {tensor.id} has no value")
    return tensor.layout
