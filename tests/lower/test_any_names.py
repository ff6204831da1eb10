"""Whatever words a spec takes for its dims, tensors and values, none means something to the compiler."""

from __future__ import annotations

import builtins
import keyword
import re
from collections import Counter
from functools import cache
from itertools import cycle, islice
from pathlib import Path

import pytest
import torch

from tests.runtime.generated import import_wrapper
from wavespec.diagnostics import WavespecError
from wavespec.generate import kernel_files, write_files
from wavespec.ir.kernel import Kernel
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.ir.verifier import VerificationError, verify
from wavespec.lower.order import PASSES
from wavespec.pipeline import FIRST_STAGE, compile, emit, lower
from wavespec.schema import loads
from wavespec.schema.language.names import ENTRY_POINTS, name_problem
from wavespec.schema.ops import OPS
from wavespec.targets.machine import machines
from wavespec.targets.names import TARGETS

# Every name stands in brackets: dims, a parameter, tensors, values and the kernel.
TEMPLATE = """apiVersion: wavespec/v1
kind: Kernel
name: <gemm>
dims: {<M>: {}, <N>: {}, <K>: {multiple_of: 8}}
params: {<BLOCK>: 32}
tensors:
  <a>: {shape: [<M>, <K>], dtype: f16, space: shared}
  <b>: {shape: [<N>, <K>], dtype: f16, space: shared}
  <c>: {shape: [<M>, <N>], dtype: f32, role: output}
constraints:
  - {workgroup: <M>, tile: <BLOCK>, axis: 0}
  - {workgroup: <N>, tile: <BLOCK>, axis: 1}
  - {tiling: <K>, tile: 16}
  - {wave: <M>, tile: 16}
  - {hardware: {mma: auto}}
graph:
  - <zero>: {register: [<M>, <N>], dtype: f32, value: 0}
  - <k_loop>:
      iterate: <K>
      carry: {<acc>: <zero>}
      body:
        - <a_tile>: {read: <a>}
        - <b_tile>: {read: <b>}
        - <acc>: {mma: [<a_tile>, <b_tile>, <acc>]}
  - <added>: "<k_loop>.<acc> + <M> * 0"
  - {write: <added>, to: <c>}
"""
DIMS = ("M", "N", "K")
SLOTS = tuple(dict.fromkeys(re.findall(r"<(\w+)>", TEMPLATE)))
PACKAGE = Path(__file__).parents[2] / "wavespec"
WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
ALL_WORDS = "gfx942"
"""The target whose kernels are named by all words of Python, MLIR and the language; others by what is their own."""
NUMBERED = re.compile(r"[vc][0-9]+")
"""What MLIR calls values, each as good a name as the others."""


def text_with(names: dict[str, str]) -> str:
    return re.sub(r"<(\w+)>", lambda found: names.get(found[1], found[1]), TEMPLATE)


@cache
def words_of(target: str) -> frozenset[str]:
    """What a machine's kernels and their MLIR are made of, and memories and symbols that other kernels have."""
    spec, machine = loads(text_with({})), machines(target)[0]
    texts = [str(lower(spec, machine, after=stage)) for stage in (FIRST_STAGE, *(one.name for one in PASSES))]
    found = set(WORD.findall(" ".join((*texts, emit(spec, machine).text))))
    made = (f"{what}_{dim}" for what in ("at", "in", "wave", "strip", "value", "copy_a") for dim in DIMS)
    memories = ("a_shared", "acc_parts", "acc_kept", "carried_0", "c_staged_32", "turn", "sums_met", "at_K_full")
    numbered = (f"{name}{number}" for name in ("wg", "launch", "each") for number in range(3))
    found |= {*made, *memories, *numbered, "workgroup", "rank", "round", "tile", "tiles", "workers"}
    return frozenset(word for word in found if not NUMBERED.fullmatch(word))


@cache
def all_words() -> frozenset[str]:
    """Those of all machines, of Python, of the language, of passes and of wrappers."""
    found = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *OPS}.union(*map(words_of, TARGETS))
    found |= {file.stem for folder in ("ops", "lower", "schedule") for file in (PACKAGE / folder).glob("*.py")}
    for file in PACKAGE.glob("schema/**/*.py"):  # what entries of a spec are called
        found |= set(re.findall(r"^    ([a-z]\w*): ", file.read_text(encoding="utf-8"), re.M))
    generated = (PACKAGE.parent / "generated" / "gemm.py").read_text(encoding="utf-8")
    return frozenset(found | set(WORD.findall(generated)))


def is_name(word: str) -> bool:
    return name_problem(word) is None


def namings(words: frozenset[str]) -> list[dict[str, str]]:
    """Every word is a dim of one naming, and something else in others."""
    taken = sorted(word for word in words if is_name(word) and word not in {*SLOTS, "true", "false", "null"})
    found: list[dict[str, str]] = []
    others = [slot for slot in SLOTS if slot not in DIMS]
    for start in range(0, len(taken), len(DIMS)):
        dims = list(islice(cycle(taken), start, start + len(DIMS)))
        # A value that is called as an op has no name, and an input is not called as what is written.
        rest = [word for word in islice(cycle(taken), start + 3, start + 60) if word not in {*dims, *OPS, "out"}]
        found.append(dict(zip(DIMS, dims, strict=True)) | dict(zip(others, rest, strict=False)))
    return found


