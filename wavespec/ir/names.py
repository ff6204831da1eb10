"""What symbols and memories of a kernel are called, so that no name of a spec meets one that the compiler makes.

A symbol that a pass makes begins with a lower-case letter (`lane`, `wg0`, `at_K`) or belongs to a dim (`M.start`).  The
size of a dim is a symbol of the dim's own name, and where that does not begin with an upper-case letter it is `m.size`:
no name of a spec has a dot, nor has an expression of a shape, `K // 2`, which is the name of a dim as well.  That of a
scalar is `eps.scalar`.  Memories other than tensors have one as well: `a.shared`.
"""

from __future__ import annotations

import re
from functools import cache

_OF_SIZE = ".size"
_OF_SCALAR = ".scalar"
_WAVE = "wave_"
_OPERAND = "value."
_DIM = re.compile(r"[A-Za-z0-9(-][^.]*")
_PLAIN = re.compile(r"[A-Za-z_][\w.]*")


@cache
def name_text(name: str) -> str:
    """A name as it is printed in IR: between backquotes where it is an expression of a shape, or has one in it."""
    return name if _PLAIN.fullmatch(name) else f"`{name}`"


def size_name(dim: str) -> str:
    """The symbol of the size of ``dim``."""
    return dim if dim[0].isupper() else f"{dim}{_OF_SIZE}"


def dim_of_size(symbol: str) -> str:
    """The dim of which ``symbol`` is the size; empty for any other symbol."""
    dim = symbol.removesuffix(_OF_SIZE)
    return dim if _DIM.fullmatch(dim) and size_name(dim) == symbol else ""


def scalar_name(scalar: str) -> str:
    """The symbol of the number that a call passes as ``scalar``."""
    return f"{scalar}{_OF_SCALAR}"


def scalar_of(symbol: str) -> str:
    """The scalar of which ``symbol`` is the number; empty for any other symbol."""
    return symbol.removesuffix(_OF_SCALAR) if symbol.endswith(_OF_SCALAR) else ""


def operand_name(number: int) -> str:
    """What one access with a mapping calls what its operand of that number holds."""
    return f"{_OPERAND}{number}"


def is_operand(symbol: str) -> bool:
    """Whether ``symbol`` means something to one operation alone, and to the next something else."""
    return symbol.startswith(_OPERAND)


def wave_name(dim: str) -> str:
    """The symbol of the place of a wave along ``dim``."""
    return f"{_WAVE}{dim}"


def dim_of_wave(symbol: str) -> str:
    """The dim along which ``symbol`` places a wave; empty for symbols that tell waves apart in another way."""
    return symbol.removeprefix(_WAVE) if symbol.startswith(_WAVE) else ""
