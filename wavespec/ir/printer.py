"""Kernel in, text out: the form that ``wavespec show`` prints and `parser.parse_kernel` reads back."""

from __future__ import annotations

from typing import Any, cast

from wavespec.ir.dtype import DType
from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, LoopSchedule, Memory, Op, Split, Value, WaveRoles
from wavespec.ir.layout import Layout
from wavespec.ir.names import name_text


def print_kernel(kernel: Kernel) -> str:
    """The kernel as text; ``parse_kernel(print_kernel(k)) == k``."""
    lines = [f"{kernel.level} kernel @{kernel.name} target {kernel.target} lanes {kernel.lanes}"]
    lines += [f"symbol {_symbol_text(symbol)}" for symbol in kernel.symbols]
    lines += _distribution_lines(kernel)
    lines += [f"wave {name_text(name)} {count}" for name, count in kernel.waves]
    lines += [] if kernel.launched is None else [f"launched [{kernel.launched}]"]
    lines += [f"producers {kernel.producers}"] if kernel.producers else []
    lines += [f"cluster {kernel.cluster}"] if kernel.cluster > 1 else []
    lines += [f"grid [{extent}]{' joined' * (axis in kernel.joined)}" for axis, extent in enumerate(kernel.grid)]
    lines += [f"present {name_text(dim)}" for dim in kernel.present]
    lines += [f"size {name_text(dim)} [{size}]" for dim, size in kernel.sizes]
    lines += [f"scalar {name} {dtype}" for name, dtype in kernel.scalars]
    lines += ["flushes"] if kernel.flushes else []
    lines += [f"note {attribute_text(note)}" for note in kernel.notes]
    lines += [_memory_text(memory) for memory in kernel.memories]
    lines.append("{")
    for op in kernel.body:
        _print_op(op, 1, lines)
    lines.append("}")
    return "\n".join(lines) + "\n"


def _symbol_text(symbol: Expr) -> str:
    name, low, high, divisor = symbol.args
    return f"{name_text(name)} in {'' if low is None else low}..{'' if high is None else high} by {divisor}"


def _distribution_lines(kernel: Kernel) -> list[str]:
    plan = kernel.distribution

    def split(kind: str, entry: Split) -> str:
        order = "" if entry.order is None else f" order [{entry.order}]"
        return f"split {kind} {name_text(entry.dim)} {entry.tile} {entry.axis}{order}"

    lines = [split("workgroup", s) for s in plan.workgroup]
    lines += [split("loop", s) for s in plan.loops]
    lines += [split("wave", s) for s in plan.waves]
    lines += [split("vector", s) for s in plan.vectors]
    text = f'plan "{plan.instruction}" stages {plan.stages} group {plan.group}'
    if plan.chiplets is not None:
        text += f" chiplets {int(plan.chiplets)}"
    if plan.persistent:
        text += " persistent"
    if plan.workers:
        text += f" workers {plan.workers}"
    if plan.cluster > 1:
        text += f" cluster {plan.cluster}"
    if plan.split > 1:
        text += f" split {plan.split}"
    if plan.last_round > 1:
        text += f" last_round {plan.last_round}"
    if plan.resident > 1:
        text += f" resident {plan.resident}"
    if plan.registers:
        text += f" registers {plan.registers}"
    if plan.fitted:
        text += " fitted"
    if plan.roles != WaveRoles():
        roles = plan.roles
        early = " early_wait" if roles.early_wait else ""
        text += f" roles {roles.producers} {roles.order}{early} {roles.registers[0]} {roles.registers[1]}"
        text += "".join(f" buffers {name_text(name)} {count}" for name, count in roles.buffers)
    text += f" auto {plan.auto}" if plan.auto else ""
    return [*lines, text, *(_schedule_text(schedule) for schedule in plan.schedules)]


def _schedule_text(schedule: LoopSchedule) -> str:
    names = ("loop", "stages", "auto", "nodes", "clusters", "buffers", "unroll")
    return "schedule {" + ", ".join(f"{name} = {attribute_text(getattr(schedule, name))}" for name in names) + "}"


def _memory_text(memory: Memory) -> str:
    shape = ", ".join(f"{name_text(dim)}: [{extent}]" for dim, extent in zip(memory.dims, memory.shape, strict=True))
    text = f"memory @{memory.name} : {memory.dtype} ({shape}) {memory.space}"
    if memory.role:
        text += f" {memory.role}"
    if memory.staged:
        text += " staged"
    if memory.mapped:
        text += " mapped"
    if memory.zeroed:
        text += " zeroed"
    if memory.packed:
        text += " packed"
    if memory.own:
        text += " own"
    if memory.shares:
        text += f" shares @{memory.shares}"
    if memory.over:
        text += f" over {' '.join(f'@{name}' for name in memory.over)}"
    if memory.arrangement:
        text += f" {memory.arrangement}"
    if memory.buffers != 1:
        text += f" x{memory.buffers}"
    if memory.start is not None:
        text += f" start [{memory.start}] strides {' '.join(f'[{stride}]' for stride in memory.strides)}".rstrip()
    if memory.arrivals:
        text += f" arrivals {memory.arrivals}"
    return text


def default_attributes(op: str) -> tuple[tuple[str, Any], ...]:
    """Attributes that are left out of the text when they have their usual value."""
    buffer, whole = ("buffer", const(0)), (("mask", ()), ("valid", None))
    return {
        "load": (buffer, *whole),
        "store": (buffer, *whole),
        "copy_async": (buffer, *whole),
        "load_matrix": (buffer, ("transposed", False)),
        "store_matrix": (("transposed", False),),
        "atomic": (("mask", ()),),
    }.get(op, ())


def _typed(value: Value) -> str:
    return f"%{value.name} : {value.type}"


def _print_op(op: Op, depth: int, lines: list[str]) -> None:
    indent = "  " * depth
    results = ", ".join(f"%{value.name}" for value in op.results)
    text = f"{results} = {op.name}" if results else op.name
    if op.operands:
        text += " " + ", ".join(f"%{value.name}" for value in op.operands)
    shown = [pair for pair in op.attributes if pair not in default_attributes(op.name)]
    if shown:
        text += " {" + ", ".join(f"{key} = {attribute_text(value)}" for key, value in shown) + "}"
    if op.results:
        text += " : " + ", ".join(str(value.type) for value in op.results)
    if op.region is None:
        lines.append(indent + text)
        return
    lines.append(f"{indent}{text} ({', '.join(_typed(a) for a in op.region.arguments)}) do")
    for inner in op.region.ops:
        _print_op(inner, depth + 1, lines)
    lines.append(f"{indent}  yield {', '.join(f'%{value.name}' for value in op.region.yields)}".rstrip())
    lines.append(indent + "end")


def attribute_text(value: Any) -> str:
    """One attribute: expressions in brackets, texts in quotes, tuples in parentheses."""
    match value:
        case Expr():
            return f"[{value}]"
        case DType():
            return f"!{value}"
        case Layout():
            return str(value)
        case bool():
            return "true" if value else "false"
        case None:
            return "none"
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case tuple():
            items = cast("tuple[Any, ...]", value)
            return "(" + "".join(attribute_text(item) + ", " for item in items).rstrip(" ") + ")"
        case int() | float():
            return repr(value)
        case _:
            raise TypeError(f"attribute of type {type(value).__name__} has no textual form: {value!r}")
