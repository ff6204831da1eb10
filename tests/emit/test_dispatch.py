"""Every operation of lanes has a method in the simulator and, where it is not refused by name, in each emitter."""

from __future__ import annotations

import inspect
import re

import pytest

from wavespec.emit.amx import ThreadToAmx
from wavespec.emit.cuda import ThreadToCuda
from wavespec.emit.hopper import ThreadToHopper
from wavespec.emit.llvm_cpu import ThreadToCpu
from wavespec.emit.mlir_text import MlirText
from wavespec.emit.rocm import ThreadToRocm
from wavespec.emit.thread_to_mlir import ThreadToMlir
from wavespec.ir.declarations import Declaration, Trait
from wavespec.ir.kernel import Op
from wavespec.ir.thread_ops import STORE_MATRIX, THREAD_OPS
from wavespec.sim.strand import Strand
from wavespec.sim.values import Values

EMITTERS = (ThreadToAmx, ThreadToCpu, ThreadToCuda, ThreadToHopper, ThreadToRocm)


def is_there(emitter: type[ThreadToMlir], name: str) -> bool:
    """Whether it has a method for an operation, and all that this method asks of the machines of the emitter."""
    method = getattr(emitter, f"_{name}", None)
    if method is None:
        return False
    asked = (getattr(emitter, part, None) for part in re.findall(r"self\.(\w+)\(", inspect.getsource(method)))
    return not any(callable(part) and "raise NotImplementedError" in inspect.getsource(part) for part in asked)


@pytest.mark.parametrize("emitter", EMITTERS)
def test_an_emitter_has_a_method_for_each_operation_that_it_does_not_refuse(emitter: type[ThreadToMlir]) -> None:
    assert {one.name for one in THREAD_OPS.all() if not is_there(emitter, one.name)} == emitter.refuses.names


def test_what_is_refused_is_named() -> None:
    emitter = ThreadToRocm.__new__(ThreadToRocm)
    emitter.text = MlirText()
    with pytest.raises(ValueError, match="ThreadToRocm has no instructions for 'store_matrix'"):
        ThreadToMlir.block(emitter, [Op(STORE_MATRIX.name)])


@pytest.mark.parametrize("one", THREAD_OPS.all(), ids=lambda one: one.name)
def test_the_simulator_has_one_method_for_each_operation(one: Declaration) -> None:
    assert hasattr(Values, f"_{one.name}") != hasattr(Strand, f"_{one.name}")
    assert hasattr(Values, f"_{one.name}") or Trait.PURE not in one.traits
