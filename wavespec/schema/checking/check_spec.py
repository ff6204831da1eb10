"""A spec of good form goes in; everything in it that makes no sense comes out, as errors and warnings."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from wavespec.diagnostics import Diagnostic, Related, Span, WavespecError, Where, in_order, listing, quote
from wavespec.ir.strided import LARGEST_SIZE
from wavespec.schema.checking.check_assumptions import check_assumptions
from wavespec.schema.checking.check_cases import check_cases
from wavespec.schema.checking.check_constraints import PlaceOutsideGraph, check_constraints, check_tilings
from wavespec.schema.checking.check_graph import SECTIONS, RedefinedName, check_graph
from wavespec.schema.checking.check_loops import check_loops
from wavespec.schema.checking.check_materialize import check_materialize
from wavespec.schema.checking.check_named_strides import check_named_strides
from wavespec.schema.checking.check_overrides import check_overrides
from wavespec.schema.checking.check_scalars import check_scalars, refuse_fraction
from wavespec.schema.checking.check_schedules import check_schedules
from wavespec.schema.checking.check_space import check_space
from wavespec.schema.checking.check_strides import check_strides
from wavespec.schema.checking.check_tiles import check_tiles
from wavespec.schema.checking.check_values import check_values
from wavespec.schema.language.constraints import Assume
from wavespec.schema.language.dim_names import is_expression
from wavespec.schema.language.dtypes import PACKED
from wavespec.schema.language.errors import BadName
from wavespec.schema.language.expressions import PLACES, Binary, Call, EvaluationError, Expression
from wavespec.schema.language.expressions import Name as NameNode
from wavespec.schema.language.models import Dim, KernelSpec, Tensor
from wavespec.schema.language.names import ENTRY_POINTS
from wavespec.schema.language.one_cause import said_once
from wavespec.schema.ops.write import WriteToInput
from wavespec.schema.resolve import CyclicParams, NoConstantValue, UndefinedName, constant_values, derivations, part_of


class RepeatedDim(WavespecError, code="repeated-dim"):
    def __init__(self, where: Where, dim: str) -> None:
        super().__init__(
            where, f"{quote(dim)} is twice in one shape.", hints=["Give the second axis a dim of its own."]
        )


class PackedDim(WavespecError, code="packed-dim"):
    def __init__(self, where: Where, tensor: str, dtype: str, dim: str) -> None:
        super().__init__(
            where,
            f"{quote(tensor)} has {PACKED[dtype]} elements of {dtype} in whole bytes, but any number of them along "
            f"{quote(dim)}.",
            hints=[f"Promise whole bytes: {dim}: {{multiple_of: {PACKED[dtype]}}}."],
        )


class PackedTensor(WavespecError, code="packed-tensor"):
    """A tensor whose elements would share bytes where they cannot."""


class ContradictoryDim(WavespecError, code="contradictory-dim"):
    """The fields of a dim leave no size."""


class MisplacedFold(WavespecError, code="misplaced-fold"):
    """A dim that stands for leading dims is where none can be."""


class UnboundDim(WavespecError, code="unbound-dim"):
    """``made``: the dim of an input that is made of it, such as `V + 1`."""

    def __init__(self, where: Where, dim: str, made: str = "") -> None:
        own = f"An input has {quote(made)}: give that a name, 'ALL: {{}}', and say what {quote(dim)} is of it, as in "
        super().__init__(
            where,
            f"No input has the dim {quote(dim)}, so a call cannot tell its size.",
            hints=[f"{own}'{dim}: {{equals: {made.replace(dim, 'ALL').replace('+', '-')}}}'."] * bool(made)
            or [
                f"Give it one size ({dim}: {{value: ...}}), say what it follows from ({dim}: {{equals: ...}}), "
                f"as of a scalar of integers ({dim}: {{equals: count}}, 'scalars: {{count: {{dtype: i32}}}}'), "
                "or delete it."
            ],
        )


class NoOutput(WavespecError, code="no-output"):
    def __init__(self, where: Where) -> None:
        super().__init__(where, "No tensor is an output.", hints=["Give the result 'role: output'."])


class NoInput(WavespecError, code="no-input"):
    def __init__(self, where: Where, output: str) -> None:
        super().__init__(
            where,
            "No tensor is an argument, so a call cannot tell its device.",
            hints=[f"Let callers pass the tensor that is filled, and its sizes: {output}: {{role: inout, ...}}."],
        )


class IncompleteWorkload(WavespecError, code="incomplete-workload"):
    """``base``: where the workload was written, if a spec that this one extends has it."""

    def __init__(self, where: Where, dims: Sequence[str], workload: Mapping[str, int], base: Span | None) -> None:
        sizes = ", ".join([*(f"{name}: {size}" for name, size in workload.items()), *(f"{dim}: ..." for dim in dims)])
        super().__init__(
            where,
            f"The workload{' of the base' if base else ''} has no size for {listing(dims)}.",
            related=[Related(base, "taken over")] if base else [],
            hints=[f"Add 'workloads: [{{{sizes}}}]' to this spec."] if base else [],
            about=dims,
        )


class ImpossibleSize(WavespecError, code="impossible-size"):
    """A size that the dim's own promises exclude."""


