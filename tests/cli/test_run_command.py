"""`wavespec run` and `wavespec bench`: right results pass, wrong ones fail, sizes are checked."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.cli.command import GEMM, SMALL, Command
from tests.kernels import SPECS
from tests.ops.scalars import ATTENTION, WINDOW
from wavespec.cli.measure import Accuracy, accuracy, random_inputs
from wavespec.cli.work import floating_point_operations
from wavespec.runtime.kernel import Kernel
from wavespec.schema import load
from wavespec.sim.reference import reference


@pytest.mark.compiles
def test_run_compares_with_the_reference(wavespec: Command, small: Path) -> None:
    result = wavespec("run", small, "--dim", "M=33", "--dim", "N=17", "--dim", "K=40", "--repeats", "1")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("small on cpu, M=33 N=17 K=40: ok\n  largest error  ")
    assert "GFLOP/s" in result.out


@pytest.mark.compiles
def test_parameters_of_a_target_need_not_go_with_those_of_another(wavespec: Command, tmp_path: Path) -> None:
    apart = "targets:\n  cpu: {params: {BLOCK_M: 192, WAVE_M: 192}}\n  gfx942: {params: {BLOCK_M: 32}}\n"
    text = SMALL.partition("targets:")[0].replace("{BLOCK_M: 32}", "{BLOCK_M: 64, WAVE_M: 16}")
    spec = tmp_path / "apart.wave.yaml"
    spec.write_text(text.replace("  - {hardware:", "  - {wave: M, tile: WAVE_M}\n  - {hardware:") + apart)
    result = wavespec("run", spec, "--dim", "M=8", "--dim", "N=8", "--dim", "K=8", "--repeats", "1")
    assert (result.code, result.err) == (0, ""), result.err


@pytest.mark.compiles
def test_run_and_bench_take_scalars(wavespec: Command, tmp_path: Path) -> None:
    spec = tmp_path / "window.wave.yaml"
    spec.write_text(WINDOW + "workloads: [{M: 4, N: 60}]\n")
    options = ("--scalar", "start=10", "--scalar", "step=3", "--scalar", "half=-1.5", "--scalar", "turned=true")
    result = wavespec("run", spec, *options, "--json", "--repeats", "1")
    assert result.code == 0, result.err
    (row,) = result.data["results"]
    assert row["sizes"] == {"M": 4, "N": 60, "L": 17}
    assert {name: row["scalars"][name] for name in ("start", "step", "half", "turned", "large")} == {
        **{"start": 10, "step": 3, "half": -1.5, "turned": True},
        "large": 0,
    }
    result = wavespec("bench", spec, "--scalar", "start=59", "--repeats", "1", "--json")
    assert result.data["results"][0]["sizes"]["L"] == 1


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ((), "missing-scalar", "needs a number for 'scale'"),
        (("scale=x",), "bad-number", "'x' is no number of f32"),
        (("scale=1", "scale=2"), "bad-number", "'scale' has a number already"),
        (("scale=1", "windw=3"), "unknown-scalar", "'windw' is not a scalar of attention_of_test"),
        (("scale=1", "window=3.5"), "bad-number", "'3.5' is no number of i32"),
        (("scale=1", "window=0"), "bad-number", "'window' is 0, less than its smallest number 1"),
        (("scale=1", "causal=yes"), "bad-number", "'yes' is no number of bool"),
    ],
)
def test_wrong_numbers_are_told(
    wavespec: Command, tmp_path: Path, options: tuple[str, ...], code: str, words: str
) -> None:
    spec = tmp_path / "attention.wave.yaml"
    spec.write_text(ATTENTION.replace('default: "1 / sqrt(max(D, 1))", ', ""))
    dims = [part for dim in "HMNDE" for part in ("--dim", f"{dim}=8")]
    result = wavespec("run", spec, *dims, *(part for option in options for part in ("--scalar", option)))
    assert result.code == 2 and f"error[{code}]: " in result.err and words in result.err


@pytest.mark.compiles
def test_run_without_sizes_takes_the_workloads(wavespec: Command, small: Path) -> None:
    result = wavespec("run", small, "--json", "--repeats", "1")
    assert result.code == 0
    (row,) = result.data["results"]
    assert row["sizes"] == {"M": 40, "N": 24, "K": 64}
    assert row["error_ratio"] <= 2
    assert row["seconds"] > 0


@pytest.mark.compiles
def test_a_wrong_result_is_exit_code_1(wavespec: Command, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Kernel.__call__

    def wrong(self: Kernel, *inputs: torch.Tensor) -> Any:
        return right(self, *inputs) + 1e-3

    monkeypatch.setattr(Kernel, "__call__", wrong)
    result = wavespec("run", small, "--repeats", "1")
    assert result.code == 1
    assert result.out.startswith("small on cpu, M=40 N=24 K=64: WRONG\n")


@pytest.mark.compiles
def test_a_result_that_is_not_finite_is_valid_json(
    wavespec: Command, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Kernel, "__call__", lambda self, *inputs: torch.full((40, 24), float("nan")))
    result = wavespec("run", small, "--repeats", "1", "--json")
    assert result.code == 1
    assert result.data["results"][0]["error"] is None


@pytest.mark.compiles
def test_bench_shows_torch_beside_it(wavespec: Command, small: Path) -> None:
    result = wavespec("bench", small, "--repeats", "3")
    assert result.code == 0
    head, row = result.out.splitlines()
    assert head.split() == ["sizes", "wavespec", "torch", "speed-up", "error", "roofline"]
    assert row.startswith("M=40 N=24 K=64")
    assert row.count("GFLOP/s") == 2
    assert wavespec("bench", small, "--repeats", "3", "--json").data["results"][0]["torch_seconds"] > 0


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        (["m=3"], "--dim m=3: error[unknown-dim]: 'm' is not a dim of small.\n   = hint: Did you mean 'M'?"),
        (["M"], "--dim M: error[bad-size]: 'M' is not 'NAME=SIZE'."),
        (["M=-1"], "--dim M=-1: error[bad-size]: 'M=-1' is not 'NAME=SIZE'."),
        (["M=8", "N=8", "M=8"], "--dim M=8: error[bad-size]: 'M' has a size already.\n   = hint: Give each size once."),
        (["K=12"], "--dim K=12: error[bad-size]: 'K' is 12, not a multiple of 8."),
        (["M=8", "N=8", "K=12"], "--dim K=12: error[bad-size]: 'K' is 12, not a multiple of 8."),
        (["M=8", "N=3000000000", "K=8"], "'N' is 3000000000, more than the largest size of a dim, 2147418112."),
    ],
)
def test_wrong_sizes_are_bad_input(wavespec: Command, small: Path, dims: list[str], message: str) -> None:
    options = [option for dim in dims for option in ("--dim", dim)]
    result = wavespec("run", small, *options)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_dims_without_a_size_are_those_of_the_workloads(wavespec: Command, small: Path) -> None:
    small.write_text(small.read_text() + "  - {M: 8, N: 16, K: 8}\n  - {M: 16, N: 24, K: 64}\n")
    result = wavespec("run", small, "--dim", "M=3", "--simulate", "--json")
    sizes = [{"M": 3, "N": 24, "K": 64}, {"M": 3, "N": 16, "K": 8}]
    assert [row["sizes"] for row in result.data["results"]] == sizes, result.err


def test_without_workloads_all_dims_need_a_size_that_they_may_have(wavespec: Command, small: Path) -> None:
    text = small.read_text().replace("{M: {}, N: {}", "{M: {max: 256}, N: {min: 600}")
    small.write_text(text[: text.index("workloads:")])
    result = wavespec("run", small, "--dim", "M=512")
    assert "--dim M=512: error[bad-size]: 'M' is 512, more than its largest size 256." in result.err
    assert "--dim: error[missing-size]: small needs a size for 'N' and 'K'." in result.err
    assert "= hint: For example: --dim N=600 --dim K=512" in result.err


BLOCKED = """apiVersion: wavespec/v1
kind: Kernel
name: blocked
dims: {M: {}, N: {}, B: {equals: "ceildiv(N, BLOCK)"}, C: {equals: BLOCK}}
params: {BLOCK: 16}
tensors:
  x: {shape: [M, N], dtype: f32}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 1, axis: 0}
  - {workgroup: B, tile: 1, axis: 1}
  - {tiling: C, tile: 32}
