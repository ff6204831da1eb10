"""Numbers of calls: which are taken, what kernels get for them, and that no call has those of another."""

from __future__ import annotations

import inspect
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.ops.scalars import ADDMM, WINDOW
from tests.runtime.generated import import_wrapper
from tests.runtime.standin_cuda import StandInCuda
from wavespec.diagnostics import WavespecError
from wavespec.emit.wrapper_input import wrapper_scalars
from wavespec.generate import kernel_files
from wavespec.pipeline import best_variant, build, emit
from wavespec.runtime.artifact import KernelArtifact
from wavespec.runtime.checks import ArgumentError, ArgumentTypeError
from wavespec.runtime.cuda_launcher import CudaLauncher
from wavespec.runtime.kernel import Kernel
from wavespec.runtime.launch_plan import make_plan
from wavespec.runtime.manifest import pack_artifact, unpack_artifact
from wavespec.runtime.scalar_arguments import ScalarArguments
from wavespec.runtime.scalars import ScalarParameter, held, rounded
from wavespec.schema import loads
from wavespec.schema.families.load_family import loads_family
from wavespec.targets.machine import machines

_TYPES = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
_NUMBERS = st.floats() | st.integers(-(2**70), 2**70) | st.floats(width=16) | st.floats(width=32)
_EVERY = ScalarArguments(
    "k",
    [
        ScalarParameter("eps", "f32", 1e-6, 0),
        ScalarParameter("window", "i32", 4, 1, 9, shapes=True),
        ScalarParameter("seed", "i64", None),
        ScalarParameter("flag", "bool", False),
    ],
)


@given(st.sampled_from(list(_TYPES)), _NUMBERS)
def test_numbers_are_rounded_as_those_of_tensors_are(dtype: str, number: float) -> None:
    arguments = ScalarArguments("k", [ScalarParameter("x", dtype)])
    (value,) = arguments(number)
    right = torch.tensor(value, dtype=torch.float64).to(_TYPES[dtype])
    if right.isinf() and abs(value) != float("inf"):
        with pytest.raises(ArgumentError, match=rf"'x' is .*, beyond the numbers of {dtype}"):
            arguments.words((value,), {})
        return
    (found,) = arguments.as_held((value,), {})
    one = torch.tensor(found, dtype=torch.float64)
    assert torch.equal(one.signbit(), right.signbit()) or right.isnan()
    torch.testing.assert_close(one.to(_TYPES[dtype]), right, rtol=0, atol=0, equal_nan=True)
    wide = dtype == "f64"
    words = struct.pack("<d" if wide else "<f", found)
    assert struct.pack("<2i" if wide else "<i", *arguments.words((value,), {})) == words
    assert struct.pack("<q" if wide else "<i", held(found, dtype)) == words


@given(st.integers(-(2**65), 2**65), st.sampled_from([("i32", 31), ("i64", 63)]))
def test_integers_arrive_whole_or_are_refused(number: int, of: tuple[str, int]) -> None:
    dtype, bits = of
    arguments = ScalarArguments("k", [ScalarParameter("n", dtype)])
    if -(2**bits) <= number < 2**bits:
        words = arguments.words((number,), {})
        assert int.from_bytes(struct.pack(f"<{len(words)}i", *words), "little", signed=True) == number
    else:
        with pytest.raises(ArgumentError, match=f"beyond the numbers of {dtype}"):
            arguments.words((number,), {})


def test_numbers_of_numpy_are_numbers() -> None:
    given = _EVERY(np.float32(0.5), np.int64(3), np.int32(-1), np.bool_(True))
    assert given == (0.5, 3, -1, True) and list(map(type, given)) == [float, int, int, bool]
    assert _EVERY(1, 3, 2, False) == (1.0, 3, 2, False)
    assert _EVERY.shaping(given) == (3,) and _EVERY.sizes(given) == {"window": 3}


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"seed": 1, "eps": torch.tensor(1.0)}, ArgumentTypeError, "'eps' is of type Tensor.*pass eps.item()"),
        ({"seed": torch.tensor(1)}, ArgumentTypeError, "'seed' is of type Tensor"),
        ({"seed": np.array(1)}, ArgumentTypeError, "'seed' is of type ndarray"),
        ({"seed": 1.0}, ArgumentTypeError, "'seed' is of type float, expected a whole number"),
        ({"seed": True}, ArgumentTypeError, "'seed' is of type bool, expected a whole number"),
        ({"seed": 1, "eps": True}, ArgumentTypeError, "'eps' is of type bool, expected a number"),
        ({"seed": 1, "eps": "1"}, ArgumentTypeError, "'eps' is of type str"),
        ({"seed": 1, "eps": 10**400}, ArgumentError, "'eps' is beyond the numbers of f32"),
        ({"seed": 1, "eps": 1j}, ArgumentTypeError, "'eps' is of type complex"),
        ({"seed": 1, "flag": 1}, ArgumentTypeError, "'flag' is of type int, expected True or False"),
        ({"seed": 1, "flag": None}, ArgumentTypeError, "'flag' is of type NoneType"),
        ({"eps": 1.0}, ArgumentTypeError, "'seed' has no default; pass seed="),
        ({"seed": 1, "sead": 2}, ArgumentTypeError, "got 'sead', but it has the scalars eps, window, seed, flag"),
        ({"seed": 1, "eps": -1e-9}, ArgumentError, "'eps' is -1e-09, expected at least 0"),
        ({"seed": 1, "eps": float("nan")}, ArgumentError, "'eps' is nan, expected at least 0"),
        ({"seed": 1, "window": 10}, ArgumentError, "'window' is 10, expected at most 9"),
        ({"seed": 2**63}, ArgumentError, "'seed' is 9223372036854775808, beyond the numbers of i64"),
    ],
)
def test_what_is_no_such_number_is_refused_by_name(given: dict[str, Any], kind: type, message: str) -> None:
    with pytest.raises(kind, match=message) as raised:
        _EVERY.words(_EVERY.named(given), {})
    assert str(raised.value).startswith("k: ")


