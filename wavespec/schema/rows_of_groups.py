"""`pack: {H: [H, G]}`: rows of tiles are the neighbours along H that share what is read along G, for specs without
other rows, as of one token that is decoded.

What lanes would multiply and add up for each neighbour is then a product of matrices, with the neighbours as rows.
Columns of results along which other products sum are a dim of their own, all of which is in a tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.language.constraints import AnyConstraint, Tiling, Workgroup
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.expressions import Expression, Num
from wavespec.schema.language.index_parser import parse_index
from wavespec.schema.language.models import Dim, KernelSpec, Schedule
from wavespec.schema.made_kernels import free_name, words_of
from wavespec.schema.ops import OPS, AnyOp, Read, Structured, ValueOp, every
from wavespec.schema.packing import Packing, changed, words
from wavespec.schema.plans.own_columns import with_own_columns
from wavespec.schema.products_of_sums import with_products

_AXES = 5
"""Of a grid."""


class OwnRows(Packing):
    """Rows of the elements of ``of`` that share one of ``shared``; ``groups``: whether a place is that."""

    def __init__(self, spec: KernelSpec, of: str, shared: str, groups: Callable[[Expression], bool]) -> None:
        packed = free_name(spec, f"{of}_of_{shared}")
        places = {of: f"({shared} * (size({of}) // size({shared})) + {packed})"}
        size = Dim(equals=parse_expression(f"{of} // {shared}"))
        super().__init__(spec, of, of, shared, packed, places, {packed: size})
        self.groups = groups

    def spec_of_rows(self, schedule: Schedule) -> KernelSpec:
        """The spec with products of matrices, and with all dims of results in its grid."""
        self.spec = changed(self.spec, graph=self._rows_first())
        made = with_own_columns(with_products(super().spec_of_rows(schedule), self.packed))
        axes = [axis for axis in range(_AXES) if axis not in {one.axis for one in _grid(made.constraints)}]
        columns = [dim for dim in made.dims if dim not in self.spec.dims and dim != self.packed]
        more = list[AnyConstraint]()
        for dim, axis in zip((*columns, self.shared), (*axes, *[_AXES - 1] * _AXES), strict=False):
            more.append(Workgroup(dim=dim, tile=self._tile(made, dim), axis=axis))
        return changed(made, constraints=(*made.constraints, *more))

    def is_of_all(self, place: Expression) -> bool:
        return self.groups(place)

    def place(self, place: Expression) -> Expression:
        return parse_index(self.shared) if self.is_of_all(place) else super().place(place)

    def _rows_first(self) -> tuple[AnyOp, ...]:
        """The graph as plain ops, in which factors that each neighbour has of its own stand in front of shared ones:
        values have the dims of the first operand first."""
        ops, types = plain_graph(self.spec)
        shared = {op.name for op in every(Read, ops) if self.of in types[op.name].dims and self._is_shared(op)}

        def changed_in(body: Sequence[AnyOp]) -> tuple[AnyOp, ...]:
            return tuple(changed_one(op) for op in body)

        def changed_one(op: AnyOp) -> AnyOp:
            if isinstance(op, Structured):
                return op.with_bodies(changed_in)
            used = [one for one in words_of(op) if one in types and self.of in types[one].dims]
            if used and shared.issuperset(used) and isinstance(op, ValueOp):
                shared.add(op.name)
            elif isinstance(op, (OPS["mul"], OPS["add"])) and used and used[0] in shared and words_of(op)[0] == used[0]:
                lhs, rhs = (getattr(op, side) for side in ("lhs", "rhs"))
                return changed(op, lhs=rhs, rhs=lhs)
            return op

        return changed_in(ops)

    def _tile(self, spec: KernelSpec, dim: str) -> Expression:
        """All that a tile has of the dim that columns are as long as; of groups one."""
        size = spec.dims[dim].equals if dim != self.shared else None
        whole = (one.tile for one in spec.constraints if isinstance(one, Tiling) and one.dim == str(size))
        return next(whole, Num(1))

    def _read(self, op: Read) -> Read:
        shape = self.spec.tensors[op.tensor].shape
        dims = op.dims or shape
        if self.of not in dims:
            return op
        if not self._is_shared(op):
            return changed(op, dims=self._dims(dims), at=self._mapping(shape, op.at))
        at = {dim: self.place(place) for dim, place in op.at.items()}
        at = {dim: place for dim, place in at.items() if str(place) != dim}
        return changed(op, dims=tuple(self.shared if dim == self.of else dim for dim in dims), at=at)

    def _is_shared(self, op: Read) -> bool:
        """Whether all neighbours read the same elements."""
        own = [one for one in op.at.values() if self.of in words(one)]
        return self.of not in self.spec.tensors[op.tensor].shape and bool(own) and all(map(self.is_of_all, own))

    def _dims(self, dims: Sequence[str]) -> tuple[str, ...]:
        return tuple(one for dim in dims for one in ((self.shared, self.packed) if dim == self.of else (dim,)))


def _grid(constraints: Sequence[AnyConstraint]) -> Iterator[Workgroup]:
    yield from (one for one in constraints if isinstance(one, Workgroup))
