"""The operations of the tile level: what happens to whole tiles, before any lane is in sight.

``origin``: the first element of the tile along each dim.  ``at``: of a mapped access, the place in each dim of the
tensor; ``over``: the dims of the values, among its operands, that these places are made of.  ``masked``: dims whose
last tile may be partial; where it is a flag, elements from ``size`` on count as nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from wavespec.ir.declarations import ANY, Attribute, Declarations, Kind, Trait

TILE_OPS: Final = Declarations("tile")

_declare = TILE_OPS.declare


def _later(kind: Kind, by: str) -> Attribute:
    """What an operation has from a pass on."""
    return Attribute(kind, absent="not yet", set_by=by)


_ORIGIN = _later(Kind.PLACES, "assign-tiles")
_MASKED = Attribute(Kind.FLAG, absent="false", set_by="mask-edges")
_BIAS = Attribute(Kind.INTEGER, absent="0", set_by="promote-shared")
_ALONG: Final[Mapping[str, Kind | Attribute]] = {
    "dim": Kind.TEXT,
    "origin": _ORIGIN,
    "size": _later(Kind.EXPRESSION, "assign-tiles"),
    "masked": _MASKED,
}
"""Of what joins a tile along a dim."""
_STEP: Final[Mapping[str, Kind | Attribute]] = {**_ALONG, "origin": Kind.PLACES, "size": Kind.EXPRESSION}
"""Of what passes make of it for one step, once origins are known."""
_MAPPED: Final[Mapping[str, Kind | Attribute]] = {
    "at": Attribute(Kind.PLACES, absent="the tile's own places"),
    "over": Attribute(Kind.NAMES, absent="no values"),
    "masked": Attribute(Kind.NAMES, absent="none", set_by="mask-edges"),
}
"""Of accesses to a tensor, which may have a mapping."""
_AROUND = Attribute(Kind.FLAG, absent="false", set_by="shift-rows")
_CACHE = Attribute(Kind.TEXT, absent="as the machine does by itself")
"""Of accesses to a tensor: `streaming`, it is not accessed again soon, and need not stay in caches."""

REGISTER: Final = _declare(
    "register", "-> tile", "`value` in every element", Trait.PURE, results=1, attributes={"value": Kind.NUMBER}
)
INDEX: Final = _declare(
    "index",
    "-> tile",
    "the index along `dim` of each element",
    Trait.PURE,
    results=1,
    attributes={"dim": Kind.TEXT, "origin": _ORIGIN},
)
SIZE: Final = _declare(
    "size",
    "-> tile",
    "`extent`, a size known at the call, in every element",
    results=1,
    attributes={"extent": Kind.EXPRESSION},
)
SCALAR: Final = _declare(
    "scalar",
    "-> tile",
    "the number that a call passes, or of floating point the one with the bits `number`, in every element; `least` and "
    "`most`: where a call has limits",
    results=1,
    attributes={
        "number": Kind.EXPRESSION,
        "least": Attribute(Kind.NUMBER, absent="none"),
        "most": Attribute(Kind.NUMBER, absent="none"),
    },
)
ELEMENTWISE: Final = _declare(
    "elementwise",
    "tile ... -> tile",
    "`function` of the elements at the same place; `skips_nan`: of an extreme, NaN may count as nothing; `fast`: it "
    "may be off by 2^-10 of its largest value; `below`: none of these is positive, and results are added to 1; "
    "`close`: many results have its error in them",
    Trait.PURE,
    Trait.ALIKE,
    operands=(1, 4),
    results=1,
    attributes={
        "function": Kind.TEXT,
        "skips_nan": Attribute(Kind.FLAG, absent="false", set_by="skip-nan"),
        "fast": Attribute(Kind.FLAG, absent="false"),
        "below": Attribute(Kind.FLAG, absent="false", set_by="meet-once"),
        "close": Attribute(Kind.FLAG, absent="false", set_by="meet-once"),
    },
)
CAST: Final = _declare(
    "cast",
    "tile -> tile",
    "each element as another type; `bias`: added on the way, as in the `cast` of lanes",
    Trait.PURE,
    Trait.ALIKE,
    operands=1,
    results=1,
    attributes={"bias": Attribute(Kind.INTEGER, absent="0", set_by="stage-operands")},
)
BITCAST: Final = _declare(
    "bitcast", "tile -> tile", "the same bits as another type", Trait.PURE, Trait.ALIKE, operands=1, results=1
)
RANDOM: Final = _declare(
    "random",
    "seed -> tile",
    "a number for each place along the dims `over` of `sizes`",
    operands=1,
    results=1,
    attributes={"over": Kind.NAMES, "sizes": Kind.EXPRESSIONS, "origin": _ORIGIN},
)
READ: Final = _declare(
    "read",
    "values of places ... -> tile",
    "a tile of a tensor, or of what is staged of one. `by_unit`: the matrix unit reads it itself; `direct`: not "
    "through shared memory; `clamped`: dims that are read inside of the tensor whatever the place; `around`: what is "
    "beyond the ends of its rows is anything; `bias`: added to every element; `further`: rows are so far behind those "
    "of the origin in the memory, by where the tile begins along its other dim",
    Trait.READS_MEMORY,
    Trait.ALIKE,
    operands=ANY,
    results=1,
    attributes={
        "memory": Kind.MEMORY,
        "origin": _ORIGIN,
        **_MAPPED,
        "further": Attribute(Kind.PLACES, absent="none", set_by="promote-shared"),
        "by_unit": Attribute(Kind.FLAG, absent="false", set_by="promote-shared"),
        "direct": Attribute(Kind.FLAG, absent="false", set_by="separate-operands"),
        "clamped": Attribute(Kind.NAMES, absent="none"),
        "around": _AROUND,
        "cache": _CACHE,
        "bias": _BIAS,
    },
)
WRITE: Final = _declare(
    "write",
    "tile, values of places ..., expected -> tile",
    "a tile of a tensor. `combine`: joined with what is there in one indivisible step, by the function of that name, "
    "and the result, where there is one, is what was there; `expected`: the last operand is what has to be there; "
    "`staged`: the dims that go through shared memory; `around`: the tile may begin in front of its row; `awaited`: "
    "several lanes have each element, which all of them have read when one of them writes",
    Trait.WRITES_MEMORY,
    Trait.ALIKE,
    operands=(1, None),
    results=(0, 1),
    attributes={
        "memory": Kind.MEMORY,
        "origin": _ORIGIN,
        **_MAPPED,
        "combine": Attribute(Kind.TEXT, absent="replaced"),
        "expected": Attribute(Kind.FLAG, absent="false"),
        "staged": Attribute(Kind.NAMES, absent="none", set_by="promote-shared"),
        "awaited": Attribute(Kind.FLAG, absent="false", set_by="assign-layouts"),
        "around": _AROUND,
        "cache": _CACHE,
    },
)
COPY: Final = _declare(
    "copy",
    "->",
    "a tile of the tensor `source` to shared memory. `through`: how places follow from values; `boxes`: extents "
    "that a copy engine takes; `transpose`: register axes that change places on the way; `loops`, `guard` and "
    "`bounded`: which rounds of which lanes have something to copy; `valid`: rows that are not zeros, of boxes; "
    "`outside`: what is above 0 for elements that lanes leave out; `further`: how many rows more than the tile has are "
    "copied",
    Trait.FILLS,
    attributes={
        "source": Kind.MEMORY,
        "memory": Kind.MEMORY,
        "further": Attribute(Kind.PLACES, absent="none", set_by="promote-shared"),
        "origin": Kind.PLACES,
        **_MAPPED,
        "clamped": Attribute(Kind.NAMES, absent="none"),
        "cache": _CACHE,
        "through": Attribute(Kind.TABLE, absent="no values"),
        "bias": _BIAS,
        "layout": _later(Kind.LAYOUT, "distribute-copies"),
        "loops": _later(Kind.TABLE, "distribute-copies"),
        "guard": _later(Kind.TABLE, "distribute-copies"),
        "bounded": _later(Kind.TABLE, "distribute-copies"),
        "transpose": _later(Kind.TABLE, "distribute-copies"),
        "boxes": Attribute(Kind.TABLE, absent="lanes copy it", set_by="distribute-copies"),
        "again": Attribute(Kind.TEXT, absent="none", set_by="distribute-copies"),
        "valid": Attribute(Kind.EXTENT, absent="all", set_by="distribute-copies"),
        "outside": Attribute(Kind.EXPRESSIONS, absent="nothing", set_by="distribute-copies"),
        "asynchronous": Attribute(Kind.FLAG, absent="false", set_by="distribute-copies"),
    },
)
MMA: Final = _declare(
    "mma",
    "a, b, acc, scales ... -> acc",
    "acc + a · b. `m`, `n` and `k`: its dims as `instruction` has them; `run`: elements along k that a lane has in a "
    "row of a and b; scales of a and b are gone after scale-operands",
    operands=(3, 5),
    results=1,
    attributes={
        "variant": Attribute(Kind.TEXT, absent="any that fits"),
        "instruction": _later(Kind.TEXT, "choose-instructions"),
        "m": _later(Kind.TEXT, "choose-instructions"),
        "n": _later(Kind.TEXT, "choose-instructions"),
        "k": _later(Kind.TEXT, "choose-instructions"),
        "run": Attribute(Kind.INTEGER, absent="as many as the widest access has", set_by="match-operands"),
    },
)
DOT: Final = _declare(
    "dot",
    "a, b, acc -> acc",
    "acc + the sum along `dim` of a · b at the same places, by an instruction for the lanes of vectors",
    operands=3,
    results=1,
    attributes={"dim": Kind.TEXT, "instruction": Kind.TEXT},
)
REDUCE: Final = _declare(
    "reduce",
    "tile, from ... -> tile",
    "joins elements along `dim`, with what it starts from where there is such; `divided`: by the count of them; "
    "`skips_nan`: NaN may count as nothing; `by_lane`: loops carry one number for all that a lane has along `dim`; "
    "`products`: they are products that nobody else needs; `alone`: each wave those that it has; "
    "`signal`, and the `index` of one: a cluster of workgroups has them, which meet there",
    Trait.ACROSS,
    operands=(1, 2),
    results=1,
    attributes={
        **_ALONG,
        "function": Kind.TEXT,
        "divided": Kind.FLAG,
        "skips_nan": Attribute(Kind.FLAG, absent="false", set_by="skip-nan"),
        "by_lane": Attribute(Kind.FLAG, absent="false", set_by="multiply-by-lanes"),
        "products": Attribute(Kind.FLAG, absent="false", set_by="fuse-products"),
        "alone": Attribute(Kind.FLAG, absent="false", set_by="meet-once"),
        "signal": Attribute(Kind.MEMORY, absent="one workgroup has all", set_by="split-loops"),
        "index": Attribute(Kind.EXPRESSION, absent="none", set_by="split-loops"),
    },
)
JOIN: Final = _declare(
    "join",
    "carried, tile -> carried",
    "the elements of a step of a reduction, each joined with what was carried for its place; `by_lane`: all of "
    "those that a lane has, with what was carried for the first one's; `skips_nan`: NaN may count as nothing",
    Trait.ALIKE,
    operands=2,
    results=1,
    attributes={
        **_STEP,
        "function": Kind.TEXT,
        "by_lane": Attribute(Kind.FLAG, absent="false", set_by="defer-reductions"),
        "skips_nan": Attribute(Kind.FLAG, absent="false", set_by="skip-nan"),
    },
)
SCAN: Final = _declare(
    "scan",
    "tile, from ... -> tile",
    "what `function` has joined up to each element along `dim`",
    Trait.ACROSS,
    operands=(1, 2),
    results=1,
    attributes={"dim": Kind.TEXT, "function": Kind.TEXT},
)
JOINED: Final = _declare(
    "joined",
    "tile ..., from ... -> tile ...",
    "elements of several tiles along `dim`, joined by the steps of `combine`: with `running` up to each of them, then, "
    "where there are as many results more, or no others, all of them; `reverse`: the last comes first",
    Trait.ACROSS,
    operands=(1, None),
    results=(1, None),
    attributes={**_ALONG, "combine": Kind.TEXT, "running": Kind.FLAG, "reverse": Kind.FLAG},
)
TOPK: Final = _declare(
    "topk",
    "tile ..., from ... -> tile ...",
    "the largest along `dim`, as many as `k` has; elements of 64 bits are two tiles; `number_bits`: the upper bits of "
    "a number that tell elements apart, where places are those along the dim",
    Trait.ACROSS,
    operands=(1, None),
    results=(1, None),
    attributes={**_ALONG, "k": Kind.TEXT, "number_bits": Attribute(Kind.INTEGER, absent="all")},
)
TAKE: Final = _declare(
    "take",
    "values of places ..., tile -> tile",
    "elements of the tile at places that values say",
    operands=(1, None),
    results=1,
    attributes={"at": Kind.PLACES, "over": Kind.NAMES, "origin": _ORIGIN},
)
PAD: Final = _declare(
    "pad",
    "tile -> tile",
    "`value` in place of elements from `size` on along `dim`",
    Trait.ALIKE,
    operands=1,
    results=1,
    attributes={**_STEP, "value": Kind.NUMBER},
)
EXTRACT: Final = _declare(
    "extract",
    "tile -> tile",
    "the part of a tile that begins at `origin`, in the same lanes, as fragments of another layout",
    Trait.PURE,
    operands=1,
    results=1,
    attributes={"origin": Kind.PLACES},
)
CLUSTER_SUM: Final = _declare(
    "cluster_sum",
    "tile -> tile",
    "the sum over the workgroups of a cluster, through their shared memory, and over the waves that share out `dim`",
    operands=1,
    results=1,
    attributes={
        "memory": Kind.MEMORY,
        "signal": Kind.MEMORY,
        "index": Kind.EXPRESSION,
        "width": Kind.INTEGER,
        "origin": Kind.PLACES,
        "dim": Attribute(Kind.TEXT, absent="each wave has the whole", set_by="join-waves"),
    },
)
CLUSTER_EXTREME: Final = _declare(
    "cluster_extreme",
    "tile -> tile",
    "`function`, the largest or the least, of each element over the workgroups of a cluster, in each of them",
    Trait.ALIKE,
    operands=1,
    results=1,
    attributes={
        "function": Kind.TEXT,
        "memory": Kind.MEMORY,
        "signal": Kind.MEMORY,
        "index": Kind.EXPRESSION,
    },
)
WAVE_SUM: Final = _declare(
    "wave_sum",
    "tile -> tile",
    "the sum over the waves of a workgroup that share out `dim`, in each of them",
    Trait.ALIKE,
    operands=1,
    results=1,
    attributes={"dim": Kind.TEXT},
)
JOIN_POWERS: Final = _declare(
    "join_powers",
    "largest, sum -> largest, sum",
    "of waves that share out `dim`, and workgroups of a cluster that meet by the `index` of a `signal`: the largest of "
    "their largest elements, and the sum of the powers by `function` of what all elements are less than that, of the "
    "sums that each has of what its own are less than its largest one; `fast`: as near as the machine's instruction",
    operands=2,
    results=2,
    attributes={
        "dim": Kind.TEXT,
        "function": Kind.TEXT,
        "fast": Kind.FLAG,
        "signal": Attribute(Kind.MEMORY, absent="one workgroup has all"),
        "index": Attribute(Kind.EXPRESSION, absent="none"),
    },
)
SPREAD_SUM: Final = _declare(
    "spread_sum",
    "tile -> tile",
    "the sum over the waves of a workgroup that share out `dim`, through shared memory; all lanes of the workgroup "
    "share out its elements, `width` of them side by side",
    operands=1,
    results=1,
    attributes={"dim": Kind.TEXT, "memory": Kind.MEMORY, "width": Kind.INTEGER},
)
SHARED_SUM: Final = _declare(
    "shared_sum",
    "tile -> tile",
    "the sum over the workgroups that share out the steps of a tile, of which each has a `part`, through memory; the "
    "`symbol` is 1 in the last one, which has all of it, and 0 in others",
    Trait.ALIKE,
    Trait.NAMES_A_SYMBOL,
    operands=1,
    results=1,
    attributes={
        "memory": Kind.MEMORY,
        "counter": Kind.MEMORY,
        "tile": Kind.EXPRESSION,
        "part": Kind.EXPRESSION,
        "parts": Kind.EXPRESSION,
        "symbol": Kind.SYMBOL,
    },
)
ITERATE: Final = _declare(
    "iterate",
    "carried -> carried",
    "a loop over each `stride`-th tile of `dim`, or over steps where it is empty; `once` and `goes_on` as in the "
    "`for` of lanes",
    operands=ANY,
    results=ANY,
    region=True,
    attributes={
        "dim": Kind.TEXT,
        "induction": _later(Kind.TEXT, "assign-tiles"),
        "extent": _later(Kind.EXPRESSION, "assign-tiles"),
        "step": _later(Kind.EXPRESSION, "assign-tiles"),
        "unroll": _later(Kind.INTEGER, "assign-tiles"),
        "lower": Attribute(Kind.EXPRESSION, absent="0"),
        "stride": Attribute(Kind.EXPRESSION, absent="1"),
        "once": Attribute(Kind.FLAG, absent="false"),
        "goes_on": Attribute(Kind.EXPRESSION, absent="1"),
    },
)
BIND: Final = _declare(
    "bind",
    "tile of no dims ->",
    "from here on the symbol stands for the value",
    Trait.NAMES_A_SYMBOL,
    operands=1,
    attributes={"symbol": Kind.SYMBOL},
)
TILES_END: Final = _declare(
    "tiles_end",
    "->",
    "workgroups have something to do for the first `extent` elements of `dim` alone, which values say",
    attributes={"dim": Kind.TEXT, "extent": Kind.EXPRESSION},
)

PURE: Final = TILE_OPS.having(Trait.PURE)
ALIKE: Final = TILE_OPS.having(Trait.ALIKE)
ACROSS: Final = TILE_OPS.having(Trait.ACROSS)
