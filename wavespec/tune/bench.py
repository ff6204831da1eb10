"""The kernels of a bundle go in; whether each is right, and how long it takes, comes out.

Needs torch and `wavespec.runtime` only: a bundle carries this file to machines without a compiler.  Every round has
fresh random inputs.  A kernel is compared with the reference in every round, and timed with its operands out of the
caches.
"""

from __future__ import annotations

import importlib.util
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wavespec.runtime.artifact import KernelArtifact, with_dense_names
from wavespec.runtime.checks import DTYPES
from wavespec.runtime.kernel import Kernel
from wavespec.runtime.manifest import unpack_artifact
from wavespec.runtime.tensor_strides import copied, laid_out
from wavespec.tune.held_numbers import ANYTHING, Held, draw
from wavespec.tune.judge import Accuracy, accuracy_of
from wavespec.tune.results import FINAL_ROUNDS, UNTUNED, Results, start_or_resume

START_AGAIN = 75
"""Exit code: this process can measure no more (a GPU that faulted), another one can."""

_FLUSHED_BYTES = {"cpu": 64 << 20, "cuda": 256 << 20}
_WARM_UP = 2
_FEWEST_CALLS, _MOST_CALLS = 3, 15
_SECONDS_PER_ROUND = 0.4
_ROUNDING_RATIO = 8.0
"""An error of more than this times torch's is no rounding."""
_NO_WORSE = 1.25
"""Times the error of the spec's own settings: what the order of a sum makes of it from one tile to the next."""
_MORE_INPUTS = 2
"""Further inputs for a result that is off: a few outputs say little about how far torch is off."""


def bench(folder: Path, seconds: float) -> None:
    """Measure what is left to measure in `folder`, for about `seconds`; every measurement is kept as it is made."""
    results = start_or_resume(folder)
    artifact = _artifact(folder, 0, results.names(0)[0])
    device = "cpu" if artifact.backend == "cpu" else "cuda"
    if device == "cuda" and not torch.cuda.is_available():
        sys.exit(
            f"These kernels are for {artifact.target}: measure them on a machine with such a GPU and a torch for it."
        )
    results.data["machine"] = _machine(device)
    references = _references(folder)
    end = time.monotonic() + seconds
    for index in range(len(results.workloads)):
        now = time.monotonic()
        share = (end - now) / (len(results.workloads) - index)
        _Workload(folder, results, index, device, references).measure(now + share)


class _Workload:
    """The measurements of all candidates for one set of sizes."""

    def __init__(self, folder: Path, results: Results, index: int, device: str, references: Any) -> None:
        self.folder, self.results, self.index, self.device = folder, results, index, device
        self.exact: Callable[..., Any] = getattr(references, f"exact_{index}")
        self.rounded: Callable[..., Any] = getattr(references, f"rounded_{index}")
        self.flushed = torch.empty(_FLUSHED_BYTES[device], dtype=torch.uint8, device=device)
        self.kernels: dict[str, Kernel] = {}
        self.seed = len(results.data["measurements"])

    def measure(self, end: float) -> None:
        """Round 0 for as many as there is time for, then the best of them again, in turns."""
        half = time.monotonic() + 0.7 * (end - time.monotonic())
        first = [name for name in self.results.names(self.index) if not self.results.has(self.index, name, 0)]
        self.measure_all(first, 0, half)
        for number in range(1, FINAL_ROUNDS + 1):
            again = [n for n in self.results.finalists(self.index) if not self.results.has(self.index, n, number)]
            self.measure_all(again, number, end)

    def measure_all(self, names: Sequence[str], number: int, end: float) -> None:
        """One round, in which all have the same inputs."""
        if not names or time.monotonic() > end:
            return
        inputs = _Inputs(self)
        for name in names:
            if time.monotonic() > end:
                break
            self.measure_one(name, inputs, number)
            for other in self.kernels.keys() - {UNTUNED}:
                del self.kernels[other]

    def measure_one(self, name: str, inputs: _Inputs, number: int) -> None:
        self.results.begin(self.index, name)
        try:
            kernel = self.kernel(name)
            problem = self.problem(name, inputs)
            if problem is not None:
                self.results.add(self.index, name, problem=problem)
                return
            seconds = self.seconds(lambda: kernel(*inputs.tensors, **inputs.scalars))
            self.results.add(self.index, name, round=number, microseconds=round(seconds * 1e6, 2))
        except (RuntimeError, ValueError) as error:
            text = str(error).strip().splitlines()
            self.results.add(self.index, name, problem=f"{type(error).__name__}: {text[0] if text else ''}")
            if self.device == "cuda" and not _is_alive():
                sys.exit(START_AGAIN)

    def kernel(self, name: str) -> Kernel:
        if name not in self.kernels:
            self.kernels[name] = Kernel(_artifact(self.folder, self.index, name))
        return self.kernels[name]

    def problem(self, name: str, inputs: _Inputs) -> str | None:
        """What is wrong with the results of a candidate.

        The rule for kernels, and one more: what the spec itself is off by in rounding, its candidates may be too.
        """
        if inputs.accuracy(self.kernel(name)).ok:
            return None
        sets = [inputs, *(_Inputs(self) for _ in range(_MORE_INPUTS))]
        found = reduce(Accuracy.joined, (one.accuracy(self.kernel(name)) for one in sets))
        if found.ok:
            return None
        if found.ratio <= _ROUNDING_RATIO and UNTUNED in self.results.names(self.index):
            untuned = reduce(Accuracy.joined, (one.accuracy(self.kernel(UNTUNED)) for one in sets))
            if found.error <= _NO_WORSE * untuned.error:
                return None
        return f"wrong result: error {found.error:.3g}, torch {found.torch_error:.3g}"

    def seconds(self, call: Callable[[], Any]) -> float:
        """Median time of a call whose operands come from memory."""
        for _ in range(_WARM_UP):
            call()
        times: list[float] = []
        timed = gpu_seconds if self.device == "cuda" else cpu_seconds
        while len(times) < _FEWEST_CALLS or (len(times) < _MOST_CALLS and sum(times) < _SECONDS_PER_ROUND):
            self.flushed.zero_()
            times.append(timed(call))
        return statistics.median(times)


