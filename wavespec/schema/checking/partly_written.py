"""A checked spec in, the outputs out of which a call may leave elements unwritten."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, product
from math import prod
from random import Random
from typing import TypeAlias

from wavespec.schema.language.constraints import AnyConstraint, Assume, Tiling, Workgroup
from wavespec.schema.language.expressions import Call, EvaluationError, Expression, Name, Num
from wavespec.schema.language.models import Dim, KernelSpec
from wavespec.schema.ops import AnyOp, Branch, Iterate, Repeat, Write
from wavespec.schema.ops.mapping import index_names, values_of
from wavespec.schema.ops.structured import Structured
from wavespec.schema.resolve import complete_sizes, resolve_params

_Steps: TypeAlias = Mapping[str, Expression]
"""How many steps a loop around has, by the name of their number."""
_DRAWS, _ENOUGH = 200, 16
"""How often small sizes are drawn, and how many of them that fit together are enough."""
_NEAR, _DOUBLED = 3, 50
"""How far from others they are, and after how many draws twice as far: windows with gaps fit into no small image."""
_MOST_PLACES, _LARGEST_NUMBER = 1 << 14, 64
"""Places of a write that are computed at all sizes together, the fewest first; sizes near larger numbers are large."""


def partly_written(spec: KernelSpec) -> frozenset[str]:
    """Outputs with elements that may be written by nobody: they start as zeros.

    Places of a write depend on values, or it stands in a branch, or in a loop that leaves out steps, or values say
    where tiles of workgroups end; or its places follow from sizes, and some small sizes, an empty dim among them,
    show elements that none of them is.
    """
    known, bounded = (*spec.dims, *spec.params), frozenset(_bounded(spec))
    are_all_there = not any(isinstance(one, Workgroup) and one.end is not None for one in _constraints(spec))

    def leaves_out(write: Write, steps: _Steps, *, is_sure: bool) -> bool:
        if not is_sure or values_of(write.at, (*known, *steps), {}):
            return True
        if any(name not in known for count in steps.values() for name in count.names()):
            return True
        return bool(write.at) and not _covers_all(spec, write, steps)

    return frozenset(
        write.to
        for write, steps, is_sure in _writes(spec.graph, bounded, {}, is_sure=are_all_there)
        if spec.tensors[write.to].role == "output" and leaves_out(write, steps, is_sure=is_sure)
    )


def _bounded(spec: KernelSpec) -> Iterator[str]:
    """Dims of which loops leave out steps because a tiling says so."""
    return (one.dim for one in _constraints(spec) if isinstance(one, Tiling) and (one.start or one.count))


def _constraints(spec: KernelSpec) -> Iterator[AnyConstraint]:
    """Of the kernel, and of any target."""
    overrides = [one for target in spec.targets.values() for one in (target, *target.cases)]
    for constraints in (spec.constraints, *(one.constraints or () for one in overrides)):
        yield from constraints


def _writes(
    statements: Iterable[AnyOp], bounded: Container[str], steps: _Steps, *, is_sure: bool
) -> Iterator[tuple[Write, _Steps, bool]]:
    """Every write, how many steps of which numbers there are around it, and whether all are done in every call."""
    for statement in statements:
        if isinstance(statement, Write):
            yield statement, steps, is_sure
        if isinstance(statement, Structured):
            whole = is_sure and not (isinstance(statement, Branch) or _leaves_out(statement, bounded))
            inner = steps
            if isinstance(statement, Repeat) and statement.index is not None:
                inner = {**steps, statement.index: statement.steps}
            for field in statement.bodies:
                yield from _writes(getattr(statement, field), bounded, inner, is_sure=whole)


def _leaves_out(loop: Structured, bounded: Container[str]) -> bool:
    if isinstance(loop, Repeat):
        return loop.until is not None
    if not isinstance(loop, Iterate):
        return False
    return loop.dim in bounded or any((loop.start, loop.end, loop.step, loop.until))


def _covers_all(spec: KernelSpec, write: Write, steps: _Steps) -> bool:
    """Whether `write` reaches every element at all small sizes that are tried: some around each number in its places,
    so that remainders, quotients and limits by it show."""
    params = resolve_params(spec)
    nodes = [node for place in write.at.values() for node in place.walk()]
    numbers = {int(node.value) for node in nodes if isinstance(node, Num)}
    numbers |= {params[node.name] for node in nodes if isinstance(node, Name) and node.name in params}
    if max(map(abs, numbers), default=0) > _LARGEST_NUMBER:
        return False
    tried = list(_small_sizes(spec, sorted(numbers)))
    tried += _with_empty_dims(spec, tried)
    counted = [_with_steps(one, steps, params) for one in tried]
    sizes = sorted(counted, key=lambda one: max(_counts(spec, write, one)))
    places = accumulate(max(_counts(spec, write, one)) for one in sizes)
    few = [one for one, so_far in zip(sizes, places, strict=True) if so_far <= _MOST_PLACES]
    found = [_covers(spec, params, write, one) for one in few]
    return True in found and False not in found


def _small_sizes(spec: KernelSpec, numbers: Sequence[int]) -> Iterator[dict[str, int]]:
    """Sizes of all dims, near the smallest that each may have or near one of `numbers`; the same ones every time."""
    random, found = Random(0), 0
    for draw in range(_DRAWS):
        far = _NEAR << draw // _DOUBLED
        sizes = dict[str, int]()
        for name, dim in spec.dims.items():
            if dim.value is None and dim.equals is None:
                near = random.choice((dim.min, *numbers)) // dim.multiple_of
                size = dim.multiple_of * max(near + random.randint(0, far), 1)
                sizes[name] = size if dim.max is None else min(size, dim.max)
        for name, scalar in spec.scalars.items():
            if not scalar.is_float:
                least, most = scalar.limits
                sizes[name] = min(max(least, 0) + random.randint(0, 3), most)
        try:
            whole = complete_sizes(spec, sizes)
        except ValueError:
            continue
        if all(whole[name] > 0 for name in spec.dims) and _are_allowed(spec, whole):
            found += 1
            yield whole
        if found == _ENOUGH:
            return


def _with_empty_dims(spec: KernelSpec, tried: Sequence[Mapping[str, int]]) -> Iterator[dict[str, int]]:
    """The first sizes of `tried` with one dim after the other of size 0."""
    derived = {name for name, dim in spec.dims.items() if dim.equals is not None}
    given = [name for name in spec.dims if name not in derived]
    for name, sizes in product(given, tried[:1]):
        try:
            whole = complete_sizes(spec, {one: sizes[one] for one in sizes.keys() - derived} | {name: 0})
        except (ValueError, ArithmeticError):
            continue
        if _are_allowed(spec, whole):
            yield whole


def _with_steps(sizes: Mapping[str, int], steps: _Steps, params: Mapping[str, int]) -> dict[str, int]:
    """Sizes of dims, and beside them how many numbers a step may have."""
    known = {**params, **sizes, **{f"size({dim})": size for dim, size in sizes.items()}}
    return {**sizes, **{name: max(0, int(count.evaluate(known))) for name, count in steps.items()}}


def _are_allowed(spec: KernelSpec, sizes: Mapping[str, int]) -> bool:
    """Whether a call may have these sizes, as far as dims and assumptions of sizes alone say."""
    known = {**resolve_params(spec), **sizes}
    assumed = (one.condition for one in spec.constraints if isinstance(one, Assume))
    return all(_is_allowed(dim, sizes[name]) for name, dim in spec.dims.items()) and all(
        _holds(condition, known) for condition in assumed if known.keys() >= set(condition.names())
    )


def _holds(condition: Expression, known: Mapping[str, int]) -> bool:
    try:
        return bool(condition.evaluate(known))
    except EvaluationError:  # it divides by an empty dim
        return False


def _is_allowed(dim: Dim, size: int) -> bool:
    return dim.value in (None, size) and size >= dim.min and size % dim.multiple_of == 0


def _counts(spec: KernelSpec, write: Write, sizes: Mapping[str, int]) -> tuple[int, int]:
    """Elements along the dims that have places, and indices that those are computed of."""
    return prod(sizes[dim] for dim in _with_places(spec, write)), prod(sizes[name] for name in _indices(write, sizes))


def _with_places(spec: KernelSpec, write: Write) -> list[str]:
    return [dim for dim in spec.tensors[write.to].shape if dim in write.at]


def _indices(write: Write, sizes: Mapping[str, int]) -> list[str]:
    """The names in places that count elements of a dim, or steps."""
    return sorted({name for place in write.at.values() for name in index_names(place) if name in sizes})


def _covers(spec: KernelSpec, params: Mapping[str, int], write: Write, sizes: Mapping[str, int]) -> bool | None:
    """Whether every element is reached along the dims that have places; none where there are no elements, which shows
    nothing."""
    dims, names = _with_places(spec, write), _indices(write, sizes)
    elements, indices = _counts(spec, write, sizes)
    if elements == 0:
        return None
    if indices == 0:  # beside the 0 there may be sizes that `product` has no memory for
        return False
    places = tuple([write.at[dim] for dim in dims])
    known = {**params, **{f"size({dim})": size for dim, size in sizes.items()}}
    used = {str(node) for place in places for node in place.walk() if isinstance(node, Name | Call)}
    reached = _are_all_reached(
        places,
        tuple([sizes[dim] for dim in dims]),
        tuple([(name, sizes[name]) for name in names]),
        tuple([(name, value) for name, value in known.items() if name in used]),
    )
    return (None if 0 in sizes.values() else False) if reached is None else reached


# The cases of a kernel, and its targets, mostly write to the same places.
@lru_cache(maxsize=1 << 10)
def _are_all_reached(
    places: Sequence[Expression],
    extents: Sequence[int],
    counts: Sequence[tuple[str, int]],
    known: Sequence[tuple[str, int]],
) -> bool | None:
    """Whether some indices, which count so far, have every element of so many along each dim for their places; none
    where a place has no value."""
    missed, at = set(product(*map(range, extents))), dict(known)
    for index in product(*(range(count) for _, count in counts)):
        at.update(zip((name for name, _ in counts), index, strict=True))
        try:
            missed.discard(tuple([int(place.evaluate(at)) for place in places]))
        except EvaluationError:  # it may divide by the size of an empty dim
            return None
    return not missed