def check_kernel(
    spec: KernelSpec, broken: frozenset[str] = frozenset(), *, is_whole: bool = True
) -> list[WavespecError]:
    """Every mistake of meaning. `broken` names are defined in a way that is reported already.

    A spec that is not whole has lost parts to such reports, so that nothing is called missing in it.
    """
    errors = [*_names(spec), *_tensors(spec, broken, is_whole), *_dims(spec, broken)]
    errors += check_overrides(spec, broken, is_whole=is_whole)
    errors += check_scalars(spec, broken)
    errors += _workloads(spec, broken, is_whole)
    errors += _divisors(spec)
    errors += check_strides(spec)
    errors += check_named_strides(spec, broken)
    errors += check_values(spec, broken)
    errors += check_constraints(spec, broken, is_whole=is_whole)
    errors += check_assumptions(spec)
    errors += check_cases(spec, broken, is_whole=is_whole)
    errors += check_tiles(spec, broken)
    of_graph = check_graph(spec, broken, is_whole=is_whole)
    errors += of_graph
    if is_whole:
        errors += check_tilings(spec) if all(error.severity == "warning" for error in of_graph) else ()
        errors += _bindings(spec)
        # What a plain spec took over from the whole one may be of use to others.
        errors += check_schedules(spec) if spec.has_own_schedule is None else ()
    if is_whole and all(error.severity == "warning" for error in errors):
        errors += [*check_loops(spec), *check_materialize(spec)]
    return _of_one_cause(errors, is_whole=is_whole)


def _of_one_cause(errors: Sequence[WavespecError], *, is_whole: bool) -> list[WavespecError]:
    """The errors without those that follow from others: what is written to no output is the output that is missing;
    where roles may have been lost, it may be one."""
    writes = [error for error in errors if error.code == WriteToInput.code]
    errors = [error for error in errors if not (error.code == NoOutput.code and writes)]
    if not is_whole:
        errors = [error for error in errors if error not in writes]
    return said_once(errors)


def check_spec(spec: KernelSpec) -> tuple[Diagnostic, ...]:
    """Every mistake and every suspicious thing of a spec, sorted by position; for specs written in Python."""
    return in_order(diagnostic for error in check_kernel(spec) for diagnostic in error.diagnostics)


def _names(spec: KernelSpec) -> Iterator[WavespecError]:
    seen: dict[str, tuple[str, Span | None]] = {}
    for section, what in SECTIONS:
        names: Mapping[str, object] = getattr(spec, section)
        for name in names:
            if name in seen:
                yield RedefinedName(spec.where_key(section, name), name, *seen[name])
            else:
                seen[name] = (what, spec.key_span_of(section, name))
    if spec.name in ENTRY_POINTS:
        problem = "means something in machine code, where kernels are found by name"
        yield BadName(spec.where("name"), spec.name, problem)
    for name, tensor in spec.tensors.items():
        if name == "out" and tensor.role != "output":
            problem = "names the result in generated code; an input needs another name"
            yield BadName(spec.where_key("tensors", name), name, problem)


def _tensors(spec: KernelSpec, broken: frozenset[str], is_whole: bool) -> Iterator[WavespecError]:
    for name, tensor in spec.tensors.items():
        yield from check_space(tensor, tensor.space, spec.where("tensors", name, "space"), name) if is_whole else ()
        if tensor.dtype in PACKED:
            yield from _packed(spec, name, tensor)
        for index, dim in enumerate(tensor.shape):
            where = spec.where("tensors", name, "shape", index)
            if dim not in spec.dims and dim not in broken:
                yield UndefinedName(where, dim, "a dim", list(spec.dims))
            if dim in tensor.shape[:index]:
                yield RepeatedDim(where, dim)
            elif dim in spec.dims and spec.dims[dim].fold is not None:
                yield from _folded(tensor, index, where, dim)


