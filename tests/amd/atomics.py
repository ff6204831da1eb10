"""The emulator's kernel in; the same, with atomic operations on global memory, out.

``global_atomic_*`` combine a register of each lane with an element of memory, lane after lane; with ``sc0`` they return
what was there (CDNA3 ISA, 12.15).  Many workgroups may do so to one element, which none of them may store.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np

_NAME = re.compile(
    r"global_atomic_(add|smin|smax|umin|umax|and|or|xor|swap|cmpswap|add_f32|add_f64|min_f64|max_f64)(_x2)?"
)
_SIGNED = {f"{sign}{extreme}": extreme for sign in "su" for extreme in ("min", "max")}
_TYPES = {"f32": np.float32, "f64": np.float64}
_JOINS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda old, new: old + new,
    "min": np.fmin,
    "max": np.fmax,
    "and": lambda old, new: old & new,
    "or": lambda old, new: old | new,
    "xor": lambda old, new: old ^ new,
    "swap": lambda old, new: new,
}


def with_atomics(kernel: type[Any]) -> type[Any]:
    """The class with atomic instructions; its other instructions stay as they are."""
    emulator = importlib.import_module("gfx_emulator")

    class WithAtomics(kernel):
        def compile(self, i: Any) -> None:
            match = _NAME.fullmatch(i.base)
            if i.base.startswith("s_bitset"):
                i.fn = self._bit_set(i)
                return
            if match is None:
                super().compile(i)  # pyright: ignore[reportUnknownMemberType]
                return
            i.fn = self._atomic(i, match[1], np.uint64 if match[2] else np.uint32)

        def _bit_set(self, i: Any) -> Callable[[Any], None]:
            """One bit of a scalar register, by which LLVM goes through the lanes that combine something."""
            target, number = (emulator.Opd(text) for text in i.ops)
            words, value = (2 if i.base.endswith("64") else 1), int(i.base[len("s_bitset")])

            def run(wave: Any) -> None:
                bit = 1 << (self.rs(wave, number, 1) & (32 * words - 1))
                before = self.rs(wave, target, words)
                self.ws(wave, target, before | bit if value else before & ~bit, words)

            return run

        def _atomic(self, i: Any, name: str, plain: Any) -> Callable[[Any], None]:
            returns = bool(i.mod.get("sc0"))
            operands = [emulator.Opd(text) for text in i.ops]
            result = operands.pop(0) if returns else None
            place, data, base = operands
            verb, _, suffix = name.partition("_")
            dtype = np.dtype(_TYPES.get(suffix, plain))
            if verb in ("smin", "smax"):
                dtype = np.dtype(f"i{dtype.itemsize}")
            join = None if verb == "cmpswap" else _JOINS[_SIGNED.get(verb, verb)]
            constant, words = int(str(i.mod.get("offset", 0)), 0), dtype.itemsize // 4

            def registers(wave: Any, first: int) -> Any:
                return np.ascontiguousarray(wave.V[first : first + words].T).view(dtype)[:, 0]

            def run(wave: Any) -> None:
                if place.n == 2:
                    address = self.rv(wave, place, "u64").astype(np.int64)
                else:
                    address = wave.V[place.i].astype(np.int64) + self.rs(wave, base, 2)
                lanes, new = np.nonzero(wave.ex)[0], registers(wave, data.i)
                expected = registers(wave, data.i + words) if join is None else new
                old = new.copy()
                for lane in lanes:
                    where = self._element(wave, int(address[lane]) + constant, dtype)
                    old[lane] = where[0]
                    if join is not None:
                        where[0] = join(where[0], new[lane])
                    elif where[0] == expected[lane]:
                        where[0] = new[lane]
                if result is None:
                    wave.q["vm"].append(None)
                else:
                    mask = wave.ex.copy()
                    wave.defer("vm", (result.i, words), lambda: self.wv(wave, result, old, mask=mask))

            return run

        def _element(self, wave: Any, address: int, dtype: Any) -> Any:
            """A view of the element; it must not be one that another workgroup stores."""
            memory = self.gaddr(np.array([address]), dtype.itemsize, "atomic")
            at = slice(address - memory["base"], address - memory["base"] + dtype.itemsize)
            if address % dtype.itemsize:
                raise emulator.EmuError(f"atomic on an element of {memory['name']} at no multiple of its size")
            owner = memory["owner"][at]
            if ((owner >= 0) & (owner != wave.wg)).any():
                raise emulator.EmuError(f"global race: atomic on what another workgroup stores in {memory['name']}")
            return memory["a"][at].view(dtype)

    return WithAtomics
