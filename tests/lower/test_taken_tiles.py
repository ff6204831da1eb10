"""Tiles that workgroups take from a counter: each once, whoever comes first; rounds count on, and the last sets it back."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels import subjects
from tests.lower.gemms import NVIDIA
from wavespec.ir.kernel import Kernel, Op
from wavespec.pipeline import lower
from wavespec.targets.machine import Machine

WORKERS = 3
FEW = replace(NVIDIA, processors=WORKERS)
Asking = Generator[int, int, None]


def walking(name: str, machine: Machine = FEW, case: int = 0) -> Kernel:
    (subject,) = (subject for subject in subjects("sm_90") if subject.name == name)
    return lower(subject.cases("sm_90")[case].spec, machine, after="persist-workgroups")


ONE_BY_ONE = 4  # of heads of up to 64 elements, which are no rows of one tile
EXTEND, PAGED = walking("attention_extend", case=ONE_BY_ONE), walking("attention_paged")


@dataclass
class Worker:
    """A workgroup that runs the loops over tiles alone; what a tile does is noted by its places."""

    kernel: Kernel
    known: dict[str, int]
    tables: Mapping[str, list[int]]
    """Elements of inputs."""
    values: dict[str, int] = field(default_factory=dict[str, int])
    taken: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    sets_back: bool = False

    def run(self, ops: tuple[Op, ...]) -> Asking:
        """Hands out how often it has asked, where it asks for a number, and is given one."""
        for op in ops:
            match op.name:
                case "let":
                    self.known[op["symbol"]] = op["value"].evaluate(self.known)
                case "bind" if op.operands[0].name in self.values:
                    self.known[op["symbol"]] = self.values[op.operands[0].name]
                case "constant" if op["value"] in (0, 1):
                    self.values[op.result.name] = int(op["value"])
                case "coordinates" if (
                    op.results[0].vector.elements == 1 and op["places"][0].symbols <= self.known.keys()
                ):
                    self.values[op.result.name] = op["places"][0].evaluate(self.known)
                case "load" if op["memory"] in self.tables and op["offset"].symbols <= self.known.keys():
                    self.values[op.result.name] = self.tables[op["memory"]][op["offset"].evaluate(self.known)]
                case "take_number":
                    self.values[op.result.name] = yield op["step"].evaluate(self.known)
                    self.values[op.result.name] += op["first"].evaluate(self.known)
                case "atomic":
                    known = self.known | {"lane": 0}
                    self.sets_back = all(left.evaluate(known) < right.evaluate(known) for left, right in op["mask"])
                case "for" if op["induction"] in ("part", "round"):
                    yield from self._loop(op)
                case _:
                    pass

    def _loop(self, op: Op) -> Asking:
        carried, at = [self.values[value.name] for value in op.operands], op["lower"].evaluate(self.known)
        asked, upper = op.get("goes_on"), op["upper"].evaluate(self.known)
        while at < upper and (asked is None or asked.evaluate(self.known)):
            self.known[op["induction"]] = at
            self.values |= zip((value.name for value in op.body.arguments), carried, strict=True)
            yield from self.run(op.body.ops)
            if op["induction"] == "round":
                self.taken.append(tuple(self.known[f"wg{axis}"] for axis in range(4) if f"wg{axis}" in self.known))
            carried, at = [self.values[value.name] for value in op.body.yields], at + 1
        self.values |= zip((value.name for value in op.results), carried, strict=True)


def all_taken(kernel: Kernel, known: dict[str, int], tables: Mapping[str, list[int]], seed: int) -> list[Worker]:
    """Workers that ask in any order; the counter is 0 again at the end, set back once, when nobody asks any more."""
    count = kernel.grid[0].evaluate(known)
    workers = [Worker(kernel, {**known, "workgroup": number}, tables) for number in range(count)]
    waiting = {number: worker.run(kernel.body) for number, worker in enumerate(workers)}
    given, steps, order = -1, dict.fromkeys(waiting, 0), Random(seed)
    answers: dict[int, int | None] = dict.fromkeys(waiting)
    while waiting:
        number = order.choice([*waiting])
        try:
            step = waiting[number].send(answers[number])  # pyright: ignore[reportArgumentType]
        except StopIteration:
            del waiting[number]
            if workers[number].sets_back:
                assert given + 1 == sum(steps.values()), "nobody asks behind the last one"
                given = -1
            continue
        assert step == steps[number], "rounds count on"
        steps[number] += 1
        given += 1
        answers[number] = given
    assert given == -1, "set back"
    assert all(len(worker.taken) == steps[number] for number, worker in enumerate(workers))
    return workers


@given(st.lists(st.integers(0, 700), min_size=1, max_size=5), st.integers(1, 2), st.integers(0, 99))
def test_every_tile_of_each_part_is_taken_once(lengths: list[int], heads: int, seed: int) -> None:
    starts = [sum(lengths[:number]) for number in range(len(lengths) + 1)]
    tokens = max(65, starts[-1])
    known = {"T": tokens, "P": 10, "H": heads, "G": 1, "D": 64, "E": 64, "L": len(starts), "B": len(lengths)}
    known |= {"M": tokens, "N": tokens, "C": 10}
    tables = {"starts": starts, "prefix_starts": [0] * len(starts)}
    taken = [place for worker in all_taken(EXTEND, known, tables, seed) for place in worker.taken]
    wanted = [(m, h, b) for b, length in enumerate(lengths) for m in range(-(-length // 128)) for h in range(heads)]
    by_name = {split.dim: split.axis for split in EXTEND.distribution.workgroup}
    axes = [by_name[dim] for dim in ("M", "H", "B")]
    assert sorted(tuple(place[axis] for axis in axes) for place in taken) == sorted(wanted)


@given(st.integers(1, 3), st.integers(1, 3), st.integers(66, 700), st.integers(0, 99))
def test_every_tile_without_parts_is_taken_once(batches: int, heads: int, rows: int, seed: int) -> None:
    known = {"B": batches, "H": heads, "M": rows, "N": 640, "D": 64, "E": 64, "P": 40, "T": 64, "L": 10}
    workers = all_taken(PAGED, known, {}, seed)
    taken = [place for worker in workers for place in worker.taken]
    assert len(taken) == len({*taken})
    (tile,) = (split.tile for split in PAGED.distribution.workgroup if split.dim == "M")
    assert len(taken) == batches * heads * -(-rows // tile)


@pytest.mark.parametrize(
    ("name", "counters"),
    [
        ("attention_extend", 1),
        ("attention_ragged_full", 1),
        ("attention_paged", 1),
        ("attention_masked_causal", 1),  # the rows of a batch say how many steps a tile has, the longest first
        ("attention_masked_window", 1),
        ("attention", 0),
        ("grouped_gemm", 0),  # tiles end by themselves, and have as many steps
    ],
)
def test_tiles_are_taken_where_values_say_how_many_steps_they_have(name: str, counters: int) -> None:
    assert sum(memory.space == "counter" for memory in walking(name, NVIDIA).memories) == counters


def test_machines_without_counters_deal_tiles_out() -> None:
    kernel = walking("attention_extend", replace(FEW, counters=False))
    assert not any(op.name == "take_number" or op.get("goes_on") is not None for op in kernel.walk())
