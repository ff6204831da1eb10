"""The meaning of each op, one file each: as a tile operation, as steps of one lane, and on whole tensors."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from wavespec.ir.kernel import Op
from wavespec.ops import (
    argmax,
    assertion,
    atomic,
    bind,
    bitcast,
    branch,
    cast,
    cluster_sum,
    debug,
    dot,
    elementwise,
    extract,
    index,
    iterate,
    join,
    join_powers,
    joined,
    mma,
    pad,
    random,
    read,
    reduce,
    register,
    repeat,
    scalar,
    scan,
    shared_sum,
    size,
    spread_sum,
    take,
    tiles_end,
    topk,
    wave_sum,
    write,
)
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.schema.ops import ARG_REDUCTIONS, REDUCTIONS, SCANS

_OPS: dict[str, ModuleType] = {
    "assert": assertion,
    "atomic": atomic,
    "bind": bind,
    "bitcast": bitcast,
    "if": branch,
    "cast": cast,
    **dict.fromkeys(("cluster_extreme", "cluster_sum"), cluster_sum),
    "debug": debug,
    "dot": dot,
    "elementwise": elementwise,
    "extract": extract,
    "index": index,
    "iterate": iterate,
    "join": join,
    "join_powers": join_powers,
    "joined": joined,
    "mma": mma,
    "pad": pad,
    "random": random,
    "read": read,
    "reduce": reduce,
    "register": register,
    "repeat": repeat,
    "scalar": scalar,
    "scan": scan,
    "shared_sum": shared_sum,
    "size": size,
    "spread_sum": spread_sum,
    "take": take,
    "tiles_end": tiles_end,
    "topk": topk,
    "wave_sum": wave_sum,
    "write": write,
    **dict.fromkeys(elementwise.MEANINGS, elementwise),
    **dict.fromkeys((one.word for one in ARG_REDUCTIONS), argmax),
    **dict.fromkeys((one.word for one in REDUCTIONS), reduce),
    **dict.fromkeys((one.word for one in SCANS), scan),
}
"""By the word of a statement, and by the name of a tile operation."""
_STATEMENTS: dict[str, ModuleType] = {**_OPS, "scan": joined, "reduce": joined}
"""Words that mean something else as names of tile operations."""


def to_tile(statement: Any, context: TileContext) -> None:
    """Append the tile operations of one statement of a graph."""
    _STATEMENTS[statement.word].to_tile(statement, context)


def to_thread(op: Op, context: ThreadContext) -> None:
    """Append one lane's steps of a tile operation."""
    _OPS[op.name].to_thread(op, context)


def reference_of(statement: Any, context: ReferenceContext) -> None:
    """Compute one statement on whole tensors."""
    _STATEMENTS[statement.word].reference(statement, context)
