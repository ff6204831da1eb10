"""Families on the CPU: every call of the generated wrapper gets the kernel that is for it, and that computes right."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.runtime.generated import import_wrapper
from tests.schema.families import PRODUCT, SCORES
from wavespec.build_kernels import KernelToBuild, build_kernels
from wavespec.cache import CompileCache
from wavespec.diagnostics import WavespecError
from wavespec.generate import family_files, write_files
from wavespec.pipeline import build
from wavespec.runtime import ArgumentError, ArgumentTypeError
from wavespec.runtime.manifest import pack_artifact
from wavespec.schema.families.load_family import loads_family
from wavespec.schema.language.family import Member
from wavespec.targets.machine import machines
from wavespec.tune import compile_pool

LAYOUTS = [("nt", torch.float16), ("nn", torch.float16), ("tn", torch.float16), ("nt", torch.bfloat16)]


@pytest.fixture(scope="module")
def matmul() -> Any:
    return import_module("generated.matmul_layouts").matmul_layouts


@pytest.fixture(scope="module")
def scores(one_variant: None, tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """A wrapper that picks by a size and by a number, with two results."""
    folder = tmp_path_factory.mktemp("family")
    family = loads_family(SCORES, "specs/scores.wave.yaml")
    files = family_files(
        family, ["cpu"], "specs/scores.wave.yaml", command="wavespec build", cache=CompileCache(folder / "cache")
    )
    write_files(files, folder)
    return import_wrapper(folder / "scores.py")


def operands(layout: str, dtype: torch.dtype, m: int = 70, n: int = 50, k: int = 90) -> tuple[Tensor, Tensor, Tensor]:
    """Both arguments as they lie in memory, and their exact product."""
    generator = torch.Generator().manual_seed(m)
    a, b = (torch.randint(-4, 5, shape, generator=generator) for shape in ((m, k), (k, n)))
    stored = (a.T if layout[0] == "t" else a, b.T if layout[1] == "t" else b)
    first, second = (one.contiguous().to(dtype) for one in stored)
    return first, second, (a @ b).float()


@pytest.mark.parametrize(("layout", "dtype"), LAYOUTS)
@pytest.mark.parametrize("sizes", [(70, 50, 90), (1, 1, 1), (300, 200, 260), (0, 4, 8)])
def test_call_gets_the_kernel_that_is_for_it(
    matmul: Any, layout: str, dtype: torch.dtype, sizes: tuple[int, int, int]
) -> None:
    a, b, expected = operands(layout, dtype, *sizes)
    assert torch.equal(matmul(a, b, layout=layout), expected)
    out = torch.full_like(expected, 7)
    assert matmul(a, b, layout=layout, out=out) is out and torch.equal(out, expected)


def test_raw_call_picks_too(matmul: Any) -> None:
    a, b, expected = operands("nn", torch.float16)
    out = torch.empty_like(expected)
    import_module("generated.matmul_layouts").matmul_layouts_raw(a, b, out, layout="nn")
    assert torch.equal(out, expected)


@pytest.mark.parametrize(("layout", "dtype"), LAYOUTS)
def test_operators_pass_opcheck(layout: str, dtype: torch.dtype) -> None:
    module = import_module("generated.matmul_layouts")
    a, b, expected = operands(layout, dtype)
    torch.library.opcheck(module._matmul_layouts_op, (a, b, layout))
    torch.library.opcheck(module._matmul_layouts_out_op, (a, b, layout, expected))


def test_compiles_whole_with_dynamic_shapes(matmul: Any) -> None:
    def model(a: Tensor, b: Tensor) -> Tensor:
        return matmul(a, b, layout="nt") * 2

    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    for m, dtype in ((64, torch.float16), (31, torch.bfloat16)):
        a, b, expected = operands("nt", dtype, m)
        assert torch.equal(compiled(a, b), expected * 2)


@pytest.mark.parametrize(
    ("layout", "dtype", "message"),
    [
        ("nt", torch.float64, r"the dtype of 'a' is torch.float64, expected torch.bfloat16 or torch.float16\."),
        ("tt", torch.float16, r"'layout' is 'tt', expected 'nt', 'nn' or 'tn'\."),
        ("tn", torch.bfloat16, r"no member is for a call where the dtype of 'a' is torch.bfloat16, 'layout' is 'tn'"),
    ],
)
def test_call_that_picks_no_member_says_why(matmul: Any, layout: str, dtype: torch.dtype, message: str) -> None:
    a, b, _ = operands("nn", torch.float16)
    with pytest.raises(ArgumentError, match=message) as raised:
        matmul(a.to(dtype), b, layout=layout)
    assert isinstance(raised.value, TypeError) == (dtype == torch.float64)


@pytest.mark.parametrize("form", ["new", "out", "raw", "operator"])
def test_argument_that_picks_has_to_be_a_tensor(matmul: Any, scores: ModuleType, form: str) -> None:
    """torch's dispatcher passes None on; a size and a dtype are looked at before a kernel checks anything."""
    b, module = torch.zeros(40, 64).half(), import_module("generated.matmul_layouts")
    picked_by_dtype = {
        "new": lambda: matmul(None, b, layout="nt"),
        "out": lambda: matmul(None, b, layout="nt", out=torch.zeros(40, 40)),
        "raw": lambda: module.matmul_layouts_raw(None, b, torch.zeros(40, 40), layout="nt"),
        "operator": lambda: module._matmul_layouts_op(None, b, "nt"),
    }
    results = torch.zeros(40, 40), torch.zeros(40, 40)
    picked_by_size = {
        "new": lambda: scores.scores(None, b, half=0),
        "out": lambda: scores.scores(None, b, half=0, out=results),
        "raw": lambda: scores.scores_raw(None, b, *results, half=0),
        "operator": lambda: scores._scores_op(None, b, 0),
    }
    for family, argument, call in (("matmul_layouts", "a", picked_by_dtype), ("scores", "q", picked_by_size)):
        message = rf"{family}: argument '{argument}' is of type NoneType, expected a torch\.Tensor\."
        with pytest.raises(ArgumentTypeError, match=message):
            call[form]()