class _Inputs:
    """Fresh random inputs of one workload, with the truth, and torch's result, of all of them."""

    def __init__(self, workload: _Workload) -> None:
        workload.seed += 1
        generator = torch.Generator(workload.device).manual_seed(workload.seed)
        planned = workload.results.workloads[workload.index]
        sizes: dict[str, int] = planned["sizes"]
        self.scalars: dict[str, Any] = planned.get("scalars", {})
        artifact = _artifact(workload.folder, workload.index, workload.results.names(workload.index)[0])
        self.tensors: list[Tensor] = []
        named = with_dense_names(artifact.tensors, sizes)
        for tensor in artifact.inputs:
            held = Held(**planned["holds"][tensor.name]) if tensor.name in planned["holds"] else ANYTHING
            drawn = draw(held, tensor.shape(sizes), DTYPES[tensor.dtype], generator)
            self.tensors.append(laid_out(drawn, tensor.dense_strides(named)) if tensor.promised else drawn)
        self.exact = as_list(workload.exact(*self.tensors))
        self.rounded = as_list(workload.rounded(*self.tensors))

    def accuracy(self, kernel: Kernel) -> Accuracy:
        written = kernel(*map(copied, self.tensors), **self.scalars)
        return accuracy_of(as_list(written), self.exact, self.rounded)


def kernel_file(workload: int, candidate: str) -> str:
    """Where a bundle has the kernel of a candidate."""
    return f"kernels/{workload}.{candidate}.wavespec"


def _artifact(folder: Path, workload: int, candidate: str) -> KernelArtifact:
    return unpack_artifact((folder / kernel_file(workload, candidate)).read_bytes())


def _references(folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location("_reference", folder / "reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _machine(device: str) -> str:
    if device == "cuda":
        return torch.cuda.get_device_name()
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    name = found[1].strip() if found else platform.machine()
    return f"{name}, {torch.get_num_threads()} threads"


def _is_alive() -> bool:
    """Whether the GPU still works for this process: after a fault every call fails."""
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


def as_list(results: Tensor | Sequence[Tensor]) -> list[Tensor]:
    """Outputs of a call: one tensor, or several."""
    return [results] if isinstance(results, Tensor) else list(results)


def cpu_seconds(call: Callable[[], Any]) -> float:
    """Seconds of one call by the clock."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def gpu_seconds(call: Callable[[], Any]) -> float:
    """Seconds of one call on the current stream."""
    before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    before.record()
    call()
    after.record()
    after.synchronize()
    return before.elapsed_time(after) / 1e3


if __name__ == "__main__":
    bench(Path(sys.argv[1]), float(sys.argv[2]))
