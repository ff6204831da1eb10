"""Specs that say nothing of how work is split get tiles from their graph; what a spec does say is kept."""

from __future__ import annotations

import pytest

from tests.bare import planned_anew, without_plan
from tests.kernels import SPECS, Subject, subjects
from tests.rungs import often
from wavespec.check_builds import check_builds
from wavespec.diagnostics import WavespecError
from wavespec.schema.builder import KernelBuilder
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.schema.language.constraints import Hardware, Tiling, Wave, Workgroup
from wavespec.schema.language.models import Case, KernelSpec, Schedule, TargetOverride
from wavespec.schema.load import loads
from wavespec.schema.plans.find_roles import roles_of
from wavespec.schema.plans.roles import Kind, Roles
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.schema.resolve import resolve_params
from wavespec.targets.names import TARGETS

HEAD = "apiVersion: wavespec/v1\nkind: Kernel\nname: one\n"
PRODUCT = (
    HEAD
    + """
dims: {M: {}, N: {}, K: {}}
tensors:
  a: {shape: [M, K], dtype: bf16}
  b: {shape: [N, K], dtype: bf16}
  c: {shape: [M, N], dtype: f32, role: output}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - steps:
      iterate: K
      carry: {acc: zero}
      body: [a_tile: {read: a}, b_tile: {read: b}, acc: {mma: [a_tile, b_tile, acc]}]
  - {write: steps.acc, to: c}
"""
)


def kind_of(name: str) -> Kind:
    (subject,) = (one for one in subjects(*TARGETS) if one.name == name)
    roles = roles_of(without_plan(subject.spec))
    assert roles is not None
    return roles.kind


def tiles(spec: KernelSpec, target: str, **sizes: int) -> dict[str, int]:
    """The tile of each dim in the kernel of a call."""
    plain = case_for_sizes(cases_for_target(spec, target), sizes).spec
    values = resolve_params(plain)
    split = [one for one in plain.constraints if isinstance(one, Workgroup | Tiling)]
    return {one.dim: int(one.tile.evaluate(values)) for one in split}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("matmul_bf16", "products"),
        ("linear_swiglu", "products"),
        ("attention", "attention"),
        ("softmax", "rows"),
        ("cumsum", "ordered"),
        ("sum_dim", "columns"),
        ("conv2d_depthwise", "windows"),
        ("silu_and_mul", "elements"),
        ("transpose", "transposed"),
    ],
)
def test_the_graph_says_what_dims_are_for(name: str, kind: Kind) -> None:
    assert kind_of(name) == kind


def test_products_have_tiles_by_the_sizes_of_a_call() -> None:
    spec = loads(PRODUCT)
    assert tiles(spec, "sm_90", M=1, N=4096, K=4096) == {"M": 16, "N": 64, "K": 256}
    assert tiles(spec, "sm_90", M=4096, N=4096, K=4096)["M"] == 128
    assert tiles(spec, "sm_90", M=4096, N=4096, K=4095) == {
        "M": 128,
        "N": 128,
        "K": 16,
    }  # no row starts where a wide access may
    assert [tiles(spec, "cpu", M=rows, N=4096, K=4096)["M"] for rows in (1, 2, 64)] == [1, 64, 64]


def test_steps_stay_in_pixels_whose_elements_are_vectors() -> None:
    spec = loads((SPECS.parent / "tests/specs/conv_transpose2d_taps.wave.yaml").read_text(encoding="utf-8"))
    sizes = {"N": 1, "H": 28, "W": 28, "O": 64, "M": 784}
    steps = [tiles(spec, "cpu", **sizes, C=channels, K=4 * channels)["K"] for channels in (128, 64, 32, 24, 30)]
    assert steps == [128, 64, 32, 64, 32]


def test_short_rows_that_are_only_joined_come_in_waves_of_several() -> None:
    spec = planned_anew(next(one.spec for one in subjects("cpu") if one.name == "argmax"))
    assert [tiles(spec, "cpu", M=1000, N=columns) for columns in (64, 4096)] == [{"M": 64, "N": 8}, {"M": 8, "N": 128}]


def test_every_target_has_a_plan_of_its_own() -> None:
    spec = loads(PRODUCT)
    assert {*spec.targets} == {"cpu", "sm_90", "gfx942", "gfx950"}
    assert all(one.constraints for one in spec.targets.values())


