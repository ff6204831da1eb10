"""A spec with its graph in; out come the reads of tensors changed in place that may find what was written already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from wavespec.diagnostics import Related, Span, WavespecError, Where, quote
from wavespec.schema.language.constraints import Wave, Workgroup
from wavespec.schema.language.models import KernelSpec, Override, Tensor
from wavespec.schema.ops import AnyOp, Iterate, Read, Structured, Written

_Path: TypeAlias = "tuple[tuple[Sequence[AnyOp], int], ...]"


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
    """``path``: the bodies that it is in, outermost first, and its place in each; ``loops``: the dims walked over."""

    op: Read | Written
    path: _Path
    loops: tuple[str, ...]


def check_in_place(spec: KernelSpec) -> Iterator[WavespecError]:
    """Reads of ``inout`` tensors, each element of which has to be read by those alone who write it, before they do.

    That is so where the read and the only write go through the same places of the same tiles, one in front of the
    other or in a loop in front of one that takes the same steps, and the tensor has every dim that tells tiles, waves
    and steps apart: a lane has the same elements in both, and is done with a loop before it starts the next one.
    """
    accesses = [one for one in _accesses(spec.graph, (), ()) if spec.tensors[_tensor(one.op)].role == "inout"]
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
    levels = enumerate(zip(read.path, write.path, strict=False))
    apart = next(at for at, (one, other) in levels if one[0] is not other[0] or one[1] != other[1])
    if not _take_the_same_steps(read.path[apart:], write.path[apart:]):
        yield "written in another body", "Read it in the body that writes it, or in a loop with the same steps before."
    if read.path[apart][1] > write.path[apart][1]:
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


def _take_the_same_steps(read: _Path, write: _Path) -> bool:
    """Whether two accesses, of which one body has both or what they are in, are in loops alike down from there."""
    loops = [tuple(body[place] for body, place in path[:-1]) for path in (read, write)]
    if len(read) != len(write) or read[0][0] is not write[0][0]:
        return False
    for one, other in zip(*loops, strict=True):
        if not (isinstance(one, Iterate) and isinstance(other, Iterate)) or one.until is not None:
            return False
        if any(getattr(one, field) != getattr(other, field) for field in ("dim", "start", "end", "step", "until")):
            return False
    return True


def _dims_that_split(spec: KernelSpec) -> Iterator[str]:
    """The dims that some target splits over workgroups or waves."""
    for constraints in (spec.constraints, *(one.constraints or () for one in _overrides(spec))):
        yield from (one.dim for one in constraints if isinstance(one, Workgroup | Wave))


def _overrides(spec: KernelSpec) -> list[Override]:
    return [one for target in spec.targets.values() for one in (target, *target.cases)]


def _accesses(body: Sequence[AnyOp], around: _Path, loops: tuple[str, ...]) -> Iterator[_Access]:
    for place, op in enumerate(body):
        path = (*around, (body, place))
        if isinstance(op, Read | Written):
            yield _Access(op, path, loops)
        elif isinstance(op, Structured):
            inside = (*loops, op.dim) if isinstance(op, Iterate) else loops
            for field in op.bodies:
                yield from _accesses(getattr(op, field), path, inside)


def _tensor(op: Read | Written) -> str:
    return op.tensor if isinstance(op, Read) else op.to
