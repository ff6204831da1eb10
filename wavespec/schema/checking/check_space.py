"""A tensor and the space that it, or a target for it, asks for go in; why the space is none for it comes out."""

from __future__ import annotations

from collections.abc import Iterator

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.language.models import Tensor


class NothingToStage(WavespecError, code="nothing-to-stage"):
    def __init__(self, where: Where, tensor: str) -> None:
        message = f"{quote(tensor)} is a single number, which shared memory has no tiles of."
        super().__init__(where, message, hints=["Leave out 'space'."])


class NothingToStream(WavespecError, code="nothing-to-stream"):
    def __init__(self, where: Where, tensor: str, role: str) -> None:
        message = f"{quote(tensor)} has the role '{role}'; stores that pass the caches by are those of outputs."
        super().__init__(where, message, hints=["Leave out 'space'."])


def check_space(tensor: Tensor, space: str, where: Where, name: str) -> Iterator[WavespecError]:
    """``name`` is that of `tensor`; ``space`` is written at ``where``."""
    if space == "shared" and not tensor.shape:
        yield NothingToStage(where, name)
    if space == "streamed" and tensor.role != "output":
        yield NothingToStream(where, name, tensor.role)
