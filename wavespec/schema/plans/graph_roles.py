"""A plain graph goes in; what each of its dims is for comes out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from wavespec.ir.dtype import DTYPES, SCALED_PRODUCT
from wavespec.schema.joined_dims import joined_dims, summed_dims
from wavespec.schema.language.constraints import Workgroup
from wavespec.schema.language.expressions import Expression, Name, Num
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.made_kernels import words_of
from wavespec.schema.materialize import sources_of
from wavespec.schema.ops import (
    ArgReduce,
    Iterate,
    Joined,
    Mma,
    Op,
    Random,
    Read,
    Reduce,
    Repeat,
    Scan,
    Structured,
    Take,
    Topk,
    ValueType,
    Written,
    every,
    walk,
)
from wavespec.schema.packed_rows import shared_by
from wavespec.schema.parted_loops import may_have_parts
from wavespec.schema.plans.decoded import (
    LEAST_BLOCK,
    elements_of_scale,
    is_decoded,
    is_decoded_in_chain,
    is_used_beside,
    lies_across,
    reads_of,
)
from wavespec.schema.plans.places import are_looked_up, divisors, indices_in, sharing_places, staged_as
from wavespec.schema.plans.product_results import results_of_products, sides_of
from wavespec.schema.plans.roles import Kind, Roles
from wavespec.schema.plans.values_of_rows import counted_dims, row_words
from wavespec.schema.plans.windows import Windows, windows_of
from wavespec.schema.resolve import constant_values
from wavespec.schema.split_loops import Carried, may_be_split
from wavespec.schema.tiled_loops import SOME_TILE, with_tiled_loops

_DECIDING = ("condition", "until", "start", "end", "step", "steps")
"""Fields of loops and branches."""
_MOST_AXES = 5
"""Of a grid."""
_PLACES = ("bool", "i32", "i64")
"""Types of masks and places."""
_IN_ORDER = Scan | Joined | Topk | Take
"""What joins or looks up elements by where they are among the others."""
_SHORT = 4
"""Elements of a dim that is not worth tiles of its own."""
_NARROW = 16
"""Columns of a product that take few registers beside those of others."""


@dataclass(frozen=True, slots=True)
class GraphRoles:
    """What a graph whose ops are plain says of its dims."""

    spec: KernelSpec
    ops: Sequence[Op]
    types: Mapping[str, ValueType]
    loops: Sequence[str]
    fixed: Mapping[str, int]
    constants: Mapping[str, int]

    def roles(self) -> Roles:
        products = list(every(Mma, self.ops))
        whole = tuple(dict.fromkeys(dim for dim in joined_dims(self.ops, self.types) if dim not in self.loops))
        results = [dim for dim in self._written() if dim not in {*self.loops, *whole}]
        if products:
            return self._of_products(products, results, whole)
        windows = None if whole or self._is_ordered() else self._windows(results)
        if windows is None and not self.loops:
            whole = tuple(dict.fromkeys((*whole, *self._short(results))))
            results = [dim for dim in results if dim not in whole]
        return self._of_rows(results, whole) if windows is None else self._of_windows(results, windows)

    def _short(self, results: Sequence[str]) -> list[str]:
        """Dims of few elements each, such as colours or the places of a small matrix, where results have others."""
        short = [dim for dim in results if self.fixed.get(dim, _SHORT + 1) <= _SHORT]
        return short if len(short) < len(results) else []

    def _windows(self, results: Sequence[str]) -> Windows | None:
        return None if self._uniform() else windows_of(self.spec, self.ops, self.loops, results, self.constants)

    def _of_windows(self, results: Sequence[str], windows: Windows) -> Roles:
        last = self._last_dims(windows.dims)
        columns = next((dim for dim in reversed(results) if dim in last), results[-1])
        others = sorted((dim for dim in reversed(results) if dim != columns), key=lambda dim: dim not in windows.moved)
        rows = next(iter(others), "")
        lines = next((dim for dim in others[1:] if dim in windows.moved), "")
        tiled = {rows, columns, lines}
        summed = [one for one in self._values() if not {*one[0]} & {*windows.dims}]
        return Roles(
            kind="windows",
            rows=rows,
            columns=columns,
            lines=lines,
            steps=windows.dims,
            alone=tuple(dim for dim in results if dim not in tiled),
            walked=(),
            whole=(),
            operands=(),
            bits=self._bits(()),
            single=False,
            uniform=frozenset(),
            ordered=False,
            fixed=self.fixed,
            values=tuple((tuple(dim for dim in dims if dim in tiled), bits) for dims, bits in summed),
            moved=windows.moved,
        )

    def _of_rows(self, results: Sequence[str], whole: tuple[str, ...]) -> Roles:
        last = self._last_dims()
        columns = next((dim for dim in reversed(results) if dim in last), results[-1] if results else "")
        rows = next((dim for dim in reversed(results) if dim != columns), "")
        across = "" if self.loops else self._read_across(results, columns)
        shared = "" if self.loops else sharing_places(self.spec, every(Read, self.ops), self.types, results, columns)
        kind: Kind = "elements"
        if self.loops:
            kind = "columns" if not last & set(self.loops) else "ordered" if self._is_ordered() else "rows"
        elif across:
            kind, rows = "transposed", across
        elif shared:
            rows = shared
        sides, is_along = (rows, columns), kind in ("rows", "ordered")
        rows, columns = (rows or columns, "") if is_along else sides
        steps = max(self.loops, key=lambda dim: (dim in last, self._most_beside(dim)), default="")
        walked = tuple(dim for dim in self.loops if dim != steps)
        roles = Roles(
            kind=kind,
            rows=rows,
            columns=columns,
            steps=(steps,) if steps else (),
            alone=tuple(dim for dim in results if dim not in {rows, columns}),
            walked=walked,
            whole=whole,
            along=self._are_along(whole),
            looked_up=bool(shared),
            divisors=divisors(every(Read, self.ops), {"rows": rows, "columns": columns}) if kind == "elements" else {},
            operands=self._tensors_across(across, columns) if across else (),
            bits=self._bits(()),
            sums=self._only_sums(),
            largest=max((self.fixed.get(op.k, 0) for op in every(Topk, self.ops)), default=0),
            loops=sum(1 for _ in every(Iterate, self.ops)),
            sweeps=sum(loop.dim == steps for loop in every(Iterate, self.ops)),
            counted=counted_dims(self.spec, self.ops),
            parted=self._may_have_parts(results, steps),
            walk_parted=self._may_have_parts(results, next(iter(walked), "")),
            single=self._is_single() and all(map(self._joins_alone, every(Iterate, self.ops))),
            uniform=self._uniform(),
            ordered=self._is_ordered(),
            fixed=self.fixed,
            values=self._values(),
        )
        others = tuple(dim for dim in roles.alone if dim not in sides)
        pairs = replace(roles, kind="pairs", rows=sides[0], columns=sides[1], alone=others)
        return replace(roles, pairs=pairs) if kind == "rows" and self._are_pairs(sides, steps) else roles

    def _may_have_parts(self, results: Sequence[str], dim: str) -> bool:
        is_named = dim.isidentifier()  # an index of a part says nothing of an expression of dims
        return is_named and len(results) < _MOST_AXES and may_have_parts(with_tiled_loops(self.spec), dim)

    def _has_extremes(self, loop: Iterate) -> bool:
        return bool(Carried(loop, self.ops, self.types).found)

    def _are_pairs(self, sides: tuple[str, str], steps: str) -> bool:
        """Whether loops join elements of both sides that are made of such of one of them."""
        sums = [{*self.types[name].dims} for op in every(Reduce, self.ops) if steps in op.along for name in op.values]
        read = [self.types[op.name].dims for loop in every(Iterate, self.ops) for op in every(Read, loop.body)]
        missing = [{*sides} - {*dims} for dims in read if steps in dims]
        return all((*sides, *missing)) and {*sides} == set().union(*missing) and any({*sides} <= one for one in sums)

    def _of_products(self, products: Sequence[Mma], results: Sequence[str], whole: tuple[str, ...]) -> Roles:
        within = [op for loop in every(Iterate, self.ops) for op in every(Mma, loop.body)]
        looped = [op for op in within if self._summed(op) & set(self.loops)] or within or list(products)
        chained = any(not self._summed(op) & set(self.loops) for op in within)
        if not chained:  # the sides are those of a result, not of what is made for it beside
            looped = sorted(looped, key=lambda op: not {*results} <= {*self.types[op.acc].dims})
        first = looped[0]
        having_say = (*looped, *(within if chained else ()))
        row, column, joined, is_after = results_of_products(products, within, having_say, self.types, whole, results)
        repeating = self._repeating(products, results, (row, column))
        whole = (*whole, *repeating)  # a workgroup has one product for all
        main = [dim for dim in self.loops if dim in self._summed(first)]
        direct = [loop.dim for loop in every(Iterate, self.ops) if any(isinstance(op, Mma) for op in loop.body)]
        steps = [*main, *(dim for dim in dict.fromkeys(direct) if dim not in main)]
        # A loop around that has a tile of products in each of its steps.
        sides = [dim for dim in self.loops if dim not in steps and any(dim in self.types[op.acc].dims for op in looped)]
        beside = [op for op in looped if not self._is_narrow(op)]
        reads = {op.name: op for op in every(Read, self.ops)}
        names = [name for op in (within or products) for name in (op.lhs, op.rhs)]
        operands = [reads[name].tensor for name in names if name in reads]
        alone = tuple(dim for dim in results if dim not in {row, column, *whole})
        is_made = not chained and is_decoded(looped, reads, self.types)
        is_made_in_chain = chained and is_decoded_in_chain(within, reads, self.ops)
        is_beside = not chained and not is_made and is_used_beside(looped, reads, self.ops)
        roles = Roles(
            kind="attention" if chained or sides or self._go_into_others(products) else "products",
            rows=row,
            columns=column,
            steps=(*sides, *steps),
            alone=alone,
            heads=self._heads(row, alone) if chained and self._is_single() else None,
            split=bool(steps) and may_be_split(self.ops, self.types, steps[0], (row, column), alone),
            parted=chained and any(self._has_extremes(one) for one in every(Iterate, self.ops) if one.dim in steps),
            walked=tuple(dim for dim in self.loops if dim not in (*sides, *steps)),
            whole=whole,
            operands=tuple(dict.fromkeys(operands)),
            bits=self._bits(operands) if operands else max(self._typed(name)[1] for name in names),
            products=len(_started(beside or looped)),
            narrow=len(looped) - len(beside or looped),
            joined=joined,
            behind=bool(within) and len(products) > len(within),
            after=is_after,
            beside=is_beside,
            across=is_made and lies_across(looped, self.spec, self.ops, self.types, steps),
            decoded=is_made or is_made_in_chain or is_beside or any(op.scales is not None for op in products),
            contiguous=all(self._is_along(reads[name], steps) for name in names if name in reads),
            last=frozenset(dim for name in names if name in reads for dim in self._last_of(reads[name])),
            mapped=tuple(dict.fromkeys(reads[name].tensor for name in names if name in reads and reads[name].at)),
            looked_up=are_looked_up((reads[name] for name in names if name in reads), self.types),
            pixels=all(self._is_along(reads[name], steps, whole=False) for name in names if name in reads),
            staged=tuple({name: self._typed(name) for name in names if name in reads}.values()),
            units_stage=tuple({staged_as(reads[name]): self._typed(name) for name in names if name in reads}.values()),
            single=self._is_single(),
            uniform=self._uniform(),
            ordered=self._is_ordered(),
            fixed=self.fixed,
            values=(*self._values(), *(self._ranks() if joined else ())),
            handed_on=self._handed_on(repeating, {row, column}),
        )
        roles = replace(roles, row_words=row_words(self.spec, roles))
        once = self._decoded_once(roles, looped, reads)
        turned = self._turned(once, first, reads) if once is not None and roles.products == 1 else ()
        return replace(roles, decoded_once=once, turned=turned, columns_once=self._columns_once(roles, looped, reads))

    def _repeating(self, products: Sequence[Mma], results: Sequence[str], sides: tuple[str, str]) -> list[str]:
        """Short dims of results that no product has: parts of complex numbers, colours, a result and its derivative."""
        own = {dim for op in products for dim in self.types[op.acc].dims}
        others = [dim for dim in results if dim not in own and dim not in sides]
        return [dim for dim in others if self.fixed.get(dim, _SHORT + 1) <= _SHORT]

    def _handed_on(self, repeating: Sequence[str], sides: set[str]) -> tuple[tuple[tuple[str, ...], int], ...]:
        """What behind products is repeated along dims that these do not have."""
        found = {
            word: self._typed(word)
            for op in self.ops
            if (made := self.types.get(getattr(op, "name", ""))) is not None and not {*repeating}.isdisjoint(made.dims)
            for word in words_of(op)
            if word in self.types and sides <= {*self.types[word].dims} and not {*repeating} <= {*self.types[word].dims}
        }
        return tuple(found.values())

    def _columns_once(self, roles: Roles, products: Sequence[Mma], reads: Mapping[str, Read]) -> Roles | None:
        """Roles for a product of rows that are decoded in its loop, and columns that are written first, as they lie."""
        product = products[0]
        is_one = roles.across and roles.kind == "products" and len(products) == 1 and product.scales is None
        if not is_one or not reads.keys().isdisjoint((product.lhs, product.rhs)):
            return None
        written = {product.rhs: (*sorted(self.types[product.rhs].dims, key=lambda dim: dim == roles.columns),)}
        can_be = sources_of(with_tiled_loops(self.spec), written, renamed=True) is not None
        return replace(roles, written=written) if can_be else None

    def _decoded_once(self, roles: Roles, products: Sequence[Mma], reads: Mapping[str, Read]) -> Roles | None:
        """Roles for products of what kernels of their own have written: all that is made, or scaled, of the elements of
        one tensor each."""
        operands = {name: op for op in products for name in (op.lhs, op.rhs)}
        made = {name: op for name, op in operands.items() if name not in reads or op.scales is not None}
        if not roles.decoded or roles.beside or roles.kind != "products" or not made:
            return None
        written = {
            name: (*sorted(self.types[name].dims, key=lambda dim: dim in self._summed(op)),)
            for name, op in made.items()
        }
        sources = sources_of(with_tiled_loops(self.spec), written)
        if sources is None:
            return None
        read = [reads[name] for name in operands if name not in made]
        scales = [name for op in products for name in op.scales or ()]
        has_bits = any(self.types[name].dtype != "f8e8m0fnu" for name in scales)
        constants = {**dict.fromkeys(self.spec.dims, 0), **constant_values(self.spec)}
        blocks = (elements_of_scale(reads.get(name), roles.steps, constants) for name in scales)
        block = min(blocks) if has_bits else 0
        if has_bits and block < LEAST_BLOCK:
            return None
        bits = max(DTYPES[SCALED_PRODUCT if scales else self.types[name].dtype].bits for name in operands)
        return replace(
            roles,
            operands=tuple(dict.fromkeys((*(op.tensor for op in read), *sources))),
            bits=bits,
            decoded=False,
            contiguous=all(self._is_along(op, roles.steps) for op in read),
            mapped=tuple(dict.fromkeys(op.tensor for op in read if op.at)),
            staged=tuple((self.types[name].dims, bits) for name in operands),
            written=written,
            made=len(made),
            block=block,
        )

    def _turned(self, once: Roles, product: Mma, reads: Mapping[str, Read]) -> tuple[Roles, ...]:
        """Roles for a product that decodes its columns itself, with scales as they are, and turned round."""
        lhs, rhs = product.lhs, product.rhs
        if rhs not in once.written or once.block:
            return ()
        made_of = reads_of((rhs, *(product.scales or ())[1:]), self.ops)
        made_of = tuple(op for op in made_of if len(self.spec.tensors[op.tensor].shape) > 1)
        (rows, *_), plain = once.operands, [op.name for op in made_of if not op.at]
        turned = replace(
            once,
            operands=tuple(dict.fromkeys((rows, *(op.tensor for op in made_of)))),
            decoded=True,
            staged=((self.types[lhs].dims, once.bits), *map(self._typed, plain)),
            written={name: dims for name, dims in once.written.items() if name == lhs},
        )
        scales = {op.tensor: self.spec.tensors[op.tensor].shape for op in made_of if op.at}
        if not scales or any(len(shape) != len(once.written[rhs]) for shape in scales.values()):
            return (turned,)
        written = {**turned.written, **{name: (*reversed(shape),) for name, shape in scales.items()}}
        return turned, replace(turned, written=written, round=True)

    def _is_narrow(self, op: Mma) -> bool:
        """Whether a product has few columns, all of which a workgroup has beside those of another."""
        sizes = [self.fixed.get(dim, self.spec.dims[dim].max) for dim in sides_of(op, self.types)[1]]
        return all(size is not None and size <= _NARROW for size in sizes)

    def _go_into_others(self, products: Sequence[Mma]) -> bool:
        """Whether steps that no tile is of make several products, of all that they sum over."""
        summed = {dim for op in products for dim in self._summed(op)}
        return summed.isdisjoint(self.loops) and any(len([*every(Mma, op.body)]) > 1 for op in every(Repeat, self.ops))

    def _heads(self, rows: str, alone: Sequence[str]) -> tuple[str, str] | None:
        if not rows:
            return None
        grid = [Workgroup(dim=dim, tile=Num(SOME_TILE if dim == rows else 1), axis=0) for dim in (rows, *alone)]
        spec = with_tiled_loops(self.spec)
        spec = spec.model_copy(update={"constraints": (*spec.constraints, *grid)})
        return next(((dim, shared) for dim in alone if (shared := shared_by(spec, rows, dim))), None)

    def _summed(self, op: Mma) -> set[str]:
        return summed_dims(op, self.types)

    def _is_ordered(self) -> bool:
        return any(isinstance(op, ArgReduce | Random | _IN_ORDER) for op in walk(self.ops))

    def _is_along(self, read: Read, steps: Sequence[str], *, whole: bool = True) -> bool:
        """Whether what is side by side is so along steps: ``whole``, for all of them."""
        return self._last_of(read, whole=whole) <= {*steps}

    def _last_of(self, read: Read, *, whole: bool = True) -> set[str]:
        """The dims along which what is side by side is so: ``whole``, along all of them."""
        last = self.spec.tensors[read.tensor].shape[-1]
        place = read.at.get(last, Name(name=last))
        return {*(place.names() if whole else indices_in(place))} & self.spec.dims.keys()

    def _uniform(self) -> frozenset[str]:
        written = [getattr(op, field, None) for op in walk(self.ops) for field in _DECIDING]
        names = {name for one in written if isinstance(one, Expression) for name in one.names()}
        return frozenset(dim for name in names if name in self.types for dim in self.types[name].dims)

    def _written(self) -> list[str]:
        """Dims of what is written, in the order of the values, those with most dims first."""
        written = [self.types[op.value].dims for op in every(Written, self.ops) if op.value in self.types]
        return list(dict.fromkeys(dim for dims in sorted(written, key=len, reverse=True) for dim in dims))

    def _last_dims(self, windows: Collection[str] = ()) -> set[str]:
        """Dims along which elements of values that are read or written lie side by side; masks and places say nothing
        of that where there are others, and windows nothing where they are."""
        read = [self.types[op.name] for op in every(Read, self.ops)]
        written = [self.types[op.value] for op in every(Written, self.ops) if op.value in self.types]
        found = [(tuple(dim for dim in one.dims if dim not in windows), one.dtype) for one in (*read, *written)]
        most = max((len(dims) for dims, _ in found), default=0)
        wide = [(dims, dtype) for dims, dtype in found if dims and len(dims) >= min(2, most)]
        return {dims[-1] for dims, _ in [one for one in wide if one[1] not in _PLACES] or wide}

    def _most_beside(self, last: str) -> int:
        """Of tensors whose elements lie side by side along a dim, the most dims that what is read of one has."""
        read = [self.types[op.name].dims for op in every(Read, self.ops)]
        return max((len(dims) for dims in read if dims[-1:] == (last,)), default=0)

    def _are_along(self, whole: Collection[str]) -> bool:
        """Whether the largest tensors that are read have their elements side by side along a whole dim."""
        read = [self.spec.tensors[op.tensor].shape for op in every(Read, self.ops)]
        most = max(map(len, read), default=0)
        return most > 0 and any(shape[-1] in whole for shape in read if len(shape) == most)

    def _read_across(self, results: Sequence[str], columns: str) -> str:
        """A dim of results along which a tensor has its elements side by side, and the results have not."""
        for op in every(Read, self.ops):
            shape = self.spec.tensors[op.tensor].shape
            if not op.at and shape and shape[-1] in results and shape[-1] != columns and columns in shape:
                return shape[-1]
        return ""

    def _tensors_across(self, across: str, columns: str) -> tuple[str, ...]:
        read = {op.tensor: self.spec.tensors[op.tensor].shape for op in every(Read, self.ops) if not op.at}
        return tuple(name for name, shape in read.items() if columns in shape and shape[-1] == across)

    def _only_sums(self) -> bool:
        """Places of extremes are joined as ranks, which have no order either."""
        for loop in every(Iterate, self.ops):
            found = [op for op in loop.body if isinstance(op, ArgReduce)]
            made = {op.name for op in loop.body if isinstance(op, Reduce | ArgReduce)} | {op.extreme for op in found}
            if any(isinstance(op, Written | _IN_ORDER) for op in walk(loop.body)) or not loop.carry.keys() <= made:
                return False
        return True

    def _joins_alone(self, loop: Iterate) -> bool:
        """Whether all that a loop carries is what reductions along it have so far, which nothing else in it asks for:
        not the largest so far that an online softmax subtracts."""
        extremes = [op.extreme for op in loop.body if isinstance(op, ArgReduce)]
        made = {op.name for op in loop.body if isinstance(op, Reduce | ArgReduce)} | {*extremes}
        used = [word for op in loop.body for word in words_of(op) if word in loop.carry]  # an `extreme`, which it makes
        return all(name in made and used.count(name) == 1 + extremes.count(name) for name in loop.carry)

    def _is_single(self) -> bool:
        loops = [op for op in walk(self.ops) if isinstance(op, Structured)]
        bounds = [getattr(op, field, None) for op in loops for field in _DECIDING]
        if any(self.spec.tensors[op.tensor].role == "inout" for op in every(Read, self.ops)):
            return False  # what is changed in place is read by those alone who write it
        return len(self.loops) == 1 and all(isinstance(op, Iterate) for op in loops) and bounds == [None] * len(bounds)

    def _bits(self, operands: Sequence[str]) -> int:
        of, loops = self.spec.tensors, {*self.loops}
        names = operands or [n for n in of if len(of[n].shape) > 1] or [n for n in of if loops & {*of[n].shape}]
        return max((DTYPES[of[name].dtype].bits for name in names), default=32)

    def _values(self) -> tuple[tuple[tuple[str, ...], int], ...]:
        return tuple(dict.fromkeys(map(self._typed, self.types)))

    def _ranks(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """What elements are compared by, places and all."""
        ranked = (*every(ArgReduce, self.ops), *every(Topk, self.ops))
        yield from ((self.types[op.value].dims, 64) for op in ranked)

    def _typed(self, name: str) -> tuple[tuple[str, ...], int]:
        return self.types[name].dims, max(DTYPES[self.types[name].dtype].bits, 8)


def _started(products: Sequence[Mma]) -> set[str]:
    """What products add to, but for those that go on from the sums of one before them."""
    return {op.acc for at, op in enumerate(products) if op.acc not in {one.name for one in products[:at]}}