SUMS = (
    HEAD
    + """
dims: {A: {}, N: {}, B: {}}
tensors:
  x: {shape: [A, N, B], dtype: f32}
  y: {shape: [A, B], dtype: f32, role: output}
graph:
  - none: {register: [A, B], dtype: f32, value: 0}
  - steps:
      iterate: N
      carry: {total: none}
      body: [part: {read: x}, total: {sum: part, dim: N, init: total}]
  - {write: steps.total, to: y}
"""
)


def test_few_sums_of_many_numbers_have_parts_or_clusters() -> None:
    cases = cases_for_target(loads(SUMS), "sm_90")
    assert case_for_sizes(cases, {"A": 1, "N": 1_000_000, "B": 3}).before
    assert case_for_sizes(cases, {"A": 1, "N": 100_000, "B": 512}).before
    few = case_for_sizes(cases, {"A": 1, "N": 5000, "B": 5120})
    assert few.spec.schedule is not None and few.spec.schedule.workgroups is not None
    assert (few.before, few.spec.schedule.workgroups.split) == ((), 8)
    assert not case_for_sizes(cases, {"A": 64, "N": 5000, "B": 5120}).before


def test_what_asks_for_its_place_has_no_parts() -> None:
    text = SUMS.replace("total: {sum: part,", 'some: "where(index(N) < 9, part, 0)", total: {sum: some,')
    assert not any(case.before for case in cases_for_target(loads(text), "sm_90"))


def test_operands_are_staged_and_results_are_not() -> None:
    spaces = {name: one.space for name, one in cases_for_target(loads(PRODUCT), "gfx942")[-1].spec.tensors.items()}
    assert spaces == {"a": "shared", "b": "shared", "c": "global"}


def test_a_word_about_tiles_is_the_last_one() -> None:
    text = (
        PRODUCT
        + "constraints: [{workgroup: M, tile: 32, axis: 0}, {workgroup: N, tile: 32, axis: 1}, {tiling: K, tile: 16}]\n"
    )
    assert not loads(text).targets
    assert tiles(loads(text), "sm_90", M=9, N=9, K=9) == {"M": 32, "N": 32, "K": 16}


def test_what_a_target_says_of_other_things_is_kept() -> None:
    spec = loads(PRODUCT + "params: {OWN: 1}\ntargets: {sm_90: {params: {OWN: 2}}}\n")
    plain = cases_for_target(spec, "sm_90")[-1].spec
    assert resolve_params(plain)["OWN"] == 2
    assert resolve_params(cases_for_target(spec, "cpu")[-1].spec)["OWN"] == 1
    assert tiles(spec, "sm_90", M=9, N=9, K=9) == {"M": 128, "N": 128, "K": 16}


def test_loops_over_dims_of_one_size_are_planned_as_well() -> None:
    spec = loads(PRODUCT.replace("{M: {}, N: {}, K: {}}", "{M: {value: 512}, N: {value: 512}, K: {value: 512}}"))
    assert tiles(spec, "gfx942") == {"M": 128, "N": 128, "K": 32}


def test_a_schedule_of_the_spec_is_kept() -> None:
    spec = loads(PRODUCT + "schedule: {stages: 2}\n")
    (only,) = cases_for_target(spec, "gfx942")
    assert only.spec.schedule is not None
    assert only.spec.schedule.stages == 2


def test_what_the_machine_is_asked_to_use_is_kept() -> None:
    text = PRODUCT + "constraints: [{hardware: {denormals: flush}}, {assume: K >= 1}]\n"
    for case in cases_for_target(loads(text), "sm_90"):
        assert [one.word for one in case.spec.constraints[-2:]] == ["hardware", "assume"]


def test_dims_of_one_size_have_no_larger_tiles() -> None:
    spec = loads(PRODUCT.replace("N: {}", "N: {value: 32}"))
    assert all(tiles(spec, target, M=9, K=9)["N"] <= 32 for target in spec.targets)


def test_cases_that_no_call_would_take_are_left_out() -> None:
    spec = loads(PRODUCT.replace("M: {}", "M: {max: 16}"))
    assert len(spec.targets["sm_90"].cases) < len(loads(PRODUCT).targets["sm_90"].cases)


def test_promises_of_dims_leave_no_case_for_other_sizes() -> None:
    spec = loads(
        PRODUCT.replace("{M: {}, N: {}, K: {}}", "{M: {min: 4096}, N: {multiple_of: 4096}, K: {multiple_of: 64}}")
    )
    assert tiles(spec, "sm_90", M=4096, N=4096, K=64)["N"] >= 128
    assert cases_for_target(spec, "sm_90")[-1].spec.schedule is not None, "the last one is no kernel for odd sizes"


