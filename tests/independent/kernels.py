"""The few kernels, with symbolic dims, that all independent cases go through: their names in, callables out."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tests.independent.plans import BINARY, UNARY
from wavespec.ir.dtype import DTYPES
from wavespec.pipeline import best_variant, build
from wavespec.runtime.kernel import Kernel
from wavespec.schema import KernelSpec, loads

SPECS = Path(__file__).parents[2] / "specs"
_HEAD = "apiVersion: wavespec/v1\nkind: Kernel\nname: independent\n"
_FLAT = "constraints:\n  - {workgroup: M, tile: 1, axis: 1}\n  - {workgroup: N, tile: 256, axis: 0}\ngraph:\n"


@cache
def kernel(name: str) -> Kernel:
    """One of the kernels below, compiled for this machine's CPU."""
    return Kernel(build(spec_of(name), "cpu", only=best_variant("cpu")))


def spec_of(name: str) -> KernelSpec:
    """The spec of a kernel that a plan names, or of one in ``specs/``."""
    word, _, rest = name.partition(" ")
    if word == "matmul":
        text = _of_type(_of_specs("batched_matmul"), "f32")
    elif word in ("matmul_bf16", "matmul_f16"):
        text = _of_type(_of_specs("matmul"), word.removeprefix("matmul_"))
    elif word == "topk":
        text = _topk(*rest.split())
    elif word == "argmax":
        text = _of_type(_of_specs(word), rest)
    elif word == "conv2d":
        text = _conv2d(*rest.split())
    elif word == "embedding":
        text = _of_type(_of_specs(word), "f32").replace("{multiple_of: 8}", "{}")
    elif word == "reductions":
        text = _reductions()
    elif word[:-1] == "unary":
        text = _elementwise(UNARY[13 * int(word[-1]) :][:13], "x")
    elif word[:-1] == "binary":
        text = _elementwise(BINARY[8 * int(word[-1]) :][:8], "x", "y")
    else:
        text = _of_specs(word)
    return loads(text, f"{word}.wave.yaml", directory=SPECS)


def _of_specs(name: str) -> str:
    return (SPECS / f"{name}.wave.yaml").read_text(encoding="utf-8")


def _changed(text: str, old: str, new: str) -> str:
    text, count = re.subn(old, new, text)
    assert count == 1, old
    return text


def _topk(k: str, largest: str, dtype: str) -> str:
    text = _changed(_of_specs("topk"), r"K: \{value: 8\}", f"K: {{value: {k}}}")
    text = _of_type(_changed(text, r"N: \{min: 8\}", f"N: {{min: {k}}}"), dtype)
    if largest == "False":
        text = _changed(_changed(text, "k: K,", "k: K, largest: false,"), r"value: -(\.inf|\d{19})", r"value: \1")
    return text


def _of_type(text: str, dtype: str) -> str:
    """A kernel with elements of one type in place of those of its list."""
    listed = re.search(r"(?m)^dtypes:\n  (\w+): \[.*\]\n", text)
    assert listed is not None
    text = text.replace(listed[0], "").replace(f"dtype: {listed[1]}", f"dtype: {dtype}")
    text = text.replace(f"bits({listed[1]})", str(DTYPES[dtype].bits))
    text = text.replace(f"mantissa({listed[1]})", str(DTYPES[dtype].mantissa))
    return text.replace("-.inf", str(1 - 2**63)) if dtype == "i64" else text


def _conv2d(stride: str, pad: str, dilation: str) -> str:
    """Of f32, in small tiles, which compile fast."""
    text = _of_type(_of_specs("conv2d_nchw"), "f32")
    for name, old, new in (("STRIDE", 1, stride), ("PAD", 1, pad), ("DILATION", 1, dilation)):
        text = _changed(text, f"(?m)^  {name}: {old}$", f"  {name}: {new}")
    return text


def _elementwise(words: tuple[str, ...], *inputs: str) -> str:
    tensors = "".join(f"  {name}: {{shape: [M, N], dtype: f32}}\n" for name in inputs)
    graph = "".join(f"  - {name}_in: {{read: {name}}}\n" for name in inputs)
    operands = ", ".join(f"{name}_in" for name in inputs)
    for word in words:
        dtype = "bool" if word in ("lt", "le", "gt", "ge", "eq", "ne") else "f32"
        tensors += f"  {word}_out: {{shape: [M, N], dtype: {dtype}, role: output}}\n"
        value = f"[{operands}]" if len(inputs) > 1 else operands
        graph += f"  - {word}_of: {{{word}: {value}}}\n  - {{write: {word}_of, to: {word}_out}}\n"
    return f"{_HEAD}dims: {{M: {{}}, N: {{}}}}\ntensors:\n{tensors}{_FLAT}{graph}"


def _reductions() -> str:
    words = {"sum": "0", "prod": "1", "max": "-.inf", "min": ".inf", "mean": "0"}
    outputs = "".join(f"  {word}_out: {{shape: [M], dtype: f32, role: output}}\n" for word in words)
    starts = "".join(f"  - {word}_0: {{register: [M], dtype: f32, value: {value}}}\n" for word, value in words.items())
    carry = ", ".join(f"t_{word}: {word}_0" for word in words)
    steps = "".join(f"        - t_{word}: {{{word}: part, dim: N, init: t_{word}}}\n" for word in words)
    writes = "".join(f"  - {{write: rows.t_{word}, to: {word}_out}}\n" for word in words)
    return (
        f"{_HEAD}dims: {{M: {{}}, N: {{}}}}\ntensors:\n  x: {{shape: [M, N], dtype: f32}}\n{outputs}"
        "constraints:\n  - {workgroup: M, tile: 8, axis: 0}\n  - {wave: M, tile: 1}\n  - {tiling: N, tile: 64}\n"
        f"graph:\n{starts}  - rows:\n      iterate: N\n      carry: {{{carry}}}\n      body:\n        - part: {{read: x}}\n"
        f"{steps}{writes}"
    )
