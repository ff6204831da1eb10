"""Workgroup ids of the machine in, those of the kernel out: neighbours in time are neighbours in space."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.emit.mlir_text import MlirText
from wavespec.ir.kernel import Kernel
from wavespec.targets.machine import Machine


def walk_of(kernel: Kernel, machine: Machine, is_band: bool) -> tuple[int, int]:
    """Rows of a band of tiles, and chiplets that each get neighbours, as the schedule or the machine says; 1: as it comes.

    Args:
        is_band: whether the launch has ids along axes 0 and 1.
    """
    plan = kernel.distribution
    if plan.persistent:
        return 1, 1
    by_machine = machine.raster_group if len(kernel.grid) == 2 and not plan.has_orders else 1
    by_spec = plan.group if plan.split == 1 else 0  # workgroups of one tile stay neighbours
    group = (by_spec or by_machine) if is_band else 1
    return group, machine.chiplets if (group > 1 if plan.chiplets is None else plan.chiplets) else 1


def walked_ids(
    text: MlirText, grid: Sequence[str], ids: Sequence[str], group: int, chiplets: int = 1
) -> tuple[str, ...]:
    """Walk over bands of ``group`` rows and all columns: workgroups that run together share what they read.

    Where a machine deals workgroups out to ``chiplets`` with a cache each, in turns, neighbours go to the same one.

    Args:
        grid: workgroups along each axis, as ``i32`` values: rows, columns, and more such planes.
        ids: the machine's, which runs along axis 0 first.
        group: rows of a band; the last band may have fewer.  With 1 tiles come in the order of the axes.

    Returns:
        A place along each axis: every one exactly once over all ids.
    """
    return _Walk(text).ids(grid, ids, group, chiplets)


class _Walk:
    def __init__(self, text: MlirText) -> None:
        self.text = text

    def compute(self, verb: str, left: str, right: str) -> str:
        return self.text.op(f"arith.{verb} {left}, {right} : i32")

    def ids(self, grid: Sequence[str], ids: Sequence[str], group: int, chiplets: int) -> tuple[str, ...]:
        size = self.text.constant(group, "i32") if group > 1 else ""
        number = ids[-1]
        for extent, place in zip(grid[-2::-1], ids[-2::-1], strict=True):
            number = self.compute("addi", self.compute("muli", number, extent), place)
        if chiplets > 1:
            number = self.dealt(number, grid, chiplets)
        if not size:
            return self.places(number, grid)
        rows, columns, *others = grid
        planes: tuple[str, ...] = ()
        if others:
            plane = self.compute("muli", rows, columns)
            planes = self.places(self.compute("divui", number, plane), others)
            number = self.compute("remui", number, plane)
        return (*self.banded(number, rows, columns, size), *planes)

    def dealt(self, number: str, grid: Sequence[str], chiplets: int) -> str:
        """The number of the workgroup that a chiplet gets in place of ``number``: those of one follow each other."""
        dealt, total = self.text.constant(chiplets, "i32"), grid[0]
        for extent in grid[1:]:
            total = self.compute("muli", total, extent)
        chiplet = self.compute("remui", number, dealt)
        whole = self.compute("muli", chiplet, self.compute("divui", total, dealt))
        before = self.compute("addi", whole, self.compute("divui", number, dealt))
        return self.compute("addi", before, self.compute("minui", chiplet, self.compute("remui", total, dealt)))

    def places(self, number: str, grid: Sequence[str]) -> tuple[str, ...]:
        """The places that a number stands for, along axis 0 first."""
        found: list[str] = []
        for extent in grid[:-1]:
            found.append(self.compute("remui", number, extent))
            number = self.compute("divui", number, extent)
        return (*found, number)

    def banded(self, number: str, rows: str, columns: str, size: str) -> tuple[str, str]:
        """Row and column of a number: down the rows of a band, then on to its next column."""
        band = self.compute("muli", columns, size)
        first = self.compute("muli", self.compute("divui", number, band), size)
        height = self.compute("minsi", self.compute("subi", rows, first), size)
        inside = self.compute("remui", number, band)
        row = self.compute("addi", first, self.compute("remui", inside, height))
        return row, self.compute("divui", inside, height)
