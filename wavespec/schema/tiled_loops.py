"""A spec without tiles goes in; the spec with some along its loops, for who asks before there are any, comes out."""

from __future__ import annotations

from wavespec.schema.language.constraints import Tiling
from wavespec.schema.language.expressions import Num
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.ops import Iterate, every

SOME_TILE = 64
"""Of dims whose tiles are not known yet."""


def with_tiled_loops(spec: KernelSpec) -> KernelSpec:
    """The spec with tiles of some size along loops: enough for the types of values, and for what checks have to say."""
    loops = dict.fromkeys(op.dim for op in every(Iterate, spec.graph))
    tilings = [Tiling(dim=dim, tile=Num(SOME_TILE)) for dim in loops if dim in spec.dims]
    return spec.model_copy(update={"constraints": (*spec.constraints, *tilings)})
