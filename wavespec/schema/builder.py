"""Calls of Python go in; the `KernelSpec` that the same YAML would give comes out.

kernel = KernelBuilder("copy")
m = kernel.dim("M")
a, b = kernel.input("a", [m], "f32"), kernel.output("b", [m], "f32")
kernel.workgroup(m, kernel.param("BLOCK_M", 256), axis=0)
kernel.write(kernel.read("x", a), b)
spec = kernel.build()
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from wavespec.diagnostics import WavespecError, raise_all
from wavespec.schema.checking.check_spec import check_kernel
from wavespec.schema.families.typed import family_of_members
from wavespec.schema.language.dtype_parameters import DtypeParameters, Types, read_dtypes
from wavespec.schema.language.errors import MissingField, UnknownOp, WrongOperandCount
from wavespec.schema.language.expressions import Expression, Name
from wavespec.schema.language.models import API_VERSION, KernelSpec
from wavespec.schema.ops import FUNCTIONS, OPS, REDUCTIONS, SCANS, Elementwise, Reduction
from wavespec.schema.ops.scan import ScanRow
from wavespec.schema.reading.dtype_members import name_of_member, names_and_inputs
from wavespec.schema.reading.pydantic_to_error import pydantic_to_error
from wavespec.schema.reading.with_dtypes import data_with_dtypes
from wavespec.schema.symbols import Formula, IndexMap, Loop, Symbol, Value, as_symbol

if TYPE_CHECKING:
    from wavespec.schema.families.expand import Family


def _until(until: Symbol | str | None) -> dict[str, Expression | str]:
    return {} if until is None else {"until": until.expression if isinstance(until, Symbol) else until}


@dataclass(slots=True)
class KernelBuilder:
    """Collects the parts of a kernel in the order of the calls; `build` checks them all."""

    name: str
    doc: str = ""
    _sections: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {"dims": {}, "params": {}, "tensors": {}, "scalars": {}, "targets": {}}
    )
    _dtypes: dict[str, str | tuple[str, ...]] = field(default_factory=dict[str, str | tuple[str, ...]])
    _constraints: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _bodies: list[list[dict[str, Any]]] = field(default_factory=lambda: [[]])
    _schedule: dict[str, Any] | None = None
    _workloads: list[dict[str, int]] = field(default_factory=list[dict[str, int]])

    def dtype(self, name: str, *types: str) -> str:
        """A name for an element type: one of several, by the tensors of a call, or `accumulator(T)` of another name.

        `build` makes the kernel of the first types, `build_family` that of each.
        """
        self._dtypes[name] = types[0] if len(types) == 1 and "(" in types[0] else types
        return name

    def dim(self, name: str, *, equals: Symbol | None = None, **fields: Any) -> Symbol:
        """A dim; `multiple_of`, `value`, `min`, `max`, `fold` and `equals` as in YAML."""
        self._sections["dims"][name] = fields if equals is None else {**fields, "equals": equals.expression}
        return Symbol(Name(name))

    def param(self, name: str, value: Symbol | int) -> Symbol:
        self._sections["params"][name] = as_symbol(value).expression
        return Symbol(Name(name))

    def input(
        self, name: str, shape: Sequence[Symbol | str], dtype: str, space: str = "global", *, strides: str | None = None
    ) -> Value:
        return self._tensor(name, shape, dtype, space, "input", strides)

    def output(
        self, name: str, shape: Sequence[Symbol | str], dtype: str, space: str = "global", *, strides: str | None = None
    ) -> Value:
        return self._tensor(name, shape, dtype, space, "output", strides)

    def inout(
        self, name: str, shape: Sequence[Symbol | str], dtype: str, space: str = "global", *, strides: str | None = None
    ) -> Value:
        """An argument that is changed in place."""
        return self._tensor(name, shape, dtype, space, "inout", strides)

    def scalar(self, name: str, dtype: str, **fields: bool | int | float | str) -> Symbol:
        """A number that a call passes by name, in the graph a value; `default`, `min`, `max` and `doc` as in YAML."""
        self._sections["scalars"][name] = {"dtype": dtype, **fields}
        return Symbol(Name(name))

    def workgroup(self, dim: Symbol | str, tile: Symbol | int, axis: int, order: str | None = None) -> None:
        """`order`: an expression of `index` and `count`, as in YAML."""
        chosen = {} if order is None else {"order": order}
        self._constrain("workgroup", dim=str(dim), tile=as_symbol(tile).expression, axis=axis, **chosen)

    def tiling(
        self,
        dim: Symbol | str,
        tile: Symbol | int,
        start: Symbol | int | None = None,
        count: Symbol | int | None = None,
    ) -> None:
        written = {"start": start, "count": count}
        bounds = {key: as_symbol(value).expression for key, value in written.items() if value is not None}
        self._constrain("tiling", dim=str(dim), tile=as_symbol(tile).expression, **bounds)

    def device(self, dim: Symbol | str, tile: Symbol | int) -> None:
        self._constrain("device", dim=str(dim), tile=as_symbol(tile).expression)

    def wave(self, dim: Symbol | str, tile: Symbol | int, axis: int = 0) -> None:
        self._constrain("wave", dim=str(dim), tile=as_symbol(tile).expression, axis=axis)

    def hardware(self, mma: str | None = None, vector: Mapping[str, Symbol | int] | None = None) -> None:
        """Features of the machine; `vector`: neighbours along dims that each lane takes together."""
        vectors = {dim: as_symbol(count).expression for dim, count in (vector or {}).items()}
        chosen = {} if mma is None else {"mma": mma}
        self._constrain("hardware", settings={**chosen, "vector": vectors})

    def assume(self, condition: Symbol) -> None:
        self._constrain("assume", condition=condition.expression)

    def register(self, name: str, shape: Sequence[Symbol | str], dtype: str, value: float) -> Value:
        return self._op("register", name, shape=tuple(map(str, shape)), dtype=dtype, value=value)

    def read(
        self, name: str, tensor: Value, dims: Sequence[Symbol | str] | None = None, at: IndexMap | None = None
    ) -> Value:
        """`at`: dim of the tensor: index, as in YAML; `size(M)` is the size of a dim."""
        shape = {} if dims is None else {"dims": tuple(map(str, dims))}
        return self._op("read", name, tensor=str(tensor), **shape, at=_index_map(at))

    def take(
        self, name: str, value: Value, dims: Sequence[Symbol | str] | None = None, at: IndexMap | None = None
    ) -> Value:
        """`at`: dim of the value: index, as in YAML; `size(M)` is the size of a dim."""
        shape = {} if dims is None else {"dims": tuple(map(str, dims))}
        return self._op("take", name, value=str(value), **shape, at=_index_map(at))

    def mma(
        self,
        name: str,
        lhs: Value,
        rhs: Value,
        acc: Value,
        variant: str = "",
        scales: tuple[Value, Value] | None = None,
    ) -> Value:
        """A product; `variant` is its own matrix instruction, in place of that of the kernel, and `scales` what the
        elements of `lhs` and of `rhs` are multiplied by first."""
        chosen: dict[str, Any] = {"variant": variant} if variant else {}
        if scales is not None:
            chosen["scales"] = (str(scales[0]), str(scales[1]))
        return self._op("mma", name, lhs=str(lhs), rhs=str(rhs), acc=str(acc), **chosen)

    def cast(self, name: str, value: Value | Symbol, dtype: str) -> Value:
        return self._op("cast", name, value=str(value), dtype=dtype)

    def bitcast(self, name: str, value: Value, dtype: str) -> Value:
        return self._op("bitcast", name, value=str(value), dtype=dtype)

    def index(self, name: str, dim: Symbol | str, dtype: str = "i32") -> Value:
        return self._op("index", name, dim=str(dim), dtype=dtype)

    def size(self, name: str, dim: Symbol | str, dtype: str = "i32") -> Value:
        return self._op("size", name, dim=str(dim), dtype=dtype)

    def random(self, name: str, seed: Value | Symbol | int, dims: Sequence[Symbol | str], dtype: str = "f32") -> Value:
        key = seed if isinstance(seed, int) else str(seed)
        return self._op("random", name, seed=key, dims=tuple(map(str, dims)), dtype=dtype)

    def formula(self, name: str, expression: Formula | str) -> Value:
        """An expression by the name of its value: `k.formula("y", x * 2 + 1)`, or its text, `"where(x > 0, x, 0)"`."""
        return self._op("formula", name, text=str(expression))

    def elementwise(self, function: str, name: str, *operands: Value | Symbol | float) -> Value:
        """An elementwise op by its word: `k.elementwise("add", "y", x, bias)`, `k.elementwise("mul", "y", x, 0.5)`."""
        model = OPS.get(function)
        if model is None or not issubclass(model, Elementwise):
            raise UnknownOp(f"{self.name}.graph.{name}", function, [row.word for row in FUNCTIONS])
        fields = model.headline
        if len(operands) != len(fields):
            raise WrongOperandCount(f"{self.name}.graph.{name}", function, fields, len(operands))
        written = [str(operand) if isinstance(operand, Value | Symbol) else operand for operand in operands]
        return self._op(function, name, **dict(zip(fields, written, strict=True)))

    def reduce(
        self,
        word: str,
        name: str,
        value: Value | Sequence[Value],
        dim: Symbol | str | Sequence[Symbol | str],
        init: Value | None = None,
    ) -> Value:
        """Elements along a dim, or several dims, of a value, or several values, joined to one:
        `k.reduce("sum", "total", x, n, init=loop["total"])`."""
        values = str(value) if isinstance(value, Value) else tuple(map(str, value))
        dims = str(dim) if isinstance(dim, Symbol | str) else tuple(map(str, dim))
        return self._along(REDUCTIONS, word, name, values, dims, init)

    def scan(
        self,
        word: str,
        name: str,
        value: Value,
        dim: Symbol | str,
        init: Value | None = None,
        *,
        reverse: bool = False,
    ) -> Value:
        """Every element along a dim joined with all before it: `k.scan("cumsum", "running", x, n)`."""
        backwards = {"reverse": True} if reverse else {}
        return self._along(SCANS, word, name, str(value), str(dim), init, **backwards)

    @contextmanager
    def joined(
        self,
        word: str,
        name: str,
        dim: Symbol | str,
        identity: Mapping[str, int | float],
        *,
        init: Mapping[str, Value] | None = None,
        last: Mapping[str, str] | None = None,
        reverse: bool = False,
        **carry: Value,
    ) -> Generator[Loop, None, None]:
        """A `scan` or a `reduce` by what is called inside the `with`: there `run["h"]` is what is joined so far, and
        the value that is carried as `h` the element that comes next."""
        run = Loop(name)
        self._bodies.append([])
        yield run
        run.is_open = False
        combine = tuple(self._bodies.pop())
        fields: dict[str, Any] = {"dim": str(dim), "identity": dict(identity), "combine": combine}
        fields |= {"init": {key: str(value) for key, value in init.items()}} if init else {}
        fields |= ({"last": dict(last)} if last else {}) | ({"reverse": True} if reverse else {})
        self._op(word, name, carry={key: str(value) for key, value in carry.items()}, **fields)

    def argmax(
        self,
        name: str,
        value: Value,
        dim: Symbol | str,
        *,
        extreme: str = "",
        init: tuple[Value, Value] | None = None,
        dtype: str = "i64",
        word: str = "argmax",
    ) -> tuple[Value, Value]:
        """The place of the largest element along a dim (`word="argmin"`: the smallest), and under the name `extreme`,
        if that is there, the element."""
        fields = {"extreme": extreme} if extreme else {}
        start = {} if init is None else {"init": tuple(map(str, init))}
        place = self._op(word, name, value=str(value), dim=str(dim), dtype=dtype, **fields, **start)
        return place, Value(extreme)

    def topk(
        self,
        name: str,
        value: Value,
        dim: Symbol | str,
        k: Symbol | str,
        *,
        indices: str = "",
        init: tuple[Value, Value] | None = None,
        dtype: str = "i64",
        largest: bool = True,
    ) -> tuple[Value, Value]:
        """As many elements along a dim as `k`, a dim, has, the largest first, and under the name `indices`, if that is
        there, their places."""
        fields = {"indices": indices} if indices else {}
        start = {} if init is None else {"init": tuple(map(str, init))}
        how = {"dim": str(dim), "k": str(k), "dtype": dtype, "largest": largest}
        return self._op("topk", name, value=str(value), **how, **fields, **start), Value(indices)

    def write(self, value: Value, to: Value, at: IndexMap | None = None, combine: str | None = None) -> None:
        where = {"value": str(value), "to": str(to), "at": _index_map(at)}
        self._bodies[-1].append({"op": "write", **where, "combine": combine})

    def debug(self, value: Value) -> None:
        self._bodies[-1].append({"op": "debug", "value": str(value)})

    @contextmanager
    def iterate(
        self,
        name: str,
        dim: Symbol | str,
        *,
        start: Symbol | int | None = None,
        end: Symbol | int | None = None,
        step: Symbol | int | None = None,
        until: Symbol | str | None = None,
        **carry: Value,
    ) -> Generator[Loop, None, None]:
        """The body is what is called inside the `with`; `until` compares values by their names: `"total > 9"`."""
        loop = Loop(name)
        self._bodies.append([])
        yield loop
        loop.is_open = False
        body = tuple(self._bodies.pop())
        carried = {key: str(value) for key, value in carry.items()}
        written = {"start": start, "end": end, "step": step}
        bounds: dict[str, Any] = {
            key: as_symbol(value).expression for key, value in written.items() if value is not None
        }
        bounds |= _until(until)
        self._op("iterate", name, dim=str(dim), **bounds, carry=carried, body=body)

    @contextmanager
    def repeat(
        self, name: str, steps: Symbol | int, *, until: Symbol | str | None = None, **carry: Value
    ) -> Generator[Loop, None, None]:
        """The body is what is called inside the `with`."""
        loop = Loop(name)
        self._bodies.append([])
        yield loop
        loop.is_open = False
        body = tuple(self._bodies.pop())
        carried = {key: str(value) for key, value in carry.items()}
        self._op("repeat", name, steps=as_symbol(steps).expression, **_until(until), carry=carried, body=body)

    @contextmanager
    def branch(self, name: str, condition: Symbol, **carry: Value) -> Generator[Loop, None, None]:
        """An `if`: the body is what is called inside the `with`; `otherwise` right behind it adds the other one."""
        branch = Loop(name)
        self._bodies.append([])
        yield branch
        branch.is_open = False
        body = tuple(self._bodies.pop())
        carried = {key: str(value) for key, value in carry.items()}
        self._op("if", name, condition=condition.expression, carry=carried, body=body)

    @contextmanager
    def otherwise(self, branch: Loop) -> Generator[Loop, None, None]:
        """What is done where the condition of `branch` does not hold."""
        statement = next(one for one in self._bodies[-1] if one.get("name") == branch.name)
        self._bodies.append([])
        branch.is_open = True
        yield branch
        branch.is_open = False
        statement["otherwise"] = tuple(self._bodies.pop())

    def target(
        self,
        name: str,
        params: Mapping[str, Symbol | int] | None = None,
        mma: str | None = None,
        spaces: Mapping[str, str] | None = None,
        stages: int | None = None,
    ) -> None:
        """What differs on one target."""
        settings = self._sections["targets"].setdefault(name, {})
        settings |= _override(params, mma, spaces, stages)

    def case(
        self,
        target: str,
        when: Sequence[Symbol],
        params: Mapping[str, Symbol | int] | None = None,
        mma: str | None = None,
        spaces: Mapping[str, str] | None = None,
        stages: int | None = None,
    ) -> None:
        """What differs on one target for calls whose sizes meet every condition of `when`; the first such case is
        taken."""
        settings = self._sections["targets"].setdefault(target, {})
        case = {"when": tuple(condition.expression for condition in when), **_override(params, mma, spaces, stages)}
        settings["cases"] = (*settings.get("cases", ()), case)

    def schedule(self, stages: int = 1, **fields: Any) -> None:
        """How steps of loops overlap; `fields` as in YAML: `auto`, `loops`, `waves`, `workgroups`."""
        self._schedule = {"stages": stages, **fields}

    def workload(self, **sizes: int) -> None:
        self._workloads.append(sizes)

    def build(self) -> KernelSpec:
        """The checked spec, that of the first types where there are names for some.

        Raises:
            WavespecError: with everything that is wrong in it.
        """
        parameters = self._parameters()
        return self._kernel(parameters, parameters.members()[0]) if parameters else self._checked(self._data())

    def build_family(self) -> Family:
        """The kernels for all element types that `dtype` has names for.

        Raises:
            WavespecError: with everything that is wrong in one of them.
        """
        parameters = self._parameters()
        if parameters is None:
            raise MissingField(f"{self.name}.dtypes", "dtypes", "A kernel with several types")
        kernels = [(chosen, partial(self._kernel, parameters, chosen)) for chosen in parameters.members()]
        return family_of_members(parameters, self._data(), kernels)

    def _parameters(self) -> DtypeParameters | None:
        if not self._dtypes:
            return None

        def place(*path: str | int) -> str:
            return ".".join([self.name, "dtypes", *map(str, path)])

        parameters = read_dtypes(self._dtypes, place, place)
        raise_all(names_and_inputs(parameters, self._data(), place, place))
        return parameters

    def _kernel(self, parameters: DtypeParameters, chosen: Types) -> KernelSpec:
        typed = cast("dict[str, Any]", data_with_dtypes(self._data(), parameters.types(chosen)))
        return self._checked({**typed, "name": name_of_member(self.name, parameters, chosen)})

    def _data(self) -> dict[str, Any]:
        return {
            "apiVersion": API_VERSION,
            "kind": "Kernel",
            "name": self.name,
            "doc": self.doc,
            **self._sections,
            "constraints": tuple(self._constraints),
            "graph": tuple(self._bodies[0]),
            "schedule": self._schedule,
            "workloads": tuple(self._workloads),
        }

    def _checked(self, data: dict[str, Any]) -> KernelSpec:
        try:
            spec = KernelSpec.model_validate(data)
        except ValidationError as error:
            raise WavespecError.of(
                diagnostic
                for problem in error.errors(include_url=False)
                for diagnostic in self._problem_to_error(problem).diagnostics
            ) from None
        raise_all(check_kernel(spec))
        return spec

    def _problem_to_error(self, problem: Mapping[str, Any]) -> WavespecError:
        path = [self.name, *map(str, problem["loc"])]
        return pydantic_to_error(problem, ".".join(path), path[-1], f"'{path[-2]}'" if len(path) > 2 else "A kernel")

    def _tensor(
        self, name: str, shape: Sequence[Symbol | str], dtype: str, space: str, role: str, strides: str | None
    ) -> Value:
        fields = {"shape": tuple(map(str, shape)), "dtype": dtype, "space": space, "role": role, "strides": strides}
        self._sections["tensors"][name] = fields
        return Value(name)

    def _constrain(self, word: str, **fields: Any) -> None:
        self._constraints.append({"constraint": word, **fields})

    def _along(
        self,
        rows: Sequence[Reduction | ScanRow],
        word: str,
        name: str,
        value: str | tuple[str, ...],
        dim: str | tuple[str, ...],
        init: Value | None,
        **fields: Any,
    ) -> Value:
        words = [row.word for row in rows]
        if word not in words:
            raise UnknownOp(f"{self.name}.graph.{name}", word, words)
        start = {} if init is None else {"init": str(init)}
        return self._op(word, name, value=value, dim=dim, **start, **fields)

    def _op(self, word: str, name: str, **fields: Any) -> Value:
        self._bodies[-1].append({"op": word, "name": name, **fields})
        return Value(name)


def _override(
    params: Mapping[str, Symbol | int] | None,
    mma: str | None,
    spaces: Mapping[str, str] | None,
    stages: int | None,
) -> dict[str, Any]:
    override: dict[str, Any] = {
        "params": {key: as_symbol(value).expression for key, value in (params or {}).items()},
        "tensors": {key: {"space": space} for key, space in (spaces or {}).items()},
    }
    if mma is not None:
        override["hardware"] = {"mma": mma}
    if stages is not None:
        override["schedule"] = {"stages": stages}
    return override


def _index_map(at: IndexMap | None) -> dict[str, str | int]:
    return {str(dim): index if isinstance(index, int) else str(index) for dim, index in (at or {}).items()}
