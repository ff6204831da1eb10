"""A staged tile and the product that reads it in; an arrangement with columns in place of rows, where that reads wider,
and the copy that fills it, out."""

from __future__ import annotations

from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Kernel, Memory, Op
from wavespec.ir.layout import Arrangement, Digit, Layout, RegisterAxis, Swizzle
from wavespec.lower.choose_instructions import instruction_of
from wavespec.lower.product_layouts import depth_of_round
from wavespec.targets.machine import Machine


def turned_arrangement(
    tile: Memory, source: Memory, product: Op, kernel: Kernel, machine: Machine
) -> Arrangement | None:
    """The tile with the dim that is summed over contiguous, though in the tensor the other one is; None where lanes
    need no run along it, or where something else hands out columns.

    Lanes turn blocks in registers on the way: as many rows as the product has in a row, and as many columns as lanes
    have for that.  Chunks are runs of the product; the swizzle has both a column of a block in each of many lanes, as
    they store, and columns side by side, as they read, in different banks.
    """
    row, column = tile.dims
    instruction, k = instruction_of(product, machine), product["k"]
    run = product.get("run") or _widest_run(product, machine)
    element_bytes, (height, width) = tile.dtype.bytes, (extent.value for extent in tile.shape)
    if (
        k != row
        or column != source.contiguous_dim
        or tile.dtype != source.dtype
        or source.dtype.is_packed
        or machine.shared.arrangement != "rows"
        or machine.shared.spread != "swizzle"
        or machine.shared.matrix_load
        or instruction.reads_shared
        or element_bytes >= machine.shared.bank_bytes
        or run * element_bytes < machine.shared.bank_bytes
        or height % run
        or height & (height - 1)
    ):
        return None
    columns = machine.globals.access_bytes // element_bytes
    while columns > 1 and (
        width % columns
        or run * columns * kernel.threads > height * width
        or not machine.globals.aligned(source.shape[-1].divisor, columns, source.dtype.stored_bits)
    ):
        columns //= 2
    digits = (Digit(column, width, 1, height), Digit(row, height, 1, 1))
    line = machine.shared.banks * machine.shared.bank_bytes // element_bytes
    chunks = min(height, line) // run
    return Arrangement(digits, Swizzle(column, row, run, chunks, max(1, line // height), turn=columns))


def _widest_run(product: Op, machine: Machine) -> int:
    row = instruction_of(product, machine)
    return row.a.layout.run_length("k") * depth_of_round(product, row, machine) // row.k


def turned_blocks_of(shared: Memory, thread: Expr, threads: int) -> tuple[Layout, tuple[int, int], int, int] | None:
    """How lanes take a tile that is turned on the way: the layout, rows and columns of a block, and how many blocks lie
    side by side and below each other; None where it is not turned."""
    arrangement = shared.arrangement
    assert arrangement is not None
    if arrangement.swizzle is None or not arrangement.swizzle.turn:
        return None
    (row, column), (height, width) = shared.dims, (extent.value for extent in shared.shape)
    rows, columns = arrangement.swizzle.chunk, arrangement.swizzle.turn
    across, down = width // columns, height // rows
    beside, below = min(across, threads), max(1, threads // across)
    base = ((row, thread // beside * rows), (column, thread % beside * columns))
    layout = Layout(base, (RegisterAxis(rows, ((row, 1),)), RegisterAxis(columns, ((column, 1),))), 2)
    layout = layout.repeated(column, -(-across // beside), beside * columns)
    return layout.repeated(row, -(-down // below), below * rows), (rows, columns), across, down
