"""A kernel function's MLIR and its launch interface go in; a whole module that IREE compiles comes out.

Two forms, around the same `func.func @<entry point>()`, whose bindings and push constants are those of
`KernelArtifact`:

- `host_module`: kernel and host function in one vmfb. The host function takes `!hal.buffer`s and sizes, and
  writes results into the buffers that it was given.
- `executable_module`: the kernel alone, for `--compile-mode=hal-executable`, where the wanted result is PTX
  or an HSACO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wavespec.emit.mlir_text import indented
from wavespec.ir.strided import offset_of, stride_of
from wavespec.runtime.artifact import DTYPE_BYTES, PACKED, KernelArtifact, TensorParameter
from wavespec.runtime.size_expr import SizeExpr

EXECUTABLE = "_executable"
"""Symbol of the executable; no kernel can be called so, because names do not begin with an underscore."""

HOST_PHASE = "executable-configurations"
"""The phase of IREE's compiler that `host_module` looks like the result of.

Those before it walk over the whole kernel again and again, to find constants, device placements and transfers of a host
program that has one dispatch: as long as all that is needed takes.
"""

_DEVICE = "_device"
_VARIANT = "variant"
_TARGET = "#target"
_RESOURCE = "!stream.resource<external>"
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
    bindings += [write] * len(interface.scratch_bytes) + [read] * len(interface.tensor_maps)
    return f"#hal.pipeline.layout<constants = {interface.constant_count}, bindings = [{', '.join(bindings)}]>"


def host_module(interface: KernelArtifact, kernel: str, device: str, target: str) -> str:
    """Module whose public function runs the kernel on buffers in place; compile it to a vmfb from `HOST_PHASE` on.

    The function has the name of the entry point and takes, in this order: a `!hal.buffer` per tensor and per
    scratch buffer, an `i32` per dynamic dim, two per number of strided tensors and one per word of a scalar, an `i64`
    with the bytes of each scratch buffer. It returns nothing, once results are written.

    Args:
        interface: the artifact to be, its binaries not yet filled in.
        kernel: text of `func.func @<entry point>()`; alias definitions (`#x = ...`) may stand in front of it.
        device: name of the kind of device, such as `hip`.
        target: a `#hal.executable.target<...>`.
    """
    aliases, function = _split_aliases(kernel)
    return f"""{aliases}{_TARGET} = {target}
