"""A spec with `assert` goes in; the spec that writes where each of them fails to an output of its own comes out.

What is written is true where an assertion fails: outputs start as zeros, so that what a branch leaves out has not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.further_outputs import unused_name, with_outputs
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.ops import OPS, AnyOp, Assert, Structured, Write, every

_NOT = OPS["logical_not"]
_NEGATED = "_value"
"""Behind the name of an output: what is written to it."""


class Asserted(NamedTuple):
    """``outputs``: of ``spec``, bool, with the assertion of whose failures each tells."""

    spec: KernelSpec
    outputs: Mapping[str, Assert]


def with_assertions(spec: KernelSpec) -> Asserted:
    """The spec with an output, behind its own, for every `assert`.

    Raises:
        WavespecError: a kernel for that cannot be.
    """
    types = plain_graph(spec)[1]
    names = {*spec.tensors, *spec.dims, *spec.params, *spec.scalars, *types}
    taken = names.union(name.removesuffix(_NEGATED) for name in names)
    outputs = {unused_name(f"failed_{number}", taken): op for number, op in enumerate(every(Assert, spec.graph))}
    if not outputs:
        return Asserted(spec, {})
    written = {name: types[op.value] for name, op in outputs.items()}
    return Asserted(with_outputs(spec, written, tuple(_written(spec.graph, iter(outputs)))), outputs)


def _written(body: Sequence[AnyOp], outputs: Iterator[str]) -> Iterator[AnyOp]:
    """The body with its assertions written to the ``outputs`` in turn."""
    for op in body:
        if isinstance(op, Structured):
            yield op.with_bodies(lambda inner: _written(inner, outputs))
        elif isinstance(op, Assert):
            output = next(outputs)
            negated = f"{output}{_NEGATED}"
            yield cast("AnyOp", _NOT.model_validate({"name": negated, "operand": op.value}))
            yield Write(value=negated, to=output)
        else:
            yield op
