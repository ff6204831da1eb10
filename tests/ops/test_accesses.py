"""How registers are cut into loads and stores."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA
from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, const, symbol
from wavespec.ir.kernel import Memory, Op, Value
from wavespec.ir.layout import Arrangement, Digit, Layout, RegisterAxis, row_major
from wavespec.ir.thread import ThreadBuilder
from wavespec.ops.accesses import edge, read_fragments, write_fragments
from wavespec.ops.turned_blocks import regroup, turned_blocks
from wavespec.targets.machine import Machine

M, LANE = symbol("M", 0, 1000), symbol("lane", 0, 63)


def tensor(columns: Expr, rows: Expr = M) -> Memory:
    return Memory("t", DTYPES["f16"], ("M", "N"), (rows, columns), "global")


def builder() -> ThreadBuilder:
    count = itertools.count()
    return ThreadBuilder(lambda hint: f"{hint}{next(count)}")


def layout(registers: int, dim: str = "N") -> Layout:
    base: dict[str, Expr] = {"M": const(0), "N": const(0)}
    base["M" if dim == "N" else "N"] = LANE
    return Layout(tuple(base.items()), (RegisterAxis(registers, ((dim, 1),)),), 1)


def widths(memory: Memory, registers: int, machine: Machine, masked: tuple[str, ...] = (), dim: str = "N") -> list[int]:
    build = builder()
    origin = {"M": const(0), "N": const(0)}
    read_fragments(build, memory, layout(registers, dim), origin, masked, "x", machine)
    return [op.result.vector.elements for op in build.ops if op.name == "load"]


def test_access_is_as_wide_as_the_machine_allows() -> None:
    assert widths(tensor(const(64)), 16, NVIDIA) == [8, 8]


@pytest.mark.parametrize(("divisor", "expected"), [(8, [8]), (4, [4, 4]), (2, [2] * 4), (1, [1] * 8)])
def test_access_is_as_wide_as_rows_are_aligned(divisor: int, expected: list[int]) -> None:
    assert widths(tensor(symbol("N", 0, 1000, divisor)), 8, NVIDIA) == expected


def test_one_lane_takes_vectors_at_any_alignment() -> None:
    assert widths(tensor(symbol("N", 0, 1000)), 8, CPU, ("N",)) == [8]


def test_access_never_runs_from_one_row_into_the_next() -> None:
    assert widths(tensor(const(2)), 8, CPU, ("M", "N"), dim="M") == [1] * 8


def test_rows_of_one_element_are_neighbours() -> None:
    assert widths(tensor(const(1)), 8, CPU, ("M", "N"), dim="M") == [8]


def test_edge_of_an_aligned_row_is_a_mask_and_of_another_a_count() -> None:
    at = {"M": LANE, "N": LANE * 8}
    aligned, ragged = symbol("N", 0, 1000, 8), symbol("N", 0, 1000)
    assert edge(tensor(aligned), ("M", "N"), at, 8) == (((LANE, M), (LANE * 8, aligned)), None)
    assert edge(tensor(ragged), ("M", "N"), at, 8) == (((LANE, M),), ragged - LANE * 8)
    assert edge(tensor(ragged), (), at, 8) == ((), None)


def test_regroup_cuts_and_joins() -> None:
    build = builder()
    values = [build.constant(at, DTYPES["f16"], size) for at, size in enumerate((3, 3, 2))]
    sizes = [value.vector.elements for value in regroup(build, values, 4, "x")]
    assert sizes == [4, 4]
    assert [op.name for op in build.ops[3:]] == ["slice", "pack", "slice", "pack"]


def test_write_converts_to_the_type_of_the_memory() -> None:
    build = builder()
    value = build.constant(0.0, DTYPES["f32"], 8)
    write_fragments(build, tensor(const(64)), layout(8), {"M": const(0), "N": const(0)}, (), [value], AMD)
    assert [op.name for op in build.ops] == ["constant", "cast", "store"]


def test_shared_rows_are_read_in_whole_vectors() -> None:
    shared = Memory(
        "s", DTYPES["f16"], ("M", "N"), (const(64), const(32)), "shared", arrangement=row_major(("M", "N"), (64, 32))
    )
    assert widths(shared, 32, AMD) == [8, 8, 8, 8]


def test_rows_that_end_inside_of_a_word_are_read_element_by_element() -> None:
    ragged, even = symbol("N", 0, 1000), symbol("N", 0, 1000, 2)
    for size, expected in ((ragged, [1] * 8), (even, [8])):
        memory = Memory("t", DTYPES["f16"], ("N",), (size,), "global")
        vector = Layout((("N", LANE * 8),), (RegisterAxis(8, (("N", 1),)),), 1)
        build = builder()
        read_fragments(build, memory, vector, {"N": const(0)}, ("N",), "x", AMD)
        assert [op.result.vector.elements for op in build.ops if op.name == "load"] == expected


def addresses(fragments: tuple[Value, ...], ops: list[Op]) -> list[list[int]]:
    """Where in memory the elements of values come from."""
    found: dict[str, list[int]] = {}
    for op in ops:
        parts = [found[value.name] for value in op.operands]
        if op.name == "load":
            made = [op["offset"].value + i for i in range(op.result.vector.elements)]
        elif op.name == "pack":
            made = [one for part in parts for one in part]
        elif op.name == "slice":
            made = parts[0][op["start"] : op["start"] + op["size"]]
        else:
            rows, columns, unit = op["rows"], op["columns"], op["unit"]
            starts = [(row * columns + column) * unit for column in range(columns) for row in range(rows)]
            made = [one for start in starts for one in parts[0][start : start + unit]]
        found[op.result.name] = made
    return [found[value.name] for value in fragments]


def written_by(ops: list[Op]) -> dict[int, int]:
    """Where in memory each stored element goes, and comes from."""
    made, written = [op for op in ops if op.name != "store"], dict[int, int]()
    for op in (op for op in ops if op.name == "store"):
        (numbers,) = addresses(op.operands, made)
        written |= {op["offset"].value + i: number for i, number in enumerate(numbers)}
    return written


@pytest.mark.parametrize(
    ("machine", "dtype", "loads"),
    # Eight bytes are too few for shuffles, which move elements inside of sixteen.
    [(CPU, "bf16", 4 * 2 * 8), (CPU, "i8", 32 * 16), (NVIDIA, "bf16", 32 * 16)],
)
def test_fragments_across_the_rows_of_staged_tiles_are_turned_in_vector_registers(
    machine: Machine, dtype: str, loads: int
) -> None:
    staged = Memory("t", DTYPES[dtype], ("M", "N"), (const(16), const(32)), "shared")
    staged = replace(staged, arrangement=row_major(("M", "N"), (16, 32), 4))
    across = Layout(
        (("M", const(0)), ("N", const(0))),
        (RegisterAxis(32, (("N", 1),)), RegisterAxis(2, (("M", 8),)), RegisterAxis(8, (("M", 1),))),
        1,
    )
    build, nowhere = builder(), {"M": const(0), "N": const(0)}
    read = read_fragments(build, staged, across, nowhere, (), "x", machine)
    assert sum(op.name == "load" for op in build.ops) == loads
    expected = [[(half * 8 + i) * 36 + column for i in range(8)] for column in range(32) for half in range(2)]
    assert addresses(read, build.ops) == expected


@pytest.mark.parametrize(("machine", "stores"), [(CPU, 4 * 2 * 8), (NVIDIA, 32 * 16)])
def test_vectors_across_the_rows_of_tensors_are_turned_before_they_are_stored(machine: Machine, stores: int) -> None:
    across = Layout(
        (("M", const(0)), ("N", const(0))),
        (RegisterAxis(32, (("N", 1),)), RegisterAxis(2, (("M", 8),)), RegisterAxis(8, (("M", 1),))),
        1,
    )
    memory = Memory("t", DTYPES["bf16"], ("M", "N"), (const(16), const(32)), "global")
    build, nowhere = builder(), {"M": const(0), "N": const(0)}
    numbered = [build.load("numbers", memory.dtype, 8, const(8 * number), hint="x") for number in range(64)]
    write_fragments(build, memory, across, nowhere, (), numbered, machine)
    assert sum(op.name == "store" for op in build.ops) == stores
    assert written_by(build.ops) == {row * 32 + column: column * 16 + row for row in range(16) for column in range(32)}


@pytest.mark.parametrize(
    ("machine", "rows", "stores"), [(CPU, 8, 64), (CPU, 16, 32), (CPU, 2, 16 * 32), (NVIDIA, 8, 16 * 32)]
)
def test_results_of_a_matrix_instruction_are_turned_by_as_many_columns_as_it_has_rows(
    machine: Machine, rows: int, stores: int
) -> None:
    """Fragments have two axes, and fewer rows than columns: each element was a store.  Eight bytes are too few."""
    memory = Memory("t", DTYPES["f32"], ("M", "N"), (const(16), const(32)), "shared")
    memory = replace(memory, arrangement=row_major(("N", "M"), (32, 16)))
    axes = (RegisterAxis(16 // rows, (("M", rows),)), RegisterAxis(rows, (("M", 1),)), RegisterAxis(32, (("N", 1),)))
    fragments = Layout((("M", const(0)), ("N", const(0))), axes, 2)
    build, nowhere, size = builder(), {"M": const(0), "N": const(0)}, rows * 32
    numbered = [build.load("numbers", memory.dtype, size, const(size * n), hint="x") for n in range(16 // rows)]
    write_fragments(build, memory, fragments, nowhere, (), numbered, machine)
    assert sum(op.name == "store" for op in build.ops) == stores
    assert written_by(build.ops) == {column * 16 + row: row * 32 + column for row in range(16) for column in range(32)}


def panel(dim: str, pairs: int) -> Memory:
    """A staged tile of 16 rows and 32 columns whose elements along ``dim`` lie side by side, so many at a time."""
    other, extents = {"M": "N", "N": "M"}[dim], {"M": 16, "N": 32}
    digits = (
        Digit(dim, extents[dim] // pairs, pairs, extents[other] * pairs),
        Digit(other, extents[other], 1, pairs),
        Digit(dim, pairs, 1, 1),
    )
    memory = Memory("t", DTYPES["bf16"], ("M", "N"), (const(16), const(32)), "shared")
    return replace(memory, arrangement=Arrangement(digits))


@pytest.mark.parametrize(
    ("dim", "pairs", "machine", "stores"),
    [("M", 2, CPU, 16), ("M", 4, CPU, 16), ("M", 2, NVIDIA, 16 * 32)],
)
def test_rows_that_a_panel_has_in_turn_are_stored_together(dim: str, pairs: int, machine: Machine, stores: int) -> None:
    """Each element was a store: of operands that lanes compute, half of what some kernels were."""
    memory = panel(dim, pairs)
    rows = Layout((("M", const(0)), ("N", const(0))), (RegisterAxis(16, (("M", 1),)), RegisterAxis(32, (("N", 1),))), 1)
    build, nowhere = builder(), {"M": const(0), "N": const(0)}
    numbered = [build.load("numbers", memory.dtype, 32, const(32 * row), hint="x") for row in range(16)]
    write_fragments(build, memory, rows, nowhere, (), numbered, machine)
    assert sum(op.name == "store" for op in build.ops) == stores
    assert written_by(build.ops) == {
        memory.offset({"M": const(row), "N": const(column)}).value: row * 32 + column
        for row in range(16)
        for column in range(32)
    }


@pytest.mark.parametrize(("columns", "loads"), [(32, 16), (const(1) * symbol("N", 0, 1000), 16)], ids=["whole", "any"])
def test_tiles_of_tensors_that_lie_across_fragments_are_read_along_and_turned(columns: Expr | int, loads: int) -> None:
    """What a turned result of a matrix instruction meets was loaded element by element: 13,000 of 17,900 lines."""
    memory = Memory(
        "t", DTYPES["bf16"], ("M", "N"), (const(16), columns if isinstance(columns, Expr) else const(columns)), "global"
    )
    axes = RegisterAxis(1, (("M", 16),)), RegisterAxis(32, (("N", 1),)), RegisterAxis(16, (("M", 1),))
    turned = Layout((("M", const(0)), ("N", const(0))), axes, 2)
    build, nowhere = builder(), {"M": const(0), "N": const(0)}
    read = read_fragments(build, memory, turned, nowhere, ("N",), "x", CPU)
    assert [value.vector.elements for value in read] == [512]
    assert sum(op.name == "load" for op in build.ops) == 2 * loads
    if not isinstance(columns, Expr):
        assert addresses(read, build.ops) == [[row * 32 + column for column in range(32) for row in range(16)]]


@pytest.mark.parametrize("columns", [const(32), const(1) * symbol("N", 0, 1000)], ids=["whole", "any"])
def test_rows_of_several_registers_are_read_along_and_turned(columns: Expr) -> None:
    """Sums of f32 that a product starts from were loaded element by element: a minute of the compiler's time."""
    memory = Memory("t", DTYPES["f32"], ("M", "N"), (const(32), columns), "global")
    axes = RegisterAxis(32, (("N", 1),)), RegisterAxis(32, (("M", 1),))
    turned = Layout((("M", const(0)), ("N", const(0))), axes, 1)
    build, nowhere = builder(), {"M": const(0), "N": const(0)}
    read = read_fragments(build, memory, turned, nowhere, ("N",), "x", CPU)
    assert sum(op.name == "load" for op in build.ops) == 32 * 2
    if columns is const(32):
        assert addresses(read, build.ops) == [[row * 32 + column for row in range(32)] for column in range(32)]