def test_rounding_keeps_what_a_type_has() -> None:
    assert rounded(1 + 2**-8, "bf16") == 1.0 and rounded(1 + 3 * 2**-8, "bf16") == 1 + 2**-6
    assert rounded(65504.0, "f16") == 65504.0 and rounded(float("-inf"), "bf16") == float("-inf")
    with pytest.raises(OverflowError):
        rounded(3.4e38, "bf16")


def test_schemas_leave_out_defaults_of_zero() -> None:
    """Torch drops an argument that is equal to its default, and -0.0 is equal to 0.0."""
    every = wrapper_scalars([ScalarParameter(n, "f32", d) for n, d in (("a", 1.0), ("b", 0.0), ("c", 2.0))], [""] * 3)
    assert [one.in_schema for one in every] == ["float a", "float b", "float c=2.0"]


def test_artifacts_keep_their_scalars() -> None:
    module = emit(loads(WINDOW, "w.wave.yaml"), machines("sm_90")[0])
    artifact = replace(module.interface, binaries=(module.binary(),))
    assert unpack_artifact(pack_artifact(artifact)) == artifact
    assert [one.name for one in artifact.scalars if one.shapes] == ["start", "stop", "step"]
    assert artifact.constant_count == 3 + 1 + 2 + 1 + 2 + 1 + 1 + 2 + 1


@pytest.fixture(scope="module")
def built() -> KernelArtifact:
    """`WINDOW` for this machine, which has a case for `step == 1`."""
    return build(loads(WINDOW, "w.wave.yaml"), "cpu", only=best_variant("cpu"))


@pytest.mark.compiles
def test_scalars_of_conditions_pick_the_case(built: KernelArtifact) -> None:
    assert [one.name for one in built.scalars if one.shapes] == ["start", "stop", "step", "turned"]
    sizes = {"M": 5, "N": 7, "L": 7, "start": 0, "stop": 99}
    assert built.member_for({**sizes, "step": 1, "turned": 0}) == 0
    assert built.member_for({**sizes, "step": 1, "turned": 1}) == 1
    assert built.member_for({**sizes, "step": 2, "turned": 0}) == 1


def test_launches_on_gpus_have_sizes_and_then_words() -> None:
    module = emit(loads(ADDMM, "a.wave.yaml"), machines("sm_90")[0])
    cuda, artifact = StandInCuda("pppp" + "i" * module.interface.constant_count), module.interface
    arguments = ScalarArguments("addmm", artifact.scalars)
    binary = replace(module.binary(b"ptx"), format="ptx")
    launcher = CudaLauncher(replace(artifact, tensor_maps=()), [binary], torch.device("cpu"), cuda.driver)
    tensors = [torch.zeros(8, 8) for _ in range(4)]
    plan = make_plan(artifact, {"M": 8, "N": 8, "K": 8})
    for alpha in (1.0, -0.0, 1.0):
        words = arguments.words((0.5, alpha), {})
        launcher.launch(tensors, [one.data_ptr() for one in tensors], plan.with_words(words))
    sizes = [launch["sizes"] for launch in cuda.launches]
    assert sizes == [[8, 8, 8, 0x3F000000, 0x3F800000], [8, 8, 8, 0x3F000000, -(2**31)], sizes[0]]


@pytest.fixture(scope="module")
def addmm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    folder = tmp_path_factory.mktemp("scalars")
    spec = loads(ADDMM, "a.wave.yaml")
    for name, data in kernel_files(spec, ["cpu"], "specs/a.wave.yaml", command="wavespec build").items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    yield import_wrapper(folder / "addmm_of_test.py")


def _operands() -> tuple[Tensor, Tensor, Tensor]:
    return torch.ones(3, 8).half(), torch.ones(5, 8).half(), torch.ones(3, 5)


