"""Thread kernel and resolved kernel in, the launch interface out: a `KernelArtifact` without binaries."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from wavespec.emit.work import work_of
from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Kernel
from wavespec.ir.names import dim_of_size
from wavespec.ir.strided import number_of
from wavespec.ops.dim_sizes import dim_sizes, smallest_sizes
from wavespec.runtime.artifact import Assumption, Backend, Dim, KernelArtifact, Strides, TensorParameter
from wavespec.runtime.scalars import ScalarParameter
from wavespec.runtime.size_expr import SizeExpr, names_in
from wavespec.schema.cases import TargetCase
from wavespec.schema.language.expressions import Binary, Call, Compare, Expression, Name, Num, Unary
from wavespec.schema.language.models import Dim as AskedDim
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.language.scalars import Number, Scalar
from wavespec.schema.resolve import constant_values, names_of_calls
from wavespec.schema.resolved import ResolvedKernel
from wavespec.targets.machine import Machine

_WORDS = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "//": "floordiv",
    "%": "mod",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
    "==": "eq",
    "!=": "ne",
}
_BACKENDS: dict[str, Backend] = {"llvm-cpu": "cpu", "cuda": "cuda", "rocm": "hip"}


def launch_interface(kernel: Kernel, machine: Machine, resolved: ResolvedKernel) -> KernelArtifact:
    """What a caller has to pass and launch; ``kernel`` is what ``resolved`` was lowered to."""
    asked = resolved.computation.dims
    tensors = [
        TensorParameter(
            memory.name,
            memory.dtype.name,
            memory.dims,
            memory.role == "output",
            memory.role == "inout",
            memory.zeroed,
            *_strides(resolved, memory.name),
        )
        for memory in kernel.memories
        if memory.space == "global"
    ]
    used = {dim for tensor in tensors for dim in tensor.dims}
    used |= {one for tensor in tensors for stride in tensor.promised for one in names_in(stride) if one in asked}
    used |= {dim for dim, size in kernel.sizes if not size.is_const}
    unnamed = {
        dim: size.value if size.is_const else dim_of_size(size.args[0])
        for dim, size in dim_sizes(resolved).items()
        if dim not in kernel.all_sizes
    }
    values: dict[str, SizeExpr] = {**resolved.values, **unnamed}
    for name, expression in reversed(tuple(resolved.equals.items())):  # behind what it follows from
        if name in used:
            used |= {str(unnamed.get(one, one)) for one in expression.names()}

    def described(name: str) -> Dim:
        size, multiple = kernel.size(name), asked[name].multiple_of
        if size.is_const or name not in resolved.equals:
            is_leading = asked[name].fold is not None
            return Dim(name, multiple, size.value if size.is_const else None, leading=is_leading)
        return Dim(name, multiple, None, expression_to_size(resolved.equals[name], values))

    grid = [expr_to_size(extent) for extent in kernel.grid] + [1, 1, 1]
    return KernelArtifact(
        name=kernel.name,
        target=kernel.target,
        backend=_BACKENDS[machine.backend],
        architecture=machine.architecture,
        entry_point=kernel.name,
        tensors=tuple(tensors),
        dims=tuple(described(name) for name in asked if name in used),
        scalars=scalar_parameters(resolved.computation.spec),
        grid=(grid[0], grid[1], grid[2]),
        workgroup_size=(_threads(kernel) if machine.concurrent_waves else 1, 1, 1),
        binaries=(),
        shared_memory_bytes=0,
        unlaunched_bytes=_unlaunched_bytes(kernel),
        scratch_bytes=tuple(expr_to_size(memory.elements * memory.dtype.bytes) for memory in kernel.scratch),
        unset_scratch=sum(memory.space == "handed" for memory in kernel.scratch),
        waits=machine.launch_overlap,
        assumptions=(
            *size_assumptions(asked, used, smallest_sizes(resolved)),
            *_assumptions(resolved.assumptions, resolved.values),
        ),
        work=_work(kernel, resolved, used, values) if machine.backend == "llvm-cpu" else 0,
    )


def _threads(kernel: Kernel) -> SizeExpr:
    """Of a workgroup of a launch."""
    return kernel.threads if kernel.launched is None else expr_to_size(kernel.launched * kernel.lanes)


def _unlaunched_bytes(kernel: Kernel) -> SizeExpr:
    """What lanes would have of their own in shared memory whose wave is not launched."""
    if kernel.launched is None:
        return 0
    own = sum(memory.bytes_of(memory.elements.value) for memory in kernel.memories if memory.own)
    return expr_to_size((kernel.wave_count - kernel.launched) * (own // kernel.wave_count))


def _work(kernel: Kernel, resolved: ResolvedKernel, used: Container[str], values: Mapping[str, SizeExpr]) -> SizeExpr:
    """What `work_of` says, by the sizes that a call knows."""
    sizes: dict[str, SizeExpr] = {}
    for name in resolved.computation.dims:
        if name not in kernel.all_sizes:
            sizes[name] = values[name]
        elif kernel.size(name).is_const:
            sizes[name] = kernel.size(name).value
        else:
            sizes[name] = name if name in used else expression_to_size(resolved.equals[name], {**values, **sizes})
    return work_of(resolved.computation, sizes, resolved.values)


def _strides(resolved: ResolvedKernel, name: str) -> tuple[Strides, tuple[SizeExpr, ...]]:
    """Which tensors a call may pass, and what it is asked for of each stride; the same in every case of a target."""
    tensor, params = resolved.computation.tensors[name], resolved.computation.params
    return tensor.strides_word, tuple(expression_to_size(stride, params) for stride in tensor.promised_strides)


def scalar_parameters(spec: KernelSpec) -> tuple[ScalarParameter, ...]:
    """What a call passes by name."""
    shaping = names_of_calls(spec)

    def default(scalar: Scalar) -> Number | None:
        return float(scalar.number) if scalar.is_float and scalar.number is not None else scalar.number

    return tuple(
        ScalarParameter(name, one.dtype, default(one), one.min, one.max, name in shaping, one.computed)
        for name, one in spec.scalars.items()
    )


def shaped_by(scalars: tuple[ScalarParameter, ...], cases: Sequence[TargetCase]) -> tuple[ScalarParameter, ...]:
    """The same, where conditions of ``cases`` depend on some of them."""
    names = {name for case in cases for condition in case.conditions for name in condition.names()}
    return tuple(replace(one, shapes=one.shapes or one.name in names) for one in scalars)


def expr_to_size(expr: Expr) -> SizeExpr:
    """An index expression as the nested tuples that the runtime evaluates."""
    match expr.kind:
        case "const":
            return expr.args[0]
        case "symbol":
            return number_of(expr.args[0]) or dim_of_size(expr.args[0])
        case "sum":
            total: SizeExpr = 0
            for coefficient, term in expr.terms():
                size = expr_to_size(term)
                part = size if abs(coefficient) == 1 else ("mul", size, abs(coefficient))
                total = part if total == 0 and coefficient > 0 else ("add" if coefficient > 0 else "sub", total, part)
            constant = expr.constant_part()
            return ("add" if constant > 0 else "sub", total, abs(constant)) if constant else total
        case "product":
            result = expr_to_size(expr.args[0])
            for factor in expr.args[1:]:
                result = ("mul", result, expr_to_size(factor))
            return result
        case "xor":
            raise ValueError(f"{expr} has no place in a launch")
        case kind:
            return (kind, expr_to_size(expr.args[0]), expr_to_size(expr.args[1]))


def case_conditions(case: TargetCase, interface: KernelArtifact) -> tuple[Assumption, ...]:
    """What a call is asked to find out whether it is one of `case`; `interface` is that of any case."""
    dims = {dim.name for dim in interface.dims}
    # A dim is never replaced by its value: inside the case it may have one that the condition itself asks for.
    values = {name: value for name, value in constant_values(case.spec).items() if name not in dims}
    own = _assumptions(case.when, values)
    if case.least is None or case.case is None:
        return own
    return (*own, Assumption(f"{case.case.least} is the least", expression_to_size(case.least, values)))


def size_assumptions(
    dims: Mapping[str, AskedDim], used: Container[str], smallest: Mapping[str, int]
) -> tuple[Assumption, ...]:
    """The smallest and largest sizes that are promised of dynamic dims in ``used``, but what follows of others."""
    bounds = [
        (name, word, sign, bound)
        for name, dim in dims.items()
        if name in used and dim.value is None
        for word, sign, bound in (("ge", ">=", dim.min or None), ("le", "<=", dim.max))
        if word == "le" or smallest.get(name, 0) < (dim.min or 0)
    ]
    return tuple(
        Assumption(f"{name} {sign} {bound}", (word, name, bound))
        for name, word, sign, bound in bounds
        if bound is not None
    )


def _assumptions(conditions: Iterable[Expression], values: Mapping[str, int]) -> tuple[Assumption, ...]:
    return tuple(Assumption(str(condition), expression_to_size(condition, values)) for condition in conditions)


def expression_to_size(expression: Expression, values: Mapping[str, SizeExpr]) -> SizeExpr:
    """An expression of the spec, parameters replaced by their values, as the nested tuples that the runtime
    evaluates."""
    match expression:
        case Num(value=value):
            return int(value)
        case Name(name=name):
            return values.get(name, name)
        case Unary(operand=operand):
            return ("sub", 0, expression_to_size(operand, values))
        case Binary(op=op, left=left, right=right) | Compare(op=op, left=left, right=right):
            return (_WORDS[op], expression_to_size(left, values), expression_to_size(right, values))
        case Call(function=function, arguments=arguments):
            first, *rest = (expression_to_size(argument, values) for argument in arguments)
            for argument in rest:
                first = (function, first, argument)
            return first
        case _:
            raise AssertionError(f"{expression} is no expression of sizes")
