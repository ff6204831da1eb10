"""`pack: {H: [H, G]}`: rows of tiles are the neighbours along H that share what is read along G, for specs without
other rows, as of one token that is decoded.

What lanes would multiply and add up for each neighbour is then a product of matrices, with the neighbours as rows.
Columns of results along which other products sum are a dim of their own, all of which is in a tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from wavespec.schema.language.constraints import AnyConstraint, Tiling, Workgroup
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.expressions import Expression, Num
from wavespec.schema.language.index_parser import parse_index
from wavespec.schema.language.models import Dim, KernelSpec, Schedule
from wavespec.schema.made_kernels import free_name
from wavespec.schema.ops import Read
from wavespec.schema.packing import Packing, changed, words
from wavespec.schema.plans.own_columns import with_own_columns
from wavespec.schema.products_of_sums import with_products

_AXES = 5
"""Of a grid."""


def rows_of_groups(spec: KernelSpec, of: str, shared: str) -> str:
    """The name of the dim of rows, for neighbours along ``of`` that share what is read along ``shared``."""
    return free_name(spec, f"{of}_of_{shared}")


class OwnRows(Packing):
    """Rows of the elements of ``of`` that share one of ``shared``; ``groups``: whether a place is that."""

    def __init__(self, spec: KernelSpec, of: str, shared: str, groups: Callable[[Expression], bool]) -> None:
        packed = rows_of_groups(spec, of, shared)
        places = {of: f"({shared} * (size({of}) // size({shared})) + {packed})"}
        size = Dim(equals=parse_expression(f"{of} // {shared}"))
        super().__init__(spec, of, of, shared, packed, places, {packed: size})
        self.groups = groups

    def spec_of_rows(self, schedule: Schedule) -> KernelSpec:
        """The spec with products of matrices, and with all dims of results in its grid."""
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
        own = self.of in shape or any(self.of in words(one) and not self.is_of_all(one) for one in op.at.values())
        if own or not any(map(self.is_of_all, op.at.values())):
            return changed(op, dims=self._dims(dims), at=self._mapping(shape, op.at))
        at = {dim: self.place(place) for dim, place in op.at.items()}
        at = {dim: place for dim, place in at.items() if str(place) != dim}
        return changed(op, dims=tuple(self.shared if dim == self.of else dim for dim in dims), at=at)

    def _dims(self, dims: Sequence[str]) -> tuple[str, ...]:
        return tuple(one for dim in dims for one in ((self.shared, self.packed) if dim == self.of else (dim,)))


def _grid(constraints: Sequence[AnyConstraint]) -> Iterator[Workgroup]:
    yield from (one for one in constraints if isinstance(one, Workgroup))