def _folded(tensor: Tensor, index: int, where: Where, dim: str) -> Iterator[WavespecError]:
    """A dim that stands for leading ones is where such may be."""
    if index:
        message = f"{quote(dim)} stands for leading dims, but here it is behind {quote(tensor.shape[0])}."
        yield MisplacedFold(where, message)
    elif tensor.dtype in PACKED and len(tensor.shape) == 1:
        yield MisplacedFold(where, f"{quote(dim)} stands for leading dims, but here elements share bytes along it.")


def _packed(spec: KernelSpec, name: str, tensor: Tensor) -> Iterator[WavespecError]:
    """Elements share bytes along the last dim, which no byte may cross the end of."""
    group, dtype = PACKED[tensor.dtype], tensor.dtype
    if not tensor.shape:
        message = f"{quote(name)} is a single {dtype}, and {group} of them fill whole bytes."
        yield PackedTensor(spec.where("tensors", name, "dtype"), message)
    elif (dim := spec.dims.get(tensor.shape[-1])) and math.gcd(dim.value or dim.multiple_of, group) < group:
        yield PackedDim(spec.where("tensors", name, "shape", len(tensor.shape) - 1), name, dtype, tensor.shape[-1])


def _dims(spec: KernelSpec, broken: frozenset[str]) -> Iterator[WavespecError]:
    for name, dim in spec.dims.items():
        if dim.max is not None and dim.max < dim.min:
            message = f"{quote(name)} is at least {dim.min} and at most {dim.max}: no size fits."
            yield ContradictoryDim(spec.where("dims", name, "max"), message)
        elif dim.min > LARGEST_SIZE:
            message = f"{quote(name)} is at least {dim.min}; the largest size of a dim is {LARGEST_SIZE}."
            yield ContradictoryDim(spec.where("dims", name, "min"), message)
        elif dim.max is not None and dim.max > LARGEST_SIZE:
            message = f"{quote(name)} is at most {dim.max}; the largest size of a dim is {LARGEST_SIZE}."
            yield ContradictoryDim(spec.where("dims", name, "max"), message)
        elif dim.value is not None and (problem := size_problem(dim, dim.value)):
            yield ContradictoryDim(spec.where("dims", name, "value"), f"{quote(name)} is {dim.value}, {problem}.")
        elif dim.value is not None and dim.equals is not None and spec.has_own_schedule is None:
            # In a plain spec it is the one size of a case, which a call is asked for.
            message = f"{quote(name)} has one size, and follows from others as well."
            yield ContradictoryDim(spec.where("dims", name, "equals"), message)
        if dim.fold is not None and (dim.value is not None or dim.equals is not None):
            message = f"{quote(name)} is the product of the leading dims of a call, and has a size of its own as well."
            yield ContradictoryDim(spec.where("dims", name, "fold"), message)
        for node in dim.equals.walk() if dim.equals is not None else ():
            known = (*(dim for dim in spec.dims if not is_expression(dim)), *spec.params, *spec.scalars)
            if isinstance(node, NameNode) and node.name not in (*known, *broken):
                place = part_of(spec.where("dims", name, "equals"), node)
                yield UndefinedName(place, node.name, "a dim or a parameter", list(known))
            elif isinstance(node, Call) and node.function in PLACES:
                yield PlaceOutsideGraph(part_of(spec.where("dims", name, "equals"), node), str(node))
        if is_expression(name) and dim.equals is None:
            message = f"{quote(name)} is the size of nothing: no shape has it."
            yield ContradictoryDim(
                spec.where_key("dims", name), message, hints=["A dim with a name: H: {equals: ...}."]
            )
        elif is_expression(name) and str(dim.equals) != name:
            message = f"{quote(name)} is its own size, and follows from others as well."
            yield ContradictoryDim(spec.where("dims", name, "equals"), message)
        if dim.equals is not None:
            yield from refuse_fraction(spec, dim.equals, spec.where("dims", name, "equals"))
        if dim.equals is not None and dim.equals.is_condition:
            message = f"{quote(str(dim.equals))} is a condition; a size is an integer."
            yield ContradictoryDim(spec.where("dims", name, "equals"), message)
    try:
        derivations(spec)
    except CyclicParams as error:
        yield error


