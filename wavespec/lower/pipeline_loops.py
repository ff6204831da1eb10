"""Thread kernel in, thread kernel out: tiles of later steps are on their way while this step computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.expr import Expr, at_most
from wavespec.ir.kernel import Kernel, Memory, Op, Region, Value, rewrite
from wavespec.lower.base import Pass, fresh_names
from wavespec.targets.machine import Machine

_FRAGMENT_OPS = frozenset(("load", "load_matrix", "slice", "pack", "cast", "transpose"))
_OTHER_REGISTERS = 32  # for offsets, bounds and the like, besides fragments, results and a 64-bit address for each copy
# https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cp-async
_SMALLEST_COPY_BYTES = 4


class StagesNotPossible(WavespecError, code="stages-not-possible"):
    def __init__(self, where: Where, stages: int, why: str, hint: str) -> None:
        super().__init__(where, f"{stages} stages need copies that run on while others compute: {why}.", hints=[hint])


class PipelineLoops(Pass):
    """Overlap the copies of a loop with its computation, ``stages - 1`` steps ahead.

    Before: loop bodies ``copies; async_commit; async_wait 0; fragments and mmas``, everything in buffer 0.
    After:  with stages = s, copies of steps 0 .. s-2 come before the loop, a group each.  Step i issues the
            copies of step i + s-1 between its mmas, and uses buffer i % s.  Fragments of a slice of k are
            loaded before the mmas of the slice before; those of slice 0 come from the step before, so that
            mmas run while others wait at the barrier: ``[loads of slice k+1; some copies; mmas of slice k]
            ...; commit; wait s-2; loads of slice 0 of step i+1; mmas of the last slice``.  Where registers do
            not suffice: ``wait s-2; copies; commit; loads and mmas of every slice in turn``.
            Copies beyond the end are masked off, which makes them zeros.
    Errors: ``stages-not-possible`` at the schedule's stages.
    """

    name: ClassVar[str] = "pipeline-loops"

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        stages = kernel.distribution.stages
        if stages == 1:
            return kernel
        _check(kernel, machine)
        fresh = fresh_names(kernel)

        def change(op: Op) -> tuple[Op, ...]:
            if op.name != "for" or not op.body.ops or op.body.ops[0].name != "copy_async":
                return (op,)
            return _Loop(op, kernel.symbol(op["induction"]), stages, fresh).pipelined(machine.registers)

        return replace(kernel, body=rewrite(kernel.body, change))


@dataclass(slots=True)
class _Slice:
    """One step of k inside a tile: ``loads`` make the fragments that ``mmas`` use."""

    loads: list[Op]
    mmas: list[Op]


class _Loop:
    """One loop whose body starts with asynchronous copies."""

    def __init__(self, op: Op, at: Expr, stages: int, fresh: Callable[[str], str]) -> None:
        self.op, self.at, self.stages, self.fresh = op, at, stages, fresh
        self.induction: str = op["induction"]
        self.step: Expr = op["step"]
        ops = op.body.ops
        count = next(i for i, inner in enumerate(ops) if inner.name != "copy_async")
        assert [inner.name for inner in ops[count : count + 2]] == ["async_commit", "async_wait"], (
            "copies without their group"
        )
        self.copies, self.commit, self.wait, self.rest = (
            ops[:count],
            ops[count],
            ops[count + 1],
            ops[count + 2 :],
        )
        self.rotating = {copy["memory"] for copy in self.copies}

    def pipelined(self, registers: int) -> tuple[Op, ...]:
        """First copies, loop, wait for what it left in flight; ``registers`` of a lane, 0 = any number."""
        before: list[Op] = []
        for stage in range(self.stages - 1):
            before += [*self._copies(stage, first=True), self.commit]
        slices = _slices(self.rest)
        fits = not registers or self._registers(slices) <= registers
        loop = self._with_slices(slices, before) if slices and fits else self._plain()
        return (*before, loop, self.wait)

    def _registers(self, slices: list[_Slice]) -> int:
        """About how many registers a lane needs to load one slice while it multiplies another."""
        fragments = 0
        for part in slices:
            used = {value.name for op in part.mmas for value in op.operands}
            fragments = max(fragments, sum(_words(op.result) for op in part.loads if op.result.name in used))
        return sum(map(_words, self.op.operands)) + 2 * fragments + 2 * len(self.copies) + _OTHER_REGISTERS

    def _plain(self) -> Op:
        body = self.op.body
        compute = (self._read(op, 0) for op in self.rest)
        ops = (self._wait(), *self._copies(self.stages - 1), self.commit, *compute)
        return replace(self.op, region=replace(body, ops=ops))

    def _with_slices(self, slices: list[_Slice], before: list[Op]) -> Op:
        """Fragments of the first slice become carried values; ``before`` gets their first loads."""
        body, head = self.op.body, slices[0].loads
        used = {
            value.name for part in slices for op in (*part.mmas, *part.loads) if op not in head for value in op.operands
        }
        carried = [op.result for op in head if op.result.name in used]
        before.append(self._wait())
        first = self._renamed([self._read(op, 0, first=True) for op in head], before)
        arguments = {value.name: replace(value, name=self.fresh(value.name)) for value in carried}
        copies = self._copies(self.stages - 1)
        ops: list[Op] = []
        slots = max(1, len(slices) - 1)
        following: dict[str, Value] = {}
        for number, part in enumerate(slices):
            share = (
                copies[number * len(copies) // slots : (number + 1) * len(copies) // slots] if number < slots else []
            )
            if number + 1 < len(slices):
                ops += [self._read(op, 0) for op in slices[number + 1].loads] + share
            else:
                ops += [*share, self.commit, self._wait()]
                following = self._renamed([self._read(op, 1) for op in head], ops)
            ops += part.mmas
        ops = [_uses(op, arguments) for op in ops]
        results = tuple(replace(value, name=self.fresh(value.name)) for value in carried)
        region = Region(
            (*body.arguments, *arguments.values()),
            tuple(ops),
            (*body.yields, *(following[v.name] for v in carried)),
        )
        operands = (*self.op.operands, *(first[value.name] for value in carried))
        return replace(self.op, operands=operands, results=(*self.op.results, *results), region=region)

    def _wait(self) -> Op:
        return self.wait.with_(pending=self.stages - 2)

    def _position(self, ahead: int, first: bool) -> Expr:
        return (self.op["lower"] if first else self.at) + self.step * ahead

    def _buffer(self, position: Expr) -> Expr:
        return (position // self.step) % self.stages

    def _copies(self, ahead: int, *, first: bool = False) -> list[Op]:
        """The copies of the step ``ahead`` of this one, or of the first one."""
        position, upper = self._position(ahead, first), self.op["upper"]
        moved: list[Op] = []
        for copy in self.copies:
            copy = _substituted(copy, {self.induction: position}).with_(buffer=self._buffer(position))
            bounded = any(right is upper and at_most(position, left) for left, right in copy["mask"])
            moved.append(copy if bounded else copy.with_(mask=((position, upper), *copy["mask"])))
        return moved

    def _read(self, op: Op, ahead: int, *, first: bool = False) -> Op:
        """An operation on fragments for the step ``ahead``: it reads that step's buffer."""
        position = self._position(ahead, first)
        op = _substituted(op, {self.induction: position})
        if op.get("memory") in self.rotating:
            return op.with_(buffer=self._buffer(position))
        if op.name == "load" and (ahead or first):  # of a tensor that is read directly, in a step that may not exist
            return op.with_(mask=((position, self.op["upper"]), *op["mask"]))
        return op

    def _renamed(self, ops: Sequence[Op], into: list[Op]) -> dict[str, Value]:
        """Append copies of ``ops`` with new results; returns them by the old name."""
        names: dict[str, Value] = {}
        for op in ops:
            op = _uses(op, names)
            results = tuple(replace(value, name=self.fresh(value.name)) for value in op.results)
            names |= {old.name: new for old, new in zip(op.results, results, strict=True)}
            into.append(replace(op, results=results))
        return names