graph:
  - blocks:
      iterate: C
      body:
        - v: {read: x, dims: [M, B, C], at: {N: B * size(C) + C}}
        - u: v * 2 + f32(size(C) - BLOCK)
        - {write: u, to: y, at: {N: B * size(C) + C}}
targets: {cpu: {params: {BLOCK: 32}}}
workloads: [{M: 3, N: 70}]
"""


@pytest.mark.compiles
def test_sizes_and_the_reference_are_those_of_the_target(wavespec: Command, tmp_path: Path) -> None:
    spec = tmp_path / "blocked.wave.yaml"
    spec.write_text(BLOCKED)
    for options, block in ((("--repeats", "1"), 32), (("--simulate",), 32), (("--simulate", "--target", "sm_90"), 16)):
        result = wavespec("run", spec, *options, "--json")
        (row,) = result.data["results"]
        assert (result.code, row["sizes"]["B"], row["sizes"]["C"]) == (0, -(-70 // block), block)
    spec.write_text(BLOCKED.replace("params: {BLOCK: 32}", "cases: [{when: [N <= 70], params: {BLOCK: 32}}]"))
    for options in ("--repeats", "1"), ("--simulate",):  # with 32 more in every element the result would be wrong
        assert wavespec("run", spec, *options).code == 0


@pytest.mark.compiles
def test_a_machine_that_is_not_here_is_said(wavespec: Command, small: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    result = wavespec("run", small, "--target", "gfx942")
    assert result.code == 1
    assert "error[no-device]: torch sees no device that runs gfx942." in result.err


def test_operations_of_a_gemm_are_two_per_product(small: Path) -> None:
    assert floating_point_operations(load(GEMM), {"M": 3, "N": 5, "K": 7}) == 2 * 3 * 5 * 7


def test_torchs_own_result_has_a_ratio_of_at_most_one() -> None:
    spec = load(GEMM)
    a, b = random_inputs(spec, {"M": 64, "N": 48, "K": 80}, 0, "cpu")
    assert accuracy(spec, [a, b], a.float() @ b.float().T)[0].ratio <= 1
    assert not accuracy(spec, [a, b], torch.zeros(64, 48))[0].ok


@pytest.mark.compiles
def test_the_worst_element_is_told_with_what_was_expected(
    wavespec: Command, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = load(small)
    right = reference(spec, *random_inputs(spec, {"M": 3, "N": 2, "K": 8}, 0, "cpu")).float()
    wrong = right.clone()
    wrong[2, 1] += 7
    monkeypatch.setattr(Kernel, "__call__", lambda *_, **__: wrong)
    sizes = ("--dim", "M=3", "--dim", "N=2", "--dim", "K=8", "--repeats", "1")
    result = wavespec("run", small, *sizes)
    assert result.code == 1
    assert f"\n                 in c[2, 1]: {wrong[2, 1]:.9g} computed, {right[2, 1]:.7g}" in result.out
    (row,) = wavespec("run", small, *sizes, "--json").data["results"]
    expected = {"tensor": "c", "index": [2, 1], "computed": wrong[2, 1].item(), "expected": row["worst"]["expected"]}
    assert row["worst"] == expected
    assert row["worst"]["expected"] == pytest.approx(right[2, 1].item())


def test_integers_have_to_be_equal() -> None:
    assert Accuracy(0.0, 0.0).ok
    assert not Accuracy(1.0, 0.0).ok


@pytest.mark.compiles
def test_debug_shows_values_of_the_graph(wavespec: Command, small: Path) -> None:
    sizes = ("--dim", "M=3", "--dim", "N=2", "--dim", "K=8")
    result = wavespec("run", small, *sizes, "--repeats", "1", "--debug", "x")
    assert result.code == 0
    assert "  debug_x  [3, 8], at most 0 from the reference's\n    tensor([[" in result.out
    wrong = wavespec("run", small, *sizes, "--debug", "xs")
    assert wrong.code == 2 and "'xs' is not a value of the graph." in wrong.err


_ELEMENTWISE = """apiVersion: wavespec/v1
kind: Kernel
name: strange
dims: {{M: {{}}}}
tensors:
  x: {{shape: [M], dtype: f32}}
  y: {{shape: [M], dtype: f32, role: output}}
