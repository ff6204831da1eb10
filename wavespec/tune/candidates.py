"""A kernel, a machine and the sizes of a call go in; settings worth measuring come out, most promising first.

A candidate is a set of whole instructions per wave, waves per workgroup, steps in flight and a kind of schedule.
Everything else of the kernel stays as its spec has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product as combinations
from typing import Any

from wavespec.diagnostics import WavespecError
from wavespec.ir.kernel import Op
from wavespec.ir.tile_ops import MMA
from wavespec.pipeline import lower
from wavespec.schema.language.constraints import AnyConstraint, Hardware, HardwareSettings, Tiling, Wave, Workgroup
from wavespec.schema.language.expressions import Num
from wavespec.schema.language.models import KernelSpec, Override, Schedule
from wavespec.targets.machine import Machine
from wavespec.targets.matrix_instruction import MatrixInstruction
from wavespec.tune.cost_model import Product, Split, clocks, fits

_MOST_WAVES = 8
_ROW_BYTES = (32, 256)
"""Bytes of a tile's row along k on machines whose waves run together: powers of two, from a sector to two lines, as
swizzles and matrix units that read shared memory themselves have them."""
_STAGES = (4, 3, 5, 2, 6)
"""In the order in which they are worth trying."""
# Of two candidates that the model takes for equal, the one with another tile tells more than one with another schedule,
# and a machine lists its instructions best first.
_LATER_VARIANT = 0.1
_LATER_ROW = 0.05


class NothingToTune(WavespecError, code="nothing-to-tune"):
    """The kernel has no matrix product whose tiles could be chosen."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Settings of a kernel; `clocks` is what the model makes of them."""

    settings: Override
    words: str
    """The settings in one line, for people."""
    clocks: float


@dataclass(frozen=True, slots=True)
class _Subject:
    """What there is to choose for: dims of the product, element types, and the constraints that stay."""

    m: str
    n: str
    k: str
    rows: tuple[MatrixInstruction, ...]
    splits: Mapping[str, Workgroup]
    kept: tuple[AnyConstraint, ...]
    hardware: HardwareSettings
    """What the spec asks of the machine."""

    def product(self, sizes: Mapping[str, int]) -> Product:
        return Product(sizes[self.m], sizes[self.n], sizes[self.k])


def candidates(
    spec: KernelSpec, machine: Machine, sizes: Mapping[str, int], *, processors: int, named: bool, most: int
) -> list[Candidate]:
    """At most `most` candidates for calls with `sizes`, the best by the model first.

    Args:
        spec: plain, resolved for the target.
        processors: workgroups that run at the same time.
        named: whether a candidate names its matrix instruction; else every variant of the target takes its best.

    Raises:
        NothingToTune: no product whose m and n are split over workgroups and whose k is walked over.
        WavespecError: the spec does not fit the machine as it is.
    """
    subject = _subject(spec, machine)
    product = subject.product(sizes)
    ranked: list[tuple[float, Split, dict[str, Any]]] = []
    for place, row in enumerate(subject.rows):
        for split in _splits(row, product, machine):
            for variant, (staged, schedule) in enumerate(_variants(split, machine)):
                cost = clocks(staged, product, machine, processors)
                ranked.append((cost * (1 + _LATER_ROW * place + _LATER_VARIANT * variant), staged, schedule))
    ranked.sort(key=lambda entry: entry[0])
    found: dict[str, Candidate] = {}
    for cost, split, schedule in ranked:
        candidate = _candidate(subject, split, schedule, cost, named)
        found.setdefault(candidate.words, candidate)
        if len(found) == most:
            break
    return list(found.values())


def _subject(spec: KernelSpec, machine: Machine) -> _Subject:
    kernel = lower(spec, machine, after="choose-instructions")
    products = [op for op in kernel.walk() if op.is_(MMA)]
    where = spec.where("graph")
    if not products:
        raise NothingToTune(where, f"{spec.name} has no matrix product, so there are no tiles to choose.")
    first = products[0]
    m, n, k = first["m"], first["n"], first["k"]
    if any((op["m"], op["n"], op["k"]) != (m, n, k) for op in products):
        raise NothingToTune(where, f"{spec.name} has products over different dims; only one kind can be tuned.")
    splits = {c.dim: c for c in spec.constraints if isinstance(c, Workgroup)}
    walked = {c.dim for c in spec.constraints if isinstance(c, Tiling)}
    if not {m, n} <= splits.keys() or k not in walked:
        hints = ["A product is tuned where constraints split m and n over workgroups and walk over k."]
        raise NothingToTune(spec.where("constraints"), f"{spec.name} does not split its product.", hints=hints)
    kept = tuple(c for c in spec.constraints if not (isinstance(c, Hardware) or getattr(c, "dim", "") in (m, n, k)))
    written = next((c.settings for c in spec.constraints if isinstance(c, Hardware)), HardwareSettings())
    return _Subject(m, n, k, _rows(first, spec, machine), splits, kept, written)


def _rows(op: Op, spec: KernelSpec, machine: Machine) -> tuple[MatrixInstruction, ...]:
    """Instructions for the types of the product: those that the machine may pick, or the one that the spec names."""
    written = next((c.settings.mma for c in spec.constraints if isinstance(c, Hardware)), None) or "auto"
    named = machine.instruction(written)
    if named is not None:
        return (named,)
    a, _, acc = (value.tile.dtype for value in op.operands)
    return tuple(row for row in machine.instructions if row.auto and a in row.inputs and row.acc.dtype == acc)