def _divisors(spec: KernelSpec) -> Iterator[WavespecError]:
    """Divisions by 0 in what is computed from the sizes of a call, whatever those are."""
    try:
        values = constant_values(spec)
    except WavespecError:  # reported where parameters are checked
        return
    overrides = [over for settings in spec.targets.values() for over in (settings, *settings.cases)]
    everything = (*spec.constraints, *(one for over in overrides for one in over.constraints or ()))
    written = [(dim.equals, spec.where("dims", name, "equals")) for name, dim in spec.dims.items()]
    written += [
        (one, spec.where("tensors", name, "strides", axis))
        for name, tensor in spec.tensors.items()
        for axis, one in enumerate(tensor.promised_strides)
    ]
    written += [
        (bound, spec.where("tensors", name, "values", field))
        for name, tensor in spec.tensors.items()
        if tensor.values is not None
        for field, bound in (("min", tensor.values.min), ("max", tensor.values.max))
        if bound is not None and any(one not in values for one in bound.names())  # others have no value at all
    ]
    written += [(one.condition, one.where("condition")) for one in everything if isinstance(one, Assume)]
    for settings in spec.targets.values():
        written += [(one, case.where("when", at)) for case in settings.cases for at, one in enumerate(case.when)]
        written += [(case.least, case.where("least")) for case in settings.cases if case.least is not None]
    for expression, where in written:
        for node in expression.walk() if expression is not None else ():
            if (divisor := _divisor(node)) is None or any(name not in values for name in divisor.names()):
                continue
            try:
                is_zero = divisor.evaluate(values) == 0
            except EvaluationError:  # of a division inside of it, which comes by itself
                continue
            if is_zero:
                yield NoConstantValue(part_of(where, divisor), f"{quote(str(node))} divides by 0.")


def _divisor(node: Expression) -> Expression | None:
    match node:
        case Binary(op="/" | "//" | "%", right=divisor) | Call(function="ceildiv", arguments=(_, divisor)):
            return divisor
        case _:
            return None


def _workloads(spec: KernelSpec, broken: frozenset[str], is_whole: bool) -> Iterator[WavespecError]:
    used = {dim for tensor in spec.tensors.values() for dim in tensor.shape}
    for index, workload in enumerate(spec.workloads):
        for name, size in workload.items():
            dim = spec.dims.get(name)
            if dim is None:
                if name not in broken:
                    yield UndefinedName(spec.where_key("workloads", index, name), name, "a dim", list(spec.dims))
            elif problem := size_problem(dim, size):
                yield ImpossibleSize(spec.where("workloads", index, name), f"{quote(name)} is {size}, {problem}.")
        # A size under another name is that of a dim which seems to have none, and what gives one may be what was lost.
        if not is_whole or not spec.dims.keys() >= workload.keys():
            continue
        free = (name for name, dim in spec.dims.items() if dim.value is None and dim.equals is None)
        if missing := [name for name in free if name not in workload and name in used]:
            base = _of_base(spec, index)
            at = spec.where("workloads", index) if base is None else _own_place(spec, missing[0])
            yield IncompleteWorkload(at, missing, workload, base)


def _of_base(spec: KernelSpec, index: int) -> Span | None:
    """Where a workload was written, if that is not the file which has the kernel's name."""
    written, own = spec.span_of("workloads", index), spec.span_of("name")
    return written if written and own and written.file != own.file else None


def _own_place(spec: KernelSpec, dim: str) -> Where:
    """Where the spec itself has a dim that its base lacks, else its name."""
    added, own = spec.key_span_of("dims", dim), spec.span_of("name")
    return added if added and own and added.file == own.file else spec.where("name")


def size_problem(dim: Dim, size: int) -> str | None:
    """Why no call of the kernel has this size, as the end of a sentence; `None` where one may have it."""
    if dim.value is not None and size != dim.value:
        return f"but its one size is {dim.value}"
    if size % dim.multiple_of:
        return f"not a multiple of {dim.multiple_of}"
    if size < dim.min:
        return f"less than its smallest size {dim.min}"
    if dim.max is not None and size > dim.max:
        return f"more than its largest size {dim.max}"
    return f"more than the largest size of a dim, {LARGEST_SIZE}" if size > LARGEST_SIZE else None


def _bindings(spec: KernelSpec) -> Iterator[WavespecError]:
    roles = [tensor.role for tensor in spec.tensors.values()]
    if "output" not in roles and "inout" not in roles:
        yield NoOutput(spec.where_key("tensors"))
    elif set(roles) == {"output"}:
        yield NoInput(spec.where_key("tensors"), next(iter(spec.tensors)))
        return  # sizes are those of the argument that is missing
    inputs = {dim for tensor in spec.tensors.values() if tensor.role != "output" for dim in tensor.shape}
    # A dim that a tensor spells in another way is missing there, and not too much here.
    is_spelt = all(dim in spec.dims for tensor in spec.tensors.values() for dim in tensor.shape)
    for name, dim in spec.dims.items():
        is_bound = dim.value is not None or dim.equals is not None or is_expression(name)
        if is_spelt and not is_bound and name not in inputs:
            made = (one for one in inputs if is_expression(one) and re.fullmatch(rf"{name} *\+ *\d+", one))
            yield UnboundDim(spec.where_key("dims", name), name, next(made, ""))
