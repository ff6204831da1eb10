"""Passes on kernels as text: what a kernel is declared to be and its operations in, operations that a pass makes out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from textwrap import dedent, indent

from wavespec.ir.kernel import Kernel
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.ir.verifier import verify
from wavespec.lower.base import Pass
from wavespec.targets.machine import Machine


@dataclass(frozen=True, slots=True)
class Text:
    """What stands above the operations of some kernels: symbols, distribution, memories."""

    head: str

    def kernel(self, body: str) -> Kernel:
        """The verified kernel with these operations."""
        lines = indent(dedent(body).strip("\n"), "  ")
        kernel = parse_kernel(f"{dedent(self.head).strip()}\n{{\n{lines}\n}}\n")
        verify(kernel)
        return kernel

    def after(self, one: Pass, machine: Machine, body: str) -> str:
        """The operations that a pass makes of these; its contract is checked."""
        return body_text(one(self.kernel(body), machine))

    def changed(self, *changes: tuple[str, str]) -> Text:
        """The same with words of the head replaced, each of which has to be there."""
        head = self.head
        for old, new in changes:
            assert old in head, f"'{old}' is not in the head"
            head = head.replace(old, new)
        return replace(self, head=head)


def body_text(kernel: Kernel) -> str:
    """The operations of a kernel as text, a line each, between line breaks."""
    text = print_kernel(kernel)
    return f"\n{dedent(text[text.index('{' + chr(10)) + 2 : text.rindex('}')])}"


def lines(text: str) -> str:
    """What is expected of `Text.after`, written with any indentation."""
    return f"\n{dedent(text).strip()}\n"


ROWS = Text("""
    tile kernel @rows target sm_90 lanes 32
    symbol M in 0..4096 by 1
    symbol N in 0..4096 by 1
    symbol wg0 in 0..1023 by 1
    symbol at_N in 0..4032 by 64
    split workgroup M 4 0
    split loop N 64 0
    plan "auto" stages 1 group 0
    grid [(M + 3)//4]
    memory @x : f32 (M: [M], N: [N]) global input
    memory @y : f32 (M: [M]) global output
""")
"""Rows of a matrix, each to become a number, in tiles of 4 rows and 64 columns."""
