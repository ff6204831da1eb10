"""A kernel function's MLIR and its launch interface go in; a whole module that IREE compiles comes out.

Two forms, around the same `func.func @<entry point>()`, whose bindings and push constants are those of
`KernelArtifact`:

- `host_module`: kernel and host function in one vmfb. The host function takes `!hal.buffer`s and sizes, and
  writes results into the buffers that it was given.
- `executable_module`: the kernel alone, for `--compile-mode=hal-executable`, where the wanted result is PTX
  or an HSACO.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wavespec.ir.strided import offset_of, stride_of
from wavespec.runtime.artifact import DTYPE_BYTES, PACKED, KernelArtifact, TensorParameter
from wavespec.runtime.size_expr import SizeExpr

EXECUTABLE = "_executable"
"""Symbol of the executable; no kernel can be called so, because names do not begin with an underscore."""

_INDEX_OPS = {
    "add": "addi",
    "sub": "subi",
    "mul": "muli",
    "floordiv": "divui",
    "mod": "remui",
    "min": "minui",
    "max": "maxui",
}


def pipeline_layout(interface: KernelArtifact) -> str:
    """The `#hal.pipeline.layout` that the kernel function has to name in its `subspan` and `constant.load`
    ops."""
    read = "#hal.pipeline.binding<storage_buffer, ReadOnly>"
    write = "#hal.pipeline.binding<storage_buffer>"
    bindings = [write if tensor.written else read for tensor in interface.tensors]
    bindings += [read] * len(interface.tensor_maps) + [write] * len(interface.scratch_bytes)
    return f"#hal.pipeline.layout<constants = {interface.constant_count}, bindings = [{', '.join(bindings)}]>"


def host_module(interface: KernelArtifact, kernel: str, module_attributes: str = "") -> str:
    """Module whose public function runs the kernel on buffers in place; compile it to a vmfb.

    The function has the name of the entry point and takes, in this order: a `!hal.buffer` per tensor and per
    scratch buffer, an `i32` per dynamic dim, two per number of strided tensors and one per word of a scalar, an `i64`
    with the bytes of each scratch buffer. It returns nothing, once results are written.

    Args:
        interface: the artifact to be, its binaries not yet filled in.
        kernel: text of `func.func @<entry point>()`; alias definitions (`#x = ...`) may stand in front of it.
        module_attributes: such as `hal.device.targets = [...]`, where flags do not say it.
    """
    aliases, function = _split_aliases(kernel)
    attributes = f" attributes {{{module_attributes}}}" if module_attributes else ""
    return f"""{aliases}module{attributes} {{
  hal.executable.source private @{EXECUTABLE} {{
{_indented(_export(interface), 4)}
    builtin.module {{
{_indented(function, 6)}
    }}
  }}
{_indented(_host_function(interface), 2)}
}}
"""


def executable_module(interface: KernelArtifact, kernel: str, target: str) -> str:
    """Module with the kernel alone, for `--compile-mode=hal-executable`; `target` is a
    `#hal.executable.target<...>`."""
    aliases, function = _split_aliases(kernel)
    # Public: IREE 3.13 drops a private executable as unused, and crashes on the empty module.
    return f"""{aliases}module {{
  hal.executable public @{EXECUTABLE} {{
    hal.executable.variant public @variant target({target}) {{
{_indented(_export(interface), 6)}
      builtin.module {{
{_indented(function, 8)}
      }}
    }}
  }}
}}
"""


def _export(interface: KernelArtifact) -> str:
    body = _Body({name: f"%dim_{name}" for name in interface.dynamic_dims}, _fixed(interface))
    grid = ", ".join([body.value(expression) for expression in interface.grid])
    workload = "".join(f", %dim_{name}: index" for name in interface.dynamic_dims)
    layout = pipeline_layout(interface)
    head = f"hal.executable.export public @{interface.entry_point} ordinal(0) layout({layout})"
    lines = [*body.lines, f"hal.return {grid} : index, index, index"]
    return (
        f"{head} count(%device: !hal.device{workload}) -> (index, index, index) {{\n"
        + _indented("\n".join(lines), 2)
        + "\n}"
    )


def _host_function(interface: KernelArtifact) -> str:
    """Import, dispatch in place, export.

    Tensors are passed as bytes, so that element types and packing are the kernel's affair alone. A result is
    tied to the operand it overwrites, and the exported buffer is kept alive by a barrier: IREE then
    dispatches on the caller's buffer and makes no copy (`tests/runtime/test_host_module.py` looks for one).
    """
    # A dot, so that no tensor can have the same name.
    scratch = [f"scratch.{index}" for index in range(len(interface.scratch_bytes))]
    dims = interface.dynamic_dims
    arguments = [f"%buffer_{tensor.name}: !hal.buffer" for tensor in interface.tensors]
    arguments += [f"%buffer_{name}: !hal.buffer" for name in scratch]
    halves = [f"half.{index}" for index in range(2 * len(interface.numbers))]
    constants = [f"%size_{name}" for name in (*dims, *halves)]
    constants += [f"%word_{number}" for number in range(interface.constant_count - len(constants))]
    arguments += [f"{name}: i32" for name in constants] + [f"%bytes_{name}: i64" for name in scratch]
    body = _Body({name: f"%dim_{name}" for name in dims}, _fixed(interface))
    # The caller checked that sizes are below 2**31.
    body.lines += [f"%dim_{name} = arith.index_castui %size_{name} : i32 to index" for name in dims]
    for name, low, high in zip(interface.numbers, halves[::2], halves[1::2], strict=True):
        body.join_halves(name, f"%size_{low}", f"%size_{high}")
    operands: list[tuple[str, str, bool]] = []
    for tensor in interface.tensors:
        operands.append((f"tensor_{tensor.name}", body.value(_tensor_bytes(tensor)), tensor.written))
    for name in scratch:
        body.lines.append(f"%length_{name} = arith.index_castui %bytes_{name} : i64 to index")
        operands.append((f"tensor_{name}", f"%length_{name}", True))
    for name, size, _ in operands:
        buffer = "%buffer_" + name.removeprefix("tensor_")
        body.lines.append(f"%{name} = hal.tensor.import {buffer} : !hal.buffer -> tensor<?xi8>{{{size}}}")
    written = [(name, size) for name, size, writes in operands if writes]
    values = ", ".join([f"%{name}" for name, _, _ in operands] + constants)
    types = ", ".join([f"tensor<?xi8>{{{size}}}" for _, size, _ in operands] + ["i32"] * len(constants))
    results = ", ".join(f"%{name}{{{size}}}" for name, size in written)
    workload = ", ".join(f"%dim_{name}" for name in dims)
    symbol = f"@{EXECUTABLE}::@{interface.entry_point}" + (f"[{workload}]" if workload else "")
    body.lines.append(f"%written:{len(written)} = flow.dispatch {symbol}({values}) : ({types}) -> ({results})")
    for index, (_, size) in enumerate(written):
        body.lines.append(f"%done{index} = hal.tensor.export %written#{index} : tensor<?xi8>{{{size}}} -> !hal.buffer")
        body.lines.append(f"util.optimization_barrier %done{index} : !hal.buffer")
    head = f"util.func public @{interface.entry_point}({', '.join(arguments)}) {{\n"
    return head + _indented("\n".join([*body.lines, "util.return"]), 2) + "\n}"


def _fixed(interface: KernelArtifact) -> dict[str, int]:
    return {dim.name: dim.size for dim in interface.dims if dim.size is not None}


def _tensor_bytes(tensor: TensorParameter) -> SizeExpr:
    elements, bytes_ = PACKED.get(tensor.dtype) or (1, DTYPE_BYTES[tensor.dtype])
    if tensor.is_strided:  # from the address that the kernel gets, up to the last element
        last: SizeExpr = offset_of(tensor.name)
        rows: SizeExpr = 1
        for dim in tensor.dims[:-1]:
            last = ("add", last, ("mul", ("sub", dim, 1), stride_of(tensor.name, str(dim))))
            rows = ("mul", rows, dim)
        for dim in tensor.dims[-1:]:  # without rows there are no columns
            last = ("add", last, ("mul", ("sub", dim, 1), ("min", rows, 1)))
        return ("mul", ("add", last, 1), bytes_)
    size: SizeExpr = bytes_
    for dim in tensor.dims:
        size = ("mul", size, dim)
    return size if elements == 1 else ("floordiv", size, elements)


@dataclass(slots=True)
class _Body:
    """Lines of a block, and the SSA values that stand for dims in it."""

    dims: dict[str, str]
    fixed: Mapping[str, int]
    lines: list[str] = field(default_factory=list[str])

    def join_halves(self, name: str, low: str, high: str) -> None:
        """Append what makes an `index` of a number that comes as two `i32`."""
        low, high = (self._define(f"arith.extui {half} : i32 to i64") for half in (low, high))
        bits = self._define("arith.constant 32 : i64")
        high = self._define(f"arith.shli {high}, {bits} : i64")
        whole = self._define(f"arith.ori {high}, {low} : i64")
        self.dims[name] = self._define(f"arith.index_cast {whole} : i64 to index")

    def value(self, expression: SizeExpr) -> str:
        """Append what computes `expression`, all of whose parts are >= 0, as an `index`, those that are -1 for an empty
        dim among them; returns its SSA name."""
        if isinstance(expression, str):
            return self.dims[expression] if expression in self.dims else self.value(self.fixed[expression])
        if isinstance(expression, int):
            return self._define(f"arith.constant {expression} : index")
        operation, left, right = expression
        a, b = self.value(left), self.value(right)
        if operation == "ceildiv":
            one = self.value(1)
            below = self._define(f"arith.subi {b}, {one} : index")
            rounded = self._define(f"arith.addi {a}, {below} : index")
            return self._define(f"arith.divui {rounded}, {b} : index")
        if operation not in _INDEX_OPS:
            raise ValueError(f"{operation!r} has no place in a grid or a size.")
        return self._define(f"arith.{_INDEX_OPS[operation]} {a}, {b} : index")

    def _define(self, text: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name


def _split_aliases(kernel: str) -> tuple[str, str]:
    """Alias definitions, which MLIR wants at the top of the file, and the function after them."""
    lines = kernel.strip("\n").split("\n")
    count = next((index for index, line in enumerate(lines) if not line.startswith(("#", "!"))), len(lines))
    return "".join(line + "\n" for line in lines[:count]), "\n".join(lines[count:])


def _indented(text: str, spaces: int) -> str:
    margin = " " * spaces
    return "\n".join([margin + line if line else line for line in text.split("\n")])
