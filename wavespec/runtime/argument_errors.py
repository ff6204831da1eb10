"""What is raised where a call of a kernel has wrong arguments."""

from __future__ import annotations


class ArgumentError(ValueError):
    """A wrong argument of a kernel call; the text names it, what it was and what was expected."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument that is no tensor, or a tensor of another element type."""


def counted(number: int, noun: str) -> str:
    """`1 dim`, `2 dims`."""
    return f"{number} {noun}{'s' * (number != 1)}"
