"""The ops of a graph, one file each: YAML form, fields, type rule. A new op is a file, and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from wavespec.schema.ops.base import EffectOp, Op, Scope, ValueOp, ValueType
from wavespec.schema.ops.iterate import Iterate
from wavespec.schema.ops.mma import Mma
from wavespec.schema.ops.read import Read
from wavespec.schema.ops.register import Register
from wavespec.schema.ops.write import Write

__all__ = [
    "OPS",
    "AnyOp",
    "EffectOp",
    "Iterate",
    "Mma",
    "Op",
    "Read",
    "Register",
    "Scope",
    "ValueOp",
    "ValueType",
    "Write",
]

AnyOp = Annotated[Register | Read | Mma | Iterate | Write, Field(discriminator="op")]

OPS: Mapping[str, type[Op]] = {op.word: op for op in (Register, Read, Mma, Iterate, Write)}
"""Word of the language: its op."""

Iterate.model_rebuild(_types_namespace={"AnyOp": AnyOp})