@pytest.mark.compiles
def test_wrappers_take_scalars_by_name(addmm: ModuleType) -> None:
    function, tensors = addmm.addmm_of_test, _operands()
    found = inspect.signature(function).parameters
    assert [name for name, one in found.items() if one.kind is one.KEYWORD_ONLY] == ["beta", "alpha", "out"]
    assert found["alpha"].default == 1.0 and found["alpha"].annotation == "float"
    for _ in range(3):
        for alpha, beta in ((1, 1), (2.0, -1.0), (np.float32(0.5), 0)):
            right = torch.full((3, 5), float(beta + 8 * alpha))
            assert torch.equal(function(*tensors, alpha=alpha, beta=beta), right)
            out = torch.empty(3, 5)
            assert function(*tensors, alpha=alpha, beta=beta, out=out) is out and torch.equal(out, right)
            addmm.addmm_of_test_raw(*tensors, out.zero_(), alpha=alpha, beta=beta)
            assert torch.equal(out, right)
    with pytest.raises(ArgumentTypeError, match="'alpha' is of type Tensor"):
        function(*tensors, alpha=torch.ones(()))
    with pytest.raises(ArgumentError, match="'c' requires grad"):
        function(*tensors[:2], tensors[2].requires_grad_(), alpha=2.0)


@pytest.mark.compiles
def test_numbers_of_a_known_call_are_not_those_of_the_last_one(addmm: ModuleType) -> None:
    """Equal ones may be other ones: 0.0 and -0.0, True and 1; and the same object may be followed by another."""
    function, (a, b, c), out = addmm.addmm_of_test, _operands(), torch.empty(3, 5)
    kept = 3.0
    function(a, b, c, out=out), function(a, b, c)
    for alpha in (kept, kept, 2.0, kept, 1.0, 1, kept, 0.0, kept):
        right = torch.full((3, 5), 1.0 + 8 * alpha)
        assert torch.equal(function(a, b, c, beta=1.0, alpha=alpha), right)
        function(a, b, c, beta=1.0, alpha=alpha, out=out)
        assert torch.equal(out, right)
    negative = -torch.zeros(3, 5)  # -0.0 + -0.0 alone is below zero
    for beta in (1.0, -1.0, 1.0):
        assert function(a * 0, b, negative, beta=beta, alpha=-0.0).signbit().all() == (beta == 1.0)
    for alpha in (0.0, -0.0, 0.0, 0.0, -0.0):
        assert function(a * 0, b, negative, beta=1.0, alpha=alpha).signbit().all() == (str(alpha) == "-0.0")
    with pytest.raises(ArgumentTypeError, match="'alpha' is of type bool"):
        function(a, b, c, beta=1.0, alpha=True)


@pytest.mark.compiles
def test_operators_have_scalars_in_their_schema(addmm: ModuleType) -> None:
    operator, tensors = addmm._addmm_of_test_op, _operands()
    assert str(operator._schema).endswith("(Tensor a, Tensor b, Tensor c, float beta=1., float alpha=1.) -> Tensor")
    assert torch.equal(operator(*tensors, alpha=2.0), torch.full((3, 5), 17.0))
    assert torch.equal(operator(*tensors), torch.full((3, 5), 9.0))
    torch.library.opcheck(operator, (*tensors, 0.5, 2.0))
    torch.library.opcheck(operator, tensors)
    torch.library.opcheck(addmm._addmm_of_test_out_op, (*tensors, torch.empty(3, 5), 0.5))


@pytest.mark.compiles
def test_graphs_are_compiled_whole_and_have_the_numbers_of_each_call(addmm: ModuleType) -> None:
    tensors = _operands()

    @torch.compile(fullgraph=True, backend="aot_eager")
    def function(a: Tensor, b: Tensor, c: Tensor, alpha: float) -> Tensor:
        return addmm.addmm_of_test(a, b, c + 1, alpha=alpha, beta=2.0) + 1

    for alpha in (1.0, 3.0, -0.5):
        assert torch.equal(function(*tensors, alpha), torch.full((3, 5), 8 * alpha + 5))


def test_members_of_a_family_agree_on_the_scalars_that_they_share(tmp_path: Path) -> None:
    body = ADDMM.split("doc:")[1].split("\n", 1)[1]
    text = (
        "apiVersion: wavespec/v1\nkind: Family\nname: addmm_family\nparameters:\n  T: [f16, bf16]\n"
        "pick: {T: dtype(a)}\ntemplate: |\n"
        + "".join(f"  {line}\n" for line in body.replace("dtype: f16", "dtype: {{ T }}").splitlines())
    )
    family = loads_family(text, "f.wave.yaml", directory=tmp_path)
    assert [list(member.spec.scalars) for member in family.members] == [["beta", "alpha"]] * 2
    with pytest.raises(WavespecError, match="differ in what they take alone, but"):
        loads_family(text.replace("default: 1}", "default: {{ 1 if T == 'f16' else 2 }}}"), "f.wave.yaml")


@pytest.mark.compiles
def test_kernels_say_what_they_take(built: KernelArtifact) -> None:
    kernel = Kernel(built)
    assert repr(kernel).startswith("<kernel window_of_test(x: f32[M, N], start: i32, stop: i64, step: i32, wide: f64,")
    with pytest.raises(ArgumentTypeError, match="got 'strat'"):
        kernel(torch.zeros(2, 3), strat=1)
    with pytest.raises(ArgumentTypeError, match="takes 8 scalars"):
        kernel.new(torch.zeros(2, 3))
