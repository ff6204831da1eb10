"""`scan` and `reduce`: elements of several values along a dim joined by steps of the spec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from wavespec.ir.dtype import DTYPES, DType, computed
from wavespec.ir.kernel import Op, Value
from wavespec.ops.broadcast import broadcast_fragments
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.ops.joining import Joining, Step, cast_step, number_step
from wavespec.ops.reduce import padded
from wavespec.ops.scanner import Scanner
from wavespec.schema.ops import AnyOp, Cast, Elementwise, Joined, Register, ScanBy
from wavespec.schema.ops.elementwise import dtype_of_numbers

if TYPE_CHECKING:
    import torch


def to_tile(statement: Joined, context: TileContext) -> None:
    values = tuple(context.names[name] for name in statement.carry.values())
    starts = tuple(context.names[statement.init[name]] for name in statement.carry if statement.init)
    is_scan = isinstance(statement, ScanBy)
    ends = {name: name for name in statement.carry} if not isinstance(statement, ScanBy) else statement.last
    results: list[Value] = []
    for name, value in zip(statement.carry, values, strict=True) if is_scan else ():
        results.append(context.tile(f"{statement.name}_{name}", value.tile.dims, value.tile.dtype))
        context.names[f"{statement.name}.{name}"] = results[-1]
    for name, value in zip(statement.carry, values, strict=True) if ends else ():
        dims = tuple(dim for dim in value.tile.dims if dim != statement.dim)
        end = ends.get(name, name)
        results.append(context.tile(f"{statement.name}_{end}", dims, value.tile.dtype))
        if name in ends:
            context.names[f"{statement.name}.{end}"] = results[-1]
    reverse = isinstance(statement, ScanBy) and statement.reverse
    context.add(
        "joined",
        (*values, *starts),
        tuple(results),
        statement.span,
        node=statement.name,
        dim=statement.dim,
        combine=str(_joining(statement, [computed(value.tile.dtype) for value in values])),
        running=is_scan,
        reverse=reverse,
    )


def _joining(statement: Joined, dtypes: Sequence[DType]) -> Joining:
    """The statements of `combine` as steps; small floats are f32 in all of them."""
    numbers = {name: number for number, name in enumerate((*statement.carry, *statement.carry.values()))}
    kinds, steps = [*dtypes, *dtypes], list[Step]()

    def add(step: Step, dtype: DType) -> int:
        steps.append(step)
        kinds.append(dtype)
        return len(kinds) - 1

    def operand(written: str | float, dtype: DType) -> int:
        return numbers[written] if isinstance(written, str) else add(number_step(written, dtype), dtype)

    def step_of(op: AnyOp) -> int:
        match op:
            case Register():
                dtype = computed(DTYPES[op.dtype])
                return add(number_step(op.value, dtype), dtype)
            case Cast():
                dtype = computed(DTYPES[op.dtype])
                return add(cast_step(numbers[op.value], dtype), dtype)
            case Elementwise():
                written = {field: getattr(op, field) for field in op.headline}
                typed = (one for field, one in written.items() if isinstance(one, str) and field not in op.flags)
                first = next(typed, None)
                plain = [one for one in written.values() if not isinstance(one, str)]
                dtype = DTYPES[dtype_of_numbers(plain)] if first is None else kinds[numbers[first]]
                made = DTYPES["bool"] if op.function.result == "bool" else dtype
                return add(Step(op.word, made.name, tuple(operand(one, dtype) for one in written.values())), made)
            case _:
                raise AssertionError(f"'combine' has no {op.word}")

    for op in statement.combine:
        numbers[getattr(op, "name", "")] = step_of(op)
    identity = tuple(
        float(statement.identity[name]) if dtype.is_float else int(statement.identity[name])
        for name, dtype in zip(statement.carry, dtypes, strict=True)
    )
    results = tuple(numbers[name] for name in statement.carry)
    return Joining(tuple(dtype.name for dtype in dtypes), identity, tuple(steps), results)


def to_thread(op: Op, context: ThreadContext) -> None:
    build, joining, hint = context.build, Joining.parse(op["combine"]), op.results[0].name
    kinds = [DTYPES[dtype] for dtype in joining.dtypes]
    values, starts = op.operands[: len(kinds)], op.operands[len(kinds) :]
    layout = values[0].tile.layout
    assert layout is not None
    fragments: list[Sequence[Value]] = []
    for value, kind, number in zip(values, kinds, joining.identity, strict=True):
        parts: Sequence[Value] = [build.cast(part, kind, hint) for part in context.fragments[value.name]]
        if op.get("masked"):
            parts = padded(context, parts, layout, op["dim"], context.origin(op)[op["dim"]], op["size"], number)
        fragments.append(parts)
    scanner = Scanner(op, context, layout, joining, reverse=op["reverse"])
    running = scanner.run(fragments)
    found = running if op["running"] else []
    ends = op.results[len(found) :]
    if ends:
        end_layout = ends[0].tile.layout
        assert end_layout is not None
        found = [*found, *scanner.all_joined(end_layout.fragment_elements)]
    first = [
        [build.cast(part, kind, hint) for part in context.fragments[start.name]]
        for start, kind in zip(starts, kinds, strict=False)
    ]
    for at in range(0, len(found), len(kinds)):
        if starts:
            place = op.results[at].tile.layout
            assert place is not None
            wide = [broadcast_fragments(build, *pair, place) for pair in zip(starts, first, strict=True)]
            units = zip(zip(*wide, strict=True), zip(*found[at : at + len(kinds)], strict=True), strict=True)
            joined = [scanner.join(start, unit) for start, unit in units]
            found[at : at + len(kinds)] = [list(value) for value in zip(*joined, strict=True)]
    for result, parts in zip(op.results, found, strict=True):
        context.fragments[result.name] = tuple(build.cast(part, result.tile.dtype, hint) for part in parts)


def reference(statement: Joined, context: ReferenceContext) -> None:
    """In steps of 1, 2, 4 ... elements, as many as a logarithm of the dim."""
    import torch

    dims = context.dims[next(iter(statement.carry.values()))]
    axis, kept = dims.index(statement.dim), tuple(dim for dim in dims if dim != statement.dim)
    running = {name: context.names[value] for name, value in statement.carry.items()}
    is_scan = isinstance(statement, ScanBy)
    reverse = isinstance(statement, ScanBy) and statement.reverse
    if reverse:
        running = {name: value.flip(axis) for name, value in running.items()}
    nothing = {
        name: torch.full_like(
            value.narrow(axis, 0, 1) if value.shape[axis] else value.sum(axis, True), statement.identity[name]
        )
        for name, value in running.items()
    }
    size, step = next(iter(running.values())).shape[axis], 1
    while step < size:
        shifted = {
            name: torch.cat([nothing[name].repeat_interleave(step, axis), value.narrow(axis, 0, size - step)], axis)
            for name, value in running.items()
        }
        running = _joined(statement, context, dims, shifted, running)
        step *= 2
    ends = {name: value.narrow(axis, size - 1, 1) if size else nothing[name] for name, value in running.items()}
    if statement.init:
        starts = {
            name: context.names[start].permute([context.dims[start].index(dim) for dim in kept]).unsqueeze(axis)
            for name, start in statement.init.items()
        }
        running = _joined(statement, context, dims, {n: x.expand_as(running[n]) for n, x in starts.items()}, running)
        ends = _joined(statement, context, dims, starts, ends)
    for name, value in running.items() if is_scan else ():
        context.define(f"{statement.name}.{name}", dims, value.flip(axis) if reverse else value)
    names = statement.last if isinstance(statement, ScanBy) else {name: name for name in statement.carry}
    for name, end in names.items():
        context.define(f"{statement.name}.{end}", kept, ends[name].squeeze(axis))


def _joined(
    statement: Joined,
    context: ReferenceContext,
    dims: tuple[str, ...],
    left: Mapping[str, torch.Tensor],
    right: Mapping[str, torch.Tensor],
) -> dict[str, torch.Tensor]:
    """What the statements of `combine` make of pairs of elements."""
    before, known = dict(context.names), dict(context.dims)
    for name, value in statement.carry.items():
        context.define(name, dims, left[name])
        context.define(value, dims, right[name])
    context.run(statement.combine)
    made = {name: context.names[name] for name in statement.carry}
    context.names.clear()
    context.names.update(before)
    context.dims.clear()
    context.dims.update(known)
    return made
