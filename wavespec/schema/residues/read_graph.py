"""A spec goes in; what its values are of indices alone, its places, and the conditions of its `where`s, come out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.language.constraints import Tiling
from wavespec.schema.language.expressions import Binary, Call, Expression, Name, Num
from wavespec.schema.language.formula_parser import parse_formula
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.made_kernels import words_of
from wavespec.schema.ops import Formula, Index, Iterate, Read, Structured, ValueOp, Write, every, walk
from wavespec.schema.residues.index_sums import Indices, Sum

_SOME_TILE = 64


@dataclass(frozen=True, slots=True)
class Choice:
    """``where(conditions, then, 0)``: what has to hold together, and the name of a value."""

    conditions: tuple[Expression, ...]
    then: str


class ReadGraph:
    """The graph of a checked spec.

    Raises:
        WavespecError: it has mistakes.
    """

    def __init__(self, spec: KernelSpec) -> None:
        tiled = {one.dim for one in spec.constraints if isinstance(one, Tiling)}
        loops = dict.fromkeys(op.dim for op in every(Iterate, spec.graph) if op.dim not in tiled)
        tilings = tuple(Tiling(dim=dim, tile=Num(_SOME_TILE)) for dim in loops if dim in spec.dims)
        self.spec = spec
        self.ops, self.types = plain_graph(spec.model_copy(update={"constraints": (*spec.constraints, *tilings)}))
        self.trees = {op.name: parse_formula(op.text) for op in every(Formula, spec.graph)}
        self.indices = Indices(spec)
        for op in walk(spec.graph):
            if isinstance(op, Index):
                self.indices.values[op.name] = self.indices.index(op.dim)
            elif isinstance(op, Formula) and self.types[op.name].dtype in ("i32", "i64"):
                found = self.indices.formula(self.trees[op.name])
                self.indices.values |= {op.name: found} if found is not None else {}

    @cached_property
    def has_one_meaning(self) -> bool:
        """Whether no name is defined twice, but for what loops carry."""
        carried = [name for op in walk(self.spec.graph) if isinstance(op, Structured) for name in op.carry]
        made = [op.name for op in walk(self.spec.graph) if isinstance(op, ValueOp) and op.name not in carried]
        return len({*carried, *made}) == len(carried) + len(made)

    @cached_property
    def choices(self) -> dict[str, Choice]:
        """By the name of the value."""
        found: dict[str, Choice] = {}
        for name, tree in self.trees.items():
            match tree:
                case Call(function="where", arguments=(condition, Name(name=then), Num(value=0))):
                    found[name] = Choice(tuple(self.conditions(condition)), then)
                case _:
                    pass
        return found

    def conditions(self, tree: Expression) -> Iterator[Expression]:
        """What has to hold together, those of values that are conditions among them."""
        if isinstance(tree, Binary) and tree.op == "&":
            yield from self.conditions(tree.left)
            yield from self.conditions(tree.right)
        elif isinstance(tree, Name) and tree.name in self.trees:
            yield from self.conditions(self.trees[tree.name])
        else:
            yield tree

    def places(self, op: Read | Write) -> dict[str, Expression]:
        """Of all dims of a tensor, those of the same name among them."""
        tensor = op.tensor if isinstance(op, Read) else op.to
        return {dim: op.at.get(dim, Name(dim)) for dim in self.spec.tensors[tensor].shape}

    def dims(self, op: Read | Write) -> tuple[str, ...]:
        """Of the value that is read or written."""
        return self.types[op.name if isinstance(op, Read) else op.value].dims

    def uses(self, name: str) -> int:
        return sum(words_of(op).count(name) for op in self.spec.graph)

    def sums(self) -> Iterator[Sum]:
        """All that places and formulas have of indices."""
        for op in walk(self.spec.graph):
            if isinstance(op, Read | Write):
                for tree in self.places(op).values():
                    yield from sums_in(tree, self.indices, of_formulas=False)
        for tree in self.trees.values():
            yield from sums_in(tree, self.indices, of_formulas=True)


def sums_in(tree: Expression, indices: Indices, *, of_formulas: bool) -> Iterator[Sum]:
    """The largest parts of an expression that are sums of indices."""
    found = indices.formula(tree) if of_formulas else indices.place(tree)
    if found is not None:
        yield found
        return
    for child in tree.children:
        yield from sums_in(child, indices, of_formulas=of_formulas)
