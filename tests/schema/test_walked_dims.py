"""What joins elements along dims of any size is walked over, where a spec has no tiles, and means the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

import wavespec as ws
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.load import loads
from wavespec.schema.ops import Iterate, Op, every

HEAD = "apiVersion: wavespec/v1\nkind: Kernel\nname: one\n"


def spec_of(dims: str, tensors: str, graph: str) -> KernelSpec:
    lines = "\n".join(f"  - {line}" for line in graph.strip().splitlines())
    return loads(f"{HEAD}dims: {{{dims}}}\ntensors:\n{tensors}graph:\n{lines}\n")


def tensor(name: str, shape: str, dtype: str = "f32", role: str = "input") -> str:
    return f"  {name}: {{shape: [{shape}], dtype: {dtype}, role: {role}}}\n"


ROWS = tensor("x", "M, N") + tensor("y", "M, N", role="output")
NORM = spec_of(
    "M: {}, N: {min: 1}",
    ROWS,
    """
v: {read: x}
middle: {mean: v, dim: N}
apart: v - middle
square: apart * apart
variance: {mean: square, dim: N}
result: apart * rsqrt(variance + 1e-5)
{write: result, to: y}""",
)
PRODUCT = spec_of(
    "M: {}, N: {}, K: {}",
    tensor("a", "M, K", "bf16") + tensor("b", "N, K", "bf16") + tensor("c", "M, N", role="output"),
    """
left: {read: a}
right: {read: b}
zero: {register: [M, N], dtype: f32, value: 0}
sums: {mma: [left, right, zero]}
result: relu(sums)
{write: result, to: c}""",
)
PLANES = spec_of(
    "B: {}, H: {min: 1}, W: {min: 1}, C: {}",
    tensor("x", "B, H, W, C") + tensor("y", "B, H, W, C", role="output"),
    """
v: {read: x}
middle: {mean: v, dim: [H, W]}
result: v - middle
{write: result, to: y}""",
)
LOSS = spec_of(
    "M: {min: 1}, C: {min: 1}",
    tensor("x", "M, C") + tensor("place", "M", "i64") + tensor("loss", "", role="output"),
    """
v: {read: x}
label: {read: place}
top: {max: v, dim: C}
power: exp(v - top)
total: {sum: power, dim: C}
own: {read: x, dims: [M], at: {C: label}}
each: log(total) + top - own
result: {mean: each, dim: M}
{write: result, to: loss}""",
)
SCANNED = spec_of(
    "M: {}, N: {min: 1}",
    ROWS + tensor("at", "M", "i64", "output"),
    """
v: {read: x}
running: {cumsum: v, dim: N}
top: {max: running, dim: N}
place: {argmax: running, dim: N}
result: running - top
{write: result, to: y}
{write: place, to: at}""",
)
EXTREMES = spec_of(
    "M: {}, N: {}, K: {min: 1}",
    tensor("a", "M, K", "i32") + tensor("b", "K, N", "i32") + tensor("c", "M, N", "i32", "output"),
    """
left: {read: a}
right: {read: b}
both: left + right
result: {min: both, dim: K}
{write: result, to: c}""",
)
COLUMN_SUMS = spec_of(
    "M: {}, N: {max: 1024}",
    ROWS + tensor("total", "N", role="inout"),
    """
v: {read: x}
middle: {mean: v, dim: N}
result: v - middle
{write: result, to: y}
columns: {sum: v, dim: M}
{write: columns, to: total, combine: add}""",
)
SCORES = spec_of(
    "M: {}, N: {min: 1}, K: {}",
    tensor("a", "M, K") + tensor("b", "N, K") + tensor("c", "M, N", role="output"),
    """
left: {read: a}
right: {read: b}
zero: {register: [M, N], dtype: f32, value: 0}
sums: {mma: [left, right, zero]}
top: {max: sums, dim: N}
power: exp(sums - top)
total: {sum: power, dim: N}
result: power / total
{write: result, to: c}""",
)
HALVES = spec_of(
    "M: {}, N: {multiple_of: 2, min: 2}",
    tensor("x", "M, N") + tensor("w", "M, N // 2") + tensor("y", "M", role="output"),
    """
