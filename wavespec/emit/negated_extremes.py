"""PTX in, PTX out: negations that `ptxas` would lose are said in another way.

Of ``max(max(a, -b), c)`` in 32-bit integers with a sign, and of ``min`` likewise, it makes one instruction for three
operands on ``sm_90`` (``VIMNMX3``), with the negation folded into the second one, which has no such modifier: what is
compared is ``b``.  Measured on an H200, of `ptxas` 13.0 at every level of optimisation but 0, and of the driver's
compiler.  The complement and one more is the same number, and stays an operation of its own.
"""

from __future__ import annotations

import re

_NEGATION = re.compile(r"^(?P<guard>\s*(?:@!?%p\d+\s+)?)neg\.s32\s+(?P<result>%\w+), (?P<operand>%\w+);", re.MULTILINE)
_EXTREME = re.compile(r"(?:max|min)\.s32\s+%\w+, ([^;]+);")
_COPY = re.compile(r"(?:mov\.b32|selp\.b32)\s+(%\w+), ([^;]+);")
_REGISTER = re.compile(r"%r\d+")


def negated_apart(ptx: str) -> str:
    """``ptx`` with ``neg.s32`` as ``not.b32`` and ``add.s32`` where an extreme takes what it makes, at once or copied."""
    compared = {register for operands in _EXTREME.findall(ptx) for register in _REGISTER.findall(operands)}
    copies = [(result, set(_REGISTER.findall(operands))) for result, operands in _COPY.findall(ptx)]
    known = 0
    while known != len(compared):
        known = len(compared)
        compared.update(*(operands for result, operands in copies if result in compared))

    def apart(found: re.Match[str]) -> str:
        if found["result"] not in compared:
            return found[0]
        guard, result = found["guard"], found["result"]
        return f"{guard}not.b32 \t{result}, {found['operand']};\n{guard}add.s32 \t{result}, {result}, 1;"

    return _NEGATION.sub(apart, ptx)
