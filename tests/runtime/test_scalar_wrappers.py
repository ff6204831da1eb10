"""The text of wrappers with scalars: of families, and of kernels that change their arguments."""

from __future__ import annotations

from wavespec.emit.family_wrapper import FamilyWrapperInput, WrapperMember, WrapperPick, family_wrapper_module
from wavespec.emit.wrapper import wrapper_module
from wavespec.emit.wrapper_input import WrapperInput, WrapperTensor, wrapper_scalars
from wavespec.runtime.artifact import Dim
from wavespec.runtime.scalars import ScalarParameter

_SCALARS = wrapper_scalars([ScalarParameter("alpha", "f32", 1.0), ScalarParameter("n", "i64", 4, 0)], ["A factor.", ""])


def _kernel(name: str, dtype: str, *, updated: bool = False) -> WrapperInput:
    x, y = WrapperTensor("x", dtype, ("N",), updated=updated), WrapperTensor("y", dtype, ("N",), output=True)
    tensors = (x,) if updated else (x, y)
    return WrapperInput(name, "", "specs/k.wave.yaml", "0" * 64, tensors, (Dim("N"),), scalars=_SCALARS)


def test_kernels_that_change_arguments_take_scalars() -> None:
    text = wrapper_module(_kernel("scale_", "f32", updated=True))
    assert "def scale_(x: Tensor, *, alpha: float = 1.0, n: int = 4) -> Tensor:" in text
    assert "        if _KERNELS.direct.write(x, scalars=(alpha, n)):\n            return x\n" in text
    assert "            return x\n        (alpha, n) = _KERNELS.scalars(alpha, n)\n" in text
    assert '"(Tensor(a!) x, float alpha=1.0, SymInt n=4) -> ()"' in text
    assert "        alpha: A factor; a number of f32.\n        n: a whole number of i64, at least 0.\n" in text


def test_members_of_families_get_scalars() -> None:
    members = tuple(WrapperMember(_kernel(f"k_{dtype}", dtype), dtype, (dtype,)) for dtype in ("f32", "f64"))
    text = family_wrapper_module(
        FamilyWrapperInput("k", "", "specs/k.wave.yaml", "0" * 64, (WrapperPick("dtype", "x"),), members)
    )
    assert "def k(x: Tensor, *, alpha: float = 1.0, n: int = 4, out: Tensor | None = None) -> Tensor:" in text
    assert "made = _DIRECT.new(x, scalars=(alpha, n))\n" in text and "(alpha, n) = _member(x).scalars(alpha, n)" in text
    assert "return _member(x).new(x, scalars=(alpha, n))" in text
    assert "return _FAKES[_member(x).name](x, alpha, n)" in text
    assert text.count('ScalarParameter("n", "i64", 4, 0, None, False)') == 2


def test_what_has_no_scalars_says_nothing_of_them() -> None:
    plain = WrapperInput("k", "", "specs/k.wave.yaml", "0" * 64, _kernel("k", "f32").tensors, (Dim("N"),))
    assert "calar" not in wrapper_module(plain)