constraints: [{{workgroup: M, tile: 64, axis: 0}}]
graph:
  - a: {{read: x}}
  - b: "{formula}"
  - {{write: b, to: y}}
workloads: [{{M: 1000}}]
"""


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("formula", "code", "verdict", "reason"),
    [
        ("log(a)", 0, "shows little", r"[45]\d\d of 1000 elements of 'y' are not finite, for torch too"),
        ("log(-abs(a))", 1, "shows nothing", "1000 of 1000 elements of 'y' are not finite, for torch too"),
        ("a * 0", 0, "shows little", "all 1000 elements of 'y' are 0, for torch too"),
    ],
)
def test_results_that_show_little_are_not_ok(
    wavespec: Command, tmp_path: Path, formula: str, code: int, verdict: str, reason: str
) -> None:
    spec = tmp_path / "strange.wave.yaml"
    spec.write_text(_ELEMENTWISE.format(formula=formula))
    result = wavespec("run", spec, "--repeats", "1")
    assert result.code == code
    first, second, *_ = result.out.splitlines()
    assert first == f"strange on cpu, M=1000: {verdict}"
    assert re.fullmatch(f"  random inputs  {reason}", second)
    row = wavespec("run", spec, "--repeats", "1", "--json").data["results"][0]
    assert row["ok"] is (code == 0) and row["verdict"] == verdict
    assert re.fullmatch(reason, row["doubts"][0])


@pytest.mark.compiles
def test_a_result_that_is_not_finite_only_here_is_wrong(
    wavespec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = tmp_path / "strange.wave.yaml"
    spec.write_text(_ELEMENTWISE.format(formula="log(a)"))
    monkeypatch.setattr(Kernel, "__call__", lambda self, *inputs: torch.full((1000,), float("nan")))
    assert "M=1000: WRONG" in wavespec("run", spec, "--repeats", "1").out


def test_places_outside_of_a_tensor_are_said() -> None:
    spec = load(SPECS / "embedding.wave.yaml")
    token, table = random_inputs(spec, {"T": 50, "D": 8, "V": 20}, 0, "cpu")
    token[:7] = torch.tensor([-1, 20, -2, 99, 2**40, 20, 20])
    _, doubts = accuracy(spec, [token, table], reference(spec, token, table, compute=None))
    assert [doubt.text for doubt in doubts] == [
        "7 of 50 numbers of 'row' are no places along V of 'table', which has 20"
    ]


@pytest.mark.compiles
def test_outputs_whose_elements_share_bytes_are_compared(wavespec: Command) -> None:
    result = wavespec("run", SPECS / "quantize_mxf4.wave.yaml", "--dim", "M=3", "--dim", "K=64", "--repeats", "1")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("quantize_mxf4 on cpu, ") and ": ok\n" in result.out


@pytest.mark.compiles
@pytest.mark.parametrize("columns", [0, 3, 16])
def test_views_are_passed_where_any_strides_are_taken(wavespec: Command, small: Path, columns: int) -> None:
    text = re.sub(r"(shape: .*dtype: \w+)", r"\1, strides: any", small.read_text())
    assert text.count("strides") == 3
    small.write_text(text)
    result = wavespec("run", small, "--strided", str(columns), "--repeats", "1")
    assert (result.code, result.err) == (0, "")


def test_views_need_a_tensor_that_may_be_one(wavespec: Command, small: Path) -> None:
    result = wavespec("run", small, "--strided", "8")
    assert result.code == 2
    assert "error[nothing-strided]: No tensor of small may have any strides." in result.err


_BOTH = """apiVersion: wavespec/v1
kind: Kernel
name: both
dims: {N: {}}
tensors:
  x: {shape: [N], dtype: f32, values: VALUES}
  i: {shape: [N], dtype: i32, values: {min: 0, max: N - 1, order: sorted}}
  y: {shape: [N], dtype: f32, role: output}
  z: {shape: [N], dtype: f32, role: output}