def test_other_arguments_are_checked_by_the_member(matmul: Any) -> None:
    a, b, _ = operands("nn", torch.float16)
    with pytest.raises(ArgumentError, match="argument 'b' has dtype"):
        matmul(a, b.bfloat16(), layout="nn")
    with pytest.raises(ArgumentError, match=r"has K = 50 in dim 1, but 'a' has K = 90"):
        matmul(a, b, layout="nt")
    with pytest.raises(ArgumentError, match="'a' requires grad"):
        matmul(a.float().half().requires_grad_(), b, layout="nn")


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("head", [64, 128])
def test_size_and_number_pick(scores: ModuleType, head: int, half: int) -> None:
    q, k = (torch.randint(-4, 5, (rows, head)).half() for rows in (33, 40))
    expected = q.float() @ k.float().T
    s, t = scores.scores(q, k, half=half)
    assert torch.equal(s, expected) and torch.equal(t, expected.half() if half else expected)
    out = (torch.empty_like(s), torch.empty_like(t))
    assert scores.scores(q, k, half=half, out=out) is out and torch.equal(out[1], t)
    torch.library.opcheck(scores._scores_op, (q, k, half))


def test_calls_like_earlier_ones_pick_too_and_ask_no_dispatcher(
    scores: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [
        (half, [torch.randint(-4, 5, (rows, head)).half() for rows in (33, 40)])
        for half in (0, 1)
        for head in (64, 128)
    ]
    out = torch.zeros(33, 40), torch.zeros(33, 40)
    for half, (q, k) in calls * 2:
        scores.scores(q, k, half=half)
        if not half:
            scores.scores(q, k, half=half, out=out)
    monkeypatch.setattr(scores, "_scores_op", None)
    monkeypatch.setattr(scores, "_scores_out_op", None)
    for half, (q, k) in calls:
        expected = q.float() @ k.float().T
        s, t = scores.scores(q, k, half=half)
        assert torch.equal(s, expected) and torch.equal(t, expected.half() if half else expected)
        if not half:
            assert scores.scores(q, k, half=half, out=out) is out and torch.equal(out[1], expected)


@pytest.mark.parametrize("wrong", [1.0, "nt", torch.zeros(2, 3).numpy()], ids=["number", "text", "array"])
def test_what_is_no_tensor_is_refused_as_by_torch(scores: ModuleType, wrong: Any) -> None:
    k = torch.zeros(40, 64).half()
    with pytest.raises((TypeError, RuntimeError), match=r"'q'|\bq\b"):
        scores.scores(wrong, k, half=0)


def test_size_that_picks_is_a_constant_of_a_compiled_graph(scores: ModuleType) -> None:
    compiled = torch.compile(lambda q, k: scores.scores(q, k, half=0)[0], fullgraph=True, dynamic=True, backend="eager")
    for head in (64, 128):
        q, k = (torch.randint(-4, 5, (rows, head)).half() for rows in (33, 40))
        assert torch.equal(compiled(q, k), q.float() @ k.float().T)


def test_wrong_size_or_rank_says_what_there_is(scores: ModuleType) -> None:
    q = torch.zeros(8, 96).half()
    with pytest.raises(ArgumentError, match=r"scores: the size D is 96, expected 64 or 128\."):
        scores.scores(q, q, half=0)
    with pytest.raises(ArgumentError, match=r"scores: argument 'q' has 1 dim, but D is its dim 1\."):
        scores.scores(q[0], q, half=0)


def to_build(members: Sequence[Member]) -> list[KernelToBuild]:
    return [KernelToBuild(member.spec, member.label) for member in members]


@pytest.mark.rare
def test_workers_give_the_bytes_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wavespec.build_kernels.machines", machines)  # all variants, which other tests leave out
    members = loads_family(PRODUCT, "specs/product.wave.yaml").members
    cache = CompileCache(tmp_path / "cache")
    built = build_kernels(to_build(members), ["cpu", "gfx942"], cache=cache, workers=2)
    assert list(built) == [(member.name, target) for member in members for target in ("cpu", "gfx942")]
    here = build(members[1].spec, "cpu", cache=CompileCache(enabled=False))
    assert pack_artifact(built[members[1].name, "cpu"]) == pack_artifact(here)
    again = CompileCache(tmp_path / "cache")
    assert build_kernels(to_build(members), ["cpu", "gfx942"], cache=again) == built and again.misses == 0


def test_member_that_fits_no_machine_is_named_at_the_line_of_the_template(tmp_path: Path) -> None:
    family = loads_family(PRODUCT.replace("tile: 64}", "tile: {{ 4096 if LAYOUT == 'nn' else 64 }}}"), "p.wave.yaml")
    with pytest.raises(WavespecError) as raised:
        build_kernels(to_build(family.members), ["gfx942"], cache=CompileCache(tmp_path))
    text = str(raised.value)
    assert "p.wave.yaml:" in text and "In the member DTYPE=f16,LAYOUT=nn." in text


def test_worker_that_dies_is_a_failure_of_its_member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_pool, "_COMMAND", ("false",))
    members = loads_family(PRODUCT, "p.wave.yaml").members
    with pytest.raises(WavespecError, match=r"error\[compiler-failure\]: product_\w+ for cpu: the compiler ended"):
        build_kernels(to_build(members), ["cpu"], cache=CompileCache(tmp_path))
