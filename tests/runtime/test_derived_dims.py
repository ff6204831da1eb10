"""Dims that follow from others: computed at the call, checked where a tensor has them, known to torch.compile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from wavespec.emit.interface import launch_interface
from wavespec.emit.shape_checks import size_text
from wavespec.emit.wrapper import wrapper_module
from wavespec.generate import _wrapper_input  # pyright: ignore[reportPrivateUsage]
from wavespec.pipeline import join_cases, lower
from wavespec.runtime.artifact import ArtifactCase, Assumption, Dim, KernelArtifact
from wavespec.runtime.checks import ArgumentError, check_inputs
from wavespec.runtime.launch_plan import make_plan
from wavespec.runtime.manifest import artifact_to_manifest
from wavespec.schema import load, loads
from wavespec.schema.cases import cases_for_target
from wavespec.schema.families.load_family import loads_family
from wavespec.schema.language.expressions import Num
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.schema.resolve import complete_sizes
from wavespec.schema.resolved import resolve
from wavespec.targets.machine import machines

SPEC = load(Path(__file__).parents[2] / "specs" / "conv2d_nhwc.wave.yaml")


def interface(text: str = "") -> KernelArtifact:
    (machine,) = machines("gfx942")
    spec = loads(text) if text else SPEC
    return launch_interface(lower(spec, machine), machine, resolve(spec, "gfx942"))


def tensors(height: int = 6, rows: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(2, height, 5, 16, dtype=torch.bfloat16), torch.zeros(24, rows, 3, 16, dtype=torch.bfloat16)


def test_sizes_follow_from_those_of_inputs() -> None:
    artifact = interface()
    sizes = check_inputs(artifact, tensors())
    assert {name: sizes[name] for name in ("OH", "OW", "M", "K")} == {"OH": 6, "OW": 5, "M": 60, "K": 144}
    plan = make_plan(artifact, sizes)
    assert plan.shapes[-1] == (2, 6, 5, 24)
    assert plan.constants == tuple(sizes[dim.name] for dim in artifact.dims)


def test_a_size_below_nothing_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"H = 1, R = 9 make OH = -5, expected at least 0"):
        check_inputs(interface(), tensors(height=1, rows=9))


def test_a_promise_of_a_size_that_follows_is_checked() -> None:
    text = dump_yaml(SPEC).replace('{equals: "LINES', '{multiple_of: 32, equals: "LINES')
    with pytest.raises(ArgumentError, match=r"make K = 144, expected a multiple of 32"):
        check_inputs(interface(text), tensors())


def test_the_manifest_says_what_sizes_follow_from() -> None:
    dims = {dim["name"]: dim for dim in artifact_to_manifest(interface())["dims"]}
    assert dims["M"]["equals"] == ("mul", ("mul", "N", "OH"), "OW")
    assert "equals" not in dims["H"]


def test_torch_is_told_the_shape_of_the_result() -> None:
    module = wrapper_module(_wrapper_input(SPEC, "conv2d_nhwc.wave.yaml", "0" * 64, "wavespec build"))
    assert "OH is " in module
    assert "x.shape[1]" in module.partition("_fake(")[2]


def test_python_of_a_size() -> None:
    assert size_text(("floordiv", ("add", "H", 2), 3), {"H": "x.shape[0]"}) == "(x.shape[0] + 2) // 3"
    assert size_text(("ceildiv", "H", 4), {}) == "-(-H // 4)"


def test_workloads_and_calls_in_python_are_completed() -> None:
    sizes = complete_sizes(SPEC, {"N": 1, "H": 4, "W": 4, "C": 8, "O": 8, "R": 1, "S": 1})
    assert (sizes["OH"], sizes["M"], sizes["K"]) == (6, 36, 8)
    with pytest.raises(ValueError, match="OH is 5, but"):
        complete_sizes(SPEC, {**sizes, "OH": 5})


# Half of M is the size of the second input, and what K leaves of a block is bounded.
HALVES = """apiVersion: wavespec/v1
kind: Kernel
name: halves
dims: {M: {}, H: {equals: M / 2}, K: {}}
tensors:
  a: {shape: [M, K], dtype: f32}
  b: {shape: [H], dtype: f32}
  c: {shape: [H, K], dtype: f32, role: output}