v: {read: w}
total: {sum: v, dim: N // 2}
u: {read: x}
top: {max: u, dim: N}
result: total + top
{write: result, to: y}""",
)
IN_PLACE = spec_of(
    "M: {}, N: {min: 1}",
    tensor("w", "N") + tensor("x", "M, N", role="inout"),
    """
v: {read: x}
scale: {read: w}
top: {max: v, dim: N}
result: (v - top) * scale
{write: result, to: x}""",
)


def in_order(found: torch.Tensor | tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return (found,) if isinstance(found, torch.Tensor) else found


def shape_of(ops: Sequence[Op]) -> list[object]:
    """The loops of a graph, each a dim, what is carried, and the loops in it."""
    return [(op.dim, [*op.carry], shape_of(op.body)) for op in ops if isinstance(op, Iterate)]


@pytest.mark.parametrize(
    ("spec", "loops"),
    [
        (NORM, [("N", ["middle"], []), ("N", ["variance"], []), ("N", [], [])]),
        (PRODUCT, [("K", ["sums"], [])]),
        (PLANES, [("H", ["middle"], [("W", ["middle"], [])]), ("H", [], [("W", [], [])])]),
        (LOSS, [("M", ["result"], [("C", ["top"], []), ("C", ["total"], [])])]),
        (EXTREMES, [("K", ["result"], [])]),
        (IN_PLACE, [("N", ["top"], []), ("N", [], [])]),
        (
            SCORES,
            [("N", [one] if one else [], [("K", ["sums"], [])]) for one in ("top", "total", "")],
        ),
        (HALVES, [("N // 2", ["total"], []), ("N", ["top"], [])]),
    ],
    ids=["norm", "product", "planes", "loss", "extremes", "in_place", "scores", "halves"],
)
def test_loops(spec: KernelSpec, loops: object) -> None:
    assert shape_of(spec.graph) == loops


def test_a_scan_carries_what_is_before_it_in_every_loop() -> None:
    first, second = (op for op in SCANNED.graph if isinstance(op, Iterate))
    assert [*first.carry] == ["running_before", "top", "place", "place_extreme"]
    assert [*second.carry] == ["running_before_"]


def norm(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (torch.nn.functional.layer_norm(x, x.shape[-1:]),)


def scanned(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    sums = x.cumsum(-1)
    return sums - sums.amax(-1, keepdim=True), sums.argmax(-1)


def product(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return ((a @ b.T).relu(),)


def planes(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (x - x.mean((1, 2), keepdim=True),)


def loss(x: torch.Tensor, place: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (torch.nn.functional.cross_entropy(x, place),)


def extremes(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return ((a[:, :, None] + b[None]).amin(1),)


def scores(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return ((a @ b.T).softmax(-1),)


def halves(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (w.sum(-1) + x.amax(-1),)


def in_place(w: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return ((x - x.amax(-1, keepdim=True)) * w,)


def column_sums(x: torch.Tensor, total: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (total + x.sum(0), x - x.mean(-1, keepdim=True))


X = (torch.arange(5 * 77) * 29 % 19 - 9).view(5, 77).float()
CASES: dict[str, tuple[KernelSpec, tuple[torch.Tensor, ...], Callable[..., tuple[torch.Tensor, ...]]]] = {
    "norm": (NORM, (X,), norm),
    "product": (PRODUCT, (X.bfloat16(), X[:3].bfloat16()), product),
    "planes": (PLANES, (X.view(1, 5, 7, 11),), planes),
    "loss": (LOSS, (X, torch.arange(5) * 9), loss),
    "scanned": (SCANNED, (X,), scanned),
    "extremes": (EXTREMES, (X.int(), X.int().view(77, 5)), extremes),
    "column_sums": (COLUMN_SUMS, (X, X[1].clone()), column_sums),
    "scores": (SCORES, (X / 9, X[:3] / 9), scores),
    "halves": (HALVES, (X[:, :14].contiguous(), X[:, :7].contiguous()), halves),
    "in_place": (IN_PLACE, (X[0], X.clone()), in_place),
}


@pytest.mark.parametrize("name", CASES)
def test_the_graph_means_the_same(name: str) -> None:
    spec, inputs, torchs = CASES[name]
    wanted = torchs(*(one.double() if one.is_floating_point() else one for one in inputs))
    found = in_order(ws.reference(spec, *inputs))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.double(), other.double(), rtol=1e-6, atol=1e-5)


@pytest.mark.compiles
@pytest.mark.parametrize("name", CASES)
def test_it_runs_on_a_cpu(name: str) -> None:
    spec, inputs, torchs = CASES[name]
    wanted = torchs(*(one.double() if one.is_floating_point() else one for one in inputs))
    found = in_order(ws.compile(spec)(*(one.clone() for one in inputs)))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.double(), other.double(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "graph",
    [
        "v: {read: x}\nr: {cumsum: v, dim: N, reverse: true}\n{write: r, to: y}",
        "v: {read: x}\nr: {take: v, at: {N: size(N) - 1 - N}}\nt: {sum: r, dim: N}\ns: r - t\n{write: s, to: y}",
        "v: {read: x}\nr: {sum: v, dim: N}\nc: {sum: v, dim: M}\ns: v - r - c\n{write: s, to: y}",
    ],
    ids=["backwards", "turned_round", "both_sides"],
)
def test_what_no_loop_does_stays_as_it_is(graph: str) -> None:
    assert not [*every(Iterate, spec_of("M: {}, N: {}", ROWS, graph).graph)]


def test_dims_of_a_known_most_are_one_tile() -> None:
    graph = "v: {read: x}\nt: {sum: v, dim: N}\nr: v - t\n{write: r, to: y}"
    assert not [*every(Iterate, spec_of("M: {}, N: {max: 64}", ROWS, graph).graph)]


def test_sides_are_those_of_the_result_whatever_is_multiplied_first() -> None:
    tensors = "".join(tensor(name, shape, "bf16") for name, shape in [("x", "M, K"), ("w", "N, K"), ("a", "R, K")])
    tensors += tensor("b", "N, R", "bf16") + tensor("y", "M, N", role="output")
    graph = """
v: {read: x}
low: {read: a}
all_: {read: w}
up: {read: b}
none: {register: [M, R], dtype: f32, value: 0}
zero: {register: [M, N], dtype: f32, value: 0}
narrow: {mma: [v, low, none]}
wide: {mma: [v, all_, zero]}
part: bf16(narrow)
r: {mma: [part, up, wide]}
{write: r, to: y}"""
    spec = spec_of("M: {}, N: {}, K: {}, R: {value: 16}", tensors, graph)
    (loop,) = every(Iterate, spec.graph)
    assert [*loop.carry] == ["narrow", "wide"]
    assert {"TILE_M", "TILE_N", "TILE_K"} <= spec.params.keys()
