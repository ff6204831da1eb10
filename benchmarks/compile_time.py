"""A GEMM spec in; the seconds that each stage of its compilation takes out, cold and warm, beside a peer's.

    python benchmarks/compile_time.py > benchmarks/results/compile_time.md

"Cold" is the first compilation of a new process, imports not counted; "warm" is a later one of the same
process.  Both are the best of a few, without the compile cache.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

REPEATS = 3
CASE = """
apiVersion: wavespec/v1
kind: Kernel
name: gemm
dims: {M: {value: 4096}, N: {value: 4096}, K: {value: 4096}}
params: {BLOCK_M: 128, BLOCK_N: 128, BLOCK_K: 32}
tensors:
  a: {shape: [M, K], dtype: f16, space: shared}
  b: {shape: [N, K], dtype: f16, space: shared}
  c: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: BLOCK_M, axis: 0}
  - {workgroup: N, tile: BLOCK_N, axis: 1}
  - {tiling: K, tile: BLOCK_K}
  - {wave: M, tile: BLOCK_M / 2}
  - {wave: N, tile: BLOCK_N / 2}
  - {hardware: {mma: f32_16x16x16_f16}}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - k_loop:
      iterate: K
      carry: {acc: zero}
      body:
        - a_tile: {read: a}
        - b_tile: {read: b}
        - acc: {mma: [a_tile, b_tile, acc]}
  - {write: k_loop.acc, to: c}
"""

# wave-lang 3.9.1 (the faster of two versions) for this kernel on such a machine, two cores; best of 3, warm.
# With prefetching in parentheses.
PEER = {"import": "1.47", "to MLIR": "0.86 (1.22)", "all": "1.34 (1.73)"}


def main() -> None:
    """Print the table; with ``--once``, the seconds of one process as JSON."""
    if "--once" in sys.argv:
        print(json.dumps(once()))
        return
    runs = [_process() for _ in range(REPEATS)]
    best = {name: min(run[name] for run in runs) for name in runs[0]}
    sums = ("to MLIR", "all")
    stages = [name.removeprefix("cold ") for name in best if name.startswith("cold ") and name[5:] not in sums]
    print("# Compile time, gfx942, f16 GEMM of 4096 cubed, tile 128x128x32, MFMA 16x16x16\n")
    print("Written by `python benchmarks/compile_time.py > benchmarks/results/compile_time.md`.")
    print(f"Milliseconds, best of {REPEATS} processes.\n")
    print("| stage | cold | warm |")
    print("|---|---|---|")
    for stage in stages:
        print(f"| {stage} | {best['cold ' + stage] * 1e3:.1f} | {best['warm ' + stage] * 1e3:.1f} |")
    print("\n| in seconds | wavespec, cold | wavespec, warm | peer, warm |")
    print("|---|---|---|---|")
    print(f"| import | {best['import']:.2f} | | {PEER['import']} |")
    for name in sums:
        print(f"| YAML {name} | {best['cold ' + name]:.2f} | {best['warm ' + name]:.2f} | {PEER[name]} |")


def once() -> dict[str, float]:
    """Seconds of the imports, and of every stage of a cold and a warm compilation."""
    start = time.perf_counter()
    import iree.compiler.api  # noqa: F401 (its time belongs to the import)

    from wavespec.pipeline import Timings, build_variant
    from wavespec.schema import loads
    from wavespec.targets.machine import machines

    seconds = {"import": time.perf_counter() - start}
    for kind in ("cold", *["warm"] * REPEATS):
        timings = Timings()
        start = time.perf_counter()
        spec = timings.run("yaml", lambda: loads(CASE))
        (machine,) = timings.run("machine", lambda: machines("gfx942"))
        build_variant(spec, machine, timings=timings)
        whole = time.perf_counter() - start
        found = {**timings.seconds, "to MLIR": whole - timings.seconds["iree"], "all": whole}
        for name, value in found.items():
            seconds[f"{kind} {name}"] = min(value, seconds.get(f"{kind} {name}", value))
    return seconds


def _process() -> dict[str, float]:
    command = [sys.executable, str(Path(__file__)), "--once"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    main()