constraints:
  - {workgroup: H, tile: 16, axis: 0}
  - {workgroup: K, tile: 16, axis: 1}
  - assume: K / 3 <= 1000
  - assume: M % K < 1000
graph:
  - part: {read: a, at: {M: 2 * H}, dims: [H, K]}
  - scale: {read: b}
  - y: {mul: [part, scale]}
  - {write: y, to: c}
"""


@pytest.mark.parametrize(
    ("m", "k", "message"),
    [
        (7, 6, r"halves: H follows from other sizes, but this call has M = 7: 7 / 2 is no whole number\."),
        (8, 7, r"halves: the kernel assumes K / 3 <= 1000, but this call has M = 8, K = 7, H = 4: 7 / 3 is no whole"),
        (8, 0, r"halves: the kernel assumes M % K < 1000, but this call has M = 8, K = 0, H = 4: it divides by 0\."),
    ],
)
def test_sizes_that_a_division_leaves_without_a_number_are_refused(m: int, k: int, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        check_inputs(interface(HALVES), (torch.zeros(m, k), torch.zeros(m // 2)))
    if "H follows" in message:
        with pytest.raises(ValueError, match="H has no size: 7 / 2 is not an integer in M / 2"):
            complete_sizes(loads(HALVES), {"M": m, "K": k})


def test_sizes_that_divide_are_those_of_the_call() -> None:
    sizes = check_inputs(interface(HALVES), (torch.zeros(8, 6), torch.zeros(4)))
    assert sizes == {"M": 8, "H": 4, "K": 6}


def test_a_traced_call_asks_for_a_size_that_divides() -> None:
    text = wrapper_module(_wrapper_input(loads(HALVES), "halves.wave.yaml", "0" * 64, "wavespec build"))
    assert 'torch._check(a.shape[0] % 2 == 0, lambda: "halves: M / 2 is no whole number.")' in text
    assert "H is M / 2." in text


def test_a_traced_call_asks_nothing_that_targets_have_of_their_own() -> None:
    inner = HALVES.replace("K: {}}", "K: {}, I: {equals: M / P}}").replace("tensors:", "params: {P: 4}\ntensors:")
    parted = inner + "targets: {cpu: {params: {P: 2}}}\n"
    texts = [
        wrapper_module(_wrapper_input(loads(one), "halves.wave.yaml", "0" * 64, "wavespec build"))
        for one in (inner, parted)
    ]
    assert ["% 4 == 0" in text for text in texts] == [True, False]


def test_a_case_that_divides_without_a_number_is_not_that_of_the_call() -> None:
    condition = Assumption("K / 2 > 4", ("gt", ("div", "K", 2), 4))
    plain = interface(HALVES)
    artifact = replace(plain, cases=(ArtifactCase((condition,), plain),))
    assert [artifact.member_for({"M": 2, "H": 1, "K": k}) for k in (8, 10, 11)] == [1, 0, 1]


# Where rows are long, every second one of T has no place in the result.
ROOM = """apiVersion: wavespec/v1
kind: Kernel
name: room
dims: {M: {}, N: {}, T: {equals: M * TIMES}}
params: {TIMES: 1}
tensors:
  a: {shape: [M, N], dtype: f32}
  c: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: T, tile: 4, axis: 0}
  - {workgroup: N, tile: 16, axis: 1}
