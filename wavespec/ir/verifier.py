"""Kernel in, nothing out: raises when a kernel breaks a rule that every pass relies on."""

from __future__ import annotations

from collections.abc import Collection, Set

from wavespec.ir.declarations import Declarations, Kind
from wavespec.ir.kernel import Kernel, Op, Region, TileType, Value, VectorType
from wavespec.ir.names import dim_of_size, is_operand, size_name
from wavespec.ir.thread_ops import THREAD_OPS
from wavespec.ir.tile_ops import TILE_OPS


class VerificationError(AssertionError):
    """A pass made a kernel that is not well formed: a bug of the compiler, never of the user."""


def verify(kernel: Kernel, before: Kernel | None = None) -> None:
    """Check the rules below; raises `VerificationError` naming the operation.

    Args:
        kernel: what a pass made.
        before: of what, verified: operations that are still the same need no second look by themselves.

    0. Operations are as they are declared, with the operands, results and attributes that they have there.
    1. Every value is defined once, before its uses, with one type everywhere.
    2. Values are tiles at tile level and vectors at thread level.
    3. Memories named by operations exist; symbols in expressions are declared.
    4. Symbols and memories differ by name, and what is called like a size is one.
    5. A region yields what its operation returns and takes what it is given.
    """
    memories = {memory.name for memory in kernel.memories}
    symbols = {known.args[0] for known in kernel.symbols}
    type_, declared = (TileType, TILE_OPS) if kernel.level == "tile" else (VectorType, THREAD_OPS)
    right, said = _still_right(kernel, before)
    _check_names(kernel)
    defined: dict[str, Value] = {}

    def fail(op: Op, what: str) -> VerificationError:
        place = f" ({op.span.file}:{op.span.line}:{op.span.column})" if op.span else ""
        return VerificationError(f"kernel '{kernel.name}', operation '{op.name}'{place}: {what}")

    def use(op: Op, value: Value, scope: dict[str, Value]) -> None:
        if value.name not in scope:
            raise fail(op, f"%{value.name} is used before it is defined")
        if scope[value.name] != value:
            raise fail(op, f"%{value.name} is used as {value.type} but is {scope[value.name].type}")

    def misdefined(op: Op, value: Value) -> VerificationError:
        if value.name in defined:
            return fail(op, f"%{value.name} is defined twice")
        return fail(op, f"%{value.name} is {value.type} in a kernel at {kernel.level} level")

    def region(op: Op, body: Region, scope: dict[str, Value]) -> None:
        inner = dict(scope)
        for argument in body.arguments:
            if argument.name in defined or type(argument.type) is not type_:
                raise misdefined(op, argument)
            defined[argument.name] = inner[argument.name] = argument
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
                if scope.get(value.name) is not value:
                    use(op, value, scope)
            if id(op) not in right:
                problem = _miscounted(op, declared)
                if problem is None and (op.name, id(op.attributes)) not in said:
                    problem = _mistaken_attribute(op, declared) or _unknown_name(op, declared, memories, symbols)
                if problem is not None:
                    raise fail(op, problem)
            if op.region:
                region(op, op.region, scope)
            for value in op.results:
                if value.name in defined or type(value.type) is not type_:
                    raise misdefined(op, value)
                defined[value.name] = scope[value.name] = value

    block(kernel.body, {})


def _check_names(kernel: Kernel) -> None:
    """Rule 4."""
    symbols = [known.args[0] for known in kernel.symbols]
    for what, names in (
        ("memory", [memory.name for memory in kernel.memories]),
        ("symbol", [name for name in symbols if not is_operand(name)]),
    ):
        for name in {name for name in names if names.count(name) > 1}:
            raise VerificationError(f"kernel '{kernel.name}': {what} '{name}' is declared twice")
    for name in {dim for dim in map(dim_of_size, symbols) if dim} - kernel.all_sizes.keys():
        raise VerificationError(f"kernel '{kernel.name}': symbol '{size_name(name)}' is the size of no dim")


def _still_right(kernel: Kernel, before: Kernel | None) -> tuple[Set[int], Set[tuple[str, int]]]:
    """Which operations, by identity, and which attributes of operations of a name, were verified in ``before``, with no
    name less now than there was."""
    if before is None or before.level != kernel.level or not {*before.symbols} <= {*kernel.symbols}:
        return frozenset(), frozenset()
    if not {memory.name for memory in before.memories} <= {memory.name for memory in kernel.memories}:
        return frozenset(), frozenset()
    ops = list(before.walk())
    return set(map(id, ops)), {(op.name, id(op.attributes)) for op in ops}


def _miscounted(op: Op, declared: Declarations) -> str | None:
    """What it has more or less of than the operation was declared with."""
    declaration = declared.get(op.name)
    if declaration is None:
        return f"there is no such operation at {declared.level} level"
    for what, (least, most), values in (
        ("operands", declaration.operands, op.operands),
        ("results", declaration.results, op.results),
    ):
        if len(values) < least or (most is not None and len(values) > most):
            wanted = str(least) if most == least else f"{least} to {most or 'any number'}"
            return f"it has {len(values)} {what}, not {wanted}"
    if (op.region is not None) != declaration.has_region:
        return "it has no region" if declaration.has_region else "it has a region"
    return None


def _mistaken_attribute(op: Op, declared: Declarations) -> str | None:
    """What of the attributes is not as the operation was declared."""
    declaration = declared[op.name]
    for key, value in op.attributes:
        holds = declaration.holds.get(key)
        if holds is None:
            return f"it has no attribute '{key}'"
        if not holds(value):
            return f"its '{key}' is {value!r}, not {declaration.attributes[key].kind.value}"
    missing = declaration.needed.difference([key for key, _ in op.attributes])
    return f"it lacks '{min(missing)}'" if missing else None


def _unknown_name(op: Op, declared: Declarations, memories: Collection[str], symbols: Set[str]) -> str | None:
    """A memory or a symbol that it names and the kernel does not have."""
    declaration = declared[op.name]
    for key, value in op.attributes:
        if key not in declaration.naming:
            continue
        kind = declaration.attributes[key].kind
        if kind is Kind.MEMORY and value and value not in memories:
            return f"memory '@{value}' does not exist"
        if kind is Kind.SYMBOL and value not in symbols:
            return f"symbol '{value}' is not declared"
    unknown = op.symbols - symbols
    return f"symbol '{min(unknown)}' is not declared" if unknown else None
