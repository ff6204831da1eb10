"""Products of several matrices are several products, on every machine and whatever is computed of their results."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.lower.gemms import AMD, CPU, NVIDIA
from tests.lower.ir_text import Text, lines
from tests.lower.test_any_graph import is_right
from wavespec.diagnostics import WavespecError
from wavespec.lower.unroll_batches import UnrollBatches
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.schema.reading.spec_to_yaml import data_to_yaml
from wavespec.targets.machine import Machine

TWO = Text("""
    tile kernel @batched target sm_90 lanes 1
    symbol B in 0..64 by 2
    symbol M in 0..4096 by 1
    symbol N in 0..4096 by 1
    symbol K in 0..4096 by 1
    split workgroup B 2 2
    split workgroup M 64 0
    split workgroup N 64 1
    split loop K 32 0
    plan "auto" stages 1 group 0
    memory @a : f16 (B: [B], M: [M], K: [K]) global input
    memory @b : f16 (N: [N], K: [K]) global input
    memory @c : f32 (B: [B], M: [M], N: [N]) global output
""")


def test_every_matrix_has_a_product() -> None:
    before = """
        %zero = register {value = 0.0} : tile<B, M, N, f32>
        %sum = iterate %zero {dim = "K"} : tile<B, M, N, f32> (%acc : tile<B, M, N, f32>) do
          %a = read {memory = "a"} : tile<B, M, K, f16>
          %b = read {memory = "b"} : tile<N, K, f16>
          %acc.1 = mma %a, %b, %acc : tile<B, M, N, f32>
          yield %acc.1
        end
        write %sum {memory = "c"}
    """
    assert TWO.after(UnrollBatches(), NVIDIA, before) == lines("""
        %zero.1 = register {value = 0.0} : tile<M, N, f32>
        %zero.2 = register {value = 0.0} : tile<M, N, f32>
        %sum.1, %sum.2 = iterate %zero.1, %zero.2 {dim = "K"} : tile<M, N, f32>, tile<M, N, f32> (%acc.2 : tile<M, N, f32>, %acc.3 : tile<M, N, f32>) do
          %a.1 = read {at = (("B", [B.i],), ("M", [M.i],), ("K", [K.i],),), memory = "a", over = ("B", "M", "K",)} : tile<M, K, f16>
          %a.2 = read {at = (("B", [B.i + 1],), ("M", [M.i],), ("K", [K.i],),), memory = "a", over = ("B", "M", "K",)} : tile<M, K, f16>
          %b = read {memory = "b"} : tile<N, K, f16>
          %acc.4 = mma %a.1, %b, %acc.2 : tile<M, N, f32>
          %acc.5 = mma %a.2, %b, %acc.3 : tile<M, N, f32>
          yield %acc.4, %acc.5
        end
        write %sum.1 {at = (("B", [B.i],), ("M", [M.i],), ("N", [N.i],),), memory = "c", over = ("B", "M", "N",)}
        write %sum.2 {at = (("B", [B.i + 1],), ("M", [M.i],), ("N", [N.i],),), memory = "c", over = ("B", "M", "N",)}
    """)


def test_products_of_matrices_stay() -> None:
    kernel = TWO.kernel("""
        %a = register {value = 0.0} : tile<M, K, f16>
        %b = read {memory = "b"} : tile<N, K, f16>
        %zero = register {value = 0.0} : tile<M, N, f32>
        %sum = mma %a, %b, %zero : tile<M, N, f32>
    """)
    assert UnrollBatches()(kernel, NVIDIA) is kernel


def spec(graph: str, **changes: Any) -> dict[str, Any]:
    """Of ``a[B, M, K]`` and ``b[B, N, K]``, with tiles of two along B."""
    data = {
        "apiVersion": "wavespec/v1",
        "kind": "Kernel",
        "name": "several",
        "dims": {"B": {}, "M": {}, "N": {}, "K": {}},
        "tensors": {
            "a": {"shape": ["B", "M", "K"], "dtype": "f16", "space": "shared"},
            "b": {"shape": ["B", "N", "K"], "dtype": "f16", "space": "shared"},
            "c": {"shape": ["B", "M", "N"], "dtype": "f32", "role": "output"},
        },
        "constraints": yaml.safe_load("""
            - {workgroup: M, tile: 32, axis: 0}
            - {workgroup: N, tile: 32, axis: 1}
            - {workgroup: B, tile: 2, axis: 2}
            - {tiling: K, tile: 32}
            - {wave: M, tile: 16}
        """),
        "graph": yaml.safe_load(graph),
    }
    return data | changes


def product(acc: str = "[B, M, N]", body: str = "") -> str:
    return f"""
        - zero: {{register: {acc}, dtype: f32, value: 0}}
        - k_loop:
            iterate: K
            carry: {{acc: zero}}
            body:
              - a_tile: {{read: a}}
              - b_tile: {{read: b}}
              - acc: {{mma: [a_tile, b_tile, acc]}}
        {body}"""


WRITTEN = "- {write: k_loop.acc, to: c}"
TENSORS = spec("[]")["tensors"]
HEADS = {"B": {"value": 3}, "M": {}, "N": {}, "K": {}}
WHOLE = yaml.safe_load("""
    - {workgroup: M, tile: 32, axis: 0}
    - {workgroup: N, tile: 32, axis: 1}
    - {tiling: K, tile: 32}
    - {wave: M, tile: 16}
