"""The benchmark of launches, on a driver that does nothing: it measures every way to call, and says what is too slow."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.runtime.generated import write_wrapper
from tests.runtime.standins import gemm_interface
from wavespec.runtime import Binary, TensorMap, cuda_launcher

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "launch_overhead.py"
WAYS = [
    "driver, prebuilt arguments",
    "driver, often",
    "launcher",
    "kernel.raw",
    "kernel, out=",
    "kernel, new tensor",
    "wrapper, out=",
    "wrapper, new tensor",
    "operator, out=",
    "operator, new tensor",
]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(cuda_launcher, "_current_stream", None)  # set by the benchmark, undone by the fixture
    specification = importlib.util.spec_from_file_location("launch_overhead", SCRIPT)
    assert specification is not None and specification.loader is not None
    module: ModuleType = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    yield module


@pytest.mark.parametrize("maps", [(), (TensorMap("a", (64, 32)), TensorMap("b", (64, 32)))], ids=["pointers", "maps"])
def test_every_way_is_timed(
    maps: tuple[TensorMap, ...],
    benchmark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    binaries = (Binary("sm_90", "ptx", b".version 8.3"),)
    digest = f"{len(maps)}a0c4e2d" * 8  # operators of one name and version replace each other
    artifact = replace(
        gemm_interface(), target="sm_90", backend="cuda", binaries=binaries, tensor_maps=maps, spec_sha256=digest
    )
    write_wrapper(artifact, tmp_path)
    (tmp_path / "gemm.py").rename(tmp_path / f"launched_{len(maps)}.py")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    options = ["--stand-in", "--bursts", "2", "--calls", "3", "--kernel", f"launched_{len(maps)}"]
    assert benchmark.main(options) == 0
    rows = capsys.readouterr().out.splitlines()[4:]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == WAYS
    assert benchmark.main([*options, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)["microseconds"]
    assert list(figures) == WAYS and all(0 < fastest <= median for median, fastest in figures.values())


def test_what_costs_too_much_is_named(benchmark: Any) -> None:
    figures = dict.fromkeys(WAYS, (3.0, 3.0)) | {"launcher": (5.1, 5.0), "operator, out=": (7.9, 7.0)}
    assert benchmark.exceeded(figures) == ["launcher"]
    assert "| launcher | 5.10 | +2.10 | 2, exceeded | 5.00 | +2.00 |" in benchmark.table(figures, "a machine")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_machine_without_a_gpu_is_told_what_it_can_measure(benchmark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        benchmark.main([])
    assert "--stand-in measures Python's part alone" in capsys.readouterr().err
