"""An input, or what makes a value, goes in; the plain spec of a kernel that writes it to a tensor of its own comes out.

Inputs are laid out anew by a transposition; a value is made element by element.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final, cast

from wavespec.ir.dtype import DTYPES, SCALED_PRODUCT
from wavespec.schema.filled_dims import filled_dims, with_filled
from wavespec.schema.language.base import SpecModel
from wavespec.schema.language.constraints import AnyConstraint, Hardware, HardwareSettings, Wave, Workgroup
from wavespec.schema.language.dtypes import DType
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.expressions import Expression, Num
from wavespec.schema.language.index_parser import parse_index
from wavespec.schema.language.models import Dim, KernelSpec, Tensor
from wavespec.schema.ops import AnyOp, Formula, Read, ValueOp, Write, walk

_ROW, _ROWS = 512, 8
"""The tile of a value; each wave has a row of it, 16 elements for each of 32 lanes."""
_SIDE, _WAVES, _LEAST_SIDE = 64, 4, 8
"""The tile of a transposition is a square, of which each wave has a part."""
_BYTE_BITS = 8
_BLOCK, _BLOCKS_SIDE, _BLOCKS_WAVE = 16, 128, 64
"""Bytes of a side of what a lane turns in its registers, by widest accesses; of the tile of all lanes; and of that of a
wave along what lies side by side afterwards."""
_WORD: Final = re.compile(r"[^\W\d]\w*")


def made_name(spec: KernelSpec, name: str) -> str:
    """The tensor that holds what is called `name`."""
    return free_name(spec, f"{name}_made")


def free_name(spec: KernelSpec, name: str) -> str:
    """The name, or one like it, that means nothing in ``spec``."""
    taken = {
        *spec.dims,
        *spec.params,
        *spec.tensors,
        *spec.scalars,
        *(getattr(op, "name", "") for op in walk(spec.graph)),
    }
    while name in taken:
        name += "_"
    return name


def times_scale(spec: KernelSpec, name: str, scale: str) -> Formula:
    """A value times its scales, of the type that a product of both would have it in."""
    text = f"{SCALED_PRODUCT}({name}) * {SCALED_PRODUCT}({scale})"
    return Formula(name=free_name(spec, f"{name}_times_{scale}"), text=text)


def decoded(spec: KernelSpec, name: str) -> Formula:
    """A value of the type that a product with scales would have it in."""
    return Formula(name=free_name(spec, f"{name}_decoded"), text=f"{SCALED_PRODUCT}({name})")


def words_of(part: object) -> list[str]:
    """The names in what an op says, as often as they are there, without its own."""
    if isinstance(part, str):
        return _WORD.findall(part)
    if isinstance(part, Expression):
        return list(part.names())
    if isinstance(part, SpecModel):
        inner = [getattr(part, field) for field in type(part).model_fields if field not in ("name", "op")]
    elif isinstance(part, Mapping):
        inner = list(cast("Mapping[str, object]", part).values())
    else:
        inner = list(cast("tuple[object, ...]", part)) if isinstance(part, tuple) else []
    return [word for one in inner for word in words_of(one)]


def writing_value(
    spec: KernelSpec,
    name: str,
    ops: Sequence[ValueOp],
    type_: tuple[tuple[str, ...], DType],
    dims: tuple[str, ...],
    written: Formula | None = None,
    *,
    one_lane: bool = False,
) -> KernelSpec:
    """The kernel that makes a value by ``ops``, and writes it, or what ``written`` makes of it.

    Args:
        type_: the dims and the element type of what is written.
        dims: those of the tensor, in order.
        one_lane: whether waves of the machine are one lane. It takes whole vectors of what has another dim side by
            side, and turns them, where others read an element each.
    """
    own, dtype = type_
    graph: list[AnyOp] = list(cast("Sequence[AnyOp]", ops))
    result, made = name, made_name(spec, name)
    if written is not None:
        result = written.name
        graph.append(written)
    at = {} if dims == own else {dim: parse_index(dim) for dim in dims}
    graph.append(Write(value=result, to=made, at=at))
    read = {one.tensor for one in ops if isinstance(one, Read)}
    tensors = {
        one: tensor.model_copy(update={"space": "global"}) for one, tensor in spec.tensors.items() if one in read
    }
    tensors[made] = Tensor(shape=dims, dtype=dtype, role="output")
    tiles = _tiles_of_rows(dims)
    across = _read_across(spec, ops, dims) if one_lane else {}
    if across:
        groups, whole = [(dim,) for dim in dims], {(dim,): dim for dim in dims}
        (side,) = set(across.values())
        tiles = _tiles_of_turn(groups, _sides_of_turn(spec, (side,), groups[-1], one_lane=True), whole)
        tensors |= {one: tensors[one].model_copy(update={"space": "shared"}) for one in across}
    return plain_kernel(spec, name, tensors, graph, tiles)


def _read_across(spec: KernelSpec, ops: Sequence[ValueOp], dims: tuple[str, ...]) -> dict[str, str]:
    """The tensors that have another dim side by side than ``dims``, whose last one they have too, and that dim; none
    where these are several dims."""
    found: dict[str, str] = {}
    for op in ops:
        if isinstance(op, Read) and not op.at:
            shape = spec.tensors[op.tensor].shape
            if shape[-1] != dims[-1] and {shape[-1], dims[-1]} <= {*shape} & {*dims}:
                found[op.tensor] = shape[-1]
    return found if len({*found.values()}) == 1 else {}


def writing_input(spec: KernelSpec, name: str, dims: tuple[str, ...], *, one_lane: bool = False) -> KernelSpec:
    """The kernel that writes an input with another order of its dims."""
    made = Tensor(shape=dims, dtype=spec.tensors[name].dtype, role="output")
    return laid_out(spec, name, {made_name(spec, name): made}, one_lane=one_lane)


def laid_out(spec: KernelSpec, name: str, output: Mapping[str, Tensor], *, one_lane: bool) -> KernelSpec:
    """The kernel that writes a tensor to one with another order of its dims; those that stay side by side are one to
    it.

    Args:
        one_lane: whether waves of the machine are one lane. What it writes has then one dim for those that are last,
            along which vectors lie; the launch, which gives an address and sizes, does not mind.
    """
    tensor = spec.tensors[name]
    ((made, written),) = output.items()
    filled = filled_dims(spec.dims, tensor.shape, written.shape)
    shape = with_filled(tensor.shape, filled)
    groups = _side_by_side(shape, written.shape)
    whole = {group: group[0] if len(group) == 1 else free_name(spec, "_".join(group)) for group in groups}
    turned = free_name(spec, "turned")
    at = {dim: place for group, one in whole.items() if len(group) > 1 for dim, place in _places(group, one).items()}
    row = next(group for group in groups if group[-1] == shape[-1])
    sides = (row, groups[-1])
    is_turned = row != groups[-1] and all(_most_elements(spec, side) != 1 for side in sides)
    in_blocks = is_turned and all(_has_blocks(spec, side, tensor) for side in sides)
    tensors = {
        name: tensor.model_copy(update={"space": "shared" if is_turned and not in_blocks else "global"}),
        made: written,
    }
    written_at = at
    if at and (len(groups[-1]) > 1 or not one_lane):
        tensors[made], written_at = written.model_copy(update={"shape": tuple(whole.values())}), {}
    read_at = {filled.get(dim, dim): place for dim, place in at.items()}
    read_at |= {source: parse_index(dim) for dim, source in filled.items() if dim not in at}
    graph: list[AnyOp] = [
        Read(name=turned, tensor=name, dims=tuple(whole.values()), at=read_at),
        Write(value=turned, to=made, at=written_at),
    ]
    if in_blocks:
        tiles = _tiles_of_blocks(groups, row, whole)
    elif is_turned:
        tiles = _tiles_of_turn(groups, _sides_of_turn(spec, row, groups[-1], one_lane=one_lane), whole)
    else:
        tiles = _tiles_of_rows(tuple(whole.values()))
    own = {one: Dim(equals=parse_expression(" * ".join(group))) for group, one in whole.items() if len(group) > 1}
    return plain_kernel(spec, name, tensors, graph, tiles, own)


def _side_by_side(before: Sequence[str], after: Sequence[str]) -> list[tuple[str, ...]]:
    """The dims in their new order, those together that are neighbours in both."""
    groups: list[tuple[str, ...]] = []
    for dim in after:
        place = before.index(dim)
        if groups and place and before[place - 1] == groups[-1][-1]:
            groups[-1] = (*groups[-1], dim)
        else:
            groups.append((dim,))
    return groups


def _places(group: Sequence[str], name: str) -> dict[str, Expression]:
    """Where along each dim of a group element ``name`` of all of it is."""
    places: dict[str, Expression] = {}
    for number, dim in enumerate(group):
        inner = "".join(f" // size({other})" for other in reversed(group[number + 1 :]))
        places[dim] = parse_index(f"{name}{inner} % size({dim})" if number else f"{name}{inner}")
    return places


def _tiles_of_rows(dims: Sequence[str]) -> list[AnyConstraint]:
    *outer, row = dims
    found: list[AnyConstraint] = [_workgroup(row, _ROW, 0)]
    if outer:
        found += [_workgroup(outer[-1], _ROWS, 1), Wave(dim=outer[-1], tile=_number(1))]
    return found + [_workgroup(dim, 1, 2) for dim in outer[:-1]]


def _sides_of_turn(
    spec: KernelSpec, row: tuple[str, ...], behind: tuple[str, ...], *, one_lane: bool
) -> dict[tuple[str, ...], int]:
    """The tile of what lies side by side before (``row``) and after; longer along one where the other is known to be
    short, or where this one is several dims and a machine reads and writes long rows faster."""
    sides = {row: _SIDE, behind: _SIDE}
    for group, other in ((row, behind), (behind, row)):
        size = _most_elements(spec, group)
        if size is not None and size < _SIDE // 2:
            sides[group] = max(_LEAST_SIDE, 1 << (size - 1).bit_length())
            sides[other] = 2 * _SIDE
        elif one_lane and size is None and len(group) > 1 and len(other) == 1:
            sides[group], sides[other] = 2 * _SIDE, _SIDE // 2
    return sides


def _tiles_of_turn(
    groups: Sequence[tuple[str, ...]], sides: Mapping[tuple[str, ...], int], whole: Mapping[tuple[str, ...], str]
) -> list[AnyConstraint]:
    found: list[AnyConstraint] = [
        _workgroup(whole[group], side, axis) for axis, (group, side) in enumerate(sides.items())
    ]
    found += [_workgroup(whole[group], 1, 2) for group in groups if group not in sides]
    longest = max(sides, key=lambda group: sides[group])
    return [*found, Wave(dim=whole[longest], tile=_number(sides[longest] // _WAVES))]


def _most_elements(spec: KernelSpec, group: Sequence[str]) -> int | None:
    """Of a group of dims, where that is known."""
    sizes = [spec.dims[dim].value or spec.dims[dim].max for dim in group]
    return None if None in sizes else prod(cast("list[int]", sizes))


def _has_blocks(spec: KernelSpec, side: Sequence[str], tensor: Tensor) -> bool:
    """Whether elements are bytes, and all of a side of a transposition are a multiple of those of a block."""
    known = spec.dims[side[-1]]
    return (
        DTYPES[tensor.dtype].stored_bits == _BYTE_BITS
        and len(side) == 1
        and (known.multiple_of if known.value is None else known.value) % _BLOCK == 0
    )


def _tiles_of_blocks(
    groups: Sequence[tuple[str, ...]], row: tuple[str, ...], whole: Mapping[tuple[str, ...], str]
) -> list[AnyConstraint]:
    before, behind = whole[row], whole[groups[-1]]
    vector: dict[str, Expression] = {before: Num(_BLOCK), behind: Num(_BLOCK)}
    return [
        *(_workgroup(dim, _BLOCKS_SIDE, axis) for axis, dim in enumerate((before, behind))),
        *(_workgroup(whole[group], 1, 2) for group in groups if group not in (row, groups[-1])),
        Wave(dim=behind, tile=_number(_BLOCKS_WAVE)),
        Hardware(settings=HardwareSettings(vector=vector)),
    ]


def unfolded(dims: Mapping[str, Dim]) -> dict[str, Dim]:
    """The dims as one each, also where a call may have several in place of the first: a step gets the product."""
    return {name: dim if dim.fold is None else dim.model_copy(update={"fold": None}) for name, dim in dims.items()}


def _all_behind(names: Sequence[str], follows: Mapping[str, Expression]) -> set[str]:
    """The names, and all that what is called so is made of."""
    pending, found = list(names), set[str]()
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += follows[name].names() if name in follows else ()
    return found


def with_sizes(
    dims: Mapping[str, Dim], tensors: Mapping[str, Tensor], others: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Those of the ``others`` that nothing reads, but by which a call knows the sizes of ``dims`` that none of
    ``tensors`` has."""
    known = {dim for tensor in tensors.values() if tensor.role != "output" for dim in tensor.shape}
    missing = {dim for dim, one in dims.items() if one.value is None and one.equals is None} - known
    found: dict[str, Tensor] = {}
    for name, tensor in others.items():
        if name not in tensors and tensor.role != "output" and not missing.isdisjoint(tensor.shape):
            found[name] = tensor
            missing.difference_update(tensor.shape)
    return found