""")
SIZES = {"B": 3, "M": 37, "N": 33, "K": 40}
RIGHT = {
    "batches": spec(product(body=WRITTEN)),
    "rows of two dims": spec(
        product(body=WRITTEN), tensors=TENSORS | {"b": {"shape": ["N", "K"], "dtype": "f16", "space": "shared"}}
    ),
    "columns of two dims, and an index": spec(
        product("[M, B, N]", "- moved: k_loop.acc + f32(index(B) * 3)\n        - {write: moved, to: c}"),
        tensors=TENSORS
        | {
            "a": {"shape": ["M", "K"], "dtype": "f16", "space": "shared"},
            "c": {"shape": ["M", "B", "N"], "dtype": "f32", "role": "output"},
        },
    ),
    "a mean over the matrices": spec(
        product(body="- middle: {mean: k_loop.acc, dim: B}\n        - {write: middle, to: c}"),
        dims=HEADS,
        constraints=WHOLE,
        tensors=TENSORS | {"c": {"shape": ["M", "N"], "dtype": "f32", "role": "output"}},
    ),
    "the largest of the matrices, of 16 bits, and of a start": spec(
        product(
            body="""
        - small: {cast: k_loop.acc, dtype: f16}
        - least: {register: [M, N], dtype: f16, value: 0.5}
        - most: {max: small, dim: B, init: least}
        - {write: most, to: c}"""
        ),
        dims=HEADS,
        constraints=WHOLE,
        tensors=TENSORS | {"c": {"shape": ["M", "N"], "dtype": "f16", "role": "output"}},
    ),
    "a loop over matrices": spec(
        """
        - zero: {register: [M, N], dtype: f32, value: 0}
        - pairs:
            iterate: B
            carry: {total: zero}
            body:
              - none: {register: [B, M, N], dtype: f32, value: 0}
              - k_loop:
                  iterate: K
                  carry: {acc: none}
                  body:
                    - a_tile: {read: a}
                    - b_tile: {read: b}
                    - acc: {mma: [a_tile, b_tile, acc]}
              - square: k_loop.acc * k_loop.acc
              - total: {sum: square, dim: B, init: total}
        - {write: pairs.total, to: c}
        """,
        dims=HEADS | {"B": {"multiple_of": 2}},
        constraints=[*WHOLE, {"tiling": "B", "tile": 2}],
        tensors=TENSORS | {"c": {"shape": ["M", "N"], "dtype": "f32", "role": "output"}},
    ),
    "all of a dim that is never larger": spec(
        product(body=WRITTEN), dims=HEADS | {"B": {"max": 3}}, constraints=[*WHOLE, {"tiling": "B", "tile": 64}]
    ),
    "softmax of each": spec(
        product(
            body="""
        - top: {max: k_loop.acc, dim: N}
        - power: exp(k_loop.acc - top)
        - total: {sum: power, dim: N}
        - share: power / total
        - {write: share, to: c}"""
        ),
        dims={"B": {}, "M": {}, "N": {"max": 48}, "K": {}},
        constraints=[
            {"workgroup": "M", "tile": 32, "axis": 0},
            {"workgroup": "B", "tile": 2, "axis": 2},
            *WHOLE[2:],
            {"tiling": "N", "tile": 48},
        ],
    ),
    "results in place": spec(
        product(body="- before: {read: c}\n        - added: before + k_loop.acc\n        - {write: added, to: c}"),
        tensors=TENSORS | {"c": {"shape": ["B", "M", "N"], "dtype": "f32", "role": "inout"}},
    ),
    "sums that are joined": spec(
        product(body="- {write: k_loop.acc, to: c, combine: add}"),
        tensors=TENSORS | {"c": {"shape": ["B", "M", "N"], "dtype": "f32", "role": "inout"}},
    ),
    "matrices from a table": spec(
        """
        - which: {read: table}
        - zero: {register: [B, M, N], dtype: f32, value: 0}
        - k_loop:
            iterate: K
            carry: {acc: zero}
            body:
              - a_tile: {read: a}
              - b_tile: {read: b, dims: [B, N, K], at: {T: which}}
              - acc: {mma: [a_tile, b_tile, acc]}
        - {write: k_loop.acc, to: c}""",
        dims={"B": {}, "M": {}, "N": {}, "K": {}, "T": {}},
        tensors=TENSORS
        | {
            "b": {"shape": ["T", "N", "K"], "dtype": "f16", "space": "shared"},
            "table": {"shape": ["B"], "dtype": "i32", "values": {"min": 0, "max": "T - 1"}},
        },
    ),
}


@pytest.mark.parametrize("machine", [CPU, NVIDIA, AMD], ids=lambda machine: machine.target)
@pytest.mark.parametrize("name", RIGHT)
def test_results_are_right(name: str, machine: Machine) -> None:
    data = RIGHT[name]
    sizes = {dim: SIZES.get(dim, 4) for dim in data["dims"]}
    if data["dims"]["B"].get("multiple_of"):
        sizes["B"] = 6
    assert is_right(data, machine, sizes, whole="exp(" not in str(data["graph"]))


SUMMED = "- middle: {sum: k_loop.acc, dim: B}\n        - {write: middle, to: c}"
MATRIX = TENSORS | {"c": {"shape": ["M", "N"], "dtype": "f32", "role": "output"}}
BATCHES = spec("[]")["constraints"]
REFUSED = {
    "batch-split": spec(product(body=WRITTEN), constraints=[*BATCHES, {"wave": "B", "tile": 1}]),
    "too-many-batches": spec(
        product(body=WRITTEN),
        constraints=[{**one, "tile": 64} if one.get("workgroup") == "B" else one for one in BATCHES],
    ),
    "reduction-split": spec(product(body=SUMMED), tensors=MATRIX),
    "batches-not-possible": spec(
        product(body=SUMMED),
        constraints=[*WHOLE, {"tiling": "B", "tile": 4}],
        dims=HEADS | {"B": {"max": 4}},
        tensors=MATRIX,
    ),
    "not-uniform": spec(
        "\n        - count: {read: counts}"
        + product(body=WRITTEN).replace("iterate: K", "iterate: K\n            end: count"),
        tensors=TENSORS | {"counts": {"shape": ["B"], "dtype": "i32"}},
    ),
}
HINTS = {
    "batch-split": "Leave out 'wave: B', or give workgroups one matrix each: {workgroup: B, tile: 1, ...}.",
    "too-many-batches": "Lower their tiles.",
    "reduction-split": "Or let each workgroup write what its part has, along a dim of parts, and join these in a second kernel: "
    "'How to split a kernel in two' in docs/splitting.md.",
    "batches-not-possible": "Promise {B: {multiple_of: 4}} in 'dims'.",
    "not-uniform": "Reduce it, or give workgroups a tile of 1 of its dims.",
}


@pytest.mark.parametrize("code", REFUSED)
def test_what_cannot_be_is_refused_with_what_to_write(code: str) -> None:
    with pytest.raises(WavespecError) as caught:
        lower(loads(data_to_yaml(REFUSED[code]), "several.wave.yaml"), NVIDIA)
    assert f"error[{code}]" in str(caught.value) and str(caught.value).endswith(f"hint: {HINTS[code]}")


@pytest.mark.parametrize(
    "statements",
    [
        "- moved: {cumsum: k_loop.acc, dim: B}",
        """- seed: {register: [], dtype: i32, value: 1}
        - noise: {random: seed, dims: [B, M, N]}
        - moved: k_loop.acc * noise""",
    ],
)
def test_what_is_not_of_one_matrix_is_refused(statements: str) -> None:
    graph = product(body=f"{statements}\n        - {{write: moved, to: c}}")
    with pytest.raises(WavespecError, match=r"error\[batches-not-possible\]"):
        lower(loads(data_to_yaml(spec(graph, constraints=WHOLE, dims=HEADS)), "several.wave.yaml"), NVIDIA)
