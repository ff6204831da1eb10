"""What the simulator saw: `Finding`s with the operation and its line, in a `SimulationReport`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from wavespec.diagnostics import Diagnostic, Related, Span, render_all
from wavespec.ir.kernel import Kernel, Op
from wavespec.sim.elements import Array

Kind = Literal[
    "race",
    "unwritten-read",
    "unwaited-copy",
    "scattered-copy",
    "out-of-bounds",
    "output-conflict",
    "unwritten-output",
    "store-to-input",
    "non-uniform-loop",
    "replica-mismatch",
    "symbol-range",
    "misaligned",
    "unfenced-access",
    "unfenced-registers",
    "unwaited-product",
    "signal-bytes",
    "signal-overrun",
    "counter-left",
    "divergent-operation",
    "deadlock",
    "bank-conflict",
]


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake of the kernel: its first occurrence; ``count`` counts elements over the whole run.

    ``race``: two threads use one element, one writes, no barrier between.  ``unwaited-copy``: an element is
    used while an asynchronous copy into it is in flight.  ``scattered-copy``: lanes of a wave do not copy one behind
    another, on a machine that does only that.  ``replica-mismatch``: lanes that hold the same matrix element
    disagree.  ``symbol-range``: a symbol leaves the range that the compiler was told.
    ``misaligned`` is an error for matrix loads and asynchronous copies, else a warning: the machine splits
    the access.  ``unfenced-access``: a matrix unit or bulk copy uses what lanes wrote without `fence_async`;
    ``unfenced-registers``: a product starts from registers that were written after the last `mma_fence`;
    ``unwaited-product``: a result is used before it is complete.  ``signal-bytes``: other bytes come than were
    announced; ``signal-overrun``: a signal may go on before everybody has seen its phase, or gets too many arrivals.
    ``counter-left``: a counter of the launch is not 0 at its end.
    ``divergent-operation``: only some lanes of a wave execute what takes all of them.  ``deadlock``: everybody waits.
    ``bank-conflict``, a warning: lanes that are served together want different words of one bank of shared memory.
    """

    kind: Kind
    message: str
    span: Span | None
    op: Op | None
    place: str
    """Words for where the operation is, for kernels without spans."""
    related: Related | None = None
    count: int = 1
    severity: Literal["error", "warning"] = "error"

    def diagnostic(self) -> Diagnostic:
        notes = (f"{self.count} times in all.",) if self.count > 1 else ()
        related = (self.related,) if self.related else ()
        where = self.span or self.place
        return Diagnostic(self.kind, self.message, where, notes=notes, related=related, severity=self.severity)

    def __str__(self) -> str:
        return str(self.diagnostic())


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """The result of `simulate`.

    ``tensors``: every global tensor after the run, in its shape; inputs are the caller's own arrays.
    ``counts``: see `wavespec.sim.simt`.  ``bank_conflicts``: per shared access, cycles over conflict-free
    cycles.
    """

    tensors: Mapping[str, Array]
    findings: tuple[Finding, ...]
    counts: Mapping[str, int]
    bank_conflicts: Mapping[str, float]
    slow_accesses: tuple[Finding, ...] = ()
    """A warning for each shared access with bank conflicts: it is right, and takes longer."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found: each finding makes a kernel wrong on some machine, in some order."""
        return not self.findings

    def kinds(self) -> set[str]:
        return {finding.kind for finding in self.findings}

    def render(self) -> str:
        """All findings as text, in program order; empty where there are none."""
        return render_all(finding.diagnostic() for finding in self.findings)


@dataclass(slots=True)
class FindingList:
    """Collects findings of one kernel: of equal operations on one memory and line, the first."""

    kernel: Kernel
    ops: tuple[Op, ...] = ()
    ordinals: dict[int, int] = field(default_factory=dict[int, int])
    found: dict[tuple[object, ...], Finding] = field(default_factory=dict[tuple[object, ...], Finding])

    def __post_init__(self) -> None:
        self.ops = tuple(self.kernel.walk())
        self.ordinals = {id(op): ordinal for ordinal, op in enumerate(self.ops)}

    def ordinal(self, op: Op) -> int:
        """The position of an operation in the printed kernel."""
        return self.ordinals[id(op)]

    def add(
        self,
        kind: Kind,
        op: Op | None,
        message: Callable[[], str],
        *,
        other: int = -1,
        count: int = 1,
        severity: Literal["error", "warning"] = "error",
    ) -> None:
        """Report; ``other`` is the ordinal of the operation on the other side."""
        ordinal = -1 if op is None else self.ordinal(op)
        key = (kind, op.name, op.get("memory"), op.span) if op else (kind, message())
        if known := self.found.get(key):
            self.found[key] = replace(known, count=known.count + count)
            return
        partner = self.ops[other] if other >= 0 else None
        related = Related(partner.span, f"the other '{partner.name}'") if partner and partner.span else None
        text = message()
        if partner and not partner.span:
            text += f" The other access is {self.place(other)}."
        span = op.span if op else None
        self.found[key] = Finding(kind, text, span, op, self.place(ordinal), related, count, severity)

    def place(self, ordinal: int) -> str:
        """Words for an operation."""
        if ordinal < 0:
            return f"kernel '{self.kernel.name}'"
        return f"kernel '{self.kernel.name}', operation {ordinal} '{self.ops[ordinal].name}'"

    def in_order(self) -> tuple[Finding, ...]:
        """Everything found, in program order; what concerns the whole kernel comes last."""

        def position(finding: Finding) -> int:
            return self.ordinal(finding.op) if finding.op else len(self.ops)

        return tuple(sorted(self.found.values(), key=position))