def test_a_loop_that_ends_by_a_value_has_one_row() -> None:
    (subject,) = (one for one in subjects(*TARGETS) if one.name == "sparsemax")
    for target in ("cpu", "sm_90"):
        assert tiles(planned_anew(subject.spec), target, M=9, N=9)["M"] == 1


@pytest.mark.parametrize(("wide", "narrow"), [("f32", "bf16"), ("f32", "i8"), ("i8", "i8")])
@pytest.mark.parametrize("dims", ["N", "M, N"])
def test_what_is_changed_in_place_is_shared_out_evenly(dims: str, wide: str, narrow: str) -> None:
    text = f"""
dims: {{M: {{}}, N: {{}}}}
tensors: {{p: {{shape: [{dims}], dtype: {wide}, role: inout}}, g: {{shape: [{dims}], dtype: {narrow}}}}}
graph: [old: {{read: p}}, step: {{read: g}}, new: "old - {wide}(step)", {{write: new, to: p}}]
"""
    spec = loads(HEAD + (text if "M" in dims else text.replace("M: {}, ", "")))
    assert check_builds([spec]) == [()]


def test_several_products_share_out_the_columns() -> None:
    (swiglu,) = (one for one in subjects(*TARGETS) if one.name == "linear_swiglu")
    (matmul,) = (one for one in subjects(*TARGETS) if one.name == "matmul_bf16")
    sizes = {"M": 4096, "N": 4096, "K": 4096}
    narrow, wide = (tiles(planned_anew(one.spec), "gfx942", **sizes)["N"] for one in (swiglu, matmul))
    assert narrow == wide // 2


def test_a_large_value_has_smaller_tiles() -> None:
    text = (
        HEAD
        + """
dims: {T: {}, H: {}, D: {value: 256}}
tensors: {x: {shape: [T, H, D], dtype: f32}, y: {shape: [T, H], dtype: f32, role: output}}
graph: [part: {read: x}, result: {sum: part, dim: D}, {write: result, to: y}]
"""
    )
    for target, words in (("cpu", 4096), ("sm_90", 16384)):
        found = tiles(loads(text), target, T=9, H=9)
        assert found["T"] * found["H"] * 256 <= words


def test_plans_survive_being_written_out() -> None:
    spec = loads(PRODUCT)
    assert loads(dump_yaml(spec)) == spec


def test_the_builder_plans_as_files_do() -> None:
    kernel = KernelBuilder("one")
    m, n, k = kernel.dim("M"), kernel.dim("N"), kernel.dim("K")
    a, b = kernel.input("a", [m, k], "bf16"), kernel.input("b", [n, k], "bf16")
    c = kernel.output("c", [m, n], "f32")
    zero = kernel.register("zero", [m, n], "f32", 0)
    with kernel.iterate("steps", k, acc=zero) as loop:
        kernel.mma("acc", kernel.read("a_tile", a), kernel.read("b_tile", b), loop["acc"])
    kernel.write(loop["acc"], c)
    assert kernel.build() == loads(PRODUCT)


def test_mistakes_are_told_as_in_other_specs() -> None:
    with pytest.raises(WavespecError) as raised:
        loads(PRODUCT.replace("mma: [a_tile, b_tile, acc]", "mma: [a_tile, c_tile, acc]"))
    assert [one.code for one in raised.value.diagnostics] == ["undefined-name"]


@pytest.mark.parametrize(
    "subject",
    often(
        [one for one in subjects(*TARGETS) if not one.is_alike],
        lambda one: one.is_first_type,
        pytest.mark.rare,
        pytest.mark.always,
    ),
    ids=lambda one: one.name,
)
def test_every_kernel_builds_without_its_plan(subject: Subject) -> None:
    assert check_builds([planned_anew(subject.spec)]) == [()]


def planned_roles(graph: str, tensors: str, dims: str) -> Roles:
    spec = loads(f"{HEAD}dims: {dims}\ntensors:\n{tensors}\ngraph:\n{graph}")
    roles = roles_of(without_plan(spec))
    assert roles is not None
    return roles


