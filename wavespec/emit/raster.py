"""Workgroup ids of the machine in, those of the kernel out: neighbours in time are neighbours in space."""

from __future__ import annotations

from wavespec.emit.mlir_text import MlirText


def banded_ids(
    text: MlirText, grid: tuple[str, str], ids: tuple[str, str], group: int, chiplets: int = 1
) -> tuple[str, str]:
    """Walk over bands of ``group`` rows and all columns: workgroups that run together share what they read.

    Where a machine deals workgroups out to ``chiplets`` with a cache each, in turns, neighbours go to the same one.

    Args:
        grid: workgroups along axis 0 (rows) and axis 1 (columns), as ``i32`` values.
        ids: the machine's, which runs along axis 0 first.
        group: rows of a band; the last band may have fewer.

    Returns:
        Row and column: every pair exactly once over all ids.
    """

    def compute(verb: str, left: str, right: str) -> str:
        return text.op(f"arith.{verb} {left}, {right} : i32")

    rows, columns = grid
    size = text.constant(group, "i32")
    number = compute("addi", compute("muli", ids[1], rows), ids[0])
    if chiplets > 1:
        dealt, total = text.constant(chiplets, "i32"), compute("muli", rows, columns)
        chiplet = compute("remui", number, dealt)
        before = compute(
            "addi", compute("muli", chiplet, compute("divui", total, dealt)), compute("divui", number, dealt)
        )
        number = compute("addi", before, compute("minui", chiplet, compute("remui", total, dealt)))
    band = compute("muli", columns, size)
    first = compute("muli", compute("divui", number, band), size)
    height = compute("minsi", compute("subi", rows, first), size)
    inside = compute("remui", number, band)
    row = compute("addi", first, compute("remui", inside, height))
    return row, compute("divui", inside, height)
