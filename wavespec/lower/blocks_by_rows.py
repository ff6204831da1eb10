"""Operations on blocks of a private memory go in; the same on their rows comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from itertools import accumulate

from wavespec.ir.kernel import Op, Value
from wavespec.ir.nodes import replace
from wavespec.ir.op import VectorType
from wavespec.ir.rewriting import uses_of
from wavespec.ir.thread_ops import LOAD, PACK, SLICE, STORE


def blocks_by_rows(ops: Sequence[Op], columns: int, private: Set[str], fresh: Callable[[str], str]) -> tuple[Op, ...]:
    """A block that only slices take apart, before anything is stored there, is loaded slice by slice, one that is
    packed of parts of rows is stored by rows."""
    made = {value.name: op for op in ops for value in op.results}
    uses, last = dict[str, list[Op]](), dict[str, int]()
    for at, op in enumerate(ops):
        for value in uses_of(op):
            uses.setdefault(value.name, []).append(op)
            last[value.name] = at

    def is_block(op: Op) -> bool:
        return op["memory"] in private and not op["mask"] and op["valid"] is None

    def is_apart(at: int, load: Op) -> bool:
        meanwhile = ops[at : last.get(load.result.name, at)]
        is_kept = not any(one.get("memory") == load["memory"] and not one.is_(LOAD) for one in meanwhile)
        return is_kept and all(use.is_(SLICE) for use in uses.get(load.result.name, []))

    apart = {op.result.name: op for at, op in enumerate(ops) if op.is_(LOAD) and is_block(op) and is_apart(at, op)}
    result, packs = list[Op](), set[str]()
    for op in ops:
        if op.is_(STORE) and is_block(op) and (pack := made.get(op.operands[0].name)) is not None and pack.is_(PACK):
            rows = tuple(_rows(op, pack, columns, fresh))
            packs |= {pack.result.name} if rows and len(uses[pack.result.name]) == 1 else set()
            result += rows or (op,)
        elif op.is_(SLICE) and (load := apart.get(op.operands[0].name)) is not None:
            result.append(replace(load, results=op.results).with_(offset=load["offset"] + op["start"]))
        elif not any(value.name in apart for value in op.results):
            result.append(op)
    return tuple(op for op in result if not any(value.name in packs for value in op.results))


def _rows(store: Op, pack: Op, columns: int, fresh: Callable[[str], str]) -> Iterator[Op]:
    """Nothing where the parts do not end with rows."""
    ends = list(accumulate(value.vector.elements for value in pack.operands))
    if not set(range(columns, ends[-1] + 1, columns)) <= set(ends) or ends[-1] % columns:
        return
    row = list[Value]()
    for value, end in zip(pack.operands, ends, strict=True):
        row.append(value)
        if end % columns == 0:
            whole = Value(fresh("row"), VectorType(value.vector.dtype, columns))
            yield replace(pack, operands=tuple(row), results=(whole,))
            yield replace(store, operands=(whole,)).with_(offset=store["offset"] + (end - columns))
            row.clear()
