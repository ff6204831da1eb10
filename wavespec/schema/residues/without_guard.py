"""A guard of the sums of a spec goes in; the spec that sums up the terms it leaves, by residues of results, comes
out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import prod

from wavespec.schema.language.constraints import Assume
from wavespec.schema.language.expressions import (
    LONGEST_EXPRESSION,
    Binary,
    Call,
    Compare,
    Expression,
    Name,
    Num,
    Unary,
)
from wavespec.schema.language.models import Dim, KernelSpec
from wavespec.schema.made_kernels import free_name
from wavespec.schema.ops import (
    AnyOp,
    Formula,
    Index,
    Iterate,
    Op,
    Read,
    Reduce,
    Register,
    Size,
    Structured,
    Write,
    walk,
)
from wavespec.schema.residues.guards import Guard, guard_of
from wavespec.schema.residues.index_sums import Atom, Digit, Indices, Made, Sum, between, digit_sum, primes
from wavespec.schema.residues.read_graph import Choice, ReadGraph
from wavespec.schema.residues.split_dims import NotSplit, size_sum, split_dim
from wavespec.schema.residues.written_sums import SumWriter
from wavespec.schema.unused_ops import without_unused

_ORDERS = ("<", "<=", ">", ">=")


class WithoutGuard:
    """Dims of results are split by residues, which become a dim of their own; dims of sums have every so manieth term.

    Raises:
        NotSplit: places are such that the dims stay as they are.
    """

    def __init__(self, graph: ReadGraph, guard: Guard) -> None:
        self.graph, self.guard = graph, guard
        spec, kept, term = graph.spec, guard.kept, guard.term
        digits = [atom for one in graph.sums() for atom in one.atoms() if isinstance(atom, Digit)]
        count = guard.residues
        self.residue = free_name(spec, f"{self._size_of(kept)}_residue") if count > 1 else ""
        own = digit_sum(self.residue, (), primes(count))
        others, name = _of(kept, digits), self._shorter(kept.dim)
        self.kept = split_dim(spec, kept, others, count, own, name, is_summed=False)
        spec = spec.model_copy(update={"dims": {**spec.dims, **self.kept.about}})
        others, name, first = _of(term, digits), self._shorter(term.dim), guard.first_term(own)
        self.term = split_dim(spec, term, others, guard.modulus, first, name, is_summed=True)
        residues = {self.residue: Dim(value=count)} if count > 1 else {}
        self.dims = {**spec.dims, **residues, **self.kept.about, **self.term.about}
        self.names = {kept.dim: self.kept.name, term.dim: self.term.name}
        cuts = {self.kept.name: self.kept.new_cuts, self.term.name: self.term.new_cuts}
        indices = Indices(spec.model_copy(update={"dims": self.dims}))
        short = {self.residue: count} if count > 1 else {}
        self.places = SumWriter(indices, cuts, of_formulas=False, residues=short)
        self.formulas = SumWriter(indices, cuts, of_formulas=True, residues=short)

    def spec(self) -> KernelSpec:
        if not self.kept.is_exact and not all(self._leaves_out_others(op) for op in walk(self.graph.spec.graph)):
            raise NotSplit
        body = tuple(self._body(self.graph.spec.graph))
        return self.graph.spec.model_copy(update={"dims": self.dims, "graph": without_unused(body, _is_formula)})

    def _size_of(self, digit: Digit) -> str:
        """A dim as long as a digit, for its name."""
        factors, dims = between(digit.low, digit.high), self.graph.spec.dims
        named = (dim for dim in dims if dim.isidentifier())
        return next((dim for dim in named if self.graph.indices.factors(dim) == factors), digit.dim)

    def _shorter(self, dim: str) -> str:
        """The name of what a dim becomes: its own where nothing asks for its size."""
        spec = self.graph.spec
        follows = [name for one in spec.dims.values() if one.equals is not None for name in one.equals.names()]
        assumed = [name for one in spec.constraints if isinstance(one, Assume) for name in one.condition.names()]
        shapes = [one for tensor in spec.tensors.values() for one in tensor.shape]
        strides = [name for tensor in spec.tensors.values() for one in tensor.promised_strides for name in one.names()]
        asked = {*follows, *assumed, *shapes, *strides, *self._sizes()}
        return free_name(spec, f"{dim}_quotient") if dim in asked or spec.dims[dim].equals is None else dim

    def _sizes(self) -> Iterator[str]:
        """The dims whose sizes the graph asks for."""
        for op in walk(self.graph.spec.graph):
            if isinstance(op, Size):
                yield op.dim
            for tree in op.at.values() if isinstance(op, Read | Write) else ():
                yield from (str(one.arguments[0]) for one in tree.walk() if isinstance(one, Call) and _is_size(one))
        for tree in self.graph.trees.values():
            yield from _sizes_in(tree)

    def _leaves_out_others(self, op: Op) -> bool:
        """Whether an op writes nothing of what is beyond the results, since that has a place of its own."""
        if not isinstance(op, Write) or self.guard.kept.dim not in self.graph.dims(op):
            return True
        own, radix = digit_sum(self.guard.kept.dim, self.guard.kept.low, self.guard.kept.high), self.guard.kept
        indices = self.graph.indices
        return any(
            indices.place(tree) == own and indices.factors(dim) == between(radix.low, radix.high)
            for dim, tree in self.graph.places(op).items()
        )

    def _body(self, body: Sequence[AnyOp]) -> Iterator[AnyOp]:
        reads = {op.name: op for op in body if isinstance(op, Read)}
        formulas = [op.name for op in body if isinstance(op, Formula)]
        chosen = {name: self.graph.choices[name] for name in formulas if name in self.graph.choices}
        chosen = {name: choice for name, choice in chosen.items() if any(map(self._is_guard, choice.conditions))}
        only = {one.then: name for name, one in chosen.items() if one.then in reads and self.graph.uses(one.then) == 1}
        left = {
            name: self._left(choice, reads.get(choice.then) if choice.then in only else None)
            for name, choice in chosen.items()
        }
        for op in body:
            name: str = getattr(op, "name", "")
            if isinstance(op, Read):
                is_all = name in only and not left[only[name]]
                yield self._read(op, only[name] if is_all else name, is_zero=name in only)
            elif name in chosen:
                if left[name] or chosen[name].then not in only:
                    yield _chosen(name, left[name], chosen[name].then)
            elif isinstance(op, Structured):
                dims = {"dim": self.names.get(op.dim, op.dim)} if isinstance(op, Iterate) else {}
                yield op.model_copy(update=dims).with_bodies(self._body)
            else:
                yield self._op(op)

    def _op(self, op: AnyOp) -> AnyOp:
        match op:
            case Write():
                return self._write(op)
            case Formula(name=name):
                tree = self._replaced(self.graph.trees[name], of_formulas=True)
                return op if tree is self.graph.trees[name] else _formula(name, tree)
            case Index(dim=dim) if dim in self.names:
                return _formula(op.name, self._replaced(Call("index", (Name(dim),)), of_formulas=True))
            case Register():
                return op.model_copy(update={"shape": self._dims(op.shape)})
            case Reduce():
                along = tuple(self.names.get(one, one) for one in op.along)
                return op.model_copy(update={"dim": along[0] if isinstance(op.dim, str) else along})
            case _:
                return op

    def _is_guard(self, condition: Expression) -> bool:
        return guard_of(condition, self.graph.indices, (self.guard.term.dim,)) == self.guard

    def _left(self, choice: Choice, read: Read | None) -> list[Expression]:
        """The conditions without the guard, and without those that hold wherever what is read is inside its tensor."""
        left = [one for one in choice.conditions if not self._is_guard(one)]
        if read is not None:
            left = [one for one in left if not self._is_inside(one, read)]
        left = [self._replaced(one, of_formulas=True) for one in left]
        if not self.term.is_exact and (read is None or self._mapped_by_term(read) is None):
            left.append(Compare("<", self.formulas.write(self._term()), self.formulas.write(self._terms())))
        return left

    def _is_inside(self, condition: Expression, read: Read) -> bool:
        """Whether a condition holds where all places of a read are elements of its tensor."""
        indices = self.graph.indices
        if not isinstance(condition, Compare) or condition.op not in _ORDERS:
            return False
        left, right = (indices.formula(one) for one in (condition.left, condition.right))
        if left is None or right is None:
            return False
        larger, smaller = (left, right) if condition.op in (">", ">=") else (right, left)
        least = larger - smaller - Sum(constant=int(condition.op in ("<", ">")))
        for dim, tree in self.graph.places(read).items():
            place = indices.place(tree)
            below_size = None if place is None else indices.size(dim) - place - Sum(constant=1)
            if least in (place, below_size) or place in [least.over(one) for one in (self.guard.modulus,)]:
                return True
        return False

    def _term(self) -> Sum:
        """Which term it is, among them those beyond the last one."""
        term = self.guard.term
        return self.term.replaced(digit_sum(term.dim, term.low, term.high))

    def _terms(self) -> Sum:
        return size_sum(between(self.guard.term.low, self.guard.term.high))

    def _mapped_by_term(self, read: Read) -> str | None:
        """A dim of a tensor whose places follow from the term: those of terms that there are not can be outside."""
        for dim, tree in self.graph.places(read).items():
            place = self.graph.indices.place(tree)
            if place is not None and self.guard.term in place.atoms():
                return dim
        return None

    def _read(self, op: Read, name: str, *, is_zero: bool) -> Read:
        """What is read, by its new name; ``is_zero``: for terms that there are not it is 0."""
        dims, places = self.graph.dims(op), self.graph.places(op)
        if self.names.keys().isdisjoint(dims):
            return op
        changed = {dim: self._replaced(tree, of_formulas=False) for dim, tree in places.items()}
        own = self._mapped_by_term(op)
        if is_zero and own is not None and not self.term.is_exact:
            alike = self._always_inside(places)
            if alike is None:
                changed[own] = self._inside(changed[own], own)
            else:
                changed[alike] = self._behind(changed[alike], alike)
        at = {
            dim: tree for dim, tree in changed.items() if dim in op.at or tree is not places[dim] or dim in self.names
        }
        has_residue = self.guard.kept.dim in dims or any(self.residue in tree.names() for tree in at.values())
        return op.model_copy(update={"name": name, "dims": self._dims(dims, has_residue=has_residue), "at": at})

    def _always_inside(self, places: Mapping[str, Expression]) -> str | None:
        """A dim of a tensor, but that along which elements lie side by side, whose place is a digit, or behind it where
        a guard before this one has put it."""
        indices = self.graph.indices
        for dim, tree in [*places.items()][:-1]:
            place = indices.place(tree)
            if place is None or place.constant:
                continue
            digits = [atom for atom, number in place.terms if isinstance(atom, Digit) and number == 1]
            behind = [atom for atom, number in place.terms if number > 0 and self._is_behind(atom, dim)]
            whole = [one for one in digits if between(one.low, one.high) == indices.factors(dim)]
            if len(whole) == 1 and len(behind) + 1 == len(place.terms):
                return dim
        return None

    def _is_behind(self, atom: Atom, dim: str) -> bool:
        """Whether it is so many times the size of a dim, or nothing."""
        match atom:
            case Made(function="*", arguments=(first, second)):
                size = self.graph.indices.size(dim)
                quotient = (second if first == size else first).atom if size in (first, second) else None
            case _:
                return False
        match quotient:
            case Made(function="//", arguments=(of, _)):
                return self._least(of) >= 0
            case _:
                return False

    def _least(self, of: Sum) -> int:
        """The least that a sum comes to; -1 where nothing is known of it."""
        least = of.constant
        for atom, number in of.terms:
            size = between(atom.low, atom.high) if isinstance(atom, Digit) else ()
            if not size or (number < 0 and not all(one.isdigit() for one in size)):
                return -1
            if number < 0:
                least += number * (prod(map(int, size)) - 1)
        return least

    def _behind(self, place: Expression, dim: str) -> Expression:
        """A place along a dim that is behind it for terms that there are not, and else as it was."""
        return Binary("+", place, Binary("*", self._is_beyond(), self.places.write(self.graph.indices.size(dim))))

    def _is_beyond(self) -> Expression:
        """0 for terms that there are."""
        number, term = self._terms().number, self._term()
        return self.places.write(term.over(number) if number else Sum(((Made("//", (term, self._terms())), 1),)))

    def _inside(self, place: Expression, dim: str) -> Expression:
        """A place along a dim that is in front of it for terms that there are not, and else as it was, or behind it."""
        number, term = self._terms().number, self._term()
        beyond = term.over(number) if number else Sum(((Made("//", (term, self._terms())), 1),))
        side = self.places.write(Sum(constant=1) - beyond.times(2))
        return Call("min", (place, Binary("*", side, self.places.write(self.graph.indices.size(dim)))))

    def _write(self, op: Write) -> Write:
        dims, places = self.graph.dims(op), self.graph.places(op)
        if self.guard.kept.dim not in dims:
            return op
        changed = {dim: self._replaced(tree, of_formulas=False) for dim, tree in places.items()}
        at = {dim: tree for dim, tree in changed.items() if dim in op.at or tree is not places[dim]}
        return op.model_copy(update={"at": at})

    def _dims(self, dims: Sequence[str], *, has_residue: bool | None = None) -> tuple[str, ...]:
        """Those of a value, the residue in front."""
        is_first = self.guard.kept.dim in dims if has_residue is None else has_residue
        first = (self.residue,) if is_first and self.residue else ()
        return (*first, *(self.names.get(dim, dim) for dim in dims))

    def _replaced(self, tree: Expression, *, of_formulas: bool) -> Expression:
        """An expression of the dims as they are now; the same where nothing is another one."""
        indices = self.graph.indices
        is_long = of_formulas and any(map(self._is_long, tree.walk()))
        found = None if is_long else indices.formula(tree) if of_formulas else indices.place(tree)
        if found is not None:
            if not any(isinstance(one, Digit) and one.dim in self.names for one in found.atoms()):
                return tree
            both = self.term.replaced(self.kept.replaced(found))
            written = (self.formulas if of_formulas else self.places).write(both)
            if len(str(written)) > LONGEST_EXPRESSION // 2:
                raise NotSplit
            return written
        children = [self._replaced(one, of_formulas=of_formulas) for one in tree.children]
        if all(one is other for one, other in zip(children, tree.children, strict=True)):
            return tree
        return _with_children(tree, children)

    def _is_long(self, tree: Expression) -> bool:
        """Whether a part of a formula has another type than indices have."""
        if isinstance(tree, Name):
            return tree.name in self.graph.types and self.graph.types[tree.name].dtype == "i64"
        return isinstance(tree, Call) and tree.function == "i64"


def _of(digit: Digit, digits: Sequence[Digit]) -> list[Digit]:
    return [one for one in digits if one.dim == digit.dim]


def _is_size(call: Call) -> bool:
    return call.function == "size"


def _sizes_in(tree: Expression) -> Iterator[str]:
    if isinstance(tree, Name):
        yield tree.name
    for child in tree.children if not isinstance(tree, Call) or tree.function != "index" else ():
        yield from _sizes_in(child)


def _with_children(tree: Expression, children: Sequence[Expression]) -> Expression:
    match tree:
        case Unary():
            return replace(tree, operand=children[0])
        case Binary() | Compare():
            return replace(tree, left=children[0], right=children[1])
        case Call():
            return replace(tree, arguments=tuple(children))
        case _:
            raise AssertionError(f"{tree} has no children")


def _is_formula(op: AnyOp) -> bool:
    return isinstance(op, Formula | Index)


def _chosen(name: str, conditions: Sequence[Expression], then: str) -> Formula:
    if not conditions:
        return _formula(name, Name(then))
    condition = reduce(lambda one, other: Binary("&", one, other), conditions)
    return _formula(name, Call("where", (condition, Name(then), Num(0))))


def _formula(name: str, tree: Expression) -> Formula:
    text = str(tree)
    if len(text) > LONGEST_EXPRESSION:
        raise NotSplit
    return Formula(name=name, text=text)
