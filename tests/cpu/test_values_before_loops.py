"""What each wave makes in front of a loop that all waves share is its own in the loop, too."""

from __future__ import annotations

import pytest

from tests.kernels import subjects, tensors_of
from wavespec.pipeline import best_variant, build
from wavespec.runtime.kernel import Kernel
from wavespec.schema.language.constraints import Hardware, Wave
from wavespec.schema.language.expressions import Num

SIZES = {"T": 70, "S": 70, "H": 2, "G": 2, "D": 64, "E": 64, "L": 3}


@pytest.mark.rare
def test_waves_that_read_their_rows_in_front_of_a_loop_carry_sums_of_their_own() -> None:
    """Two waves of eight queries had one maximum and one sum between them: the first one's were lost."""
    (subject,) = (one for one in subjects("cpu") if one.name == "attention_ragged_full")
    spec = subject.spec
    constraints = tuple(one for one in spec.constraints if not isinstance(one, Wave | Hardware))
    tiles = {"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_D": 256, "BLOCK_E": 64}
    params = {**spec.params, **{name: Num(value=size) for name, size in tiles.items()}}
    tensors = {
        name: one.model_copy(update={"space": "shared" if name in "kv" else one.space})
        for name, one in spec.tensors.items()
    }
    tensors["q"] = tensors["q"].model_copy(update={"space": "global"})
    open_ = {"constraints": constraints, "params": params, "tensors": tensors, "targets": {}, "schedule": None}
    inputs = subject.inputs(SIZES)
    kernel = Kernel(build(spec.model_copy(update=open_), "cpu", only=best_variant("cpu")))
    subject.check(inputs, tensors_of(kernel(*[one.clone() for one in inputs])), SIZES)
