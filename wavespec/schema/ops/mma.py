"""`mma`: a matrix product added to an accumulator."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from wavespec.diagnostics import WavespecError, Where, listing, quote
from wavespec.schema.language.dtypes import ACCUMULATORS, SCALED, SCALES
from wavespec.schema.language.names import Reference
from wavespec.schema.ops.base import Scope, ValueOp, ValueType


class DtypeMismatch(WavespecError, code="dtype-mismatch"):
    """Two element types that had to fit do not."""


class DimsMismatch(WavespecError, code="dims-mismatch"):
    """The dims of operands do not fit the op."""


class NoMatrixProduct(WavespecError, code="no-matrix-product"):
    def __init__(self, where: Where, dtype: str) -> None:
        allowed = listing(ACCUMULATORS, "or")
        super().__init__(where, f"'mma' does not multiply {quote(dtype)}.", hints=[f"Its operands are {allowed}."])


class Mma(ValueOp):
    """`acc[m, n] + sum over k of lhs[m, k] * rhs[n, k]`; dims are matched by name, in any order."""

    word: ClassVar[str] = "mma"
    headline: ClassVar[tuple[str, ...]] = ("lhs", "rhs", "acc")

    op: Literal["mma"] = "mma"
    lhs: Reference
    """The left operand."""
    rhs: Reference
    """The right operand: it shares with `lhs` the one dim that is summed over."""
    acc: Reference
    """The accumulator: f32 for floating point, i32 for 8-bit integers."""
    variant: Annotated[str, Field(pattern=r"^[a-z0-9_]{1,64}$")] | None = None
    """The matrix instruction of this product, in place of the kernel's `hardware: {mma: ...}`; absent: that one."""
    scales: tuple[Reference, Reference] | None = None
    """What the elements of `lhs` and of `rhs` are multiplied by first: f8e8m0fnu or f32, of the same dims. Those of
    blocks are read with a mapping, `at: {G: K // 32}`. Operands are bf16 or floating point of 8 bits or less, which
    need not be alike."""

    def infer(self, scope: Scope) -> ValueType | None:
        lhs, rhs, acc = (scope.value(self, operand) for operand in self.headline)
        if self.scales is not None:
            self._check_scales(scope, lhs, rhs, acc)
        elif lhs and rhs:
            self._check_dtypes(scope, lhs, rhs, acc)
        if lhs and rhs and acc:
            self._check_dims(scope, lhs, rhs, acc)
        return acc

    def _check_dtypes(self, scope: Scope, lhs: ValueType, rhs: ValueType, acc: ValueType | None) -> None:
        if lhs.dtype != rhs.dtype:
            found = f"{quote(self.lhs)} is {lhs.dtype} and {quote(self.rhs)} is {rhs.dtype}"
            message = f"'mma' multiplies operands of one dtype; {found}."
            scope.report(DtypeMismatch(self.where("rhs"), message, about=[self.lhs, self.rhs]))
            return
        expected = ACCUMULATORS.get(lhs.dtype)
        if expected is None:
            scope.report(NoMatrixProduct(self.where("lhs"), lhs.dtype))
        elif acc and acc.dtype != expected:
            message = f"{quote(self.acc)} is {acc.dtype}; a product of {lhs.dtype} is summed in {expected}."
            scope.report(DtypeMismatch(self.where("acc"), message, about=[self.acc]))

    def _check_scales(self, scope: Scope, lhs: ValueType | None, rhs: ValueType | None, acc: ValueType | None) -> None:
        assert self.scales is not None
        for number, (field, operand) in enumerate((("lhs", lhs), ("rhs", rhs))):
            scale, name = scope.value(self, "scales", number), getattr(self, field)
            if operand and operand.dtype not in SCALED:
                message = f"'mma' scales {listing(SCALED)}; {quote(name)} is {operand.dtype}."
                scope.report(DtypeMismatch(self.where(field), message, about=[name]))
            if scale and scale.dtype not in SCALES:
                message = f"Scales are {listing(SCALES, 'or')}; {quote(self.scales[number])} is {scale.dtype}."
                scope.report(DtypeMismatch(self.where("scales", number), message, about=[self.scales[number]]))
            if scale and operand and set(scale.dims) != set(operand.dims):
                message = f"A scale of each element of {quote(name)} has the dims [{', '.join(operand.dims)}]; "
                message += f"{quote(self.scales[number])} has [{', '.join(scale.dims)}]."
                hint = "Read scales of blocks with 'dims' and a mapping, such as 'at: {G: K // 32}'."
                scope.report(
                    DimsMismatch(self.where("scales", number), message, hints=[hint], about=[name, self.scales[number]])
                )
        if acc and acc.dtype != "f32":
            message = f"{quote(self.acc)} is {acc.dtype}; a product of scaled operands is summed in f32."
            scope.report(DtypeMismatch(self.where("acc"), message, about=[self.acc]))

    def _check_dims(self, scope: Scope, lhs: ValueType, rhs: ValueType, acc: ValueType) -> None:
        shared = [dim for dim in lhs.dims if dim in rhs.dims]
        summed = [dim for dim in shared if dim not in acc.dims]
        notes = [f"{name} is {value}" for name, value in zip(map(quote, self._operands), (lhs, rhs, acc), strict=True)]
        if len(summed) != 1:
            if not shared:
                message = "The operands of 'mma' share no dim to sum over."
            elif not summed:
                message = f"'mma' sums over a dim that its operands share; 'acc' keeps {listing(shared)}."
            else:
                message = f"'mma' sums over one dim; {listing(summed)} are in both operands and not in 'acc'."
            scope.report(DimsMismatch(self.where("op"), message, notes=notes, about=self._operands))
            return
        free = {*lhs.dims, *rhs.dims} - {summed[0]}
        if free != set(acc.dims):
            expected = ", ".join(dim for dim in dict.fromkeys((*lhs.dims, *rhs.dims)) if dim in free)
            message = f"The product has the dims [{expected}]; {quote(self.acc)} has [{', '.join(acc.dims)}]."
            scope.report(DimsMismatch(self.where("acc"), message, notes=notes, about=self._operands))

    @property
    def _operands(self) -> tuple[str, str, str]:
        return self.lhs, self.rhs, self.acc
