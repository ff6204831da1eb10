"""What each lane wants to keep goes in; shared memory in which it has places of its own comes out."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.ir.dtype import DType
from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Memory
from wavespec.ir.layout import row_major

_DIMS = ("element",)


class PlacesOfLanes:
    """Memories in which a lane reads what it put there itself: of each value, a row of all lanes.

    Args:
        values: of a lane, the memory that each is to be in, the type that all of that memory have, and its elements.
    """

    def __init__(self, kernel: Kernel, values: Sequence[tuple[str, DType, int]]) -> None:
        thread = kernel.wave_number * kernel.lanes + kernel.symbol("lane")
        taken, dtypes = dict[str, int](), dict[str, DType]()
        places = list[dict[str, object]]()
        for name, dtype, elements in values:
            offset = thread * elements + taken.get(name, 0)
            places.append({"memory": name, "offset": offset, "buffer": const(0), "mask": (), "valid": None})
            taken[name], dtypes[name] = taken.get(name, 0) + elements * kernel.threads, dtype
        self.places = tuple(places)
        """Of each value, the attributes of an access to it."""
        self.memories = tuple(_memory(name, dtypes[name], count) for name, count in taken.items())


def _memory(name: str, dtype: DType, elements: int) -> Memory:
    shape: tuple[Expr, ...] = (const(elements),)
    return Memory(name, dtype, _DIMS, shape, "shared", arrangement=row_major(_DIMS, (elements,)), own=True)