def test_places_that_are_computed_keep_operands_out_of_shared_memory() -> None:
    computed = PRODUCT.replace(
        "[a_tile: {read: a},", '[moved: "index(K) // 2 * 2", a_tile: {read: a, dims: [M, K], at: {K: moved}},'
    )
    spec = loads(computed)
    assert {one.space for one in cases_for_target(spec, "cpu")[-1].spec.tensors.values()} == {"global"}


def written_before(name: str, target: str) -> dict[str, dict[str, tuple[str, ...]]]:
    """By the first condition of cases of a kernel planned anew, what kernels before write."""
    (subject,) = (one for one in subjects(*TARGETS) if one.name == name)
    return {
        str(case.when[0]) if case.when else "": {
            made.removesuffix("_made"): tensor.shape
            for kernel in case.before
            for made, tensor in kernel.tensors.items()
            if tensor.role == "output"
        }
        for case in cases_for_target(planned_anew(subject.spec), target)
    }


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("linear_i4", {"weight": ("N", "K")}),
        ("matmul_mxf8", {"a_tile": ("M", "K"), "b_tile": ("N", "K")}),
    ],
)
def test_what_many_rows_decode_is_decoded_once(name: str, written: dict[str, tuple[str, ...]], target: str) -> None:
    """By a kernel before; the product is one of what is read, and few rows decode columns beside it."""
    found = written_before(name, target)
    many = [names for when, names in found.items() if when == "M > 8"]
    few = [names for when, names in found.items() if when != "M > 8"]
    assert many == [written]
    assert few and not any(names.keys() & {"weight", "b_tile"} for names in few)


def test_steps_of_what_is_decoded_once_have_one_scale() -> None:
    """Where products scale sums, on the machine that has no product of what is scaled; by powers of two any step does."""
    (blocks,) = (one for one in subjects("cpu") if one.name == "matmul_f8_blocks")
    spec = planned_anew(blocks.spec)
    assert {when: bool(names) for when, names in written_before("matmul_f8_blocks", "cpu").items()} == {
        "M > 8": True,
        "K % 128 == 0": False,
        "": False,
    }
    assert tiles(spec, "cpu", M=4096, N=4096, K=4096)["K"] == 128
    assert not any(any(written_before("matmul_f8_blocks", target).values()) for target in TARGETS if target != "cpu")


def test_what_is_decoded_of_other_things_than_one_tensor_stays_in_the_loop() -> None:
    """What a kernel before would write has more elements than what it reads; places that are computed are looked up."""
    made = PRODUCT.replace("a: {shape: [M, K]", "a: {shape: [M]").replace("{read: a}", "{read: a, dims: [M]}")
    made = made.replace("acc: {mma: [a_tile,", 'one: "index(K) % 2", whole: "bf16(one) * a_tile", acc: {mma: [whole,')
    roles = roles_of(loads(made))
    assert roles is not None and roles.decoded and roles.decoded_once is None


def test_operands_that_lanes_compute_with_too_are_in_tiles_for_lanes() -> None:
    beside = (
        PRODUCT.replace("carry: {acc: zero}", "carry: {acc: zero, total: none}")
        .replace("graph:", "  t: {shape: [M], dtype: f32, role: output}\ngraph:")
        .replace("  - steps:", "  - none: {register: [M], dtype: f32, value: 0}\n  - steps:")
        .replace("b_tile, acc]}]", "b_tile, acc]}, wide: f32(a_tile), total: {sum: wide, dim: K, init: total}]")
    )
    spec = loads(beside + "  - {write: steps.total, to: t}\n")
    assert {one.space for one in cases_for_target(spec, "cpu")[-1].spec.tensors.values()} == {"global"}
    assert check_builds([spec], ["cpu"]) == [()]


def test_a_product_in_each_step_of_a_loop_along_its_columns_walks_over_them_in_short_steps() -> None:
    graph = """
  - x: {read: a}
  - low: {register: [M], dtype: f32, value: -.inf}
  - walk:
      iterate: N
      carry: {best: low}
      body:
        - none: {register: [M, N], dtype: f32, value: 0}
        - y: {read: b}
        - score: {mma: [x, y, none]}
        - best: {max: score, dim: N, init: best}
  - {write: walk.best, to: c}
"""
    tensors = "  a: {shape: [M, K], dtype: bf16}\n  b: {shape: [N, K], dtype: bf16}\n"
    tensors += "  c: {shape: [M], dtype: f32, role: output}\n"
    assert planned_roles(graph, tensors, "{M: {}, N: {}, K: {max: 256}}").kind == "attention"


