"""PTX in, PTX out: tensor maps as parameters by value.

IREE passes nothing but pointers and 32-bit integers, while the descriptor of a bulk copy has to be an argument of the
launch itself: in memory, it would have to be copied there before every launch. So the compiler is given a pointer to
each, and the text is changed afterwards: the parameter becomes the descriptor's 128 bytes, and what was loaded from it
becomes its address.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from wavespec.runtime.artifact import TENSOR_MAP_BYTES


def descriptors_by_value(ptx: str, kernel: str, ordinals: Collection[int]) -> str:
    """``ptx`` with the parameters number ``ordinals`` of ``kernel``, pointers so far, as descriptors by value; the lane
    that sets up barriers announces them to the copy engine.

    Raises:
        ValueError: a parameter that is missing, or is used in another way than IREE does.
    """
    names = [f"{kernel}_param_{ordinal}" for ordinal in ordinals]
    for name in names:
        ptx = _by_value(ptx, name)
    before, barrier, after = ptx.partition("\tmbarrier.init")
    return before + _announced(names) + barrier + after if names and barrier else ptx


def _announced(names: Sequence[str]) -> str:
    """Descriptors are read from memory while barriers are set up, and not when the first copy wants them.

    https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-prefetch-prefetchu
    """
    lines = [f"\t.reg .b64 \t%tensormap<{len(names)}>;"]
    for number, name in enumerate(names):
        register = f"%tensormap{number}"
        lines += [
            f"\tmov.b64 \t{register}, {name};",
            f"\tcvta.param.u64 \t{register}, {register};",
            f"\tprefetch.tensormap \t[{register}];",
        ]
    return "\n".join([*lines, ""])


def _by_value(ptx: str, name: str) -> str:
    uses = len(re.findall(rf"{name}(?!\w)", ptx))
    declaration = rf"\.param \.[bu]64 (?:\.ptr (?:\.global )?(?:\.align \d+ )?)?{name}(?!\w)"
    ptx, declared = re.subn(declaration, f".param .align 64 .b8 {name}[{TENSOR_MAP_BYTES}]", ptx)
    load = rf"(?P<guard>@!?%p\d+\s+)?ld\.param(?:::entry)?\.[bu]64\s+(?P<register>%\w+), \[{name}\];"
    registers = {found["register"] for found in re.finditer(load, ptx)}

    def address(found: re.Match[str]) -> str:
        guard, register = found["guard"] or "", found["register"]
        return f"{guard}mov.b64 \t{register}, {name};\n\t{guard}cvta.param.u64 \t{register}, {register};"

    ptx, loads = re.subn(load, address, ptx)
    if declared != 1 or uses != declared + loads:
        raise ValueError(f"The PTX does not use the parameter {name} as a pointer that it loads.")
    for register in registers:  # The address is generic already.
        ptx = re.sub(rf"cvta(?:\.to)?\.global\.u64(\s+%\w+), {register};", rf"mov.b64\1, {register};", ptx)
    return ptx
