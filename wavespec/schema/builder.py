"""Calls of Python go in; the `KernelSpec` that the same YAML would give comes out.

kernel = KernelBuilder("copy")
m = kernel.dim("M")
a, b = kernel.input("a", [m], "f32"), kernel.output("b", [m], "f32")
kernel.workgroup(m, kernel.param("BLOCK_M", 256), axis=0)
kernel.write(kernel.read("x", a), b)
spec = kernel.build()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from wavespec.diagnostics import WavespecError, raise_all
from wavespec.schema.checking.check_spec import check_kernel
from wavespec.schema.families.typed import family_of_members
from wavespec.schema.graph_builder import GraphBuilder
from wavespec.schema.language.dtype_parameters import DtypeParameters, Types, read_dtypes
from wavespec.schema.language.errors import MissingField
from wavespec.schema.language.expressions import Name
from wavespec.schema.language.models import API_VERSION, KernelSpec
from wavespec.schema.plans.planned import planned
from wavespec.schema.reading.dtype_members import name_of_member, names_and_inputs
from wavespec.schema.reading.pydantic_to_error import pydantic_to_error
from wavespec.schema.reading.with_dtypes import data_with_dtypes
from wavespec.schema.symbols import Symbol, Value, as_symbol

if TYPE_CHECKING:
    from wavespec.schema.families.expand import Family

Strides = str | Sequence[Symbol | str | int]
"""A word, or an entry for each dim."""


@dataclass(slots=True)
class KernelBuilder(GraphBuilder):
    """Collects the parts of a kernel in the order of the calls; `build` checks them all."""

    _sections: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {"dims": {}, "params": {}, "tensors": {}, "scalars": {}, "targets": {}}
    )
    _dtypes: dict[str, str | tuple[str, ...]] = field(default_factory=dict[str, str | tuple[str, ...]])
    _constraints: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
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
        self,
        name: str,
        shape: Sequence[Symbol | str],
        dtype: str,
        space: str = "global",
        *,
        strides: Strides | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> Value:
        """An argument; `values`, what it holds, as in YAML."""
        return self._tensor(name, shape, dtype, space, "input", strides, values)

    def output(
        self,
        name: str,
        shape: Sequence[Symbol | str],
        dtype: str,
        space: str = "global",
        *,
        strides: Strides | None = None,
    ) -> Value:
        return self._tensor(name, shape, dtype, space, "output", strides)

    def inout(
        self,
        name: str,
        shape: Sequence[Symbol | str],
        dtype: str,
        space: str = "global",
        *,
        strides: Strides | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> Value:
        """An argument that is changed in place; `values`, what it holds, as in YAML."""
        return self._tensor(name, shape, dtype, space, "inout", strides, values)

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

    def hardware(
        self,
        mma: str | None = None,
        vector: Mapping[str, Symbol | int] | None = None,
        fast_math: Sequence[str] = (),
        denormals: str | None = None,
    ) -> None:
        """Features of the machine; `vector`: neighbours along dims that each lane takes together; `fast_math`:
        functions that may be approximate; `denormals`: whether to `"keep"` numbers below the smallest normal one, or
        to `"flush"` them."""
        vectors = {dim: as_symbol(count).expression for dim, count in (vector or {}).items()}
        chosen = {name: word for name, word in (("mma", mma), ("denormals", denormals)) if word is not None}
        fast = {"fast_math": tuple(fast_math)} if fast_math else {}
        self._constrain("hardware", settings={**chosen, "vector": vectors, **fast})

    def assume(self, condition: Symbol) -> None:
        self._constrain("assume", condition=condition.expression)

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
            spec = planned(KernelSpec.model_validate(data))
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
        self,
        name: str,
        shape: Sequence[Symbol | str],
        dtype: str,
        space: str,
        role: str,
        strides: Strides | None,
        values: Mapping[str, Any] | None = None,
    ) -> Value:
        fields: dict[str, Any] = {"shape": tuple(map(str, shape)), "dtype": dtype, "space": space, "role": role}
        if strides is not None and not isinstance(strides, str):
            fields["strides"] = tuple(one.expression if isinstance(one, Symbol) else one for one in strides)
        else:
            fields["strides"] = strides
        held = {key: one.expression if isinstance(one, Symbol) else one for key, one in (values or {}).items()}
        self._sections["tensors"][name] = fields if values is None else {**fields, "values": held}
        return Value(name)

    def _constrain(self, word: str, **fields: Any) -> None:
        self._constraints.append({"constraint": word, **fields})


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
