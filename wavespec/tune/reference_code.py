"""A spec and sizes go in; Python that computes the same with torch alone comes out, for machines without wavespec.

The whole-tensor reference of the graph is traced on tensors without data; what a bundle carries is the calls of torch
that it makes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from wavespec.runtime.artifact import stored_shape
from wavespec.runtime.checks import DTYPES
from wavespec.schema import KernelSpec
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.reference import reference

_HEAD = '''\
"""What the kernel computes, with torch alone: `exact_N` in f64, `rounded_N` in the types of the spec."""

import torch
from torch import device, inf, nan


def _bmm(left, right):
    if not left.is_floating_point():
        # torch has no products of integers on GPUs; f64 holds these exactly.
        return torch.bmm(left.double(), right.double()).to(left.dtype)
    if left.is_cuda and left.dtype is torch.float32:
        # What was widened from 16 bits, torch multiplies as it is, on the same units as the kernel.
        for dtype in (torch.float16, torch.bfloat16):
            narrow = [operand.to(dtype) for operand in (left, right)]
            if torch.equal(narrow[0].float(), left) and torch.equal(narrow[1].float(), right):
                return torch.bmm(*narrow, out_dtype=torch.float32)
    return torch.bmm(left, right)
'''


def reference_code(
    spec: KernelSpec, workloads: Sequence[Mapping[str, int]], scalars: Mapping[str, bool | int | float] | None = None
) -> str:
    """A module with the functions ``exact_N`` and ``rounded_N`` of the inputs for each workload N, for calls that pass
    these ``scalars``."""
    parts = [_HEAD]
    for index, sizes in enumerate(workloads):
        for name, compute in (("exact", torch.float64), ("rounded", None)):
            parts.append(_function(f"{name}_{index}", spec, sizes, compute, scalars or {}))
    return "\n\n".join(parts)


def _function(
    name: str,
    spec: KernelSpec,
    sizes: Mapping[str, int],
    compute: torch.dtype | None,
    scalars: Mapping[str, bool | int | float],
) -> str:
    tensors = [tensor for tensor in spec.tensors.values() if tensor.role != "output"]
    numbers = {name: scalars.get(name, scalar.number) for name, scalar in spec.scalars.items() if not scalar.is_float}
    whole = {name: int(number) for name, number in numbers.items() if number is not None}
    sizes = complete_sizes(spec, {**whole, **sizes})
    with FakeTensorMode():
        shapes = [stored_shape(t.dtype, tuple(sizes[dim] for dim in t.shape)) for t in tensors]
        inputs = [torch.empty(shape, dtype=DTYPES[t.dtype]) for t, shape in zip(tensors, shapes, strict=True)]

    def traced(*arguments: torch.Tensor) -> Any:
        return reference(spec, *arguments, compute=compute, **scalars)

    graph = make_fx(traced, tracing_mode="fake")(*inputs)
    code = graph.code.strip()
    names = re.match(r"def forward\(self, ([^)]*)\)", code)
    assert names is not None, code.splitlines()[0]
    code = code.replace(names[0], f"def {name}({names[1]})", 1)
    # It was traced on the CPU; where it runs is where its inputs are.
    code = code.replace("device(type='cpu')", "_device").replace("torch.ops.aten.bmm.default(", "_bmm(")

    def number(found: re.Match[str]) -> str:
        value: torch.Tensor = getattr(graph, found[1])
        return f"torch.tensor({value.item()!r}, dtype={value.dtype}, device=_device)"

    code = re.sub(r"self\.(\w+)", number, code)
    head, body = code.split("\n", 1)
    first = names[1].split(",")[0].strip()
    return f"{head}\n    _device = {first}.device\n{body}\n"
