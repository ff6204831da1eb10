"""The schedules of a kernel go in; what they materialize and no kernel of its own could write comes out."""

from __future__ import annotations

from collections.abc import Iterator

from wavespec.diagnostics import WavespecError
from wavespec.schema.cases import spec_with_promises
from wavespec.schema.language.models import KernelSpec, Schedule
from wavespec.schema.materialize import CannotMaterialize, kernels_of
from wavespec.schema.packed_rows import PackNotPossible
from wavespec.schema.parted_loops import PartsNotPossible
from wavespec.schema.resolve import spec_with_override
from wavespec.schema.rows_with_room import ShiftNotPossible

_OF_CASES = ("materialize", "parts", "pack", "shift")
_NOT_OF_CASE = "it is for some sizes of a call"
_ONE_KERNEL = "the kernel for all sizes is one kernel"


def check_materialize(spec: KernelSpec) -> Iterator[WavespecError]:
    """Of a spec whose graph is right."""
    for schedule in (spec.schedule, *(settings.schedule for settings in spec.targets.values())):
        yield from _for_all_sizes(schedule)
    for settings in spec.targets.values():
        whole = spec_with_override(spec, settings)
        for case in settings.cases:
            if case.schedule is not None and any(getattr(case.schedule, word) for word in _OF_CASES):
                try:
                    kernels_of(spec_with_promises(whole, case))
                except WavespecError as error:
                    yield error


def _for_all_sizes(schedule: Schedule | None) -> Iterator[WavespecError]:
    """A kernel for all sizes has the tensors of a call, and no memory between."""
    if schedule is not None:
        for name in schedule.materialize:
            hint = "Move it to the schedule of a case: 'cases: [{when: [M >= 1024], schedule: {...}}]'."
            where = schedule.where_key("materialize", name)
            yield CannotMaterialize(where, name, _ONE_KERNEL, hint)
        for dim in schedule.pack:
            hint = "Move it to the schedule of a case: 'cases: [{when: [M <= 16], schedule: {...}}]'."
            yield PackNotPossible(schedule.where_key("pack", dim), dim, _NOT_OF_CASE, hint)
        for dim in schedule.shift:
            hint = "Move it to the schedule of a case: 'cases: [{when: [C % 64 == 0, W <= 120], schedule: {...}}]'."
            yield ShiftNotPossible(schedule.where_key("shift", dim), dim, _NOT_OF_CASE, hint)
        for dim in schedule.parts:
            hint = "Move it to the schedule of a case: 'cases: [{when: [N >= 65536], schedule: {...}}]'."
            yield PartsNotPossible(schedule.where_key("parts", dim), dim, _ONE_KERNEL, hint)
