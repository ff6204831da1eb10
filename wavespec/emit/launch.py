"""The places of a workgroup, a wave and a lane in a launch, as symbols of the function that runs there."""

from __future__ import annotations

from collections.abc import Callable

from wavespec.emit.function import Function


def workgroup_ids(function: Function) -> None:
    """Define the symbols of a workgroup's place along the axes of the launch: `id0` where a `let` says which tile that
    is, `launch0` where axes of the grid share one of the launch, else that of the grid itself."""
    text, declared = function.text, {symbol.args[0] for symbol in function.kernel.symbols}
    of_axes = [(axis, [f"{name}{axis}" for name in ("id", "launch", "wg")]) for axis in range(3)]
    for axis, names in (*of_axes, (0, ["workgroup"])):
        for name in [name for name in names if name in declared][:1]:
            index = text.op(f"hal.interface.workgroup.id[{axis}] : index")
            function.indices.define(name, text.op(f"arith.index_cast {index} : index to i32"), 32)


def lanes_and_waves(function: Function, thread: str, uniform: Callable[[str], str] | None = None) -> None:
    """Define ``lane`` and the wave symbols from the flat thread number, an ``i32``; the last wave symbol runs fastest.

    Args:
        uniform: brings the number of the wave into the form that the machine computes with best.
    """
    text, kernel = function.text, function.kernel
    lanes = text.constant(kernel.lanes, "i32")
    function.indices.define("lane", text.op(f"arith.remui {thread}, {lanes} : i32"), 32)
    rest = text.op(f"arith.divui {thread}, {lanes} : i32")
    rest = uniform(rest) if uniform else rest
    for name, count in reversed(kernel.waves):
        size = text.constant(count, "i32")
        function.indices.define(name, text.op(f"arith.remui {rest}, {size} : i32"), 32)
        rest = text.op(f"arith.divui {rest}, {size} : i32")


def translation(function: Function) -> str:
    """The attribute by which IREE knows how the waves of a GPU are launched, and that their code is final."""
    sizes = f"workgroup_size = [{function.kernel.threads}, 1, 1] subgroup_size = {function.machine.lanes}"
    return f"translation_info = #iree_codegen.translation_info<pipeline = #iree_codegen.no_pipeline {sizes}>"