def test_what_is_changed_in_place_is_not_shared_out_among_the_workgroups_of_a_cluster() -> None:
    graph = """
  - none: {register: [M], dtype: f32, value: 0}
  - walk:
      iterate: N
      carry: {total: none}
      body: [a: {read: x}, total: {sum: a, dim: N, init: total}]
  - results:
      iterate: N
      carry: {}
      body: [b: {read: x}, c: b / walk.total, {write: c, to: x}]
"""
    spec = loads(
        f"{HEAD}dims: {{M: {{}}, N: {{}}}}\ntensors: {{x: {{shape: [M, N], dtype: f32, role: inout}}}}\ngraph:{graph}"
    )
    schedules = [one.spec.schedule for one in cases_for_target(spec, "sm_90")]
    assert all(one is None or one.workgroups is None for one in schedules)


def test_short_rows_and_whole_dims_have_short_tiles_on_cpus() -> None:
    graph = "  - a: {read: x}\n  - b: a + 1\n  - {write: b, to: y}\n"
    tensors = "tensors: {x: {shape: [M, N], dtype: f32}, y: {shape: [M, N], dtype: f32, role: output}}\n"
    spec = loads(f"{HEAD}dims: {{M: {{}}, N: {{}}}}\n{tensors}graph:\n{graph}")
    assert tiles(spec, "cpu", M=9, N=64)["N"] == 64
    assert tiles(spec, "cpu", M=9, N=1000)["N"] == 1024
    graph = "  - a: {read: x}\n  - t: {max: a, dim: N}\n  - b: a - t\n  - {write: b, to: y}\n"
    spec = loads(f"{HEAD}dims: {{M: {{}}, N: {{max: 256}}}}\n{tensors}graph:\n{graph}")
    assert [tiles(spec, "cpu", M=9, N=size)["N"] for size in (2, 9, 64, 200)] == [256, 16, 64, 256]


@pytest.mark.parametrize("size", ["{value: 4}", "{}"])
def test_dims_of_results_beside_rows_and_columns_are_one_by_one_whether_or_not_their_size_is_known(size: str) -> None:
    roles = planned_roles(
        """
  - zero: {register: [P, M, N], dtype: f32, value: 0}
  - steps:
      iterate: K
      carry: {acc: zero}
      body: [left: {read: a}, right: {read: b}, acc: {mma: [left, right, acc]}]
  - {write: steps.acc, to: c}
""",
        "  a: {shape: [P, M, K], dtype: f32}\n  b: {shape: [P, N, K], dtype: f32}\n"
        "  c: {shape: [P, M, N], dtype: f32, role: output}",
        f"{{P: {size}, M: {{}}, N: {{}}, K: {{}}}}",
    )
    assert (roles.rows, roles.columns, roles.alone) == ("M", "N", ("P",))


def test_steps_across_whole_dims_have_what_registers_of_a_cpu_hold() -> None:
    graph = """
  - none: {register: [G], dtype: f32, value: 0}
  - sums:
      iterate: S
      carry: {total: none}
      body: [part: {read: x}, row: {sum: part, dim: D}, total: {sum: row, dim: S, init: total}]
  - {write: sums.total, to: y}
"""
    tensors = "tensors: {x: {shape: [S, G, D], dtype: f32}, y: {shape: [G], dtype: f32, role: output}}\n"
    spec = loads(f"{HEAD}dims: {{S: {{}}, G: {{}}, D: {{max: 128}}}}\n{tensors}graph:{graph}")
    found = [tiles(spec, "cpu", S=100, G=32, D=size) for size in (8, 16, 64)]
    assert [(one["S"], one["D"]) for one in found] == [(1, 8), (1, 16), (1, 64)]


def waves(spec: KernelSpec, target: str, **sizes: int) -> dict[str, int]:
    """What a wave has of each dim in the kernel of a call."""
    plain = case_for_sizes(cases_for_target(spec, target), sizes).spec
    values = resolve_params(plain)
    return {one.dim: int(one.tile.evaluate(values)) for one in plain.constraints if isinstance(one, Wave)}


