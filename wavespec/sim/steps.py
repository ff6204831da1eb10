"""Blocks of a kernel in; their operations, and what is the same each time that one of them is executed, out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from wavespec.ir.declarations import Trait
from wavespec.ir.kernel import Kernel, Op, VectorType
from wavespec.ir.nodes import node
from wavespec.ir.thread_ops import (
    ASYNC_COMMIT,
    ASYNC_WAIT,
    BARRIER,
    BIND,
    FOR,
    IF,
    LET,
    MMA,
    MMA_ASYNC,
    MMA_WAIT,
    NAMES_A_SYMBOL,
    ROLE,
    STAGGER,
    THREAD_OPS,
)
from wavespec.sim.elements import numpy_dtype
from wavespec.sim.fragments import MatrixUnit, matrix_unit
from wavespec.sim.tiles import OperandTiles
from wavespec.sim.values import VALUES, ValueFunction
from wavespec.targets.machine import Machine

_PER_STRAND = MMA | FOR | ASYNC_COMMIT | ASYNC_WAIT
_UNCOUNTED = LET | BIND | ROLE | IF | BARRIER | STAGGER
"""What makes no instruction of its own, or counts itself."""
_BY_ALL_LANES = THREAD_OPS.having(Trait.BY_ALL_LANES)
_TAKES_RESULTS_IN_FLIGHT = MMA_ASYNC | MMA_WAIT | FOR


@node
class Form:
    """What all operations of one name have in common for a kernel.

    ``value``: what makes its result of its operands alone; else ``method`` of a strand does it.  ``issues``: how many
    times one execution counts.
    """

    value: ValueFunction | None
    method: Callable[..., Any]
    issues: int
    by_all_lanes: bool
    waits_for_products: bool
    """Whether no operand may be a result that a matrix unit still computes."""
    writes_registers: bool
    """Whether a matrix unit may start from its result, which is then to be fenced."""
    opens_symbol: bool


@node
class Step:
    """One operation as every strand executes it; ``shape`` and ``dtype`` are those of its result, if it has one."""

    op: Op
    form: Form
    operands: tuple[str, ...]
    shape: tuple[int, int] | None
    dtype: np.dtype[Any] | None


class Program:
    """A kernel as strands of ``strand_lanes`` lanes execute it, for one simulation: its blocks are looked at once, when
    the first strand comes to them.  ``methods``: what a strand does for an operation, by name."""

    def __init__(
        self,
        kernel: Kernel,
        machine: Machine,
        strand_lanes: int,
        methods: Mapping[str, Callable[..., Any]],
        unknown: Callable[..., Any],
    ) -> None:
        self._machine, self._methods, self._unknown = machine, methods, unknown
        self._lanes, self._waves = strand_lanes, strand_lanes // kernel.lanes
        self._has_products = any(op.is_(MMA_ASYNC) for op in kernel.walk())
        # By identity: the kernel keeps its blocks alive, and equal ones would take long to compare.
        self._blocks: dict[int, tuple[Step, ...]] = {}
        self._forms: dict[str, Form] = {}
        self._units: dict[tuple[str, bool], MatrixUnit] = {}
        self.tiles = OperandTiles()

    def block(self, ops: tuple[Op, ...]) -> tuple[Step, ...]:
        """The operations of one block of the kernel."""
        steps = self._blocks.get(id(ops))
        if steps is None:
            steps = self._blocks[id(ops)] = tuple(self._step(op) for op in ops)
        return steps

    def unit(self, op: Op) -> MatrixUnit:
        """The matrix instruction of a product."""
        name: str = op["instruction"]
        key = name, bool(op.get("unbiased"))
        if key not in self._units:
            unit = matrix_unit(self._machine, name)
            self._units[key] = unit.unbiased() if key[1] else unit
        return self._units[key]

    def _step(self, op: Op) -> Step:
        if op.name not in self._forms:
            self._forms[op.name] = self._form(op)
        kind = op.results[0].type if len(op.results) == 1 else None
        made = kind if isinstance(kind, VectorType) else None
        return Step(
            op,
            self._forms[op.name],
            tuple([value.name for value in op.operands]),
            (self._lanes, made.elements) if made else None,
            numpy_dtype(made.dtype) if made else None,
        )

    def _form(self, op: Op) -> Form:
        return Form(
            VALUES.get(op.name),
            self._methods.get(op.name, self._unknown),
            0 if op.is_(_UNCOUNTED) else 1 if op.is_(_PER_STRAND) else self._waves,
            op.is_(_BY_ALL_LANES),
            self._has_products and not op.is_(_TAKES_RESULTS_IN_FLIGHT),
            self._has_products and not op.is_(MMA_ASYNC),
            op.is_(NAMES_A_SYMBOL),
        )
