"""A kernel that a machine has no room for goes in; what its spec, which named no tiles, can do about it comes out."""

from __future__ import annotations

from wavespec.diagnostics import enumeration
from wavespec.ir.kernel import Kernel
from wavespec.ir.tile_ops import MMA


def hints_of_plan(kernel: Kernel) -> list[str]:
    """Hints in place of those that speak of tiles as if the spec had them; none where it has."""
    plan = kernel.distribution
    if not plan.is_planned:
        return []
    tiles = {split.dim: f"{split.tile} of '{split.dim}'" for split in (*plan.loops, *plan.workgroup) if split.tile > 1}
    chosen = f": {enumeration(tiles.values())}" if tiles else ""
    multiplies = any(op.name.startswith(MMA.name) for op in kernel.walk())  # lanes may wait for it: `mma_async`
    return [
        "Promise fewer elements of dims that a value needs all of, by 'max' or 'value' in 'dims', or take element "
        "types of fewer bits.",
        f"Or name the tiles: as 'constraints' have none, the compiler chose them{chosen}.",
        *(
            ["Or have a kernel write the product, and another one what joins elements of its rows."]
            if multiplies
            else []
        ),
    ]
