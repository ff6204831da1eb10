"""Thread kernel in, thread kernel out: workgroups that stay load what the next tile needs while they compute one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.expr import Expr, symbol
from wavespec.ir.kernel import Kernel, Memory, Op, Region, Value, rewrite
from wavespec.ir.rewriting import renamed, substituted
from wavespec.ir.thread_ops import BIND, FOR, LET, LOAD, MMA, MMA_ASYNC, WINDOW
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.thread_properties import is_of_lanes, symbols_are_in_scope
from wavespec.lower.wait_in_shared import Waiting
from wavespec.schedule.prefetch import words
from wavespec.targets.machine import Machine

OTHER_REGISTERS = 20
"""Of a lane, for places, bounds, sums and the like."""
OF_WINDOWS = 24
"""More of these, where sizes of a call say how many waves there are, and rows, windows of weights beside them, start
anywhere."""


class LoadAhead(Pass):
    """Carry what a tile needs of the inputs from the tile before it, where workgroups stay.

    Before: a loop over tiles that begins with loads, for whose data the workgroup then waits: no other one is about to
            take its place, and does so meanwhile.
    After:  the loads of the first tile stand in front of the loop; those of the next are issued where a tile begins,
            and its values are carried by the loop.  Behind the last tile they are masked.  Only loads move whose place
            follows from the tile's, as far as a lane has registers for them, the first ones first: beside what was
            loaded in front of the loop and what the tile comes to, as numbers of 32 bits.
            Where not all of them fit, those that the machine can copy wait in shared memory instead (`Waiting`).
    """

    name: ClassVar[str] = "load-ahead"
    requires = (is_of_lanes, symbols_are_in_scope)

    def applies_to(self, machine: Machine) -> bool:
        return machine.concurrent_workgroups

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if not can_load_ahead(kernel):
            return kernel
        room = registers_of_lane(kernel, machine) - OTHER_REGISTERS
        symbols: list[Expr] = []
        memories: list[Memory] = []

        def change(op: Op) -> tuple[Op, ...]:
            if "goes_on" in dict(op.attributes) or not any(one.is_(LET) for one in op.body.ops):
                return (op,)
            ahead = _Ahead(kernel, op, room - sum(map(words, kept_values(kernel, op))), machine)
            ops = ahead.loop()
            symbols.extend(ahead.symbols)
            memories.extend(ahead.waiting.memories)
            return ops

        body = rewrite(kernel.body, change, FOR)
        return replace(kernel, body=body, memories=(*kernel.memories, *memories)).with_symbols(*symbols)


def can_load_ahead(kernel: Kernel) -> bool:
    """Whether workgroups stay in which all waves compute, by no matrix unit, whose sums would have the registers; and
    where tiles have no order, which says nothing of those beyond the last one."""
    plan = kernel.distribution
    stays = plan.persistent and not kernel.producers and not plan.has_orders
    return stays and not any(op.is_(MMA, MMA_ASYNC) for op in kernel.walk())


def registers_of_lane(kernel: Kernel, machine: Machine) -> int:
    """Of a lane, with as many workgroups on a processor as the schedule says; its parts share out their waves."""
    if kernel.launched is not None:
        return kernel.distribution.registers - (OF_WINDOWS if any(op.is_(WINDOW) for op in kernel.walk()) else 0)
    parts = machine.resources.parts if machine.resources else 1
    waves = -(-kernel.threads // kernel.lanes * kernel.distribution.resident // parts)
    return machine.registers_of(waves * parts * kernel.lanes) // machine.register_step * machine.register_step


def kept_values(kernel: Kernel, loop: Op) -> list[Value]:
    """What was made in front of a loop and is used in all of its steps, in registers of a lane, in order."""
    used = {value.name for op in loop.walk() for value in op.operands}
    return [value for op in kernel.body if op is not loop for value in op.results if value.name in used]


def symbols_outside_remainders(place: Expr) -> set[str]:
    """Symbols of a place that are not only in remainders."""
    match place.kind:
        case "symbol":
            return set(place.symbols)
        case "sum":
            return {name for _, term in place.terms() for name in symbols_outside_remainders(term)}
        case "product":
            return {name for factor in place.args for name in symbols_outside_remainders(factor)}
        case _:
            return set() if place.kind == "mod" else set(place.symbols)


def _fitting(loads: Sequence[Op], room: int) -> list[Op]:
    """The first loads, for as many as there are registers."""
    found: list[Op] = []
    for op in loads:
        vector = op.result.vector
        room -= words(op.result) + vector.elements  # the next one's, and this one's as numbers
        if room < 0:
            break
        found.append(op)
    return found


class _Ahead:
    """The loop over tiles, whose first loads work for the next one."""

    def __init__(self, kernel: Kernel, loop: Op, room: int, machine: Machine) -> None:
        self.op, self.fresh = loop, fresh_names(kernel)
        self.at = kernel.symbol(loop["induction"])
        self.lets = {op["symbol"]: op["value"] for op in loop.body.ops if op.is_(LET)}
        self.known = {name: kernel.symbol(name) for name in self.lets}
        moving = list(self._moving(frozenset(memory.name for memory in kernel.memories if memory.role == "input")))
        self.loads = _fitting(moving, room)
        self.waiting = Waiting(kernel, machine, moving if len(self.loads) < len(moving) else ())
        if self.waiting.loads:
            self.loads = _fitting([op for op in moving if op not in self.waiting.loads], room)
        self.symbols: list[Expr] = []

    def _moving(self, inputs: frozenset[str]) -> Iterator[Op]:
        """Loads whose place follows from the tile's; where it does so by a remainder alone, as of weights beside rows
        that start anywhere, all tiles load the same elements, which are near."""
        bound = {op["symbol"] for op in self.op.body.ops if op.is_(BIND)}
        tile = {self.op["induction"], *self.lets}
        for op in self.op.body.ops:
            is_input = op.is_(LOAD) and op["memory"] in inputs and not op.operands
            if is_input and bound.isdisjoint(op.symbols) and tile & symbols_outside_remainders(op["offset"]):
                yield op

    def loop(self) -> tuple[Op, ...]:
        moved = (*self.loads, *self.waiting.loads)
        if not moved:
            return (self.op,)
        body, upper = self.op.body, self.op["upper"]
        first, first_copies = self._loads("start", self.op["lower"], upper)
        following, copies = self._loads("ahead", self.at + self.op["step"], upper)
        carried = tuple(Value(self.fresh(op.result.name), op.result.type) for op in self.loads)
        names = {op.result.name: value for op, value in zip(self.loads, carried, strict=True)}
        rest = [renamed(op, names) for op in body.ops if op not in moved]
        begin = max(number for number, op in enumerate(rest) if op.is_(LET)) + 1
        results = tuple(op.result for op in following if op.is_(LOAD))
        region = Region(
            (*body.arguments, *carried),
            (*rest[:begin], *self.waiting.landed(), *following, *copies, *rest[begin:]),
            (*(names.get(value.name, value) for value in body.yields), *results),
        )
        starts = tuple(op.result for op in first if op.is_(LOAD))
        ends = tuple(Value(self.fresh(value.name), value.type) for value in carried)
        loop = replace(self.op, operands=(*self.op.operands, *starts), results=(*self.op.results, *ends), region=region)
        return (*first, *first_copies, loop, *self.waiting.over())

    def _loads(self, when: str, turn: Expr, upper: Expr) -> tuple[tuple[Op, ...], tuple[Op, ...]]:
        """The loads and copies of another turn, masked by whether there is one, behind what says which tile that is."""
        replacement = {self.at.args[0]: turn}
        lets: list[Op] = []
        needed = self._needed()
        for op in self.op.body.ops:
            if op.is_(LET) and op["symbol"] in needed:
                known = self.known[op["symbol"]]
                if known.is_const:
                    continue
                name = self.fresh(f"{op['symbol']}_{when}")
                renamed_symbol = symbol(name, *known.args[1:])
                self.symbols.append(renamed_symbol)
                lets.append(substituted(op, replacement).with_(symbol=name))
                replacement[op["symbol"]] = renamed_symbol

        def moved(op: Op) -> Op:
            other = substituted(op, replacement)
            result = Value(self.fresh(op.result.name), op.result.type)
            return replace(other.with_(mask=((turn, upper), *other["mask"])), results=(result,))

        copies = self.waiting.copies([moved(op) for op in self.waiting.loads])
        return (*lets, *map(moved, self.loads)), copies

    def _needed(self) -> set[str]:
        """Symbols that the places of the loads follow from."""
        needed = {name for op in (*self.loads, *self.waiting.loads) for name in op.symbols}
        while more := {name for one in needed & self.lets.keys() for name in self.lets[one].symbols} - needed:
            needed |= more
        return needed
