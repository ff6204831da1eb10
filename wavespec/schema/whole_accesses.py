"""Tensors go in; the sizes with which all of their rows start where a widest access may come out."""

from __future__ import annotations

from collections.abc import Iterable

from wavespec.ir.dtype import DTYPES
from wavespec.ir.strided import alignment_of
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.expressions import Expression
from wavespec.schema.language.models import Dim, KernelSpec
from wavespec.targets.names import WIDEST_BITS


def whole_accesses(spec: KernelSpec, names: Iterable[str]) -> tuple[Expression, ...]:
    """Conditions on dims of which some sizes are such, and others may not be, and on tensors that may have any strides.

    Of vectors beside matrices there is little to read.
    """
    widest: dict[str, int] = {}
    strided: list[str] = []
    tensors = {name: spec.tensors[name] for name in names}
    fewest = min(2, max((len(tensor.shape) for tensor in tensors.values()), default=0))
    for name, tensor in tensors.items():
        if len(tensor.shape) >= fewest > 0:
            elements = WIDEST_BITS // max(8, DTYPES[tensor.dtype].bits)
            widest[tensor.shape[-1]] = max(elements, widest.get(tensor.shape[-1], 1))
            strided += [f"{alignment_of(name)} % {elements} == 0"] if tensor.is_strided else []
    asked = {dim: elements for dim, elements in widest.items() if _may_be(spec.dims[dim], elements)}
    return tuple(map(parse_expression, [*(f"{dim} % {elements} == 0" for dim, elements in asked.items()), *strided]))


def _may_be(dim: Dim, elements: int) -> bool:
    """Whether some sizes of a dim that arguments have are multiples of so many elements, and others may not be."""
    if dim.equals is not None or dim.value is not None or dim.multiple_of % elements == 0:
        return False
    return dim.max is None or dim.max >= elements
