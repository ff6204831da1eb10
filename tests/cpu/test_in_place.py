"""Kernels that read what they change, on this machine's CPU, by every variant."""

from __future__ import annotations

import pytest

from tests.cpu.test_rows import kernel
from tests.ops.in_place import SPECS, check, inputs
from wavespec.schema import loads
from wavespec.targets.machine import machines


@pytest.mark.parametrize("variant", [machine.variant for machine in machines("cpu")])
@pytest.mark.parametrize("name", SPECS)
def test_arguments_become_what_the_old_ones_say(variant: str, name: str) -> None:
    spec, given = loads(SPECS[name]), inputs(name)
    run, passed = kernel(spec, variant), [x.clone() for x in given]
    results = run(*passed)
    arguments = [one for one, tensor in spec.tensors.items() if tensor.role != "output"]
    found = dict(zip(arguments, passed, strict=True))
    outputs = [one for one, tensor in spec.tensors.items() if tensor.role == "output"]
    if outputs:
        made = results if isinstance(results, tuple) else (results,)
        found |= dict(zip(outputs, made[-len(outputs) :], strict=True))
    check(name, found, given)
