"""Results of a kernel that looks at assertions and places go in; what does not hold, and where, comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from torch import Tensor

from wavespec.cli.measure import written_by
from wavespec.diagnostics import Diagnostic, WavespecError, Where, quote
from wavespec.runtime.kernel import Kernel
from wavespec.schema.assertions import Asserted, with_assertions
from wavespec.schema.bounds_checks import Checked, CheckedPlace, with_bounds_checks
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.ops import Assert, Take, Write, Written


class AssertionFailed(WavespecError, code="assertion-failed"):
    """What an `assert` says does not hold for some elements."""

    def __init__(self, op: Assert, failed: Tensor, dims: Sequence[str]) -> None:
        notes = [f"Its message: {quote(op.message)}."] if op.message else []
        super().__init__(op.where("value"), f"{quote(op.value)} does not hold{_elements(failed, dims)}.", notes=notes)


class OutsideOfTensor(WavespecError, code="outside-of-tensor"):
    """A place that data say is not in the tensor."""

    def __init__(self, place: CheckedPlace, outside: Tensor, dims: Sequence[str], size: int) -> None:
        super().__init__(*_said(place, outside, dims, size), notes=[_meaning(place)])


class PaddedAccess(WavespecError, code="outside-of-tensor", severity="warning"):
    """A place that indices and sizes say is not in the tensor: padding, or a mistake."""

    def __init__(self, place: CheckedPlace, outside: Tensor, dims: Sequence[str], size: int) -> None:
        notes = [f"{_meaning(place)} Indices and sizes alone say that it is there: padding, if that is meant."]
        super().__init__(*_said(place, outside, dims, size), notes=notes)


class BoundsNotChecked(WavespecError, code="bounds-not-checked", severity="warning"):
    """A place of which nothing says whether it is inside."""

    def __init__(self, place: CheckedPlace, why: str) -> None:
        text = f"The place along {quote(place.dim)} of {quote(place.within)} is not checked: {why}."
        super().__init__(place.op.where("at", place.dim), text)


class Watching(NamedTuple):
    """A spec that writes where assertions fail, and which places are outside."""

    asserted: Asserted
    checked: Checked

    @property
    def spec(self) -> KernelSpec:
        return self.checked.spec

    @property
    def further(self) -> int:
        """How many outputs it has behind those of the spec that it was made of."""
        return len(self.asserted.outputs) + len(self.checked.outputs)

    def summary(self, found: Sequence[Diagnostic]) -> dict[str, int]:
        """How many places were looked at, how many are outside somewhere, and how many nobody looked at."""
        outside = sum(one.code == OutsideOfTensor.code for one in found)
        return {"checked": len(self.checked.outputs), "outside": outside, "unchecked": len(self.checked.unchecked)}


class LookedAt(NamedTuple):
    """The kernel of a spec that looks at what it does; none where there is nothing to look at."""

    watching: Watching
    kernel: Kernel | None


def watching(spec: KernelSpec, *, are_checked: bool, of_data_alone: bool = False) -> Watching:
    """The spec with outputs for assertions, and for places where ``are_checked``: all, or those that depend on data.

    Raises:
        WavespecError: a kernel for that cannot be.
    """
    asserted = with_assertions(spec)
    if not are_checked:
        return Watching(asserted, Checked(asserted.spec, {}, ()))
    return Watching(asserted, with_bounds_checks(asserted.spec, of_data_alone=of_data_alone))


def failures(looked: Watching, results: Sequence[Tensor] | None, sizes: Mapping[str, int]) -> list[Diagnostic]:
    """What does not hold in ``results``, which are in the order of `written_by`, and what nothing says; none where
    nothing was looked at."""
    found: list[Diagnostic] = []
    for name, result in () if results is None else zip(written_by(looked.spec), results, strict=True):
        op, place = looked.asserted.outputs.get(name), looked.checked.outputs.get(name)
        if (op or place) and result.any():
            result, dims = result.cpu(), looked.spec.tensors[name].shape
            if op is not None:
                found += AssertionFailed(op, result, dims).diagnostics
            if place is not None:
                kind = OutsideOfTensor if place.is_data else PaddedAccess
                found += kind(place, result, dims, sizes[place.dim]).diagnostics
    for place, why in looked.checked.unchecked:
        found += BoundsNotChecked(place, why).diagnostics
    return found


def _elements(failed: Tensor, dims: Sequence[str]) -> str:
    """How many elements of a tensor are not 0, and which is the first."""
    first = ", ".join(f"{dim} = {place}" for dim, place in zip(dims, _first(failed), strict=True))
    return f" for {int(failed.count_nonzero())} of {failed.numel()} elements, the first at {first}" if dims else ""


def _first(failed: Tensor) -> list[int]:
    places = cast("list[list[int]]", failed.nonzero().tolist())  # pyright: ignore[reportUnknownMemberType]
    return places[0]


def _said(place: CheckedPlace, outside: Tensor, dims: Sequence[str], size: int) -> tuple[Where, str]:
    """Where a place is in the spec, and what is said of it."""
    value = int(outside[tuple(_first(outside))])
    at = value if value < 0 else value - 1
    done = "written" if isinstance(place.op, Write) else "combined" if isinstance(place.op, Written) else "read"
    text = (
        f"{quote(place.within)} is {done} outside of {quote(place.dim)}{_elements(outside, dims)}: "
        f"{quote(str(place.op.at[place.dim]))} is {at}, and there are {size}."
    )
    return place.op.where("at", place.dim), text


def _meaning(place: CheckedPlace) -> str:
    """What an access does there."""
    match place.op:
        case Write(combine=None):
            return "What lies outside is not written."
        case Write():
            return "What lies outside is not combined."
        case Written():
            return "What lies outside is not combined, and its old value is 0."
        case _:
            return f"What lies outside of the {'value' if isinstance(place.op, Take) else 'tensor'} is 0."