def _slices(ops: Sequence[Op]) -> list[_Slice]:
    """The slices of a body, or nothing where it does more than load fragments and multiply them."""
    slices: list[_Slice] = []
    for op in ops:
        if op.name == "mma" and slices:
            slices[-1].mmas.append(op)
        elif op.name in _FRAGMENT_OPS:
            if not slices or slices[-1].mmas:
                slices.append(_Slice([], []))
            slices[-1].loads.append(op)
        else:
            return []
    return slices if slices and slices[-1].mmas else []


def _words(value: Value) -> int:
    """32-bit registers of a value."""
    return -(-value.vector.elements * value.vector.dtype.bytes // 4)


def _uses(op: Op, names: Mapping[str, Value]) -> Op:
    return replace(op, operands=tuple(names.get(value.name, value) for value in op.operands))


def _substituted(op: Op, replacement: Mapping[str, Expr]) -> Op:
    return replace(op, attributes=tuple((key, _in_value(value, replacement)) for key, value in op.attributes))


def _in_value(value: Any, replacement: Mapping[str, Expr]) -> Any:
    if isinstance(value, Expr):
        return value.substitute(replacement)
    if isinstance(value, tuple):
        items = cast(tuple[Any, ...], value)
        return tuple(_in_value(item, replacement) for item in items)
    return value


def _check(kernel: Kernel, machine: Machine) -> None:
    where, stages = kernel.distribution.stages_span, kernel.distribution.stages
    if not machine.globals.async_copy_bytes:
        raise StagesNotPossible(where, stages, f"{machine.variant} has none", "Leave out the stages for this target.")
    staged = [memory for memory in kernel.memories if memory.space == "shared"]
    if not staged:
        raise StagesNotPossible(where, stages, "no tensor is staged", "Mark the operands with 'space: shared'.")
    copied = {op["memory"]: op["source"] for op in kernel.walk() if op.name == "copy_async"}
    for shared in staged:
        if shared.name not in copied:
            raise _refusal(where, stages, kernel.memory(shared.name.removesuffix("_shared")), shared)


def _refusal(where: Where, stages: int, source: Memory, shared: Memory) -> StagesNotPossible:
    if source.dtype != shared.dtype:
        why = f"'{source.name}' is converted from {source.dtype} to {shared.dtype} on its way"
        return StagesNotPossible(where, stages, why, f"Use {shared.dtype} tensors, or one stage.")
    column, bytes_ = source.contiguous_dim, source.dtype.bytes
    known = source.shape[-1].divisor * bytes_
    if known >= _SMALLEST_COPY_BYTES:
        return StagesNotPossible(
            where,
            stages,
            f"the tile of '{source.name}' does not spread evenly over the lanes",
            "Use tiles of powers of two, or one stage.",
        )
    why = f"rows of '{source.name}' are only known to start at multiples of {known} bytes"
    why += f", a copy needs {_SMALLEST_COPY_BYTES}"
    return StagesNotPossible(
        where,
        stages,
        why,
        f"Promise a multiple of {_SMALLEST_COPY_BYTES // bytes_} for {column}, or use one stage.",
    )