module attributes {{stream.affinity.default = #hal.device.affinity<@{_DEVICE}>}} {{
  util.global private @{_DEVICE} = #hal.device.target<"{device}", [{_TARGET}]> : !hal.device
  hal.executable private @{EXECUTABLE} {{
    hal.executable.variant public @{_VARIANT} target({_TARGET}) {{
{indented(_export(interface), 6)}
      builtin.module {{
{indented(function, 8)}
{indented(_dispatch_config(interface), 8)}
      }}
    }}
  }}
{indented(_host_function(interface), 2)}
}}
"""


def executable_module(interface: KernelArtifact, kernel: str, target: str) -> str:
    """Module with the kernel alone, for `--compile-mode=hal-executable`; `target` is a
    `#hal.executable.target<...>`."""
    aliases, function = _split_aliases(kernel)
    # Public: IREE 3.13 drops a private executable as unused, and crashes on the empty module.
    return f"""{aliases}module {{
  hal.executable public @{EXECUTABLE} {{
    hal.executable.variant public @{_VARIANT} target({target}) {{
{indented(_export(interface), 6)}
      builtin.module {{
{indented(function, 8)}
      }}
    }}
  }}
}}
"""


def _export(interface: KernelArtifact) -> str:
    """What says how many workgroups a launch has."""
    layout, types = pipeline_layout(interface), "(index, index, index)"
    head = f"hal.executable.export public @{interface.entry_point} ordinal(0) layout({layout})"
    count = f"count({_workload(interface)}) -> {types}"
    return f"{head} {count} {{\n{indented(_grid(interface, 'hal.return'), 2)}\n}}"


def _dispatch_config(interface: KernelArtifact) -> str:
    """The same beside the function, where the compiler keeps it once it has chosen what to do with that."""
    body = f"^bb0({_workload(interface)}):\n{_grid(interface, 'iree_codegen.yield')}"
    return f"iree_codegen.dispatch_config @{interface.entry_point} {{\n{indented(body, 2)}\n}}"


def _workload(interface: KernelArtifact) -> str:
    return ", ".join(["%device: !hal.device", *(f"%dim_{name}: index" for name in _dims(interface).values())])


def _grid(interface: KernelArtifact, end: str) -> str:
    body = _Body({dim: f"%dim_{name}" for dim, name in _dims(interface).items()}, _fixed(interface))
    grid = ", ".join([body.value(expression) for expression in interface.grid])
    return "\n".join([*body.lines, f"{end} {grid} : index, index, index"])


def _host_function(interface: KernelArtifact) -> str:
    """Import, dispatch in place, export.

    Tensors are passed as bytes, so that element types and packing are the kernel's affair alone. The exported buffer
    is kept alive by a barrier: the call ends behind the dispatch.
    """
    # A dot, so that no tensor can have the same name.
    scratch = [f"scratch.{index}" for index in range(len(interface.scratch_bytes))]
    dims = _dims(interface)
    arguments = [f"%buffer_{tensor.name}: !hal.buffer" for tensor in interface.tensors]
    arguments += [f"%buffer_{name}: !hal.buffer" for name in scratch]
    halves = [f"half.{index}" for index in range(2 * len(interface.numbers))]
    constants = [f"%size_{name}" for name in (*dims.values(), *halves)]
    constants += [f"%word_{number}" for number in range(interface.constant_count - len(constants))]
    arguments += [f"{name}: i32" for name in constants] + [f"%bytes_{name}: i64" for name in scratch]
    body = _Body({dim: f"%dim_{name}" for dim, name in dims.items()}, _fixed(interface))
    # The caller checked that sizes are below 2**31.
    body.lines += [f"%dim_{name} = arith.index_castui %size_{name} : i32 to index" for name in dims.values()]
    for name, low, high in zip(interface.numbers, halves[::2], halves[1::2], strict=True):
        body.join_halves(name, f"%size_{low}", f"%size_{high}")
    sizes = {tensor.name: body.value(_tensor_bytes(tensor)) for tensor in interface.tensors}
    for name in scratch:
        sizes[name] = f"%length_{name}"
        body.lines.append(f"{sizes[name]} = arith.index_castui %bytes_{name} : i64 to index")
    body.lines += [
        f"%tensor_{name} = stream.tensor.import %buffer_{name} : !hal.buffer -> {_bytes(size)}"
        for name, size in sizes.items()
    ]
    read_only = {tensor.name for tensor in interface.tensors if not tensor.written}
    written = {name: size for name, size in sizes.items() if name not in read_only}
    body.dispatch(interface, sizes, written, constants)
    for number, (name, size) in enumerate(written.items()):
        body.lines += [
            f"%ready{number} = stream.timepoint.await %done => %tensor_{name} : {_RESOURCE}{{{size}}}",
            f"%result{number} = stream.tensor.export %ready{number} : {_bytes(size)} -> !hal.buffer",
            f"util.optimization_barrier %result{number} : !hal.buffer",
        ]
    head = f"util.func public @{interface.entry_point}({', '.join(arguments)}) {{\n"
    return head + indented("\n".join([*body.lines, "util.return"]), 2) + "\n}"


def _dims(interface: KernelArtifact) -> dict[str, str]:
    """What values of MLIR that stand for dims are called: as these, or by numbers where those are expressions."""
    return {dim: dim if dim.isidentifier() else f"dim.{at}" for at, dim in enumerate(interface.dynamic_dims)}


def _bytes(size: str) -> str:
    """The type of a buffer of so many bytes."""
    return f"tensor<?xi8>{{{size}}} in {_RESOURCE}{{{size}}}"


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

    def dispatch(
        self, interface: KernelArtifact, sizes: Mapping[str, str], written: Mapping[str, str], constants: Sequence[str]
    ) -> None:
        """Append the launch, after which `%done` is ready; ``sizes``: bytes of each buffer, by its name."""
        zero = self.value(0)
        captured = [f"%tensor_{name} as %used_{name}: {_RESOURCE}{{{size}}}" for name, size in sizes.items()]
        used = [
            f"    {'rw' if name in written else 'ro'} %used_{name}[{zero} for {size}] : {_RESOURCE}{{{size}}}"
            for name, size in sizes.items()
        ]
        workload = ", ".join(f"%dim_{name}" for name in _dims(interface).values())
        symbol = f"@{EXECUTABLE}::@{_VARIANT}::@{interface.entry_point}" + (f"[{workload}]" if workload else "")
        values = f"({', '.join(constants)} : {', '.join('i32' for _ in constants)})" if constants else ""
        self.lines.append(f"%done = stream.cmd.execute with({', '.join(captured)}) {{")
        self.lines.append(f"  stream.cmd.dispatch {symbol}{values} {{")
        self.lines += [f"{line}," for line in used[:-1]] + [used[-1], "  }", "} => !stream.timepoint"]

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
    kernel, end = kernel.strip("\n") + "\n", 0
    while kernel.startswith(("#", "!"), end):
        end = kernel.index("\n", end) + 1
    return kernel[:end], kernel[end:-1]
