"""Blocks of bytes that a lane turns in its registers: the text is executed, and the kernel it is for assembled."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.layouts import product
from wavespec.emit.mlir_text import MlirText
from wavespec.emit.ptxas import assemble, find_ptxas
from wavespec.emit.rearranged import bytes_turned
from wavespec.emit.registers import Part
from wavespec.pipeline import build_variant, spec_digest
from wavespec.runtime import KernelArtifact
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.targets.machine import machines

(HOPPER,) = machines("sm_90")
PTXAS = find_ptxas()
needs_ptxas = pytest.mark.skipif(PTXAS is None, reason="needs NVIDIA's assembler, ptxas, on the PATH")


def picked(low: np.ndarray, high: np.ndarray, places: np.ndarray) -> np.ndarray:
    """What `prmt` makes of two words."""
    there = np.concatenate([np.atleast_1d(one).view(np.uint8) for one in (low, high)])
    return there[[int(places) >> 4 * number & 7 for number in range(4)]].view(np.uint32)[0]


def executed(text: MlirText, known: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The values of all names, words and vectors."""
    for line in text.lines():
        name, _, written = line.strip().partition(" = ")
        verb, names = written.split()[0], re.findall(r"%\w+", written)
        values = [known[one] for one in names]
        if verb == "arith.constant":
            known[name] = np.array(int(written.split()[1]), np.uint32)
        elif verb == "llvm.bitcast":
            known[name] = values[0].view(np.uint32 if "xi32>" in written.partition(" to ")[2] else np.uint8)
        elif verb == "vector.extract":
            (place,) = re.findall(r"\[(\d+)\]", written)
            known[name] = values[0][int(place)]
        elif verb == "llvm.call_intrinsic":
            assert "llvm.nvvm.prmt" in written
            known[name] = picked(*values)
        else:
            assert verb == "vector.from_elements"
            known[name] = np.array(values, np.uint32)
    return known


@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (16, 16), (8, 16), (16, 4)])
def test_columns_come_out_by_two_instructions_a_word(rows: int, columns: int) -> None:
    text, block = MlirText(), np.arange(rows * columns, dtype=np.uint8).reshape(rows, columns)
    made = bytes_turned(text, tuple(Part(f"%row{row}", columns) for row in range(rows)), rows, columns)
    values = executed(text, {f"%row{row}": block[row] for row in range(rows)})
    np.testing.assert_array_equal([values[part.name] for part in made], block.T)
    assert [part.size for part in made] == [rows] * columns
    assert sum("prmt" in line for line in text.lines()) == 2 * rows * columns // 4


def turning_kernel() -> KernelArtifact:
    """The kernel before a product whose columns lie across its steps: a block of 16 x 16 bytes for each lane."""
    sizes = {"M": 1024, "N": 1024, "K": 1024}
    turning, _ = case_for_sizes(cases_for_target(product("f8e4m3fn", "M, K", "K, N"), "sm_90"), sizes).kernels
    return build_variant(turning, HOPPER)[0]


@pytest.mark.compiles
def test_lanes_turn_blocks_by_widest_accesses_in_registers_alone() -> None:
    built = turning_kernel()
    (binary,) = built.binaries
    ptx = binary.data.decode()
    for access in ("ld", "st"):
        assert len(re.findall(rf"\b{access}\.global\S*\.v4", ptx)) == len(re.findall(rf"\b{access}\.global", ptx)) == 16
    assert ptx.count("prmt.b32") == 2 * 16 * 16 // 4
    assert built.shared_memory_bytes == 0


@pytest.mark.compiles
@needs_ptxas
def test_what_lanes_turn_has_room_in_registers() -> None:
    assert PTXAS is not None
    built = turning_kernel()
    (binary,) = built.binaries
    assembled = assemble(binary.data, built.architecture, PTXAS)
    assert (assembled.spill_bytes, assembled.warnings) == (0, ())


@pytest.mark.rare
@pytest.mark.compiles
@needs_ptxas
@pytest.mark.parametrize("layouts", [("K, M", "K, N"), ("M, K", "N, K")], ids=" by ".join)
def test_what_the_matrix_unit_reads_along_the_steps_spills_nothing(layouts: tuple[str, str]) -> None:
    """Nor do the kernels that lay it out; rows of results start anywhere in the last of them."""
    assert PTXAS is not None
    *cases, last = cases_for_target(product("f8e4m3fn", *layouts), "sm_90")
    found = [case for case in cases if case.before or layouts == ("M, K", "N, K")]
    for kernel in {spec_digest(one): one for case in found for one in case.kernels}.values():
        built, _ = build_variant(kernel, HOPPER)
        (binary,) = built.binaries
        assembled = assemble(binary.data, built.architecture, PTXAS)
        assert (assembled.spill_bytes, assembled.warnings) == (0, ()), kernel.name
    assert len(found) > 5 and not last.before
