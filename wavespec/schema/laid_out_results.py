"""A spec whose output its schedule lays out in another order goes in; the spec that writes it so, and the kernel behind
it that writes the output, come out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wavespec.schema.checking.partly_written import partly_written
from wavespec.schema.language.index_parser import parse_index
from wavespec.schema.language.models import KernelSpec, Tensor
from wavespec.schema.made_kernels import laid_out, made_name
from wavespec.schema.ops import AnyOp, Read, Structured, Write, every


def obstacles(spec: KernelSpec, name: str) -> Iterator[tuple[str, str]]:
    """Why an output cannot be written in another order first, each with what to do about it."""
    leave_out = "Leave it out."
    if sum(tensor.role != "input" for tensor in spec.tensors.values()) > 1:
        yield "the kernel writes other tensors as well", leave_out
    if spec.tensors[name].role == "inout":
        yield "the kernel changes it in place", leave_out
    if spec.tensors[name].is_strided:
        yield "it may have any strides", leave_out
    if any(op.tensor == name for op in every(Read, spec.graph)):
        yield "the kernel reads it", leave_out
    if name in partly_written(spec):
        yield "some of its elements may be written by nobody", leave_out


def with_result_behind(
    spec: KernelSpec, name: str, dims: tuple[str, ...], *, one_lane: bool
) -> tuple[KernelSpec, KernelSpec]:
    """The spec that writes ``name``, its only output, with these dims in this order to a tensor of its own, and the
    kernel that writes the output of that, called as the spec is."""
    output, schedule = spec.tensors[name], spec.schedule
    assert schedule is not None
    made = made_name(spec, name)
    tensor = Tensor(shape=dims, dtype=output.dtype, role="output", space=output.space)
    left = {one: own for one, own in schedule.materialize.items() if one != name}
    writing = spec.model_copy(
        update={
            "name": f"{spec.name}_{name}",
            "tensors": {one: known for one, known in spec.tensors.items() if one != name} | {made: tensor},
            "graph": _written_to(spec.graph, name, made, output.shape),
            "schedule": schedule.model_copy(update={"materialize": left}),
        }
    )
    read = tensor.model_copy(update={"role": "input", "space": "global"})
    reading = spec.model_copy(update={"tensors": {**spec.tensors, made: read}})
    behind = laid_out(reading, made, {name: output}, one_lane=one_lane)
    return writing, behind.model_copy(update={"name": spec.name, "doc": spec.doc, "params": spec.params})


def _written_to(body: Sequence[AnyOp], name: str, made: str, shape: tuple[str, ...]) -> tuple[AnyOp, ...]:
    """The graph that writes to ``made`` what it would write to ``name``, of this shape."""

    def changed(op: AnyOp) -> AnyOp:
        if isinstance(op, Structured):
            return op.with_bodies(lambda inner: _written_to(inner, name, made, shape))
        if isinstance(op, Write) and op.to == name:
            at = op.at or {dim: parse_index(dim) for dim in shape}
            return op.model_copy(update={"to": made, "at": at})
        return op

    return tuple(map(changed, body))
