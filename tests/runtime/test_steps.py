"""A kernel of several steps: what its artifact says, how it goes to disk and back, and that a call runs all of them."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.schema.test_materialize import spec_of
from wavespec.pipeline import best_variant, build
from wavespec.runtime.artifact import Assumption, KernelArtifact
from wavespec.runtime.code import PartPlace
from wavespec.runtime.kernel import Kernel
from wavespec.runtime.launch_plan import make_plan
from wavespec.runtime.manifest import (
    artifact_to_manifest,
    load_artifact,
    pack_artifact,
    parts_of,
    save_artifact,
    unpack_artifact,
)
from wavespec.schema import KernelSpec, loads
from wavespec.sim.reference import reference

pytestmark = pytest.mark.compiles

SPEC = spec_of("{moved: [M, K], w_tile: [K, N]}")


@pytest.fixture(scope="module")
def artifact() -> KernelArtifact:
    return built(SPEC)


def built(spec: KernelSpec) -> KernelArtifact:
    return build(spec, "cpu", only=best_variant("cpu"))


def inputs(m: int, n: int, k: int) -> tuple[torch.Tensor, ...]:
    random = torch.Generator().manual_seed(m + n + k)
    return tuple(torch.randint(-3, 4, shape, generator=random).half() for shape in ((m, k), (n, k), (k,)))


def expected(given: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return reference(SPEC, *given).float()


@pytest.mark.parametrize(
    ("m", "n", "k"), [(64, 33, 96), (130, 1, 32), (65, 40, 0), (64, 0, 32), (63, 33, 96), (0, 3, 32)]
)
def test_a_call_runs_every_step_or_the_kernel_for_all_sizes(artifact: KernelArtifact, m: int, n: int, k: int) -> None:
    kernel, given = Kernel(artifact), inputs(m, n, k)
    for _ in range(3):  # the long way, and twice the short one
        torch.testing.assert_close(kernel(*given), expected(given), rtol=0, atol=0)
    out = torch.full((m, n), 7.0)
    assert kernel(*given, out=out) is out
    torch.testing.assert_close(out, expected(given), rtol=0, atol=0)
    assert kernel.member_for(*given) == (0 if m >= 64 else 1)


def test_calls_of_several_threads_have_memory_of_their_own(artifact: KernelArtifact) -> None:
    kernel = Kernel(artifact)
    given = [inputs(64 + 8 * number, 40, 96) for number in range(4)]
    right = list(map(expected, given))
    wrong: list[int] = []

    def call(number: int) -> None:
        for _ in range(25):
            if not torch.equal(kernel(*given[number]), right[number]):
                wrong.append(number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_steps_come_in_order_and_hand_on_what_they_make(artifact: KernelArtifact) -> None:
    case = artifact.cases[0].kernel
    assert [step.name for step in case.steps] == ["product_moved", "product_w_tile", "product"]
    assert [[tensor.name for tensor in step.inputs] for step in case.steps] == [
        ["x", "bias"],
        ["w"],
        ["moved_made", "w_tile_made"],
    ]
    assert case.tensors == artifact.tensors and not case.binaries and all(step.binaries for step in case.steps)
    plan = make_plan(artifact, {"M": 64, "N": 40, "K": 96})
    assert [one.shapes for one in plan.steps] == [
        ((64, 96), (96,), (64, 96)),
        ((40, 96), (96, 40)),
        ((64, 96), (96, 40), (64, 40)),
    ]


def test_manifest_and_pack_have_the_steps(artifact: KernelArtifact, tmp_path: Path) -> None:
    label = artifact.binaries[0].label
    names = {path.name for path in save_artifact(artifact, tmp_path)}
    assert names == {"cpu.json", f"cpu.{label}.vmfb", *(f"cpu.case0.step{number}.{label}.vmfb" for number in range(3))}
    again = load_artifact(tmp_path / "cpu.json")
    assert artifact_to_manifest(again) == artifact_to_manifest(artifact)
    assert unpack_artifact(pack_artifact(artifact)) == artifact
    given = inputs(64, 33, 96)
    assert torch.equal(Kernel(again)(*given), expected(given))
    places = [place for place, _ in parts_of(artifact)]
    assert places == [PartPlace(0, 0), PartPlace(0, 1), PartPlace(0, 2), PartPlace(None)]
    assert [str(place) for place in places] == [", case 0, step 0", ", case 0, step 1", ", case 0, step 2", ""]


def test_steps_that_do_not_follow_are_no_kernel(artifact: KernelArtifact) -> None:
    case = artifact.cases[0].kernel
    first, second, last = case.steps
    with pytest.raises(ValueError, match="a step reads what none before it wrote"):
        replace(case, steps=(last, first, second))
    with pytest.raises(ValueError, match="code of its own"):
        replace(case, binaries=last.binaries)
    with pytest.raises(ValueError, match="a step is no kernel by itself"):
        replace(case, steps=(first, second, replace(case, name="product")))


def test_sizes_that_a_step_cannot_take_go_to_the_kernel_for_all(artifact: KernelArtifact) -> None:
    sizes = {"M": 64, "N": 40, "K": 96}
    case = artifact.cases[0]
    first, *others = case.kernel.steps
    steps = (replace(first, assumptions=(Assumption("M <= 8", ("le", "M", 8)),)), *others)
    limited = replace(artifact, cases=(replace(case, kernel=replace(case.kernel, steps=steps)),))
    assert make_plan(artifact, sizes).member == 0 and make_plan(limited, sizes).member == 1


SCALED = """apiVersion: wavespec/v1
kind: Kernel
name: scaled
dims: {T: {fold: leading}, N: {}, K: {max: 16}, K_N: {value: 3}}
scalars: {factor: {dtype: f32, default: 2.0}}
tensors:
  x: {shape: [T, K], dtype: f32}
  w: {shape: [T, K, N], dtype: f32}
  moved_made: {shape: [K_N], dtype: f32}
  y: {shape: [T, N], dtype: f32, role: output}
constraints:
  - {workgroup: T, tile: 4, axis: 0}
  - {workgroup: N, tile: 16, axis: 1}
  - {tiling: K, tile: 16}
graph:
  - part: {read: x}
  - turned: {read: moved_made}
  - first: {sum: turned, dim: K_N}
  - moved: "part * factor + f32(index(K))"
  - columns: {read: w}
  - product: columns * moved
  - result: {sum: product, dim: K}
  - total: result + first
  - {write: total, to: y}
targets:
  cpu:
    cases: [{when: [T >= 2], schedule: {materialize: {moved: [K, T], w: [T, N, K]}}}]
"""


def test_names_that_are_taken_leading_dims_and_scalars() -> None:
    """What a kernel before is given is called in a way of its own, has one dim for the leading ones, and the scalars."""
    spec = loads(SCALED)
    kernel, random = Kernel(built(spec)), torch.Generator().manual_seed(0)
    x, w = (torch.randint(-3, 4, shape, generator=random).float() for shape in ((2, 3, 5), (2, 3, 5, 7)))
    three = torch.tensor([1.0, 2.0, 3.0])
    right = torch.einsum("abk,abkn->abn", x * 5 + torch.arange(5), w) + 6
    assert kernel.member_for(x, w, three) == 0
    torch.testing.assert_close(kernel(x, w, three, factor=5.0), right, rtol=0, atol=0)
    torch.testing.assert_close(kernel(x[:1, :1], w[:1, :1], three, factor=5.0), right[:1, :1], rtol=0, atol=0)