def test_words_of_the_compiler_are_found() -> None:
    expected = {"workgroup", "wg0", "at_K", "wave_M", "lane", "mma", "arith", "func", "Tensor", "Path", "multiple_of"}
    assert expected <= all_words()


def test_words_that_are_no_names_are_refused_with_one_that_is() -> None:
    refused = [word for word in all_words() if not is_name(word) and not word.startswith("_")]
    assert len(refused) > 150
    for word in refused:
        for slot in ("K", "b", "gemm", *(() if word in OPS else ("a_tile",))):
            with pytest.raises(WavespecError) as caught:
                loads(text_with({slot: f'"{word}"'}))
            first = caught.value.diagnostics[0]
            assert (first.code, first.hints) == ("bad-name", (f"'{word}_' is a name.",)), (slot, first)


@pytest.mark.parametrize("name", sorted(ENTRY_POINTS))
def test_names_that_machine_code_has_are_refused_for_kernels_alone(name: str) -> None:
    loads(text_with({"M": name, "a": "zero_point"}))
    with pytest.raises(WavespecError, match="machine code"):
        loads(text_with({"gemm": name}))


@pytest.mark.parametrize(
    "target", [pytest.param(target, marks=[] if target == ALL_WORDS else [pytest.mark.rare]) for target in TARGETS]
)
def test_names_change_no_code(target: str) -> None:
    """The module has the same operations, but for sums of places, whose terms come in the order of their names."""
    machine = machines(target)[0]

    def operations(names: dict[str, str]) -> Counter[str]:
        module = emit(loads(text_with(names)), machine).text
        found = Counter(re.findall(r"= ([a-z]\w*\.[\w.]+)|^ +([a-z]\w*\.[\w.]+)", module, re.M))
        places = ("arith.addi", "arith.muli", "arith.subi", "arith.extsi", "arith.index_cast", "arith.constant")
        return Counter({word: count for pair, count in found.items() for word in pair if word and word not in places})

    expected = operations({})
    words = words_of(target) if target != ALL_WORDS else all_words()
    for names in namings(words):
        assert operations(names) == expected, names


@pytest.mark.parametrize("target", TARGETS)
def test_kernels_with_any_names_are_printed_and_read_back(target: str) -> None:
    machine = machines(target)[0]
    some = [naming for naming in namings(words_of(target)) if {"lane", "xor", "min", "at_K"} & {*naming.values()}]
    for names in [*some[:4], {"M": "xor", "N": "lane", "K": "by"}]:
        for stage in ("assign-layouts", PASSES[-1].name):
            kernel = lower(loads(text_with(names)), machine, after=stage)
            text = print_kernel(kernel)
            assert print_kernel(parse_kernel(text)) == text, names


def test_a_size_that_is_none_and_a_memory_of_two_meanings_are_bugs() -> None:
    kernel = lower(loads(text_with({})), machines("gfx942")[0])
    for symbol in ("X", "lane.size"):
        with pytest.raises(VerificationError, match="is the size of no dim"):
            verify(with_symbol(kernel, symbol))
    with pytest.raises(VerificationError, match="declared twice"):
        verify(with_symbol(kernel, "lane"))


def with_symbol(kernel: Kernel, name: str) -> Kernel:
    return parse_kernel(print_kernel(kernel).replace("symbol ", f"symbol {name} in 0..7 by 1\nsymbol ", 1))


NAMED = (
    {"M": "workgroup", "N": "lane", "K": "start", "a": "a_shared", "b": "wg0", "c": "out"},
    {"M": "at_K", "N": "wave_M", "K": "end", "a": "Tensor", "b": "Path", "c": "KernelSet", "gemm": "annotations"},
    {"K": "at", "a": "inputs", "b": "tensor", "c": "out", "gemm": "Path", "acc": "carried_0", "zero": "K_loop"},
    {"M": "size", "N": "rank", "K": "group", "a": "func", "b": "constant", "c": "memref", "gemm": "memcpy"},
)


@pytest.mark.parametrize(
    "names", [pytest.param(names, marks=[pytest.mark.rare] if index else []) for index, names in enumerate(NAMED)]
)
def test_kernels_with_names_of_the_compiler_run(names: dict[str, str], tmp_path: Path) -> None:
    a, b = torch.randint(-4, 5, (70, 40)).half(), torch.randint(-4, 5, (50, 40)).half()
    spec = loads(text_with(names))
    write_files(kernel_files(spec, ["cpu"], "named.wave.yaml", command="wavespec build"), tmp_path)
    module = import_wrapper(tmp_path / f"{spec.name}.py")
    function = getattr(module, spec.name)
    expected = a.float() @ b.float().T
    assert torch.equal(function(a, b), expected)
    out = torch.empty_like(expected)
    assert function(a, b, out=out) is out and torch.equal(out, expected)


@pytest.mark.compiles
def test_a_dim_called_workgroup_is_summed_over_whole() -> None:
    kernel = compile(loads(text_with({"K": "workgroup"})))
    assert kernel(torch.ones(70, 40).half(), torch.ones(50, 40).half()).unique().tolist() == [40]
