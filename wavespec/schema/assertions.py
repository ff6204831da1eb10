"""A spec with `assert` goes in; the spec that writes where each of them fails to an output of its own comes out.

What is written is true where an assertion fails: outputs start as zeros, so that what a branch leaves out has not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from wavespec.diagnostics import raise_all
from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.checking.check_spec import check_kernel
from wavespec.schema.language.models import KernelSpec, Tensor
from wavespec.schema.ops import OPS, AnyOp, Assert, Structured, Write

_NOT = OPS["logical_not"]


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
    taken = {*spec.tensors, *spec.dims, *spec.params, *spec.scalars, *types}
    outputs: dict[str, Assert] = {}
    for number, op in enumerate(_assertions(spec.graph)):
        name = f"failed_{number}"
        while {name, _negated(name)} & taken:
            name += "_"
        outputs[name] = op
    if not outputs:
        return Asserted(spec, {})
    tensors = {name: Tensor(shape=types[op.value].dims, dtype="bool", role="output") for name, op in outputs.items()}
    graph = tuple(_written(spec.graph, iter(outputs)))
    plain = spec.model_copy(update={"tensors": {**spec.tensors, **tensors}, "graph": graph})
    raise_all(check_kernel(plain))
    return Asserted(plain, outputs)


def _assertions(body: Sequence[AnyOp]) -> Iterator[Assert]:
    for op in body:
        if isinstance(op, Assert):
            yield op
        for field in op.bodies if isinstance(op, Structured) else ():
            yield from _assertions(getattr(op, field))


def _written(body: Sequence[AnyOp], outputs: Iterator[str]) -> Iterator[AnyOp]:
    """The body with its assertions written to the ``outputs`` in turn."""
    for op in body:
        if isinstance(op, Structured):
            inside = {field: tuple(_written(getattr(op, field), outputs)) for field in op.bodies}
            yield op.model_copy(update=inside)
        elif isinstance(op, Assert):
            output = next(outputs)
            yield cast("AnyOp", _NOT.model_validate({"name": _negated(output), "operand": op.value}))
            yield Write(value=_negated(output), to=output)
        else:
            yield op


def _negated(output: str) -> str:
    return f"{output}_value"
