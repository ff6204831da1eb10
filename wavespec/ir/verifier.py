"""Kernel in, nothing out: raises when a kernel breaks a rule that every pass relies on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Set

from wavespec.ir.declarations import Declaration, Kind
from wavespec.ir.kernel import Kernel, Op, Region, TileType, Value, VectorType
from wavespec.ir.names import dim_of_size, is_operand, scalar_name, scalar_of, size_name
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
    4. Symbols and memories differ by name, and what is called like a size or a scalar is one.
    5. A region yields what its operation returns and takes what it is given.
    """
    _check_names(kernel)
    _Verifier(kernel, before).block(kernel.body, {})


class _Verifier:
    """What is known of a kernel on the walk over its operations; a scope has the values that can be used in it."""

    def __init__(self, kernel: Kernel, before: Kernel | None) -> None:
        self.kernel = kernel
        self.memories = {memory.name for memory in kernel.memories}
        self.symbols = {known.args[0] for known in kernel.symbols}
        self.type, self.declared = (TileType, TILE_OPS) if kernel.level == "tile" else (VectorType, THREAD_OPS)
        self.right, self.said = _still_right(kernel, before)
        self.defined = set[str]()

    def block(self, ops: tuple[Op, ...], scope: dict[str, Value]) -> None:
        """Rules 0 to 3 and 5 of operations in a row; the scope then has what they define."""
        for op in ops:
            for value in op.operands:
                if scope.get(value.name) is not value:
                    self._use(op, value, scope)
            if id(op) not in self.right:
                self._check_alone(op)
            if op.region:
                self._region(op, op.region, dict(scope))
            for value in op.results:
                self._define(op, value, scope)

    def _region(self, op: Op, body: Region, scope: dict[str, Value]) -> None:
        """Rule 5, and the operations inside; ``scope``: their own."""
        for argument in body.arguments:
            self._define(op, argument, scope)
        self.block(body.ops, scope)
        for value in body.yields:
            self._use(op, value, scope)
        carried = [value.type for value in op.operands]
        for what, given in (("arguments", body.arguments), ("yields", body.yields), ("results", op.results)):
            types = [value.type for value in given]
            if types != carried:
                raise self._wrong(op, f"its {what} are {list(map(str, types))}, its operands {list(map(str, carried))}")

    def _use(self, op: Op, value: Value, scope: dict[str, Value]) -> None:
        """Rule 1, where a value is used."""
        if value.name not in scope:
            raise self._wrong(op, f"%{value.name} is used before it is defined")
        if scope[value.name] != value:
            raise self._wrong(op, f"%{value.name} is used as {value.type} but is {scope[value.name].type}")

    def _define(self, op: Op, value: Value, scope: dict[str, Value]) -> None:
        """Rules 1 and 2, where a value is made."""
        if value.name in self.defined:
            raise self._wrong(op, f"%{value.name} is defined twice")
        if type(value.type) is not self.type:
            raise self._wrong(op, f"%{value.name} is {value.type} in a kernel at {self.kernel.level} level")
        self.defined.add(value.name)
        scope[value.name] = value

    def _check_alone(self, op: Op) -> None:
        """Rules 0 and 3, which concern nothing around the operation."""
        declaration = self.declared.get(op.name)
        if declaration is None:
            raise self._wrong(op, f"there is no such operation at {self.declared.level} level")
        problem = _miscounted(op, declaration)
        if problem is None and (op.name, id(op.attributes)) not in self.said:
            problem = _mistaken_attribute(op, declaration)
            problem = problem or _unknown_name(op, declaration, self.memories, self.symbols)
        if problem is not None:
            raise self._wrong(op, problem)

    def _wrong(self, op: Op, what: str) -> VerificationError:
        place = f" ({op.span.file}:{op.span.line}:{op.span.column})" if op.span else ""
        return VerificationError(f"kernel '{self.kernel.name}', operation '{op.name}'{place}: {what}")


def _check_names(kernel: Kernel) -> None:
    """Rule 4."""
    symbols = [known.args[0] for known in kernel.symbols]
    for what, names in (
        ("memory", [memory.name for memory in kernel.memories]),
        ("symbol", [name for name in symbols if not is_operand(name)]),
    ):
        for name in (name for name, count in Counter(names).items() if count > 1):
            raise VerificationError(f"kernel '{kernel.name}': {what} '{name}' is declared twice")
    for name in {dim for dim in map(dim_of_size, symbols) if dim} - kernel.all_sizes.keys():
        raise VerificationError(f"kernel '{kernel.name}': symbol '{size_name(name)}' is the size of no dim")
    for name in {scalar for scalar in map(scalar_of, symbols) if scalar} - dict(kernel.scalars).keys():
        raise VerificationError(f"kernel '{kernel.name}': symbol '{scalar_name(name)}' is of no scalar")


def _still_right(kernel: Kernel, before: Kernel | None) -> tuple[Set[int], Set[tuple[str, int]]]:
    """Which operations, by identity, and which attributes of operations of a name, were verified in ``before``, with no
    name less now than there was."""
    if before is None or before.level != kernel.level or not {*before.symbols} <= {*kernel.symbols}:
        return frozenset(), frozenset()
    if not {memory.name for memory in before.memories} <= {memory.name for memory in kernel.memories}:
        return frozenset(), frozenset()
    ops = list(before.walk())
    return set(map(id, ops)), {(op.name, id(op.attributes)) for op in ops}


def _miscounted(op: Op, declaration: Declaration) -> str | None:
    """What it has more or less of than the operation was declared with."""
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


def _mistaken_attribute(op: Op, declaration: Declaration) -> str | None:
    """What of the attributes is not as the operation was declared."""
    for key, value in op.attributes:
        if declaration.exact.get(key) is type(value):
            continue
        holds = declaration.holds.get(key)
        if holds is None:
            return f"it has no attribute '{key}'"
        if not holds(value):
            return f"its '{key}' is {value!r}, not {declaration.attributes[key].kind.value}"
    missing = declaration.needed.difference([key for key, _ in op.attributes])
    return f"it lacks '{min(missing)}'" if missing else None


def _unknown_name(op: Op, declaration: Declaration, memories: Collection[str], symbols: Set[str]) -> str | None:
    """A memory or a symbol that it names and the kernel does not have."""
    for key, value in op.attributes if declaration.naming else ():
        if key not in declaration.naming:
            continue
        kind = declaration.attributes[key].kind
        if kind is Kind.MEMORY and value and value not in memories:
            return f"memory '@{value}' does not exist"
        if kind is Kind.SYMBOL and value not in symbols:
            return f"symbol '{value}' is not declared"
    if op.symbols <= symbols:
        return None
    return f"symbol '{min(op.symbols - symbols)}' is not declared"
