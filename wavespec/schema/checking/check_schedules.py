"""The schedules of a kernel go in; settings that change nothing, whatever the machine, come out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wavespec.diagnostics import Span, WavespecError, Where, quote
from wavespec.schema.checking.check_orders import check_clusters, check_ends
from wavespec.schema.language.constraints import Workgroup
from wavespec.schema.language.models import KernelSpec, Schedule
from wavespec.schema.ops import Mma, every
from wavespec.schema.resolve import UndefinedName, spec_with_override

_BAND_AXES = {0, 1}
_BESIDE_PRODUCERS = {"in_parts": "in parts", "in_turn": "in turn"}
_Found = tuple[tuple[str, ...], str, str]
"""The path of a setting in its schedule, why it is useless, and a hint."""


class UselessSetting(WavespecError, code="useless-setting"):
    """A setting of a schedule changes nothing; `why` is the end of a sentence, `hint` what would give it a meaning."""

    def __init__(self, where: Where, setting: str, why: str, hint: str) -> None:
        super().__init__(where, f"{quote(setting)} changes nothing here: {why}.", hints=[hint])


def check_schedules(spec: KernelSpec) -> Iterator[WavespecError]:
    """Settings that no machine has a use for.

    The kernel's schedule is for all targets, so that one which can use a setting is enough. What a base says that
    this spec extends is no mistake of this one.
    """
    every = [spec]
    for settings in spec.targets.values():
        whole = spec_with_override(spec, settings)
        cases = [spec_with_override(whole, case) for case in settings.cases]
        every += [whole, *cases]
        if settings.schedule is not None:
            yield from _unknown(spec, settings.schedule)
            yield from _useless(spec, settings.schedule, [whole, *cases])
        for case, kernel in zip(settings.cases, cases, strict=True):
            if case.schedule is not None:
                yield from _unknown(spec, case.schedule)
                yield from _useless(spec, case.schedule, [kernel])
    if spec.schedule is not None:
        yield from _unknown(spec, spec.schedule)
        yield from _useless(spec, spec.schedule, every)
    walks = (error for kernel in every for check in (check_clusters, check_ends) for error in check(kernel))
    yield from {str(error): error for error in walks}.values()


def is_for_one_target(spec: KernelSpec) -> bool:
    """Whether the schedule of a plain spec is only for its target or case, and written in the file of the spec.

    One that others share, or that is a base's, may say more than is of use here.
    """
    span = spec.schedule.span if spec.schedule else None
    return bool(spec.has_own_schedule) and (span is None or not is_inherited(spec, span))


def _unknown(spec: KernelSpec, schedule: Schedule) -> Iterator[WavespecError]:
    """Buffers of what is no tensor."""
    for name in schedule.waves.buffers if schedule.waves else ():
        if name not in spec.tensors:
            where = schedule.where_key("waves", "buffers", name)
            yield UndefinedName(where, name, "a tensor of the kernel", list(spec.tensors))


def _useless(spec: KernelSpec, schedule: Schedule, kernels: Sequence[KernelSpec]) -> Iterator[WavespecError]:
    found = [*_of_turns(schedule), *_of_producers(schedule, kernels)]
    found += [*_of_loops(schedule, kernels), *_of_workgroups(schedule, kernels)]
    for path, why, hint in found:
        where = schedule.where_key(*path)
        if isinstance(where, str) or where is None or not is_inherited(spec, where):
            yield UselessSetting(where, str(path[-1]), why, hint)


def _of_turns(schedule: Schedule) -> Iterator[_Found]:
    if not _takes_turns(schedule):
        return
    why, hint = "waves that take turns load one step ahead", "Leave it out, or 'order: ping_pong'."
    if schedule.stages > 1:
        yield ("stages",), why, hint
    if schedule.auto is not None:
        yield ("auto",), why, hint
    for name, loop in schedule.loops.items():
        if not loop.nodes and not loop.clusters:
            yield from ((("loops", name, field), why, hint) for field in ("stages", "auto") if getattr(loop, field))


def _of_producers(schedule: Schedule, kernels: Sequence[KernelSpec]) -> Iterator[_Found]:
    makes_products = any(rows == of for rows, (of, _) in schedule.pack.items())  # or it is refused
    has_product = makes_products or any(any(every(Mma, one.graph)) for one in kernels)
    if schedule.waves is not None and schedule.waves.producers and not has_product:
        why = "waves that only copy fill shared memory for matrix products, and the graph has none"
        yield ("waves", "producers"), why, "Leave it out."
    if schedule.waves is not None and schedule.waves.buffers and not schedule.waves.producers:
        why = "they are filled by a wave that only copies, and there is none"
        yield ("waves", "buffers"), why, "Add 'producers: 1', or leave it out."
    if schedule.waves is not None and schedule.waves.order in _BESIDE_PRODUCERS and not schedule.waves.producers:
        why = f"waves issue products {_BESIDE_PRODUCERS[schedule.waves.order]} beside one that only copies"
        yield ("waves", "order"), why, "Add 'producers: 1', or leave it out."
    if schedule.waves is not None and schedule.waves.early_wait:
        if not schedule.waves.producers:
            why = "waves wait early beside one that only copies"
            yield ("waves", "early_wait"), why, "Add 'producers: 1', or leave it out."
        elif schedule.waves.order in ("in_parts", "ping_pong"):
            why = f"with 'order: {schedule.waves.order}' no step has the last product of the one before to wait for"
            yield ("waves", "early_wait"), why, "Leave it out, or 'order'."


def _of_loops(schedule: Schedule, kernels: Sequence[KernelSpec]) -> Iterator[_Found]:
    is_staged = any(tensor.space == "shared" for kernel in kernels for tensor in kernel.tensors.values())
    for name, loop in schedule.loops.items():
        if loop.nodes or loop.clusters:
            why, hint = "the nodes say their stages and their order", "Leave it out, or 'nodes' and 'clusters'."
            yield from ((("loops", name, field), why, hint) for field in ("stages", "auto") if getattr(loop, field))
        elif loop.buffers is not None and ((loop.auto or schedule.auto) != "modulo" or _takes_turns(schedule)):
            why = "buffers are counted out for placed nodes and by 'auto: modulo' only"
            hint = "Add 'nodes', 'clusters' or 'auto: modulo', or leave it out: the stages have the buffers they need."
            yield ("loops", name, "buffers"), why, hint
        if (loop.unroll or 1) > 1 and not is_staged:
            yield ("loops", name, "unroll"), "no tensor is staged", "Mark the operands with 'space: shared'."


def _of_workgroups(schedule: Schedule, kernels: Sequence[KernelSpec]) -> Iterator[_Found]:
    if (workgroups := schedule.workgroups) is None:
        return
    if workgroups.count and not workgroups.persistent:
        why, hint = "a workgroup computes one tile", "Add 'persistent: true', or leave it out."
        yield ("workgroups", "count"), why, hint
    if workgroups.chiplets is not None and workgroups.persistent:
        why, hint = "workgroups that stay take tiles in turns", "Leave it out, or 'persistent'."
        yield ("workgroups", "chiplets"), why, hint
    axes = [{one.axis for one in kernel.constraints if isinstance(one, Workgroup)} for kernel in kernels]
    if workgroups.cluster > 1 and not any(0 in of_kernel for of_kernel in axes):
        why = "a cluster is of neighbours along axis 0, and no dim is on it"
        yield ("workgroups", "cluster"), why, "Give the dim whose tiles are neighbours 'axis: 0'."
    if (workgroups.group or 1) == 1:
        return
    if not any(of_kernel >= _BAND_AXES for of_kernel in axes):
        why = "bands are of the axes 0 and 1, and no dims are on both"
        yield ("workgroups", "group"), why, "Split two dims over workgroups, one along each of these axes."
    elif workgroups.split > 1:
        why = "workgroups that split a loop are neighbours, whatever their tiles"
        yield ("workgroups", "group"), why, "Leave it out, or 'split'."


def _takes_turns(schedule: Schedule) -> bool:
    waves = schedule.waves
    return waves is not None and waves.order == "ping_pong" and not waves.producers


def is_inherited(spec: KernelSpec, span: Span) -> bool:
    """Whether what is there was written in a spec that this one extends."""
    own = spec.span_of("apiVersion")  # which no spec inherits
    return own is not None and span.file != own.file