graph:
  - part: {read: a, dims: [T, N], at: {M: T // TIMES}}
  - {write: part, to: c, at: {M: T // TIMES + T % TIMES * size(M)}}
targets:
  cpu: {cases: [{when: [N % 16 == 0], params: {TIMES: 2}}]}
"""


def test_a_dim_that_is_as_long_as_another_one_is_that_one() -> None:
    (machine,) = machines("gfx942")
    symbols = {symbol.args[0] for symbol in lower(SPEC, machine).symbols}
    assert {"OW", "C"} <= symbols and not {"P", "L"} & symbols
    assert not {"P", "L"} & {dim.name for dim in interface().dims}


def test_a_dim_that_follows_is_at_least_what_it_follows_from() -> None:
    """Of a case with tiles of whole lines: channels are at least 1, so with what fills them they are a line."""
    case = next(one for one in cases_for_target(SPEC, "sm_90") if one.spec.params["FILL"] == Num(64))
    _, least, _, multiple = lower(case.spec, machines("sm_90")[0]).symbol("L").args
    assert (least, multiple) == (64, 64)


def with_room() -> KernelArtifact:
    machine, cases = machines("cpu")[0], cases_for_target(loads(ROOM), "cpu")
    kernels = [launch_interface(lower(one.spec, machine), machine, resolve(one.spec, "cpu")) for one in cases]
    return join_cases(cases, [[kernel] for kernel in kernels])


def test_sizes_follow_in_a_case_as_its_parameters_say() -> None:
    kernel = with_room()
    plans = {n: make_plan(kernel, check_inputs(kernel, (torch.zeros(5, n),))) for n in (8, 16)}
    assert {n: (plan.member, plan.grid[0], plan.constants) for n, plan in plans.items()} == {
        8: (1, 2, (5, 8, 5)),
        16: (0, 3, (5, 16, 10)),
    }


def test_a_case_may_have_one_size_of_what_is_another_dim_elsewhere() -> None:
    """Of all sizes P is OW; of the case, whose lines have room beside them, it is a number."""
    path = Path(__file__).parents[2] / "specs" / "conv2d_grouped.wave.yaml"
    text = path.read_text(encoding="utf-8").replace("OW <= 120", "OW == 14")
    (machine, *_), spec = machines("cpu"), loads_family(text, str(path), path.parent).members[0].spec
    case, *_, every = cases_for_target(spec, "cpu")
    kernels = [launch_interface(lower(one.spec, machine), machine, resolve(one.spec, "cpu")) for one in (case, every)]
    kernel = join_cases((case, every), [[one] for one in kernels])
    filters = torch.zeros(32, 3, 3, 8, dtype=torch.bfloat16)
    images = [torch.zeros(1, 5, width, 32, dtype=torch.bfloat16) for width in (14, 15)]
    assert [make_plan(kernel, check_inputs(kernel, (image, filters))).member for image in images] == [0, 1]


def test_a_case_whose_own_sizes_are_too_long_is_left_out() -> None:
    plan = make_plan(with_room(), {"M": 2**30, "N": 16, "T": 2**30})
    assert (plan.member, plan.constants) == (1, (2**30, 16, 2**30))


def test_a_case_whose_own_sizes_are_none_for_its_kernel_is_left_out() -> None:
    """Calls are asked for what dims promise of the kernel for all sizes; a case makes H of M in a way of its own."""
    plain = interface(HALVES)
    own = Dim("H", 2, None, ("floordiv", "M", 4))
    case = replace(plain, dims=tuple(own if dim.name == "H" else dim for dim in plain.dims), assumptions=())
    whole = replace(plain, assumptions=())
    artifact = replace(whole, cases=(ArtifactCase((), case),))
    assert [make_plan(artifact, {"M": m, "H": m // 2, "K": 8}).member for m in (8, 12, 16)] == [0, 1, 0]
    few = replace(case, assumptions=(Assumption("H <= 3", ("le", "H", 3)),))
    artifact = replace(whole, cases=(ArtifactCase((), few),))
    assert [make_plan(artifact, {"M": m, "H": m // 2, "K": 8}).member for m in (8, 16)] == [0, 1]
