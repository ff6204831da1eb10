"""The emulator's kernel in; the same, with copies into shared memory held to what the hardware promises, out.

A ``buffer_load_dwordx4 ... lds`` reads a vector for each lane and writes them one after another into shared memory, from
the byte that M0 names on; a lane beyond the end of its buffer writes zeros (CDNA4 ISA, 9.1.9).  It may do so at any
time until its wave has waited for it, so these bytes are nobody's between the two: nobody reads them, and what
was there before has been read in front of a barrier, and written there too unless the wave's own copy did.  What the
wave itself has read, and waited for, is read: workgroups of one wave have no barriers.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

_OPCODE = "buffer_load_dwordx4"
_BYTES = 16
_M0 = 124
_M0_BITS = 0x3FFFF
_NOBODY = -1
_WAVE = 255
"""Of what the emulator keeps of accesses: the wave, or this number for several."""
_READS = 2
"""An instruction under way is at most so many."""


def with_copies(kernel: type[Any]) -> type[Any]:
    """The class with instructions that copy; its other instructions stay as they are."""
    emulator = importlib.import_module("gfx_emulator")

    class WithCopies(kernel):
        flying: Any = None
        """Per byte of shared memory: the wave whose copy is under way to it."""
        landed: Any = None
        """Per byte: the wave whose copy wrote it last."""
        asked: Any = None
        """Per byte: which one of its wave's reads was the last."""
        reads: Any = None
        """Of each wave, how many there were."""
        _of: Any = None
        copies = False

        def compile(self, i: Any) -> None:
            if i.base == _OPCODE and i.mod.get("lds"):
                i.fn, self.copies = self._copy(i), True
                return
            super().compile(i)  # pyright: ignore[reportUnknownMemberType]
            if i.base == "s_barrier":
                i.fn = self._after(i.fn, self._check_reads)
            elif i.base == "s_endpgm":
                i.fn = self._after(i.fn, self._check_landed)

        def _after(self, run: Callable[[Any], Any], check: Callable[[Any], None]) -> Callable[[Any], Any]:
            def both(wave: Any) -> Any:
                check(wave)
                return run(wave)

            return both

        def _copy(self, i: Any) -> Callable[[Any], None]:
            address, resource, scalar = (emulator.Opd(text) for text in i.ops[:3])
            assert i.mod.get("offen") and not i.mod.get("idxen"), i.text
            constant = int(str(i.mod.get("offset", 0)), 0)

            def run(wave: Any) -> None:
                first, high, records = wave.S[resource.i : resource.i + 3]
                offset = wave.V[address.i].astype(np.int64) + constant
                start, lanes = self.rs(wave, scalar), wave.ex.copy()
                data = np.zeros((len(lanes), _BYTES), np.uint8)
                for word in range(0, _BYTES, 4):  # every word is checked by itself
                    inside = lanes & (offset + start + word < records)
                    place = (first | (high & 0xFFFF) << 32) + start + offset[inside] + word
                    data[inside, word : word + 4] = self.gread(place, 4)
                to = (wave.S[_M0] & _M0_BITS) + constant + np.arange(len(lanes)) * _BYTES
                where = self.ldsidx(to, _BYTES, lanes)
                self._take_off(wave, where)
                wave.q["vm"].append(lambda: self._land(wave, where, to, data[lanes], lanes))

            return run

        def _take_off(self, wave: Any, where: Any) -> None:
            flying = self._flying()
            if (flying[where] != _NOBODY).any():
                raise emulator.EmuError("two copies are under way to the same byte")
            theirs = self.landed[where] != wave.wid
            awaited = self.reads.get(wave.wid, 0) - _READS * len(wave.q["lgkm"])
            open_ = (self.lr[where] & _WAVE != wave.wid) | (self.asked[where] > awaited)
            for keys, done, matters in ((self.lr, "read", open_), (self.lw, "written", theirs)):
                if (matters & (keys[where] >= 0) & (keys[where] >> 8 == wave.epoch)).any():
                    raise emulator.EmuError(f"copy to bytes that were {done} since the last barrier")
            flying[where] = wave.wid
            self.linit[where] = False

        def _land(self, wave: Any, where: Any, to: Any, data: Any, lanes: Any) -> None:
            self._flying()[where] = _NOBODY
            super().ldswrite(wave, to, data, lanes)  # pyright: ignore[reportUnknownMemberType]
            self.landed[where] = wave.wid

        def ldsread(self, w: Any, addr: Any, n: int, m: Any) -> Any:
            self._check_place(addr, n, m, "read")
            self.reads[w.wid] = self.asked[self.ldsidx(addr, n, m)] = self.reads.get(w.wid, 0) + 1
            return super().ldsread(w, addr, n, m)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

        def ldswrite(self, w: Any, addr: Any, data: Any, m: Any) -> None:
            self._check_place(addr, data.shape[1], m, "write")
            self.landed[self.ldsidx(addr, data.shape[1], m)] = _NOBODY
            super().ldswrite(w, addr, data, m)  # pyright: ignore[reportUnknownMemberType]

        def _check_place(self, to: Any, count: int, lanes: Any, what: str) -> None:
            if (self._flying()[self.ldsidx(to, count, lanes)] != _NOBODY).any():
                raise emulator.EmuError(f"{what} of bytes whose copy is not awaited")

        def _check_reads(self, wave: Any) -> None:
            """Behind a barrier another wave may copy to what this one still reads."""
            if self.copies and wave.q["lgkm"]:
                raise emulator.EmuError("s_barrier with reads of shared memory still outstanding")

        def _check_landed(self, wave: Any) -> None:
            if (self._flying() == wave.wid).any():
                raise emulator.EmuError("the wave ends while a copy is under way")

        def _flying(self) -> Any:
            if self._of is not self.linit:  # another workgroup
                self._of = self.linit
                self.flying, self.landed, self.asked = (np.full(len(self.linit), _NOBODY, np.int32) for _ in range(3))
                self.reads = {}
            return self.flying

    return WithCopies
