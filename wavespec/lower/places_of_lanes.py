"""What each lane wants to keep goes in; shared memory in which it has places of its own comes out."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.ir.dtype import DType
from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Memory
from wavespec.ir.layout import row_major

_DIMS = ("element",)


class PlacesOfLanes:
    """Memories in which a lane reads what it put there itself: of each value, a row of all lanes of a wave, and all
    rows of a wave behind each other, so that waves which are not launched take none.

    Args:
        values: of a lane, the memory that each is to be in, the type that all of that memory have, and its elements.
    """

    def __init__(self, kernel: Kernel, values: Sequence[tuple[str, DType, int]]) -> None:
        dtypes = {name: dtype for name, dtype, _ in values}
        of_wave = {one: sum(elements for name, _, elements in values if name == one) for one in dtypes}
        taken, places = dict.fromkeys(dtypes, 0), list[dict[str, object]]()
        lane, lanes = kernel.symbol("lane"), kernel.lanes
        for name, _, elements in values:
            wave = kernel.wave_number * (of_wave[name] * lanes)
            offset = wave + taken[name] * lanes + lane * elements
            places.append({"memory": name, "offset": offset, "buffer": const(0), "mask": (), "valid": None})
            taken[name] += elements
        self.places = tuple(places)
        """Of each value, the attributes of an access to it."""
        threads = kernel.wave_count * lanes
        self.memories = tuple(_memory(name, dtype, of_wave[name] * threads) for name, dtype in dtypes.items())


def _memory(name: str, dtype: DType, elements: int) -> Memory:
    shape: tuple[Expr, ...] = (const(elements),)
    return Memory(name, dtype, _DIMS, shape, "shared", arrangement=row_major(_DIMS, (elements,)), own=True)