def _workgroup(dim: str, tile: int, axis: int) -> Workgroup:
    return Workgroup(dim=dim, tile=_number(tile), axis=axis)


def _number(value: int) -> Expression:
    return parse_expression(str(value))


def plain_kernel(
    spec: KernelSpec,
    name: str,
    tensors: Mapping[str, Tensor],
    graph: Sequence[AnyOp],
    constraints: Sequence[AnyConstraint],
    dims: Mapping[str, Dim] | None = None,
) -> KernelSpec:
    """A plain spec of these parts, with the dims and parameters of ``spec`` that they use, and ``dims`` of its own."""
    known = {**spec.dims, **(dims or {})}
    follows = {dim: one.equals for dim, one in known.items() if one.equals is not None} | spec.params
    words = [word for op in graph for word in words_of(op)]
    used = _all_behind([*words, *(dim for tensor in tensors.values() for dim in tensor.shape)], follows)
    others = with_sizes({dim: one for dim, one in known.items() if dim in used}, tensors, spec.tensors)
    used |= _all_behind([dim for tensor in others.values() for dim in tensor.shape], follows)
    update: dict[str, Any] = {
        "name": f"{spec.name}_{name}",
        "doc": "",
        "dims": unfolded({dim: one for dim, one in known.items() if dim in used}),
        "params": {param: value for param, value in spec.params.items() if param in used},
        "tensors": {**others, **tensors},
        "graph": tuple(graph),
        "constraints": tuple(constraints),
        "schedule": None,
        "workloads": (),
    }
    return spec.model_copy(update=update).with_own_schedule(False)