def test_units_of_rows_are_turned_by_as_many_as_there_are_rows() -> None:
    """Eight rows of 32 elements, of which a panel has pairs: each pair was a store."""
    digits = Digit("N", 16, 2, 16), Digit("M", 8, 1, 2), Digit("N", 2, 1, 1)
    memory = Memory("t", DTYPES["bf16"], ("M", "N"), (const(8), const(32)), "shared", arrangement=Arrangement(digits))
    axes = RegisterAxis(1, (("M", 8),)), RegisterAxis(8, (("M", 1),)), RegisterAxis(32, (("N", 1),))
    fragments = Layout((("M", const(0)), ("N", const(0))), axes, 2)
    build, nowhere = builder(), {"M": const(0), "N": const(0)}
    write_fragments(build, memory, fragments, nowhere, (), [build.load("numbers", memory.dtype, 256, const(0))], CPU)
    assert sum(op.name == "store" for op in build.ops) == 16
    assert written_by(build.ops) == {
        memory.offset({"M": const(row), "N": const(column)}).value: row * 32 + column
        for row in range(8)
        for column in range(32)
    }


def test_pairs_along_their_own_rows_are_turned_as_words() -> None:
    """As operands of bf16 that lanes compute lie in panels: they were stored by four bytes."""
    axes = RegisterAxis(16, (("n", 1),)), RegisterAxis(16, (("d", 1),))
    of_rows = Layout((("n", const(0)), ("d", const(0))), axes, inner=1)
    blocks = turned_blocks(of_rows, "n", 16, unit=2)
    assert blocks is not None and (blocks.width, blocks.outer, blocks.lines.fragment_elements) == (8, (2,), 16)
    places = [(at["n"].value, at["d"].value) for at in blocks.lines.coordinates()]
    assert places[:6] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    assert places[16:18] == [(0, 2), (0, 3)] and sorted(places) == [(n, d) for n in range(16) for d in range(16)]
    assert turned_blocks(of_rows, "n", 16, unit=3) is None and turned_blocks(of_rows, "n", 4, unit=2) is None
