"""Results of a kernel that tells where its assertions fail go in; what does not hold, and where, comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from torch import Tensor

from wavespec.cli.measure import written_by
from wavespec.diagnostics import Diagnostic, WavespecError, quote
from wavespec.runtime.kernel import Kernel
from wavespec.schema.assertions import Asserted
from wavespec.schema.ops import Assert


class AssertionFailed(WavespecError, code="assertion-failed"):
    """What an `assert` says does not hold for some elements."""

    def __init__(self, op: Assert, failed: Tensor, dims: Sequence[str]) -> None:
        places = cast("list[list[int]]", failed.nonzero().tolist())  # pyright: ignore[reportUnknownMemberType]
        first = ", ".join(f"{dim} = {place}" for dim, place in zip(dims, places[0], strict=True))
        where = f" for {len(places)} of {failed.numel()} elements, the first at {first}" if dims else ""
        notes = [f"Its message: {quote(op.message)}."] if op.message else []
        super().__init__(op.where("value"), f"{quote(op.value)} does not hold{where}.", notes=notes)


class LookedAt(NamedTuple):
    """The kernel of a spec that writes where its assertions fail."""

    asserted: Asserted
    kernel: Kernel


def failures(asserted: Asserted, results: Sequence[Tensor]) -> list[Diagnostic]:
    """The assertions that fail in ``results``, which are in the order of `written_by`."""
    found: list[Diagnostic] = []
    for name, result in zip(written_by(asserted.spec), results, strict=True):
        op = asserted.outputs.get(name)
        if op is not None and result.any():
            found += AssertionFailed(op, result.cpu(), asserted.spec.tensors[name].shape).diagnostics
    return found