@pytest.mark.parametrize("width", [64, 1000])
def test_windows_of_waves_of_a_cpu_have_what_registers_hold_of_short_rows_as_of_long_ones(width: int) -> None:
    graph = (
        "  - a: {read: x, dims: [M, N, R, S], at: {H: M * 2 + R, W: N * 2 + S}}\n"
        "  - t: {sum: a, dim: [R, S]}\n  - {write: t, to: y}\n"
    )
    tensors = "tensors: {x: {shape: [H, W], dtype: f32}, y: {shape: [M, N], dtype: f32, role: output}}\n"
    dims = (
        "dims: {H: {min: 3}, W: {min: 3}, R: {value: 3}, S: {value: 5}, M: {equals: (H - 3) // 2 + 1}, "
        "N: {equals: (W - 5) // 2 + 1}}\n"
    )
    spec = loads(f"{HEAD}{dims.replace('W: {min: 3}', 'W: {min: 5}')}{tensors}graph:\n{graph}")
    assert waves(spec, "cpu", H=99, W=2 * width + 3) == {"M": 1, "N": 4}


@pytest.mark.parametrize("width", [64, 1000])
def test_waves_of_a_cpu_have_a_register_of_what_lies_side_by_side_at_least(width: int) -> None:
    graph = "  - a: {read: x}\n  - t: {max: a, dim: N}\n  - b: a - t\n  - {write: b, to: y}\n"
    tensors = "tensors: {x: {shape: [M, N, K], dtype: f32}, y: {shape: [M, N, K], dtype: f32, role: output}}\n"
    spec = loads(f"{HEAD}dims: {{M: {{}}, N: {{max: 16}}, K: {{}}}}\n{tensors}graph:\n{graph}")
    assert waves(spec, "cpu", M=9, N=9, K=width) == {"M": 1, "K": 16}


def test_steps_across_rows_of_a_cpu_are_shorter_where_more_is_computed_than_sums() -> None:
    graph = """
  - none: {register: [N], dtype: f32, value: 0}
  - sums:
      iterate: M
      carry: {total: none}
      body: [part: {read: x}, total: {sum: part, dim: M, init: total}]
"""
    tensors = "tensors: {x: {shape: [M, N], dtype: f32}, y: {shape: [N], dtype: f32, role: output}}\n"
    sums = loads(f"{HEAD}dims: {{M: {{}}, N: {{}}}}\n{tensors}graph:{graph}  - {{write: sums.total, to: y}}\n")
    powers = loads(
        f"{HEAD}dims: {{M: {{}}, N: {{}}}}\n{tensors.replace('[N]', '[M, N]')}graph:{graph}"
        "  - out:\n      iterate: M\n      carry: {}\n"
        "      body: [again: {read: x}, r: exp(again) / sums.total, {write: r, to: y}]\n"
    )
    assert tiles(sums, "cpu", M=99, N=500) == {"N": 256, "M": 16}
    assert tiles(powers, "cpu", M=99, N=500) == {"N": 256, "M": 4}


def test_f32_products_with_operands_that_are_computed_have_waves_as_wide_as_their_instruction() -> None:
    masked = PRODUCT.replace("bf16", "f32").replace("{mma: [a_tile,", "{mma: [low,")
    spec = loads(
        masked.replace("b_tile: {read: b},", 'b_tile: {read: b}, low: "where(index(K) <= index(M), a_tile, 0)",')
    )
    assert check_builds([spec], ["sm_90"]) == [()]


def test_products_behind_a_loop_go_with_waves_that_copy_alone_but_not_from_tile_to_tile() -> None:
    text = PRODUCT.replace("K: {}", "K: {}, R: {max: 64}").replace(
        "tensors:", "tensors:\n  w: {shape: [N, R], dtype: bf16}\n  v: {shape: [R, K], dtype: bf16}", 1
    )
    text = text.replace("  - steps:", "  - none: {register: [M, R], dtype: f32, value: 0}\n  - steps:").replace(
        "{acc: zero}", "{acc: zero, low: none}"
    )
    text = text.replace("acc]}]", "acc]}, v_tile: {read: v}, low: {mma: [a_tile, v_tile, low]}]")
    behind = "  - narrow: bf16(steps.low)\n  - w_tile: {read: w}\n  - total: {mma: [narrow, w_tile, steps.acc]}\n  - {write: total, to: c}\n"
    spec = loads(text.replace("  - {write: steps.acc, to: c}\n", behind))
    schedules = [one.spec.schedule for one in cases_for_target(spec, "sm_90")]
    copying = [one for one in schedules if one is not None and one.waves is not None and one.waves.producers]
    assert copying
    assert not any(one.workgroups is not None and one.workgroups.persistent for one in copying)
    assert check_builds([spec], ["sm_90"]) == [()]


