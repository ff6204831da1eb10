"""A spec with its graph in; out come the reads of tensors changed in place that may find what was written already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wavespec.diagnostics import Related, Span, WavespecError, Where, quote
from wavespec.schema.language.constraints import Wave, Workgroup
from wavespec.schema.language.models import KernelSpec, Override, Tensor
from wavespec.schema.ops import AnyOp, Iterate, Read, Structured, Written


class ReadOfInout(WavespecError, code="read-of-inout"):
    def __init__(self, where: Where, tensor: str, why: str, hint: str, write: Span | None = None) -> None:
        super().__init__(
            where,
            f"{quote(tensor)} is changed in place, and {why}: what this finds depends on who is first.",
            hints=[hint],
            related=[Related(write, "the write")] if write else [],
        )


@dataclass(frozen=True, slots=True)
class _Access:
    """``body``: the statements that it is one of, at this ``place``; ``loops``: the dims of those around."""

    op: Read | Written
    body: Sequence[AnyOp]
    place: int
    loops: tuple[str, ...]


def check_in_place(spec: KernelSpec) -> Iterator[WavespecError]:
    """Reads of ``inout`` tensors, each element of which has to be read by those alone who write it, before they do.

    That is so where the read and the only write go through the same places of the same tiles, one in front of the
    other, and the tensor has every dim that tells tiles, waves and steps apart.
    """
    accesses = [one for one in _accesses(spec.graph, ()) if spec.tensors[_tensor(one.op)].role == "inout"]
    writes = {_tensor(one.op): one for one in accesses if isinstance(one.op, Written)}
    for one in accesses:
        name = _tensor(one.op)
        if isinstance(one.op, Read) and name in writes:
            found = next(_reasons(spec, spec.tensors[name], one, writes[name]), None)
            if found is not None:
                yield ReadOfInout(one.op.where("tensor"), name, *found, writes[name].op.span_of("to"))


def _reasons(spec: KernelSpec, tensor: Tensor, read: _Access, write: _Access) -> Iterator[tuple[str, str]]:
    """Why a read may find what was written, and what would help."""
    assert isinstance(read.op, Read) and isinstance(write.op, Written)
    if write.op.at or write.op.combination:
        what = "combined" if write.op.combination else "written at other places"
        yield f"elements of it are {what}", "Read what it held from a copy that is an input."
    if read.op.at or (read.op.dims or tensor.shape) != tensor.shape:
        yield "read at other places than it is written", "Leave out 'at' and 'dims', or read a copy that is an input."
    if read.body is not write.body:
        yield "written in another body", "Read it in the body that writes it."
    if read.place > write.place:
        yield "written before", "Put the read in front of the write."
    for dim in (*read.loops, *_dims_that_split(spec)):
        if dim not in tensor.shape:
            hint = f"Give it the dim {quote(dim)}, or write the result to an output of its own."
            yield f"lacks the dim {quote(dim)}, along which every tile reads and writes all of it", hint
    for settings in (spec, *_overrides(spec)):
        space = settings.tensors.get(_tensor(read.op))
        if space is not None and space.space == "shared":
            yield "others copy its tiles into shared memory", "Leave out 'space: shared'."
        workgroups = settings.schedule.workgroups if settings.schedule else None
        if workgroups is not None and workgroups.split > 1:
            yield "'split' has several workgroups read its tiles", "Leave out 'split'."


def _dims_that_split(spec: KernelSpec) -> Iterator[str]:
    """The dims that some target splits over workgroups or waves."""
    for constraints in (spec.constraints, *(one.constraints or () for one in _overrides(spec))):
        yield from (one.dim for one in constraints if isinstance(one, Workgroup | Wave))


def _overrides(spec: KernelSpec) -> list[Override]:
    return [one for target in spec.targets.values() for one in (target, *target.cases)]


def _accesses(body: Sequence[AnyOp], loops: tuple[str, ...]) -> Iterator[_Access]:
    for place, op in enumerate(body):
        if isinstance(op, Read | Written):
            yield _Access(op, body, place, loops)
        elif isinstance(op, Structured):
            inside = (*loops, op.dim) if isinstance(op, Iterate) else loops
            for field in op.bodies:
                yield from _accesses(getattr(op, field), inside)


def _tensor(op: Read | Written) -> str:
    return op.tensor if isinstance(op, Read) else op.to
