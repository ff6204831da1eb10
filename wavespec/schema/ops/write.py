"""`write`: a value into an output tensor; and what it has in common with `atomic`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.language.dtypes import is_float
from wavespec.schema.language.names import Name, Reference
from wavespec.schema.ops.base import EffectOp, Op, Scope, TensorType, ValueType
from wavespec.schema.ops.mapping import IndexMap, check_mapping
from wavespec.schema.ops.mma import DimsMismatch, DtypeMismatch
from wavespec.schema.ops.read import Cache

Combination = Literal["add", "max", "min", "and", "or", "xor"]
OF_BITS = ("and", "or", "xor", "compare_and_swap")
"""What combines integers alone: their bits, or what is compared by them."""


class WriteToInput(WavespecError, code="write-to-input"):
    def __init__(self, where: Where, tensor: str) -> None:
        super().__init__(
            where,
            f"{quote(tensor)} is an input; only an output can be written.",
            hints=[f"Give {quote(tensor)} 'role: output' under 'tensors', or 'role: inout' to change it in place."],
        )


class NothingToCombine(WavespecError, code="nothing-to-combine"):
    def __init__(self, where: Where, tensor: str) -> None:
        super().__init__(
            where,
            f"{quote(tensor)} is an output; it holds nothing that a value could be combined with.",
            hints=[f"Give {quote(tensor)} 'role: inout' under 'tensors': the call passes what it starts from."],
        )


class CombinedInEveryStep(WavespecError, code="combined-in-every-step"):
    def __init__(self, where: Where, value: str, dim: str) -> None:
        super().__init__(
            where,
            f"{quote(value)} does not have the dim {quote(dim)} of the loop around: each step would combine it again, "
            "and how many there are depends on the tile.",
            hints=["Write it behind the loop."],
        )


class CacheOfCombined(WavespecError, code="nothing-to-stream"):
    def __init__(self, where: Where, tensor: str) -> None:
        message = f"What is combined with {quote(tensor)} is read and written where it is, in one indivisible step."
        super().__init__(where, message, hints=["Leave out 'cache'."])


class CombinedInABranch(WavespecError, code="combined-in-a-branch"):
    def __init__(self, where: Where, value: str, dim: str) -> None:
        super().__init__(
            where,
            f"{quote(value)} does not have the dim {quote(dim)}, on which the branch around depends: it is one for all "
            f"of {quote(dim)}, and the branch is taken for a part.",
            hints=["Write it outside of the branch, or combine a value that has the dim."],
        )


class Written(Op):
    """What changes a tensor: a value, the tensor, and a place in it for each element of the value."""

    value: Reference
    to: Name
    at: IndexMap

    @property
    def combination(self) -> str:
        """How an element becomes one of what the tensor holds and the value; empty where the value replaces that."""
        raise NotImplementedError

    def infer_written(self, scope: Scope) -> ValueType | None:
        """Check everything that is written; the type of its value, where it fits."""
        value, tensor = scope.value(self, "value"), scope.tensor(self, "to")
        if tensor is None:
            return None
        if tensor.role == "input":
            scope.report(WriteToInput(self.where("to"), self.to))
        else:
            scope.write(self, "to")
        if self.combination:
            self._check_combination(tensor, value, scope)
        if value is None:
            return None
        if self.at and not check_mapping(self, tensor.shape, self.to, self.at, value.dims, scope):
            return None
        if not self.at and value.dims != tensor.shape:
            mine, theirs = ", ".join(value.dims), ", ".join(tensor.shape)
            message = f"{quote(self.value)} has the dims [{mine}]; {quote(self.to)} has [{theirs}]."
            turned = f"Turn it first: '- name: {{take: {self.value}, dims: [{theirs}]}}'."
            hints = [turned] if sorted(value.dims) == sorted(tensor.shape) else []
            scope.report(DimsMismatch(self.where("value"), message, hints=hints, about=[self.value, self.to]))
            return None
        if value.dtype != tensor.dtype:
            message = f"{quote(self.value)} is {value.dtype}; {quote(self.to)} is {tensor.dtype}."
            hints = [f"Convert it first: '- name: {tensor.dtype}({self.value})'."]
            scope.report(DtypeMismatch(self.where("value"), message, hints=hints, about=[self.value, self.to]))
            return None
        return value

    def _check_combination(self, tensor: TensorType, value: ValueType | None, scope: Scope) -> None:
        if tensor.role == "output":
            scope.report(NothingToCombine(self.where("combine"), self.to))
        if tensor.dtype == "bool" or (self.combination in OF_BITS and is_float(tensor.dtype)):
            numbers = "integers" if self.combination in OF_BITS else "numbers"
            message = f"{quote(self.combination)} combines {numbers}; {quote(self.to)} is {tensor.dtype}."
            scope.report(DtypeMismatch(self.where("combine"), message, about=[self.to]))
        for dim in scope.loops():
            if value is not None and dim not in value.dims:
                scope.report(CombinedInEveryStep(self.where("value"), self.value, dim))
        for dim in scope.conditions():
            if value is not None and dim not in (*value.dims, *scope.loops()):
                scope.report(CombinedInABranch(self.where("value"), self.value, dim))


class Write(Written, EffectOp):
    """Writes a value to a tensor of the same dims and dtype.

    An index mapping, `at`, says which element of the tensor each element of the value becomes. With `combine`, a value
    does not replace what the tensor holds, but is combined with it, each element in one indivisible step.
    """

    word: ClassVar[str] = "write"
    headline: ClassVar[tuple[str, ...]] = ("value",)

    op: Literal["write"] = "write"
    value: Reference
    """The value to write."""
    to: Name
    """The output tensor."""
    at: IndexMap = Field(default_factory=dict)
    """Dim of the tensor: index of the element, written as in `read`; with it, dims may have any order. What lies
    outside the tensor is not written. An element that no element of the value becomes is left as it is: 0 in a result
    that the call makes, where values say what is written. One that several become has one of them, or, with `combine`,
    all of them combined."""
    combine: Combination | None = None
    """`add`, `max` or `min`, and of integers the bits `and`, `or` or `xor`: of a tensor with `role: inout`, what it
    holds and the value. In which order elements are combined that several elements of the value become, nobody knows:
    sums of floating point may differ in their last places from call to call."""

    cache: Annotated[Cache | None, Field(exclude_if=lambda value: value is None)] = None
    """`streaming`: what is written is not read soon, and need not stay in caches; it changes no result."""

    @property
    def combination(self) -> str:
        return self.combine or ""

    def infer(self, scope: Scope) -> ValueType | None:
        if self.cache and self.combine:
            scope.report(CacheOfCombined(self.where("cache"), self.to))
        self.infer_written(scope)
        return None