constraints: [{workgroup: N, tile: 64, axis: 0}]
graph:
  - a: {read: x}
  - place: {read: i}
  - looked_up: {read: x, at: {N: place}}
  - b: "FORMULA"
  - {write: b, to: y}
  - {write: looked_up, to: z}
workloads: [{N: 40}]
"""


@pytest.fixture
def both(tmp_path: Path) -> Callable[..., Path]:
    """A spec with two inputs and two outputs, `values` of x, and what y is of it."""

    def written(formula: str = "log(a)", values: str = "{min: 0.5}") -> Path:
        path = tmp_path / "both.wave.yaml"
        path.write_text(_BOTH.replace("FORMULA", formula).replace("VALUES", values))
        return path

    return written


@pytest.mark.compiles
def test_inputs_are_drawn_by_their_values(wavespec: Command, both: Callable[..., Path]) -> None:
    assert "N=40: ok\n" in wavespec("run", both(), "--repeats", "1").out
    assert "shows little" in wavespec("run", both(values="{max: 0.5}"), "--repeats", "1").out


@pytest.mark.compiles
def test_files_are_inputs_whose_first_wrong_element_is_named(
    wavespec: Command, both: Callable[..., Path], tmp_path: Path
) -> None:
    np.save(tmp_path / "i.npy", np.array([0, 1, 1, 4], dtype=np.int32))
    torch.save(torch.tensor([1.0, 2, -3, float("nan")]), tmp_path / "x.pt")
    given = ("--input", f"i={tmp_path / 'i.npy'}", "--input", f"x={tmp_path / 'x.pt'}")
    out = wavespec("run", both(), *given, "--repeats", "1").out.splitlines()
    assert out[0] == "both on cpu, N=4: shows little"
    assert out[1] == "  given inputs   2 of 4 elements of 'x' are not at least 0.5, the first is x[2] = -3"
    assert out[2] == "  given inputs   1 of 4 elements of 'i' are not from 0 to 3, the first is i[3] = 4"
    out = wavespec("run", both("a + 1", "{max: 99}"), *given, "--repeats", "1").out
    assert "1 of 4 elements of 'x' are not at most 99, the first is x[3] = nan" in out
    np.save(tmp_path / "i.npy", np.array([0, 2, 1, 3], dtype=np.int32))
    out = wavespec("run", both(), *given[:2], "--repeats", "1").out
    assert "i[2] = 1, less than i[1] = 2 before it" in out


@pytest.mark.compiles
def test_numbers_of_files_that_the_graph_has_another_use_for_are_named(wavespec: Command, tmp_path: Path) -> None:
    spec = tmp_path / "both.wave.yaml"
    spec.write_text(re.sub(r", values: [^}]*}(?=})", "", _BOTH.replace("FORMULA", "a").replace("VALUES", "{min: 0}")))
    assert "values" not in spec.read_text()
    torch.save(torch.tensor([0, -1], dtype=torch.int32), tmp_path / "i.pt")
    out = wavespec("run", spec, "--input", f"i={tmp_path / 'i.pt'}", "--repeats", "1").out
    assert "1 of 2 elements of 'i' are not from 0 to 1, the first is i[1] = -1" in out
    torch.save(torch.tensor([0.0, float("inf")]), tmp_path / "x.pt")
    out = wavespec("run", spec, "--input", f"x={tmp_path / 'x.pt'}", "--repeats", "1").out
    assert "1 of 2 elements of 'x' are not finite" in out


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("i",), "bad-input", "'i' is not 'NAME=FILE'"),
        (("y=a.npy",), "unknown-input", "'y' is not an input of both"),
        (("x=a.txt",), "bad-input", "has none of the endings .pt and .npy"),
        (("x=missing.npy",), "bad-input", "missing.npy' cannot be read as a tensor: "),
        (("x=list.pt",), "bad-input", "list.pt' has no tensor, but a list"),
        (("x=whole.npy",), "bad-input", "'x' holds int32, not float32"),
        (("i=square.npy",), "bad-input", "'i' has 2 dims, not those of [N]"),
        (("i=whole.npy", "i=whole.npy"), "bad-input", "'i' has a file already"),
        (("i=whole.npy", "x=five.npy"), "bad-input", "'x' has N = 5, but it is 4 in 'i'"),
    ],
)
def test_files_that_are_no_inputs_are_told(
    wavespec: Command, both: Callable[..., Path], tmp_path: Path, options: tuple[str, ...], code: str, words: str
) -> None:
    np.save(tmp_path / "whole.npy", np.zeros(4, dtype=np.int32))
    np.save(tmp_path / "square.npy", np.zeros((2, 2), dtype=np.int32))
    np.save(tmp_path / "five.npy", np.zeros(5, dtype=np.float32))
    torch.save([1, 2], tmp_path / "list.pt")
    given = [part for one in options for part in ("--input", one.replace("=", f"={tmp_path}/"))]
    result = wavespec("run", both(), *given)
    assert result.code == 2 and f"error[{code}]: " in result.err and words in result.err


@pytest.mark.compiles
def test_sizes_of_options_and_files_have_to_agree(wavespec: Command, both: Callable[..., Path], tmp_path: Path) -> None:
    np.save(tmp_path / "i.npy", np.zeros(4, dtype=np.int32))
    result = wavespec("run", both(), "--input", f"i={tmp_path / 'i.npy'}", "--dim", "N=5")
    assert result.code == 2 and "'i' has N = 4, but it is 5 in --dim N=5." in result.err


@pytest.mark.compiles
def test_results_that_are_always_the_same_show_little(wavespec: Command, both: Callable[..., Path]) -> None:
    result = wavespec("run", both("where(a > 0, 1.0, 2.0)"), "--repeats", "1")
    first, second, *_ = result.out.splitlines()
    assert result.code == 0 and first == "both on cpu, N=40: shows little"
    assert second == "  random inputs  'y' is the same whatever the inputs are"


@pytest.mark.compiles
def test_results_without_elements_show_nothing(wavespec: Command, both: Callable[..., Path]) -> None:
    result = wavespec("run", both(), "--dim", "N=0", "--repeats", "1")
    assert result.code == 1
    assert result.out.startswith("both on cpu, N=0: shows nothing\n  random inputs  'y' has no elements\n")


@pytest.mark.compiles
def test_the_case_of_a_run_is_named(wavespec: Command, small: Path) -> None:
    cases = "{BLOCK_M: 24}, cases: [{when: [M <= 40], params: {BLOCK_M: 40}}]"
    small.write_text(small.read_text().replace("{BLOCK_M: 24}", cases))
    out = wavespec("run", small, "--repeats", "1").out
    assert "\n  case           M <= 40\n" in out
    row = wavespec("bench", small, "--repeats", "1", "--json").data["results"][0]
    assert row["case"] == ["M <= 40"] and row["gbytes_per_second"] > 0 and row["torch_gbytes_per_second"] > 0
    assert "roofline_share" not in row  # the peaks of CPUs are not known


@pytest.mark.compiles
def test_the_case_of_a_run_is_the_one_that_was_launched(wavespec: Command, small: Path) -> None:
    """Strides of the call take part in the choice: the case for contiguous rows was named for views as well."""
    cases = '{BLOCK_M: 24}, cases: [{when: ["stride(a, M) == K"], params: {BLOCK_M: 40}}]'
    text = small.read_text().replace("{BLOCK_M: 24}", cases)
    small.write_text(re.sub(r"(shape: .*dtype: \w+)", r"\1, strides: any", text))
    assert "\n  case           stride(a, M) == K\n" in wavespec("run", small, "--repeats", "1").out
    row = wavespec("run", small, "--strided", "8", "--repeats", "1", "--json").data["results"][0]
    assert row["verdict"] == "ok" and row["case"] == []
