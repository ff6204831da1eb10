"""The ops of a graph, one file each: YAML form, fields, type rule.

A new op is a file, and a line here; a new elementwise function is a row in `elementwise.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Field

from wavespec.schema.ops.argmax import ARG_REDUCE, ARG_REDUCTIONS, ArgReduce
from wavespec.schema.ops.assertion import Assert
from wavespec.schema.ops.atomic import Atomic
from wavespec.schema.ops.base import EffectOp, Op, Scope, ValueOp, ValueType
from wavespec.schema.ops.bitcast import Bitcast
from wavespec.schema.ops.branch import Branch
from wavespec.schema.ops.cast import Cast
from wavespec.schema.ops.debug import Debug
from wavespec.schema.ops.elementwise import (
    ELEMENTWISE,
    FUNCTIONS,
    Binary,
    Choice,
    Elementwise,
    Function,
    Range,
    Ternary,
    Unary,
)
from wavespec.schema.ops.formula import Formula
from wavespec.schema.ops.index import Index
from wavespec.schema.ops.iterate import Iterate
from wavespec.schema.ops.joined import Joined, ReduceBy, ScanBy
from wavespec.schema.ops.mma import Mma
from wavespec.schema.ops.random import Random
from wavespec.schema.ops.read import Read
from wavespec.schema.ops.reduce import REDUCE, REDUCTIONS, Reduce, Reduction
from wavespec.schema.ops.register import Register
from wavespec.schema.ops.repeat import Repeat
from wavespec.schema.ops.scan import SCAN, SCANS, Scan
from wavespec.schema.ops.size import Size
from wavespec.schema.ops.structured import Structured, every, walk
from wavespec.schema.ops.take import Take
from wavespec.schema.ops.topk import Topk
from wavespec.schema.ops.write import Write, Written

__all__ = [
    "ARG_REDUCTIONS",
    "FUNCTIONS",
    "OPS",
    "REDUCTIONS",
    "SCANS",
    "AnyOp",
    "ArgReduce",
    "Assert",
    "Atomic",
    "Binary",
    "Bitcast",
    "Branch",
    "Cast",
    "Choice",
    "Debug",
    "EffectOp",
    "Elementwise",
    "Formula",
    "Function",
    "Index",
    "Iterate",
    "Joined",
    "Mma",
    "Op",
    "Random",
    "Range",
    "Read",
    "Reduce",
    "ReduceBy",
    "Reduction",
    "Register",
    "Repeat",
    "Scan",
    "ScanBy",
    "Scope",
    "Size",
    "Structured",
    "Take",
    "Ternary",
    "Topk",
    "Unary",
    "ValueOp",
    "ValueType",
    "Write",
    "Written",
    "every",
    "walk",
]

_MODELS: tuple[type[Op], ...] = (
    Register,
    Index,
    Size,
    Random,
    Read,
    Take,
    Mma,
    Iterate,
    Repeat,
    Branch,
    ScanBy,
    ReduceBy,
    Cast,
    Bitcast,
    *ELEMENTWISE,
    *REDUCE,
    *SCAN,
    *ARG_REDUCE,
    Topk,
    Formula,
    Write,
    Atomic,
    Debug,
    Assert,
)

if TYPE_CHECKING:
    AnyOp = (
        Register
        | Index
        | Size
        | Random
        | Read
        | Take
        | Mma
        | Iterate
        | Repeat
        | Branch
        | ScanBy
        | ReduceBy
        | Cast
        | Bitcast
        | Unary
        | Binary
        | Ternary
        | Range
        | Choice
        | Reduce
        | Scan
        | ArgReduce
        | Topk
        | Formula
        | Write
        | Atomic
        | Debug
        | Assert
    )
else:
    AnyOp = Annotated[Union[_MODELS], Field(discriminator="op")]  # noqa: UP007 - the models come from a table

OPS: Mapping[str, type[Op]] = {op.word: op for op in _MODELS}
"""Word of the language: its op."""

for _structured in (Iterate, Repeat, Branch, ScanBy, ReduceBy):
    _structured.model_rebuild(_types_namespace={"AnyOp": AnyOp})
