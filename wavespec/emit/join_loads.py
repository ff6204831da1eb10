"""Thread kernel in, thread kernel out: loads of neighbours that share bytes become one, of as many as a look-up is for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from wavespec.emit.look_up_codes import AT_ONCE, CODE_BITS
from wavespec.ir.kernel import Kernel, Op, Value, VectorType, attribute_pairs
from wavespec.ir.thread_ops import LOAD, SLICE


def join_loads(kernel: Kernel) -> Kernel:
    """Elements of tensors that are only read, in one block and without checks; each load becomes a slice."""
    read = {one.name for one in kernel.memories if one.dtype.bits == CODE_BITS and one.role == "input"}
    return replace(kernel, body=_joined(kernel.body, read)) if read else kernel


def _joined(ops: Sequence[Op], read: set[str]) -> tuple[Op, ...]:
    rows: defaultdict[Hashable, list[Op]] = defaultdict(list)
    for op in ops:
        if op.is_(LOAD) and op["memory"] in read and not op["mask"] and op["valid"] is None:
            rows[op["memory"], op["offset"].terms(), op.with_(offset=None).attributes].append(op)
    runs = {op.result.name: run for row in rows.values() for run in _runs(row) for op in run}
    wholes = dict[str, Value]()
    """By the name of the first element's load."""
    made = list[Op]()
    for op in ops:
        if op.region is not None:
            op = replace(op, region=replace(op.region, ops=_joined(op.region.ops, read)))
        run = runs.get(op.results[0].name) if op.results else None
        if run is None:
            made.append(op)
            continue
        first = run[0]
        if first.result.name not in wholes:
            vector = VectorType(first.result.vector.dtype, AT_ONCE)
            whole = wholes[first.result.name] = Value(f"{first.result.name}.joined", vector)
            made.append(replace(first, results=(whole,)))
        start = op["offset"].beyond(first["offset"])
        attributes = attribute_pairs({"start": start, "size": op.result.vector.elements})
        made.append(Op(SLICE.name, (wholes[first.result.name],), op.results, attributes, span=op.span, node=op.node))
    return tuple(made)


def _runs(row: list[Op]) -> Iterator[list[Op]]:
    """Loads side by side that together are as many elements as a look-up is for."""
    run, end = list[Op](), 0
    for op in sorted(row, key=lambda op: op["offset"].constant_part()):
        size = op.result.vector.elements
        begins_anew = not run or op["offset"].beyond(run[0]["offset"]) != end or end + size > AT_ONCE
        run, end = ([op], size) if begins_anew else ([*run, op], end + size)
        if end == AT_ONCE and len(run) > 1:
            yield run
            run, end = [], 0
