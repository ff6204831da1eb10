"""`until` of a loop: the condition that ends it early, and what can be wrong with one."""

from __future__ import annotations

from collections.abc import Mapping

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.language.expressions import Expression
from wavespec.schema.ops.base import Scope, ValueType
from wavespec.schema.ops.branch import NoCondition
from wavespec.schema.ops.structured import Structured


class UntilUnchanged(WavespecError, code="until-unchanged"):
    def __init__(self, where: Where, condition: str, carried: str) -> None:
        super().__init__(
            where,
            f"No step changes whether {quote(condition)} holds: it names nothing that the loop carries.",
            hints=[
                f"Compare what steps change, such as {quote(carried)}." if carried else "Carry an integer to compare."
            ],
        )


class EndsApart(WavespecError, code="ends-apart"):
    def __init__(self, where: Where, name: str, dim: str) -> None:
        super().__init__(
            where,
            f"Elements along {quote(dim)} end the loop apart, and {quote(name)} does not have that dim: it would have "
            "a value for each of them.",
            hints=[f"Give the value that it starts from the dim {quote(dim)}."],
        )


def check_until(op: Structured, until: Expression, first: Mapping[str, ValueType | None], scope: Scope) -> None:
    """Report what is wrong with `until` of a loop whose carried values have the types `first`."""
    if not until.is_condition:
        scope.report(NoCondition(op.where("until"), str(until)))
    scope.place(op, "until", carried=first)
    if all(name not in first and _is_known(name, scope) for name in until.names()):
        numbers = (name for name, known in first.items() if known and known.dtype.startswith(("i", "u")))
        scope.report(UntilUnchanged(op.where("until"), str(until), next(numbers, "")))
    types = (first[name] if name in first else scope.type_of(name) for name in until.names())
    dims = dict.fromkeys(dim for known in types if known for dim in known.dims)
    for name, known in first.items():
        lacking = [dim for dim in dims if known and dim not in known.dims]
        if lacking:
            scope.report(EndsApart(op.where("carry", name), name, lacking[0]))


def _is_known(name: str, scope: Scope) -> bool:
    return scope.is_dim(name) or scope.is_value(name) or scope.param(name) is not None
