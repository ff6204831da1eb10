"""How work is split never changes a result: rows, chains of products and mapped products in any tiles and schedules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.judge import check, inputs_of
from tests.kernels import array_to_tensor, tensor_to_array
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import lower
from wavespec.schema import load, loads
from wavespec.schema.old_values import Observed
from wavespec.schema.reading.spec_to_yaml import data_to_yaml, spec_to_data
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.reference import numbers_of_scalars
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine, machines

SPECS = Path(__file__).parents[2] / "specs"
GPUS = [*machines("gfx942"), *machines("sm_90")]
FEWER = settings(max_examples=max(6, settings().max_examples // 4))  # a configuration takes about a second
_SCHEDULES: tuple[dict[str, Any], ...] = (
    {},
    {"stages": 1},
    {"stages": 2},
    {"stages": 3},
    {"stages": 2, "auto": "modulo"},
)


def split_otherwise(name: str, params: Mapping[str, int], schedule: Mapping[str, Any], space: str) -> dict[str, Any]:
    """A spec of the project as plain data, with other parameters, the same ones on all targets."""
    data: dict[str, Any] = spec_to_data(load(SPECS / f"{name}.wave.yaml"))
    for field in ("targets", "workloads", "schedule"):
        data.pop(field, None)
    assert set(params) <= set(data["params"])
    data["params"] |= params
    for tensor in data["tensors"].values():
        if space and tensor.get("role") != "output":
            tensor["space"] = space
    return data | ({"schedule": dict(schedule)} if schedule else {})


def is_right(data: Mapping[str, Any], machine: Machine, given_sizes: Mapping[str, int], *, whole: bool) -> bool:
    """Whether the machine takes the spec; asserts that its result is right then."""
    try:
        spec = loads(data_to_yaml(data), "any.wave.yaml")
        kernel = lower(spec, machine)
    except WavespecError as error:
        assert str(error).startswith("any.wave.yaml:"), "a diagnostic has its place"
        return False
    sizes = complete_sizes(spec, given_sizes)
    inputs = inputs_of(spec, sizes, whole=whole)
    given, made = ([name for name, one in spec.tensors.items() if one.role != role] for role in ("output", "input"))
    named = zip(given, inputs, strict=True)
    arrays: dict[str, Any] = {name: tensor_to_array(one, spec.tensors[name].dtype) for name, one in named}
    report = simulate(kernel, machine, arrays, sizes, scalars=numbers_of_scalars(spec, sizes, {}))
    assert report.ok, report.render()
    results = [array_to_tensor(report.tensors[name], spec.tensors[name].dtype) for name in made]
    check(Observed(spec, {}), inputs, results, whole=whole)
    return True


def enough_are_taken(one: Callable[[st.DataObject], bool]) -> None:
    """Search, and see that what is found to be right is not just refused; of few examples that may be less than half."""
    outcomes: list[bool] = []

    @FEWER
    @given(st.data())
    def search(data: st.DataObject) -> None:
        outcomes.append(one(data))

    search()
    assert sum(outcomes) >= len(outcomes) / 4, f"{sum(outcomes)} of {len(outcomes)} were taken"


def test_rows_are_the_same_however_they_are_split() -> None:
    def one(data: st.DataObject) -> bool:
        machine = data.draw(st.sampled_from([*GPUS, *machines("cpu")]))
        rows, columns = data.draw(st.sampled_from([1, 2, 4, 8])), data.draw(st.sampled_from([64, 128, 256]))
        params = {
            "ROWS": rows,
            "WAVE_ROWS": max(1, rows // data.draw(st.sampled_from([1, 2, 4]))),
            "COLUMNS": columns,
            "WAVE_COLUMNS": columns // data.draw(st.sampled_from([1, 1, 2])),
        }
        name = data.draw(st.sampled_from(["softmax", "log_softmax"]))
        sizes = {"M": data.draw(st.integers(0, 9)), "N": data.draw(st.integers(0, 300))}
        return is_right(split_otherwise(name, params, {}, ""), machine, sizes, whole=False)

    enough_are_taken(one)


def test_chained_products_are_the_same_however_they_are_split() -> None:
    def one(data: st.DataObject) -> bool:
        wave, depth = data.draw(st.sampled_from([16, 32])), data.draw(st.sampled_from([16, 32]))
        params = {
            "BLOCK_M": wave * data.draw(st.sampled_from([1, 2])),
            "WAVE_M": wave,
            "BLOCK_N": data.draw(st.sampled_from([16, 32])),
            "BLOCK_D": depth,
            "BLOCK_E": data.draw(st.sampled_from([32, 64])),
        }
        schedule = data.draw(st.sampled_from(_SCHEDULES[:2]))
        spec = split_otherwise("attention_f32", params, schedule, data.draw(st.sampled_from(["shared", "global"])))
        spec["dims"]["D"] = {"max": depth}
        most = {"B": 2, "H": 2, "M": 40, "N": 40, "D": depth, "E": 40}
        sizes = {dim: data.draw(st.integers(1 if dim == "D" else 0, size)) for dim, size in most.items()}
        return is_right(spec, data.draw(st.sampled_from(GPUS)), sizes, whole=False)

    enough_are_taken(one)


def test_convolutions_are_the_same_however_they_are_split() -> None:
    def one(data: st.DataObject) -> bool:
        tile = {dim: data.draw(st.sampled_from([32, 64])) for dim in "MOK"}
        params = {f"BLOCK_{dim}": size for dim, size in tile.items()}
        params |= {f"WAVE_{dim}": tile[dim] // data.draw(st.sampled_from([1, 2])) for dim in "MO"}
        params |= {name: data.draw(st.integers(1, 2)) for name in ("STRIDE", "DILATION")}
        schedule, space = data.draw(st.sampled_from(_SCHEDULES)), data.draw(st.sampled_from(["shared", "global"]))
        spec = split_otherwise(data.draw(st.sampled_from(["conv2d_nchw", "conv2d_nhwc"])), params, schedule, space)
        sizes = {
            dim: data.draw(st.integers(0 if dim in "NC" else 1, most)) for dim, most in (("N", 2), ("C", 9), ("O", 9))
        }
        sizes |= {dim: data.draw(st.integers(5, 8)) for dim in "HW"} | {
            dim: data.draw(st.integers(1, 3)) for dim in "RS"
        }
        factors = {dim: one.get("multiple_of", 1) for dim, one in spec["dims"].items()}
        sizes = {dim: -(-size // factors[dim]) * factors[dim] for dim, size in sizes.items()}
        return is_right(spec, data.draw(st.sampled_from(GPUS)), sizes, whole=True)

    enough_are_taken(one)