def _splits(row: MatrixInstruction, product: Product, machine: Machine) -> Iterator[Split]:
    """Tiles of whole instructions, with one step in flight, that a workgroup can hold."""
    splits = _gpu_splits(row, product) if machine.register_tile == "wave" else _cpu_splits(row, product)
    return (split for split in splits if fits(split, machine))


def _gpu_splits(row: MatrixInstruction, product: Product) -> Iterator[Split]:
    waves = [(m, n) for m, n in combinations((1, 2, 4, 8), repeat=2) if m * n <= _MOST_WAVES]
    for (waves_m, waves_n), wave_m, wave_n in combinations(waves, _multiples(row.m, 128), _multiples(row.n, 256)):
        m, n = waves_m * wave_m, waves_n * wave_n
        if _is_wasted(m, product.m, row.m * waves_m) or _is_wasted(n, product.n, row.n * waves_n):
            continue
        for k in (row.k << shift for shift in range(9)):
            if _ROW_BYTES[0] <= k * row.a.dtype.bytes <= _ROW_BYTES[1]:
                yield Split(row, (m, n, k), (waves_m, waves_n), producers=int(row.reads_shared))


def _cpu_splits(row: MatrixInstruction, product: Product) -> Iterator[Split]:
    for m, n, k in combinations(_multiples(row.m, 1024), _multiples(row.n, 1024), _multiples(max(row.k, 32), 2048)):
        if not (_is_wasted(m, product.m, row.m) or _is_wasted(n, product.n, row.n) or _is_wasted(k, product.k, row.k)):
            yield Split(row, (m, n, k))


def _multiples(part: int, limit: int) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12 ... times `part`."""
    factors = [base << shift for shift in range(12) for base in (2, 3)]
    return sorted({part, *(part * factor for factor in factors if part * factor <= limit)})


def _is_wasted(tile: int, size: int, least: int) -> bool:
    """Whether a tile of half the extent would still hold the whole size."""
    return tile > least and tile >= 2 * size


def _variants(split: Split, machine: Machine) -> Iterator[tuple[Split, dict[str, Any]]]:
    """The tiles with schedules that fit them, as fields of `Schedule`; what is worth trying first comes first.

    No fields: nothing overlaps on the machine, so the schedule stays as it is.
    """
    if machine.resources is None:
        yield split, {}
        return
    for stages in _stages(split, machine):
        staged = replace(split, stages=stages)
        if fits(staged, machine):
            yield from ((staged, schedule) for schedule in _schedules(staged, machine))
        for size in machine.clusters if split.producers else ():
            shared_out = replace(staged, split=size)
            if fits(shared_out, machine):
                yield shared_out, {**next(_schedules(staged, machine)), "workgroups": {"split": size}}


def _stages(split: Split, machine: Machine) -> tuple[int, ...]:
    copies = machine.globals.async_copies
    if split.row.reads_shared or (copies.bytes and not copies.in_lane_order):
        return _STAGES
    return (2, 3, 1) if copies.bytes else (2, 1)


def _schedules(split: Split, machine: Machine) -> Iterator[dict[str, Any]]:
    stages = {"stages": split.stages}
    if split.producers:
        computing = split.waves[0] * split.waves[1]
        waves: dict[str, Any] = {"producers": split.producers}
        if computing == 2:
            waves["registers"] = {"producer": 40, "consumer": 232}
        yield {**stages, "waves": waves}
        yield {**stages, "waves": waves, "workgroups": {"persistent": True}}
        if computing == 2:
            yield {**stages, "waves": {**waves, "order": "ping_pong"}, "workgroups": {"persistent": True}}
        return
    yield stages
    if machine.resources is not None and split.stages > 1:
        yield {**stages, "auto": "modulo"}


def _candidate(subject: _Subject, split: Split, schedule: Mapping[str, Any], cost: float, named: bool) -> Candidate:
    (m, n, k), (wave_m, wave_n) = split.block, split.wave
    mma = split.row.name if named else "auto"
    constraints: list[AnyConstraint] = [
        Workgroup(dim=dim, tile=Num(tile), axis=subject.splits[dim].axis, order=subject.splits[dim].order)
        for dim, tile in ((subject.m, m), (subject.n, n))
    ]
    constraints += [
        Tiling(dim=subject.k, tile=Num(k)),
    ]
    words = [f"{m}x{n}x{k}"]
    if split.row.lanes > 1:
        constraints += [Wave(dim=subject.m, tile=Num(wave_m)), Wave(dim=subject.n, tile=Num(wave_n))]
        words.append(f"waves {wave_m}x{wave_n}")
    if named:
        words.append(mma)
    constraints.append(Hardware(settings=subject.hardware.model_copy(update={"mma": mma})))
    words += _schedule_in_words(schedule)
    chosen = Schedule.model_validate(dict(schedule)) if schedule else None
    settings = Override(constraints=(*constraints, *subject.kept), schedule=chosen)
    return Candidate(settings, ", ".join(words), cost)


def _schedule_in_words(schedule: Mapping[str, Any]) -> list[str]:
    words = [f"{stages} stages"] if (stages := schedule.get("stages", 1)) > 1 else []
    waves, workgroups = schedule.get("waves", {}), schedule.get("workgroups", {})
    words += [schedule["auto"]] if "auto" in schedule else []
    words += [f"{waves['producers']} producer"] if waves else []
    words += ["ping-pong"] if waves.get("order") == "ping_pong" else []
    words += ["persistent"] if workgroups.get("persistent") else []
    words += [f"split {workgroups['split']}"] if "split" in workgroups else []
    return words