ROUTING = (
    HEAD
    + """
dims: {T: {}, E: {max: 128}, K: {}, D: {}}
tensors:
  x: {shape: [T, K], dtype: bf16}
  w: {shape: [E, K], dtype: bf16}
  table: {shape: [E, D], dtype: bf16}
  y: {shape: [T, D], dtype: bf16, role: output}
graph:
  - zero: {register: [T, E], dtype: f32, value: 0}
  - steps:
      iterate: K
      carry: {acc: zero}
      body: [x_tile: {read: x}, w_tile: {read: w}, acc: {mma: [x_tile, w_tile, acc]}]
  - best: {argmax: steps.acc, dim: E}
  - row: {read: table, dims: [T, D], at: {E: best}}
  - {write: row, to: y}
"""
)


@pytest.mark.parametrize("target", TARGETS)
def test_products_whose_columns_are_joined_have_tiles_of_what_rows_look_up(target: str) -> None:
    """Else each element of a row would have a product of its own."""
    assert all(tiles(loads(ROUTING), target, T=t, E=128, K=64, D=4096)["D"] >= 16 for t in (1, 50, 8192))


def test_ranks_of_joined_products_have_registers() -> None:
    """They have 64 bits each: of tiles as products by themselves have, 512 registers of each lane."""
    assert check_builds([loads(ROUTING)], ["sm_90"]) == [()]


def test_a_mask_of_steps_does_not_make_rows_of_them() -> None:
    graph = """
  - none: {register: [B, D], dtype: f32, value: 0}
  - walk:
      iterate: T
      carry: {total: none}
      body:
        - part: {read: x}
        - keep: {read: mask}
        - kept: "where(keep, part, 0)"
        - total: {sum: kept, dim: T, init: total}
  - {write: walk.total, to: y}
"""
    tensors = "  x: {shape: [B, T, D], dtype: f32}\n  mask: {shape: [B, T], dtype: bool}\n"
    tensors += "  y: {shape: [B, D], dtype: f32, role: output}\n"
    assert planned_roles(graph, tensors, "{B: {}, T: {}, D: {}}").kind == "columns"


def test_few_rows_of_f32_are_multiplied_by_lanes_unless_the_spec_names_what_multiplies() -> None:
    def planned_for(constraints: str) -> TargetOverride:
        text = (
            f"{HEAD}dims: {{M: {{max: 2}}, N: {{}}, K: {{}}}}\nconstraints: [{constraints}]\n"
            "tensors:\n  a: {shape: [M, K], dtype: f32}\n  b: {shape: [N, K], dtype: f32}\n"
            "  c: {shape: [M, N], dtype: f32, role: output}\n"
            "graph:\n  - zero: {register: [M, N], dtype: f32, value: 0}\n"
            "  - steps: {iterate: K, carry: {acc: zero}, "
            "body: [a_tile: {read: a}, b_tile: {read: b}, acc: {mma: [a_tile, b_tile, acc]}]}\n"
            "  - {write: steps.acc, to: c}\n"
        )
        return loads(text, "few.wave.yaml").targets["sm_90"]

    def instruction(case: Case) -> set[str | None]:
        return {one.settings.mma for one in case.constraints or () if isinstance(one, Hardware)}

    shared_out, few = planned_for("").cases[:2]
    assert shared_out.schedule and shared_out.schedule.workgroups and shared_out.schedule.workgroups.split == 8
    assert instruction(few) == {"lanes"}
    assert {one.space for one in few.tensors.values()} == {"global"}, "lanes read each number once"
    assert few.schedule == Schedule(), "that of the target is for what is staged"
    named = planned_for("{hardware: {mma: fma_sums_f32_16x32x4}}")
    assert all("lanes" not in instruction(case) for case in named.cases)


