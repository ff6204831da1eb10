"""Kernel in, nothing out: raises when a kernel breaks a rule that every pass relies on."""

from __future__ import annotations

from wavespec.ir.kernel import Kernel, Op, Region, TileType, Value, VectorType
from wavespec.ir.names import dim_of_size, is_operand, size_name

_MEMORIES = frozenset(("memory", "a_memory", "b_memory", "signal", "target"))
"""Attributes that name a memory."""


class VerificationError(AssertionError):
    """A pass made a kernel that is not well formed: a bug of the compiler, never of the user."""


def verify(kernel: Kernel) -> None:
    """Check the rules below; raises `VerificationError` naming the operation.

    1. Every value is defined once, before its uses, with one type everywhere.
    2. Values are tiles at tile level and vectors at thread level.
    3. Memories named by operations exist; symbols in expressions are declared.
    4. Symbols and memories differ by name, and what is called like a size is one.
    5. A region yields what its operation returns and takes what it is given.
    """
    memories = {memory.name for memory in kernel.memories}
    symbols = {known.args[0] for known in kernel.symbols}
    level = {TileType: "tile", VectorType: "thread"}
    defined: dict[str, Value] = {}

    for what, names in (
        ("memory", [memory.name for memory in kernel.memories]),
        ("symbol", [name for name in (known.args[0] for known in kernel.symbols) if not is_operand(name)]),
    ):
        for name in {name for name in names if names.count(name) > 1}:
            raise VerificationError(f"kernel '{kernel.name}': {what} '{name}' is declared twice")
    for name in {dim for dim in map(dim_of_size, symbols) if dim} - kernel.all_sizes.keys():
        raise VerificationError(f"kernel '{kernel.name}': symbol '{size_name(name)}' is the size of no dim")

    def fail(op: Op, what: str) -> VerificationError:
        place = f" ({op.span.file}:{op.span.line}:{op.span.column})" if op.span else ""
        return VerificationError(f"kernel '{kernel.name}', operation '{op.name}'{place}: {what}")

    def use(op: Op, value: Value, scope: dict[str, Value]) -> None:
        if value.name not in scope:
            raise fail(op, f"%{value.name} is used before it is defined")
        if scope[value.name] != value:
            raise fail(op, f"%{value.name} is used as {value.type} but is {scope[value.name].type}")

    def define(op: Op, value: Value, scope: dict[str, Value]) -> None:
        if value.name in defined:
            raise fail(op, f"%{value.name} is defined twice")
        if level[type(value.type)] != kernel.level:
            raise fail(op, f"%{value.name} is {value.type} in a kernel at {kernel.level} level")
        defined[value.name] = scope[value.name] = value

    def region(op: Op, body: Region, scope: dict[str, Value]) -> None:
        inner = dict(scope)
        for argument in body.arguments:
            define(op, argument, inner)
        block(body.ops, inner)
        for value in body.yields:
            use(op, value, inner)
        carried = [v.type for v in op.operands]
        for what, given in (("arguments", body.arguments), ("yields", body.yields), ("results", op.results)):
            if [v.type for v in given] != carried:
                raise fail(
                    op, f"its {what} are {[str(v.type) for v in given]}, its operands {[str(t) for t in carried]}"
                )

    def block(ops: tuple[Op, ...], scope: dict[str, Value]) -> None:
        for op in ops:
            for value in op.operands:
                use(op, value, scope)
            for key, item in op.attributes:
                named = key in _MEMORIES or (key == "source" and op.name in ("copy_async", "bulk_copy"))
                if named and item and item not in memories:
                    raise fail(op, f"memory '@{item}' does not exist")
            if op.name in ("let", "bind") and op["symbol"] not in symbols:
                raise fail(op, f"symbol '{op['symbol']}' is not declared")
            for name in sorted({name for expr in op.expressions() for name in expr.symbols} - symbols):
                raise fail(op, f"symbol '{name}' is not declared")
            if op.region:
                region(op, op.region, scope)
            for value in op.results:
                define(op, value, scope)

    block(kernel.body, {})
