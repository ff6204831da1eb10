"""Walks over tiles that end where values say: every tile of every part once, shared out evenly, rounds counted on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels import subjects
from tests.lower.gemms import CPU, NVIDIA
from tests.lower.ir_text import Text, lines
from wavespec.diagnostics import WavespecError
from wavespec.ir.kernel import Kernel, Op
from wavespec.lower.persist_workgroups import PersistWorkgroups
from wavespec.pipeline import lower
from wavespec.targets.machine import Machine

PARTS = Text("""
    thread kernel @k target sm_90 lanes 32
    symbol M in 0..640 by 1
    symbol N in 0..64 by 1
    symbol G in 0..64 by 1
    symbol wg0 in 0..9 by 1
    symbol wg1 in 0..63 by 1
    symbol wg2 in 0..63 by 1
    symbol lane in 0..31 by 1
    symbol value_length in -2147483648..2147483647 by 1
    split workgroup M 64 0
    split workgroup N 1 1
    split workgroup G 1 2
    plan "auto" stages 1 group 1 persistent
    grid [(M + 63)//64]
    grid [N]
    grid [G]
    memory @lengths : i32 (G: [G]) global input
    memory @y : f32 (G: [G], M: [M], N: [N]) global output
""")
BODY = """
    %length = load {memory = "lengths", offset = [wg2]} : i32x1
    bind %length {symbol = "value_length", uniform = true}
    %one = constant {value = 1.0} : f32x1
    store %one {memory = "y", offset = [wg2*M*N + wg0*64*N + wg1]}
    tiles_end {dim = "M", extent = [value_length]}
"""


def test_the_tiles_of_each_part_are_walked_over() -> None:
    assert PARTS.after(PersistWorkgroups(), NVIDIA, BODY) == lines("""
        let {symbol = "tiles", value = [G*N*((M + 63)//64)]}
        let {symbol = "workers", value = [min(tiles, 132)]}
        let {symbol = "late", value = [workers - workgroup - 1]}
        %tiles = constant {value = 0} : i32x1
        %tiles.3 = for %tiles {induction = "part", lower = [0], step = [1], unroll = 1, upper = [G]} : i32x1 (%tiles.1 : i32x1) do
          bind %tiles.1 {symbol = "tiles_before"}
          let {symbol = "wg2", value = [part]}
          %length = load {memory = "lengths", offset = [wg2]} : i32x1
          bind %length {symbol = "value_length", uniform = true}
          let {symbol = "tiles_here", value = [N*max(min((M + 63)//64, (value_length + 63)//64), 0)]}
          for {counts_on = true, induction = "round", lower = [(late + tiles_before)//workers], step = [1], unroll = 1, upper = [(late + tiles_before + tiles_here)//workers]} () do
            let {symbol = "tile", value = [0 - tiles_before + workgroup + round*workers]}
            let {symbol = "band_tiles", value = [N]}
            let {symbol = "wg0", value = [tile//band_tiles]}
            let {symbol = "wg1", value = [tile%band_tiles]}
            %one = constant {value = 1.0} : f32x1
            store %one {memory = "y", offset = [wg1 + M*N*wg2 + (N*wg0)*64]}
            tiles_end {dim = "M", extent = [value_length]}
            yield
          end
          %tiles.2 = coordinates {places = ([tiles_before + tiles_here],)} : i32x1
          yield %tiles.2
        end
    """)


def walked(kernel: Kernel, workgroup: int, known: dict[str, int], lengths: list[int]) -> list[tuple[int, ...]]:
    """The places of the tiles that a workgroup takes, and the rounds that it takes them in, in order."""
    known = {**known, "workgroup": workgroup}
    *before, parts = kernel.body
    bind_all(before, known)
    taken: list[tuple[int, ...]] = []
    known |= {"tiles_before": 0}
    for known["part"], known["value_length"] in enumerate(lengths):
        bind_all(parts.body.ops, known)
        (loop,) = (op for op in parts.body.ops if op.name == "for")
        for number in range(loop["lower"].evaluate(known), loop["upper"].evaluate(known)):
            known["round"] = number
            bind_all(loop.body.ops, known)
            taken.append((number, *(known[f"wg{axis}"] for axis in range(3))))
        names = [op["symbol"] for op in parts.body.ops if op.name == "bind" and op["symbol"] != "value_length"]
        following = [op["places"][0].evaluate(known) for op in parts.body.ops if op.name == "coordinates"]
        known |= dict(zip(names, following, strict=True))
    return taken


def bind_all(ops: tuple[Op, ...] | list[Op], known: dict[str, int]) -> None:
    for op in ops:
        if op.name == "let":
            known[op["symbol"]] = op["value"].evaluate(known)


def all_taken(kernel: Kernel, known: dict[str, int], lengths: list[int]) -> list[list[tuple[int, ...]]]:
    """The round and the place of each tile that a workgroup takes, for each of them; every tile is taken once."""
    taken = [walked(kernel, number, known, lengths) for number in range(kernel.grid[0].evaluate(known))]
    for rounds in taken:
        assert [number for number, *_ in rounds] == [*range(len(rounds))], "one tile in each round, and none left out"
    parts = enumerate(lengths)
    tiles = [(m, n, g) for g, length in parts for m in range(-(-length // 64)) for n in range(known["N"])]
    assert sorted(place for rounds in taken for _, *place in rounds) == sorted(map(list, tiles))
    return taken


@given(st.lists(st.integers(-70, 200), max_size=5), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4))
def test_every_tile_is_taken_once_and_rounds_count_on(
    lengths: list[int], columns: int, group: int, workers: int
) -> None:
    text = PARTS.changed(("group 1 persistent", f"group {group} persistent workers {workers}"))
    kernel = PersistWorkgroups()(text.kernel(BODY), NVIDIA)
    taken = all_taken(kernel, {"M": 200, "N": columns, "G": len(lengths)}, lengths)
    assert not taken or max(map(len, taken)) - min(map(len, taken)) <= 1


@pytest.mark.parametrize("offset", ["wg0", "wg2 + lane"])
def test_an_end_is_known_before_the_tile(offset: str) -> None:
    with pytest.raises(WavespecError, match=r"error\[end-not-uniform\]: Where the tiles of 'M' end"):
        PersistWorkgroups()(PARTS.kernel(BODY.replace("offset = [wg2]}", f"offset = [{offset}]}}")), NVIDIA)


def test_launches_have_a_workgroup_for_each_tile() -> None:
    kernel = PARTS.changed((" persistent", "")).kernel(BODY)
    with pytest.raises(WavespecError, match=r"error\[end-of-launch\]"):
        PersistWorkgroups()(kernel, NVIDIA)


@pytest.mark.parametrize(("machine", "branches"), [(NVIDIA, 0), (CPU, 1)], ids=["walk", "grid"])
def test_a_branch_on_what_tiles_end_by_is_none(machine: Machine, branches: int) -> None:
    """New tokens of a batch: where workgroups walk over their tiles, there are no others to leave out."""
    (extend,) = (subject for subject in subjects(machine.target) if subject.name == "attention_extend")
    kernel = lower(extend.cases(machine.target)[0].spec, machine, after="spec-to-tile")
    assert sum(bool(op.get("once")) for op in kernel.walk()) == branches
