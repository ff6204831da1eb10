"""A spec without tiles goes in; what each of its dims is for comes out: rows, columns, steps of a loop, or whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wavespec.diagnostics import WavespecError
from wavespec.ir.dtype import DTYPES
from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.language.models import Dim, KernelSpec, Schedule
from wavespec.schema.materialize import laid_out_anew, may_be_laid_out
from wavespec.schema.ops import Iterate, every
from wavespec.schema.packed_rows import with_rows_of_groups
from wavespec.schema.plans.decoded import held_by_steps
from wavespec.schema.plans.graph_roles import GraphRoles
from wavespec.schema.plans.roles import Roles
from wavespec.schema.plans.values_of_rows import MOST_WORDS
from wavespec.schema.plans.vectors import in_vectors
from wavespec.schema.products_before import product_alone, product_that_can_be_made
from wavespec.schema.resolve import constant_values
from wavespec.schema.sums_before import products_beside, sums_beside, with_sums_before
from wavespec.schema.tiled_loops import with_tiled_loops
from wavespec.schema.windows_of_rows import WindowsOfRows
from wavespec.targets.names import WIDEST_BITS

_BYTE_BITS = 8
_BITS = 16
"""Of operands that matrix units read themselves, along any dim."""


def roles_of(spec: KernelSpec) -> Roles | None:
    """None where there are mistakes, which checks report."""
    if not spec.dims.keys() >= {dim for tensor in spec.tensors.values() for dim in tensor.shape}:
        return None
    loops = list(dict.fromkeys(op.dim for op in every(Iterate, spec.graph)))
    try:
        graph, types = plain_graph(with_tiled_loops(spec))
        constants = constant_values(spec)
    except WavespecError:
        return None
    fixed = {name: size for name, dim in spec.dims.items() if (size := _size(dim, constants)) is not None}
    roles = GraphRoles(spec, tuple(graph), types, loops, fixed, constants).roles()
    return replace(
        roles,
        **_shifted(spec, roles),
        with_sums=_with_sums(spec, roles),
        product_beside=_product_beside(spec, roles),
        along_steps=_along_steps(spec, roles),
        product_before=_product_before(spec, roles),
        vectors=in_vectors(spec, graph, types, roles),
        grouped=_grouped(spec, roles),
        held=held_by_steps(graph, types) if roles.kind == "attention" and not roles.steps else {},
    )


def _shifted(spec: KernelSpec, roles: Roles) -> Mapping[str, Any]:
    """Taps of windows that may be rows further down."""
    if roles.kind != "products" or not roles.mapped or roles.decoded or roles.products != 1 or not roles.rows:
        return {}
    found = WindowsOfRows.of(spec, roles.rows)
    return {} if isinstance(found, str) else {"shifted": found.taps, "shifted_lines": found.sizes}


def _with_sums(spec: KernelSpec, roles: Roles) -> Roles | None:
    """Roles of what is left of a product when kernels before have made the sums of its sides."""
    if roles.kind != "products" or roles.joined:
        return None
    tiled = with_tiled_loops(spec)
    sums = sums_beside(tiled)
    if not sums:
        return None
    _, reading = with_sums_before(tiled.model_copy(update={"schedule": Schedule(materialize=sums)}))
    rest = roles_of(reading)
    rest = rest and replace(rest.decoded_once or rest, sums_before=sums, decoded_once=None, turned=())
    return rest and replace(rest, columns_once=rest.columns_once and replace(rest.columns_once, sums_before=sums))


def _product_beside(spec: KernelSpec, roles: Roles) -> Roles | None:
    """Roles of what is left of a product when kernels before have made those of few columns beside it."""
    if roles.kind != "products" or roles.bits != _BITS or roles.joined or roles.decoded or len(roles.steps) != 1:
        return None
    tiled = with_tiled_loops(spec)
    made = products_beside(tiled)
    if not made:
        return None
    _, reading = with_sums_before(tiled.model_copy(update={"schedule": Schedule(materialize=made)}))
    rest = roles_of(reading)
    return rest and replace(rest, products_made=made, product_beside=None, with_sums=None, turned=())


def _product_before(spec: KernelSpec, roles: Roles) -> Roles | None:
    """Roles of the product alone of a kernel that joins its columns, where another one can go on from it row by row."""
    if roles.kind != "products" or not roles.joined or roles.decoded or roles.decoded_once:
        return None
    tiled = with_tiled_loops(spec)
    found = product_that_can_be_made(tiled, [name for op in every(Iterate, spec.graph) for name in op.carry])
    if found is None or roles.row_words > MOST_WORDS:
        return None
    apart = {found.name: (*found.rows, *found.whole)}
    rest = roles_of(product_alone(tiled, apart).model_copy(update={"constraints": (), "schedule": None}))
    return rest and replace(rest, apart=apart, row_words=roles.row_words, with_sums=None, along_steps=None)


def _grouped(spec: KernelSpec, roles: Roles) -> tuple[KernelSpec, Roles] | None:
    """A spec whose rows are neighbours that share what is read, and its roles, where that has products which go into
    others."""
    if roles.products or not roles.steps or roles.ordered:
        return None
    for dim in filter(None, (*roles.alone, roles.rows, roles.columns)):
        if (found := with_rows_of_groups(spec, dim)) is None:
            continue
        shared, rows, made = found
        inner = roles_of(made)
        if inner is not None and inner.kind == "attention" and inner.rows == rows and not inner.decoded:
            own = {name: one.equals for name, one in made.dims.items() if name not in spec.dims}
            following = {name: str(size) for name, size in own.items() if size is not None}
            return made, replace(inner, neighbours=(dim, shared), following=following)
    return None


def _along_steps(spec: KernelSpec, roles: Roles) -> Roles | None:
    """Roles of a product of bytes whose operands lie along the steps, where kernels before could lay out so those that
    do not."""
    if roles.kind != "products" or roles.decoded or roles.mapped or roles.contiguous or len(roles.steps) != 1:
        return None
    (step,), shapes = roles.steps, {name: spec.tensors[name].shape for name in roles.operands}
    laid = {name: (*(dim for dim in shape if dim != step), step) for name, shape in shapes.items() if shape[-1] != step}
    are_bytes = all(DTYPES[spec.tensors[name].dtype].stored_bits == _BYTE_BITS for name in shapes)
    has_whole_rows = roles.fixed.get(step, 0) * _BYTE_BITS % WIDEST_BITS == 0  # or sizes of which some are such
    if not are_bytes or not has_whole_rows or not may_be_laid_out(spec, laid):
        return None
    rest = roles_of(laid_out_anew(spec, laid))
    return None if rest is None else replace(rest, laid_out=laid, with_sums=None)


def _size(dim: Dim, constants: Mapping[str, int]) -> int | None:
    """The size of a dim that has one, by itself or by parameters."""
    if dim.equals is None or not constants.keys() >= set(dim.equals.names()):
        return dim.value
    return int(dim.equals.evaluate(constants))
