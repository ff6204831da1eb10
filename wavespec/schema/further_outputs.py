"""A spec, and a graph that writes more than its outputs, go in; the spec that has these, behind its own, comes out."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from wavespec.diagnostics import raise_all
from wavespec.schema.checking.check_spec import check_kernel
from wavespec.schema.language.models import KernelSpec, Tensor
from wavespec.schema.ops import AnyOp
from wavespec.schema.ops.base import ValueType


def with_outputs(spec: KernelSpec, outputs: Mapping[str, ValueType], graph: Sequence[AnyOp]) -> KernelSpec:
    """The spec with further outputs of these types, which the graph writes.

    Raises:
        WavespecError: a kernel for that cannot be.
    """
    tensors = {name: Tensor(shape=type_.dims, dtype=type_.dtype, role="output") for name, type_ in outputs.items()}
    whole = spec.model_copy(update={"tensors": {**spec.tensors, **tensors}, "graph": tuple(graph)})
    raise_all(check_kernel(whole))
    return whole


def unused_name(name: str, taken: Container[str]) -> str:
    """A name like this one that is not taken."""
    while name in taken:
        name += "_"
    return name
