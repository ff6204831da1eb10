"""The plain spec of a case goes in; the kernel that reduces parts of a dim, each by workgroups of its own, and those
that go on from what they have found, come out: plain specs like any other.

Of several loops over the dim, one after the other, each but the last is such a kernel, in which what those before it
have found is joined anew; the last one is reduced, or walked over, like one that is alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.kernels_of_parts import (
    IDENTITIES,
    KernelsOfParts,
    found_by_walking,
    free_axis,
    inner_loop,
    needed_for,
    reductions_of,
)
from wavespec.schema.language.base import Position
from wavespec.schema.language.models import KernelSpec, Schedule
from wavespec.schema.made_kernels import words_of
from wavespec.schema.ops import (
    AnyOp,
    Bitcast,
    Cast,
    Formula,
    Index,
    Iterate,
    Read,
    Reduce,
    Register,
    Scan,
    Size,
    Topk,
    Write,
    every,
    walk,
)
from wavespec.schema.ops.base import Op
from wavespec.schema.ops.elementwise import ELEMENTWISE
from wavespec.schema.ops.structured import Structured
from wavespec.schema.parts_of_scaled_sums import PartsOfScaledSums, has_scaled_sums

_ALONG = (Read, Formula, Cast, Bitcast, Register, Size, Reduce, Topk, Scan, Write, *ELEMENTWISE)
"""What a step may do of which each workgroup has a part."""
_MOST_AXES = 5
_LEAVE_OUT = "Leave out 'parts'."


class PartsNotPossible(WavespecError, code="parts-not-possible"):
    """A dim of which a kernel before cannot reduce the parts."""

    def __init__(self, where: Where, dim: str, why: str, hint: str) -> None:
        super().__init__(where, f"{quote(dim)} has no parts: {why}.", hints=[hint], about=[dim])


def parted(spec: KernelSpec, *, one_lane: bool = False) -> tuple[KernelSpec, ...]:
    """The kernel that makes what a loop over the dim of `parts` finds in each part, and those behind it.

    Where the loop writes, or carries what is made of something else that it carries, one walks over each part from what
    those before it have. Where what the loop carries is used behind it, one joins what all parts have found.

    Args:
        one_lane: a wave is one lane, of a target whose waves take turns.

    Raises:
        PartsNotPossible: another graph than one loop over the dim that carries reductions, at the schedule.
    """
    schedule = spec.schedule
    assert schedule is not None
    ((dim, count),) = schedule.parts.items()
    for why, hint in _obstacles(spec, schedule, dim):
        raise PartsNotPossible(schedule.where_key("parts", dim), dim, why, hint)
    loop, *later = (op for op in spec.graph if isinstance(op, Iterate) and op.dim == dim)
    span = schedule.key_span_of("parts", dim)
    if has_scaled_sums(spec, dim):
        scaled = PartsOfScaledSums(spec, dim, count)
        before = scaled.reducing()
        before.was_written_at({(): Position(span)} if span else {})
        return before, scaled.joining()
    kernels = KernelsOfParts(spec, dim, count, loop, by_bounds=one_lane)
    if not loop.carry:  # what it needs is known
        return (kernels.walking(),)
    before = kernels.reducing()
    before.was_written_at({(): Position(span)} if span else {})
    if later:
        return before, *parted(kernels.joining(before, goes_on=True), one_lane=one_lane)
    if not kernels.walks:
        return before, kernels.joining(before)
    walking = kernels.walking(before)
    if not kernels.are_joined:
        return before, walking
    walking.was_written_at({(): Position(span)} if span else {})
    return before, walking, kernels.joining(before, walking)


def may_have_parts(spec: KernelSpec, dim: str) -> bool:
    """Whether a kernel before can reduce parts of a dim, as far as the graph says; ``spec``: with a tile for it."""
    return not any(_obstacles(spec, Schedule(), dim))


def _obstacles(spec: KernelSpec, schedule: Schedule, dim: str) -> Iterator[tuple[str, str]]:
    """Why the parts of a dim cannot be reduced apart, each with what to do about it."""
    if schedule.materialize or (schedule.workgroups is not None and schedule.workgroups.split != 1):
        yield "the schedule has 'materialize' or 'split' as well", "Use one of them."
    if dim not in spec.dims:
        yield "it is no dim", "Name the dim of a loop."
        return
    loops = [op for op in spec.graph if isinstance(op, Iterate) and op.dim == dim]
    if not loops or sum(one.dim == dim for one in every(Iterate, spec.graph)) != len(loops):
        yield "that takes loops over it, in no other ones", _LEAVE_OUT
        return
    *first, loop = loops
    for one in loops:
        if any(bound is not None for bound in (one.start, one.end, one.step, one.until)):
            yield f"{quote(one.name)} does not take all of it", _LEAVE_OUT
    around = [op for op in spec.graph if op not in loops]
    if _has_elements(spec, dim, around):
        yield f"what is around {quote(loop.name)} has the dim as well", _LEAVE_OUT
    written = {op.to for op in every(Write, loop.body)}
    if written and loop.name not in {word for op in around for word in words_of(op)}:  # each part makes what is around
        for name in (op.to for op in every(Write, spec.graph) if op.to not in written):
            if spec.tensors[name].role == "inout":
                yield f"what is around {quote(loop.name)} changes {quote(name)} in place", _LEAVE_OUT
    if free_axis(spec.constraints) >= _MOST_AXES:
        yield "all axes of the grid are taken", "Let two dims share one."
    if not first and has_scaled_sums(spec, dim):
        return
    for one in first:
        yield from _in_front(spec, one, loops)
    for one in loops:
        yield from _in_body(spec, one)


def _has_elements(spec: KernelSpec, dim: str, ops: Sequence[AnyOp]) -> bool:
    """Whether statements have values with the dim, or ask where its elements are; its size is a number like any."""
    types = plain_graph(spec)[1]
    known = (types.get(getattr(op, "name", "")) for op in ops)
    return any(one is not None and dim in one.dims for one in known) or any(
        _names_elements(dim, op) for op in walk(ops)
    )


def _names_elements(dim: str, op: Op) -> bool:
    if isinstance(op, Formula):
        return re.search(rf"\bindex\({dim}\)", op.text) is not None
    return not isinstance(op, Structured | Size) and dim in words_of(op)


def _in_front(spec: KernelSpec, loop: Iterate, loops: Sequence[Iterate]) -> Iterator[tuple[str, str]]:
    """Why what a loop finds cannot be joined in front of a later one."""
    if any(every(Write, loop.body)) or found_by_walking(loop) or any(every(Topk, loop.body)) or not loop.carry:
        yield f"{quote(loop.name)} does more than join elements, in front of {quote(loops[-1].name)}", _LEAVE_OUT
    if any(spec.tensors[op.tensor].role == "inout" for one in loops for op in every(Read, one.body)):
        yield "loops read again what is changed in place", _LEAVE_OUT


def _in_body(spec: KernelSpec, loop: Iterate) -> Iterator[tuple[str, str]]:
    inner = inner_loop(loop)
    for op in loop.body if inner is None else inner.body:
        if not isinstance(op, _ALONG):
            yield f"{quote(loop.name)} has {quote(op.word)}", _LEAVE_OUT
        elif isinstance(op, Read | Write) and (op.at or getattr(op, "combine", None)):
            yield f"{quote(loop.name)} has a mapping, or combines", _LEAVE_OUT
        elif isinstance(op, Write) and loop.dim not in spec.tensors[op.to].shape:
            yield f"each step of {quote(loop.name)} writes all of {quote(op.to)}", _LEAVE_OUT
        elif isinstance(op, Scan) and op.reverse:
            yield f"{quote(op.name)} goes backwards", _LEAVE_OUT
    if any(one.dim == loop.dim for one in every(Index, plain_graph(spec)[0])):
        yield "its elements ask for their place", _LEAVE_OUT
    made = reductions_of(loop)
    if inner is not None:
        yield from _in_nest(loop, inner, made)
        return
    largest = [op for op in loop.body if isinstance(op, Topk)]
    yield from _of_largest(spec, loop, largest, needed_for(loop, loop.carry))
    walked, places = found_by_walking(loop), {name for op in largest for name in (op.name, op.indices)}
    for name in loop.carry:
        if name in places:
            continue
        # What the walk finds of a part is not all that there is: nothing else of the step may take it.
        op, needed = made.get(name), loop.body if name in walked else needed_for(loop, [name])
        uses = sum(words_of(one).count(name) for one in needed)
        if op is None or op.init != name or uses != 1 or loop.dim not in op.along or len(op.values) != 1:
            yield f"{quote(name)} is not only what a reduction has so far", _LEAVE_OUT
        elif op.word not in IDENTITIES:
            yield f"parts of {quote(op.word)} cannot be joined by it", "Use 'sum', 'prod', 'max' or 'min'."
    if made.keys() - loop.carry.keys():
        yield f"{quote(loop.name)} reduces what it does not carry", _LEAVE_OUT


def _in_nest(loop: Iterate, inner: Iterate, made: Mapping[str, Reduce]) -> Iterator[tuple[str, str]]:
    """Why what a loop in a loop finds, in which the outer one does nothing else, is not joined part by part."""
    if any(bound is not None for bound in (inner.start, inner.end, inner.step, inner.until)):
        yield f"{quote(inner.name)} does not take all of its dim", _LEAVE_OUT
    if loop.carry and any(every(Write, inner.body)):
        yield f"{quote(inner.name)} writes beside what it joins", _LEAVE_OUT
    for name in loop.carry:
        op = made.get(name)
        words = [word for one in inner.body for word in words_of(one)]
        if op is None or op.init != op.name or words.count(op.name) != 1 or loop.dim not in op.along:
            yield f"{quote(name)} is not only what a reduction has so far", _LEAVE_OUT
        elif len(op.values) != 1 or op.word not in IDENTITIES:
            yield f"parts of {quote(op.word)} cannot be joined by it", "Use 'sum', 'prod', 'max' or 'min'."
    if len(made) != len([op for op in inner.body if isinstance(op, Reduce | Scan | Topk)]):
        yield f"{quote(inner.name)} joins what it does not carry", _LEAVE_OUT


def _of_largest(
    spec: KernelSpec, loop: Iterate, found: list[Topk], needed: Sequence[AnyOp]
) -> Iterator[tuple[str, str]]:
    """Why the largest elements of parts are not those of the dim, or cannot be joined with what else is carried."""
    for op in found:
        uses = [word for one in needed for word in words_of(one) if word in (op.name, op.indices)]
        if op.init != (op.name, op.indices) or op.dim != loop.dim or len(uses) != 3 or op.places is not None:
            yield f"{quote(op.name)} does not go on from elements and places of {quote(loop.dim)} alone", _LEAVE_OUT
        elif spec.dims[op.k].value is None:
            yield f"{quote(op.k)} has no size of its own", f"Give it one: '{op.k}: {{value: 8}}'."
    if found and (len(loop.carry) != 2 * len(found) or len({op.k for op in found}) > 1 or any(every(Write, loop.body))):
        yield f"{quote(loop.name)} does more than 'topk' of one {quote(found[0].k)}", _LEAVE_OUT