WINDOWS = (
    HEAD
    + """
dims: {N: {}, C: {}, H: {}, W: {}, R: {}, S: {}, Y: {equals: (H - R) // 2 + 1}, X: {equals: (W - S) // 2 + 1}}
tensors:
  x: {shape: [N, H, W, C], dtype: f32}
  w: {shape: [C, R, S], dtype: f32}
  y: {shape: [N, Y, X, C], dtype: f32, role: output}
graph:
  - zero: {register: [N, Y, X, C], dtype: f32, value: 0}
  - rows:
      iterate: R
      carry: {row: zero}
      body:
        - columns:
            iterate: S
            carry: {acc: row}
            body:
              - pixels: {read: x, dims: [N, Y, X, R, S, C], at: {H: Y * 2 + R, W: X * 2 + S}}
              - taps: {read: w}
              - products: pixels * taps
              - along: {sum: products, dim: S}
              - acc: {sum: along, dim: R, init: acc}
        - row: columns.acc
  - {write: rows.row, to: y}
"""
)
CHANNELS_FIRST = (
    WINDOWS.replace("[N, H, W, C]", "[N, C, H, W]")
    .replace("[N, Y, X, C]", "[N, C, Y, X]")
    .replace("[N, Y, X, R, S, C]", "[N, C, Y, X, R, S]")
)


def roles_in(text: str) -> Roles:
    roles = roles_of(without_plan(loads(text)))
    assert roles is not None
    return roles


def test_loops_over_neighbours_of_results_are_windows_wherever_weights_have_them() -> None:
    last = roles_in(WINDOWS)
    assert (last.kind, last.lines, last.rows, last.columns, last.steps) == ("windows", "Y", "X", "C", ("R", "S"))
    first = roles_in(CHANNELS_FIRST)
    assert (first.kind, first.lines, first.rows, first.columns, first.alone) == ("windows", "", "Y", "X", ("N", "C"))


def test_neighbours_that_are_far_apart_in_memory_are_no_windows() -> None:
    assert roles_in(CHANNELS_FIRST.replace("X * 2 + S", "X * 8 + S")).kind != "windows"
    assert roles_in(WINDOWS.replace("Y * 2 + R", "Y * 8 + R")).kind == "windows"


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_windows_of_usual_sizes_are_walked_in_one_step(target: str) -> None:
    spec = loads(WINDOWS)
    sizes = {"N": 1, "H": 57, "W": 57, "C": 64, "Y": 28, "X": 28}
    three, four = (tiles(spec, target, **sizes, R=size, S=size) for size in (3, 4))
    assert [three[dim] for dim in "RS"] == [3, 3]
    assert [four[dim] for dim in "RS"] == [1, 1]
    fixed = loads(WINDOWS.replace("R: {}, S: {}", "R: {value: 2}, S: {value: 4}"))
    assert [tiles(fixed, target, **sizes)[dim] for dim in "RS"] == [2, 4]


@pytest.mark.parametrize("text", [WINDOWS, CHANNELS_FIRST], ids=["channels last", "channels first"])
@pytest.mark.parametrize("dims", ["", "C: {value: 3}", "N: {value: 4}", "R: {value: 3}, S: {value: 1}"])
def test_kernels_with_windows_build_for_all_machines(text: str, dims: str) -> None:
    for one in filter(None, dims.split(", ")):
        text = text.replace(f"{one[0]}: {{}}", one)
    assert check_builds([loads(text)]) == [()]


def test_places_of_extremes_of_few_long_rows_are_found_by_clusters() -> None:
    (argmax,) = (one for one in subjects(*TARGETS) if one.name == "argmax")
    cases = cases_for_target(planned_anew(argmax.spec), "sm_90")
    few, many = (case_for_sizes(cases, {"M": rows, "N": 100_000}).spec for rows in (8, 8000))
    assert few.schedule is not None and few.schedule.workgroups is not None and few.schedule.workgroups.split == 8
    assert many.schedule is None or many.schedule.workgroups is None


def test_largest_elements_of_few_long_rows_are_found_in_parts() -> None:
    (topk,) = (one for one in subjects(*TARGETS) if one.name == "topk")
    cases = cases_for_target(planned_anew(topk.spec), "sm_90")
    found = [bool(case_for_sizes(cases, {"M": m, "N": n}).before) for m, n in ((1, 100_000), (1500, 5120), (9, 300))]
    assert found == [True, False, False]


def test_few_queries_have_rows_of_all_heads_of_a_group() -> None:
    (gqa,) = (one for one in subjects(*TARGETS) if one.name == "attention_gqa")
    cases = planned_anew(gqa.spec).targets["sm_90"].cases
    packed = [case for case in cases if case.schedule is not None and case.schedule.pack]
    assert packed and all(case.schedule.pack == {"M": ("H", "G")} for case in packed if case.schedule is not None)
    assert roles_in(PRODUCT).heads is None
