"""A spec with `atomic` goes in; the spec that writes what each of them finds to outputs of its own comes out.

In which order the elements of an `atomic` come, nobody knows before a call. Its results are explained by what it found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.further_outputs import unused_name, with_outputs
from wavespec.schema.language.expressions import Expression
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.ops import AnyOp, Atomic, Structured, ValueOp, Write, Written, every
from wavespec.schema.ops.base import ValueType


class Observed(NamedTuple):
    """``outputs``: by the name of each `atomic` where ``spec`` writes what it found, the value, and what it expected,
    which is the value again where it expects nothing."""

    spec: KernelSpec
    outputs: Mapping[str, tuple[str, str, str]]


def with_old_values(spec: KernelSpec) -> Observed:
    """The spec with outputs, behind its own, for what every `atomic` finds and combines.

    Raises:
        WavespecError: a kernel for that cannot be.
    """
    found, types = list(every(Atomic, spec.graph)), plain_graph(spec)[1]
    taken = {*spec.tensors, *spec.dims, *spec.params, *spec.scalars, *types}
    outputs: dict[str, tuple[str, str, str]] = {}
    written: dict[str, ValueType] = {}
    for number, op in enumerate(found):
        old, value, expected = (unused_name(f"{what}_{number}", taken) for what in ("old", "value", "expected"))
        outputs[op.name] = (old, value, value if op.expected is None else expected)
        written |= dict.fromkeys(outputs[op.name], types[op.name])
    if not found:
        return Observed(spec, {})
    return Observed(with_outputs(spec, written, tuple(_written(spec.graph, outputs))), outputs)


def _written(body: Sequence[AnyOp], outputs: Mapping[str, tuple[str, str, str]]) -> Iterator[AnyOp]:
    for op in body:
        if isinstance(op, Structured):
            yield op.with_bodies(lambda inner: _written(inner, outputs))
            continue
        yield op
        if isinstance(op, Atomic):
            old, value, expected = outputs[op.name]
            yield Write(value=op.name, to=old)
            yield Write(value=op.value, to=value)
            if op.expected is not None:
                yield Write(value=op.expected, to=expected)


def order_dependent(spec: KernelSpec) -> frozenset[str]:
    """The tensors that may hold something else where elements of an `atomic` come in another order: what follows from
    old values, in any way, and what elements replace."""
    tensors: set[str] = set()
    if not any(every(Atomic, spec.graph)):
        return frozenset()
    _follow(plain_graph(spec)[0], set(), tensors, is_told=False)
    return frozenset(tensors)


_LEAVES_ONE = ("exchange", "compare_and_swap")
"""What leaves at a place what came there last, or first."""


def _follow(body: Sequence[AnyOp], names: set[str], tensors: set[str], *, is_told: bool) -> None:
    """Add to ``names`` and ``tensors`` what follows from old values; ``is_told``: whether these decide what is done."""
    for op in body:
        follows = is_told or not names.isdisjoint(_names_in(op))
        if isinstance(op, Structured):
            inside = names.union(op.carry if follows else ())
            for field in (*op.bodies, *op.bodies):  # what a step makes, the next one has
                _follow(getattr(op, field), inside, tensors, is_told=follows)
            follows |= inside > names
        if isinstance(op, Written) and (follows or op.combination in _LEAVES_ONE):
            tensors.add(op.to)
        if isinstance(op, Atomic) or (follows and isinstance(op, ValueOp)):
            names |= {op.name, *(str(getattr(op, field)) for field in op.further)}


def _names_in(op: AnyOp) -> set[str]:
    """Every name that a statement uses, but not those of its bodies; of `loop.name`, that of the loop."""
    bodies = op.bodies if isinstance(op, Structured) else ()
    fields = (getattr(op, field) for field in type(op).model_fields if field not in (*bodies, "op", "name"))
    return {name.partition(".")[0] for field in fields for name in _names_of(field)}


def _names_of(field: Any) -> Iterator[str]:
    if isinstance(field, str):
        yield field
    elif isinstance(field, Expression):
        yield from field.names()
    elif isinstance(field, Mapping | Sequence):
        held: Any = field.values() if isinstance(field, Mapping) else field  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        for one in held:
            yield from _names_of(one)
