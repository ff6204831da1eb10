"""The operations of the thread level: what one lane does, one instruction-sized step each.

Offsets count elements of the memory.  ``mask`` is a conjunction of pairs, each meaning that its first is below its
second; a masked-off load gives zeros, a masked-off store does nothing.  ``valid`` is the number of leading elements
that exist where an access may stick out of a row, None for all of them.  ``buffer`` picks one copy of a multiply
buffered memory.  In signatures ``T x n`` are n registers of type T.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from wavespec.ir.declarations import ANY, Attribute, Declarations, Kind, Trait

THREAD_OPS: Final = Declarations("thread")

_declare = THREAD_OPS.declare
_FALSE = Attribute(Kind.FLAG, absent="false")

# Values of values

CONSTANT: Final = _declare(
    "constant", "-> T x n", "`value` in every element", Trait.PURE, results=1, attributes={"value": Kind.NUMBER}
)
COORDINATES: Final = _declare(
    "coordinates",
    "-> T x n",
    "an index expression of `places` for each element",
    Trait.PURE,
    results=1,
    attributes={"places": Kind.EXPRESSIONS},
)
ELEMENTWISE: Final = _declare(
    "elementwise",
    "T x n ... -> T x n",
    "one step; `wavespec/sim/elements.py` has all functions. `lt`, `le`, `eq` and `ne` give bool, `where` takes one "
    "first",
    Trait.PURE,
    operands=(1, 4),
    results=1,
    attributes={"function": Kind.TEXT},
)
CAST: Final = _declare(
    "cast",
    "T x n -> U x n",
    "`bias`: a whole number added on the way, in U, wrapping round",
    Trait.PURE,
    Trait.MOVES,
    operands=1,
    results=1,
    attributes={"bias": Attribute(Kind.INTEGER, absent="0")},
)
BITCAST: Final = _declare(
    "bitcast", "T x n -> U x n", "the same bits; T and U have as many", Trait.PURE, operands=1, results=1
)
OPAQUE: Final = _declare(
    "opaque",
    "T x n -> T x n",
    "the same; what is made of it is made behind it, and not in front of a loop",
    operands=1,
    results=1,
)
PACK: Final = _declare(
    "pack", "T x n ... -> T x sum", "concatenation", Trait.PURE, Trait.MOVES, operands=(1, None), results=1
)
SLICE: Final = _declare(
    "slice",
    "T x n -> T x size",
    "`size` elements from `start` on",
    Trait.PURE,
    Trait.MOVES,
    operands=1,
    results=1,
    attributes={"start": Kind.INTEGER, "size": Kind.INTEGER},
)
TRANSPOSE: Final = _declare(
    "transpose",
    "T x (r·c·u) -> T x (r·c·u)",
    "row-major to column-major, moving units of `unit` elements",
    Trait.PURE,
    Trait.MOVES,
    operands=1,
    results=1,
    attributes={"rows": Kind.INTEGER, "columns": Kind.INTEGER, "unit": Kind.INTEGER},
)
BROADCAST: Final = _declare("broadcast", "T x 1 -> T x n", "the one element n times", Trait.PURE, operands=1, results=1)
REDUCE: Final = _declare(
    "reduce",
    "T x (r·n) -> T x r",
    "joins each row of n elements by `function`, in any order",
    Trait.PURE,
    operands=1,
    results=1,
    attributes={"function": Kind.TEXT},
)
PAD: Final = _declare(
    "pad",
    "T x n -> T x n",
    "element i becomes `value` unless `start` + i * `stride` < `limit`",
    Trait.PURE,
    operands=1,
    results=1,
    attributes={"start": Kind.EXPRESSION, "stride": Kind.INTEGER, "limit": Kind.EXPRESSION, "value": Kind.NUMBER},
)
WINDOW: Final = _declare(
    "window",
    "T x n -> T x m",
    "m elements from `start` on, of which it is known when the kernel runs",
    Trait.PURE,
    operands=1,
    results=1,
    attributes={"start": Kind.EXPRESSION},
)
SHUFFLE: Final = _declare(
    "shuffle",
    "T x n -> T x n",
    "what the lane has whose number differs in these `bits`",
    operands=1,
    results=1,
    attributes={"bits": Kind.INTEGER},
)
FROM_LANE: Final = _declare(
    "from_lane",
    "T x n -> T x n",
    "what number `lane` of this lane's group has; every `lanes` of a wave are one",
    operands=1,
    results=1,
    attributes={"lane": Kind.INTEGER, "lanes": Kind.INTEGER},
)
JOIN_LANES: Final = _declare(
    "join_lanes",
    "T x n -> T x n",
    "each element joined by `function` with those of all other lanes of the wave, in any order, for each of them",
    operands=1,
    results=1,
    attributes={"function": Kind.TEXT, "lanes": Kind.INTEGER},
)
MMA: Final = _declare(
    "mma",
    "a, b, acc -> acc",
    "a product by a matrix instruction, or by several; `unbiased`: what a bias adds stays, and `acc` lacks as much",
    Trait.BY_ALL_LANES,
    operands=3,
    results=1,
    attributes={"instruction": Kind.TEXT, "unbiased": _FALSE},
)
DOT: Final = _declare(
    "dot",
    "T x (g·r), T x (n·d), U x n -> U x n",
    "acc + the products of groups of d elements, summed: group i of b times that of a at `start` in run i // (n / g)",
    operands=3,
    results=1,
    attributes={"instruction": Kind.TEXT, "start": Kind.INTEGER, "runs": Kind.INTEGER},
)

# Memory, by each lane

_PLACE: Final[Mapping[str, Kind | Attribute]] = {"memory": Kind.MEMORY, "offset": Kind.EXPRESSION}
_ACCESS: Final[Mapping[str, Kind | Attribute]] = {**_PLACE, "buffer": Kind.EXPRESSION}
_GUARDED: Final[Mapping[str, Kind | Attribute]] = {**_ACCESS, "mask": Kind.MASK, "valid": Kind.EXTENT}
_CACHE = Attribute(Kind.TEXT, absent="as the machine does by itself")

LOAD: Final = _declare(
    "load",
    "-> T x n",
    "`rank`: which workgroup of the cluster has the shared memory; `around`: elements outside of the tensor may be "
    "read, and are anything; `idle`: nobody uses what there is where the mask does not hold; `front`: how many of the "
    "first elements are not there",
    Trait.READS_MEMORY,
    results=1,
    attributes={
        **_GUARDED,
        "front": Attribute(Kind.EXTENT, absent="none"),
        "rank": Attribute(Kind.INTEGER, absent="this one"),
        "around": _FALSE,
        "idle": _FALSE,
        "cache": _CACHE,
    },
)
STORE: Final = _declare(
    "store",
    "T x n ->",
    "`mapped`: a mapping of a spec says the place, so that several elements may have one; `cache`: `streaming`, what "
    "is accessed is not accessed again soon, and need not stay in caches; `apart`: of what is combined, the axes of "
    "the grid along which workgroups have elements of their own",
    Trait.WRITES_MEMORY,
    Trait.FILLS,
    operands=1,
    attributes={**_GUARDED, "mapped": _FALSE, "cache": _CACHE, "apart": Attribute(Kind.NUMBERS, absent="none")},
)
ACCUMULATE: Final = _declare(
    "accumulate",
    "T x n ->",
    "a store, with what the memory holds added where `onto` holds",
    Trait.READS_MEMORY,
    Trait.WRITES_MEMORY,
    operands=1,
    attributes={**_GUARDED, "onto": Kind.MASK},
)
ATOMIC: Final = _declare(
    "atomic",
    "T x n, T x n expected -> T x n",
    "each element in one indivisible step becomes `function` of what the memory holds and it: `add`, `maximum`, "
    "`minimum`, `and`, `or`, `xor`, `exchange`, or `compare_and_swap`, which replaces what is `expected`; lanes may "
    "name the same element. The result, where there is one, is what the memory held before, and 0 where the mask is "
    "not set. `ordered`: what a workgroup wrote in front of it is there for who finds what it left",
    Trait.WRITES_MEMORY,
    operands=(1, 2),
    results=(0, 1),
    attributes={**_PLACE, "function": Kind.TEXT, "mask": Kind.MASK, "ordered": _FALSE},
)
PREFETCH: Final = _declare("prefetch", "->", "a hint that this lane soon accesses what is there", attributes=_PLACE)
LOAD_TILE: Final = _declare(
    "load_tile",
    "-> T x (r·c)",
    "`rows` of `columns` consecutive elements, `stride` elements apart; where `mask` holds, of the memory `source`, "
    "from `source_offset` on, `source_stride` apart",
    Trait.READS_MEMORY,
    results=1,
    attributes={
        **_ACCESS,
        "rows": Kind.INTEGER,
        "columns": Kind.INTEGER,
        "stride": Kind.INTEGER,
        "source": Attribute(Kind.MEMORY, absent="none", set_by="read-in-place"),
        "source_offset": Attribute(Kind.EXPRESSION, absent="none", set_by="read-in-place"),
        "source_stride": Attribute(Kind.EXPRESSION, absent="none", set_by="read-in-place"),
        "mask": Attribute(Kind.MASK, absent="never", set_by="read-in-place"),
    },
)
LOAD_MATRIX: Final = _declare(
    "load_matrix",
    "-> T x e·c",
    "`count` = c matrices of 8 rows of 16 bytes; lane 8j + r gives the offset of row r of matrix j; every lane "
    "receives bytes 4(lane % 4) .. +3 of row lane // 4 of each matrix: e elements, 1 of 4 bytes, 2 of 2 bytes or 4 "
    "of 1 byte; `transposed`, for 2-byte elements: of the matrix with rows and columns exchanged",
    Trait.READS_MEMORY,
    Trait.BY_ALL_LANES,
    results=1,
    attributes={**_ACCESS, "count": Kind.INTEGER, "transposed": Kind.FLAG},
)
STORE_MATRIX: Final = _declare(
    "store_matrix",
    "T x e·c ->",
    "the inverse of load_matrix, for 2-byte elements",
    Trait.WRITES_MEMORY,
    Trait.BY_ALL_LANES,
    operands=1,
    attributes={**_ACCESS, "count": Kind.INTEGER, "transposed": Kind.FLAG},
)

# Memory, by copies that go on while the lane does

COPY_ASYNC: Final = _declare(
    "copy_async",
    "->",
    "`elements` from global to shared memory, zero-filled where masked off; complete after the async_wait that "
    "covers its group; `around`: as of a load",
    Trait.FILLS,
    attributes={
        **_GUARDED,
        "source": Kind.MEMORY,
        "source_offset": Kind.EXPRESSION,
        "elements": Kind.INTEGER,
        "around": _FALSE,
        "cache": _CACHE,
    },
)
ASYNC_COMMIT: Final = _declare("async_commit", "->", "closes a group of copies")
ASYNC_WAIT: Final = _declare(
    "async_wait", "->", "`pending` groups of this lane may stay in flight", attributes={"pending": Kind.INTEGER}
)
_VIEW = Attribute(Kind.EXPRESSIONS, absent="those of the tensor")
BULK_COPY: Final = _declare(
    "bulk_copy",
    "->",
    "this lane has a box of a tensor (`corner`: a coordinate per dim, `box`: an extent per dim) copied to shared "
    "memory, row after row in the memory's swizzle, zeros beyond the tensor; its bytes are counted on the signal. "
    "`view`: sizes of the dims that `corner` and `box` are of, over which those of the tensor are counted. `windows`: "
    "of each dim between the first and the last, where windows start, their step and number; the rows of the box are "
    "windows from the one at `corner` on, and of each the element at `offsets`. "
    "`everywhere`: at the same place in every workgroup of the cluster, and on the signal of each; `valid`: rows of "
    "the box, from the first on, that are those of the tensor, the others are zeros, and so may be all of a box that "
    "begins in front of the tensor; `kept_bits`: each element rounded to so many; `row_step`: the box has "
    "every so many-th of its rows in the tensor, from the first on, behind them those from the second on, and so on",
    Trait.FILLS,
    attributes={
        **_ACCESS,
        "kept_bits": Attribute(Kind.INTEGER, absent="all", set_by="round-copies"),
        "row_step": Attribute(Kind.INTEGER, absent="1", set_by="deal-rows"),
        "source": Kind.MEMORY,
        "corner": Kind.EXPRESSIONS,
        "box": Kind.NUMBERS,
        "signal": Kind.MEMORY,
        "index": Kind.EXPRESSION,
        "everywhere": _FALSE,
        "valid": Attribute(Kind.EXTENT, absent="all"),
        "view": _VIEW,
        "windows": Attribute(Kind.TABLE, absent="none"),
        "offsets": Attribute(Kind.EXPRESSIONS, absent="none"),
    },
)
BULK_STORE: Final = _declare(
    "bulk_store",
    "->",
    "this lane has a box of shared memory, row after row in the memory's swizzle, copied to a tensor; what lies "
    "beyond the tensor is left out",
    attributes={
        **_ACCESS,
        "target": Kind.MEMORY,
        "corner": Kind.EXPRESSIONS,
        "box": Kind.NUMBERS,
        "view": _VIEW,
    },
)
BULK_COMMIT: Final = _declare("bulk_commit", "->", "closes a group of bulk stores of this lane")
BULK_WAIT: Final = _declare(
    "bulk_wait",
    "->",
    "`pending` groups of this lane may still be reading shared memory",
    attributes={"pending": Kind.INTEGER},
)

SEND: Final = _declare(
    "send",
    "T x n ->",
    "registers to shared memory of the workgroup `receiver` of the cluster; its bytes are counted on the signal there",
    operands=1,
    attributes={
        "memory": Kind.MEMORY,
        "offset": Kind.EXPRESSION,
        "receiver": Kind.EXPRESSION,
        "signal": Kind.MEMORY,
        "index": Kind.EXPRESSION,
        "mask": Kind.MASK,
    },
)

# Waves that wait for one another

BARRIER: Final = _declare(
    "barrier",
    "->",
    "`waves` of the workgroup from `first` on meet; shared memory is coherent after it",
    Trait.BY_ALL_LANES,
    attributes={"first": Attribute(Kind.EXPRESSION, absent="all"), "waves": Attribute(Kind.INTEGER, absent="all")},
)
SCHEDULE_FENCE: Final = _declare("schedule_fence", "->", "no compiler moves operations across")
SCHEDULE_GROUP: Final = _declare(
    "schedule_group",
    "->",
    "of the operations since the last fence, the compiler issues `count` of a `kind` here, behind those of the "
    "groups before",
    attributes={"kind": Kind.TEXT, "count": Kind.INTEGER},
)
PRIORITY: Final = _declare(
    "priority",
    "->",
    "from here on this wave goes before others of a lower level when both are ready",
    attributes={"level": Kind.INTEGER},
)
STAGGER: Final = _declare(
    "stagger",
    "->",
    "from here on the first half of the waves is one barrier ahead of the other (`ahead` 1), or together with it "
    "again (0): the other half, or the first, waits for one barrier more",
    attributes={"ahead": Kind.INTEGER},
)
_SIGNAL = {"signal": Kind.MEMORY, "index": Kind.EXPRESSION}
SIGNAL_ARRIVE: Final = _declare(
    "signal_arrive",
    "->",
    "this lane arrives (`everywhere`: on the signal of every workgroup of the cluster; `receiver`: on that of this one "
    "of them), and announces `bytes` of bulk copies; a phase is complete when all lanes and bytes that it waits for "
    "have arrived. `release`: other workgroups that wait for it see what this lane knows of memory. `landed`: it goes "
    "on, and arrives when all its copy_asyncs before have landed",
    attributes={
        **_SIGNAL,
        "bytes": Kind.INTEGER,
        "everywhere": _FALSE,
        "receiver": Attribute(Kind.EXPRESSION, absent="this one"),
        "release": _FALSE,
        "landed": _FALSE,
    },
)
SIGNAL_WAIT: Final = _declare(
    "signal_wait",
    "->",
    "until the phase of that parity is complete; parity 1 passes a fresh signal. `acquire`: the other half of "
    "`release`. `landed`: matrix units and bulk copies that are ordered after it see what has landed",
    attributes={**_SIGNAL, "phase": Kind.EXPRESSION, "acquire": _FALSE, "landed": _FALSE},
)
TAKE_NUMBER: Final = _declare(
    "take_number",
    "-> i32 x 1",
    "the next number of a counter, counted from `first` on, which no other workgroup is given: waves that only copy "
    "ask for it, and all of the workgroup have it. `step`: how often this workgroup was given one before",
    results=1,
    attributes={"memory": Kind.MEMORY, "first": Kind.EXPRESSION, "step": Kind.EXPRESSION},
)

# The asynchronous matrix unit

FENCE_ASYNC: Final = _declare(
    "fence_async",
    "->",
    "what this lane wrote to shared memory is visible to matrix units and bulk copies that are ordered after it",
)
MMA_FENCE: Final = _declare(
    "mma_fence", "->", "registers of this lane are ready for the mma_async that follow", Trait.BY_ALL_LANES
)
MMA_ASYNC: Final = _declare(
    "mma_async",
    "acc -> acc; a, acc -> acc",
    "the matrix unit reads tiles of shared memory from these offsets on (of elements, before any swizzle), `a` too "
    "where it is no value; `major`: `k` or `mn`, the dim contiguous in memory; `fresh`: the product alone, in the "
    "registers of `acc`; the result is in flight",
    Trait.BY_ALL_LANES,
    operands=(1, 2),
    results=1,
    attributes={
        "instruction": Kind.TEXT,
        "b_memory": Kind.MEMORY,
        "b_offset": Kind.EXPRESSION,
        "b_buffer": Kind.EXPRESSION,
        "b_major": Kind.TEXT,
        "a_memory": Attribute(Kind.MEMORY, absent="a is a value"),
        "a_offset": Attribute(Kind.EXPRESSION, absent="a is a value"),
        "a_buffer": Attribute(Kind.EXPRESSION, absent="a is a value"),
        "a_major": Attribute(Kind.TEXT, absent="a is a value"),
        "fresh": Attribute(Kind.FLAG, absent="false"),
    },
)
MMA_COMMIT: Final = _declare("mma_commit", "->", "closes a group of mma_async")
MMA_WAIT: Final = _declare(
    "mma_wait",
    "T x n ... -> the same",
    "`pending` groups may stay in flight; the results are complete",
    Trait.BY_ALL_LANES,
    operands=ANY,
    results=ANY,
    attributes={"pending": Kind.INTEGER},
)

# Control

FOR: Final = _declare(
    "for",
    "carried -> carried",
    "region arguments = carried values; `once`: a branch, which runs one step or none, from 0 to `upper`; "
    "`goes_on`: 0 or 1, what it is in front of the loop and at the end of the body, where a `bind` may have changed "
    "its symbols: the loop ends early where it is 0. `counts_on`: `lower` is where the loop ended the last time; "
    "`rare`: most steps around it have none of it, so that nothing of its body is computed in front",
    operands=ANY,
    results=ANY,
    region=True,
    attributes={
        "induction": Kind.TEXT,
        "lower": Kind.EXPRESSION,
        "upper": Kind.EXPRESSION,
        "step": Kind.EXPRESSION,
        "unroll": Kind.INTEGER,
        "once": _FALSE,
        "goes_on": Attribute(Kind.EXPRESSION, absent="1"),
        "counts_on": _FALSE,
        "rare": _FALSE,
    },
)
TILES_END: Final = _declare(
    "tiles_end",
    "->",
    "workgroups have something to do for the first `extent` elements of `dim` alone, which values say: what walks over "
    "tiles leaves out the others, and so do waves of a tile",
    attributes={"dim": Kind.TEXT, "extent": Kind.EXPRESSION},
)
LET: Final = _declare(
    "let",
    "->",
    "from here on in this block the symbol stands for the value",
    Trait.NAMES_A_SYMBOL,
    attributes={"symbol": Kind.SYMBOL, "value": Kind.EXPRESSION},
)
BIND: Final = _declare(
    "bind",
    "T x 1 ->",
    "the same, with the integer that a lane holds for the value; `uniform`: that all lanes of the workgroup hold, or, "
    "with `of_wave`, those of a wave; `of_any`: 1 where one of the lanes that run together holds another one than 0",
    Trait.NAMES_A_SYMBOL,
    operands=1,
    attributes={"symbol": Kind.SYMBOL, "uniform": _FALSE, "of_wave": _FALSE, "of_any": _FALSE},
)
IF: Final = _declare(
    "if",
    "->",
    "only the lanes for which `mask` holds run the region, which has no values",
    region=True,
    attributes={"mask": Kind.MASK},
)
ROLE: Final = _declare(
    "role",
    "->",
    "only these waves run the region; the roles of a block run at the same time. `registers` of a lane, 0 = as "
    "compiled",
    region=True,
    attributes={"first": Kind.EXPRESSION, "waves": Kind.INTEGER, "registers": Kind.INTEGER},
)

PURE: Final = THREAD_OPS.having(Trait.PURE)
FILLS: Final = THREAD_OPS.having(Trait.FILLS)
LANES_FILL: Final = STORE | COPY_ASYNC
"""Of `FILLS` what each lane does for its own part: complete for all where lanes meet, and counted on no signal."""
MOVES: Final = THREAD_OPS.having(Trait.MOVES)
READS_MEMORY: Final = THREAD_OPS.having(Trait.READS_MEMORY)
WRITES_MEMORY: Final = THREAD_OPS.having(Trait.WRITES_MEMORY)
NAMES_A_SYMBOL: Final = THREAD_OPS.having(Trait.NAMES_A_SYMBOL)
