"""Mistakes to put into right kernels: each is a function from operation to operations."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Op, rewrite

Change = Callable[[Op], tuple[Op, ...]]
Bug = Callable[[Kernel], Kernel]


def matches(op: Op, name: str, wanted: dict[str, object]) -> bool:
    return op.name == name and all(op.get(key) == value for key, value in wanted.items())


def planted(change: Change) -> Bug:
    return lambda kernel: replace(kernel, body=rewrite(kernel.body, change))


def dropped(name: str, nth: int | None = None, **wanted: object) -> Bug:
    """All operations of a name, or the nth of them, are left out."""

    def bug(kernel: Kernel) -> Kernel:
        count = itertools.count()

        def change(op: Op) -> tuple[Op, ...]:
            return () if matches(op, name, wanted) and (nth is None or next(count) == nth) else (op,)

        return planted(change)(kernel)

    return bug


def altered(name: str, attribute: str, new: Callable[[Any], object], **wanted: object) -> Bug:
    """An attribute of all operations of a name is another."""

    def change(op: Op) -> tuple[Op, ...]:
        return (op.with_(**{attribute: new(op[attribute])}) if matches(op, name, wanted) else op,)

    return planted(change)


def for_itself_only(name: str) -> Bug:
    """What should happen in every workgroup of a cluster happens in one."""
    return altered(name, "everywhere", lambda _: False, everywhere=True)


def sent_to(name: str, workgroup: int, **wanted: object) -> Bug:
    """What goes to several workgroups of a cluster goes to one, as often."""
    return altered(name, "receiver", lambda _: const(workgroup), **wanted)


def with_arrivals(name: str, arrivals: int) -> Bug:
    """A signal is complete after another number of arrivals."""

    def bug(kernel: Kernel) -> Kernel:
        memories = (replace(m, arrivals=arrivals) if m.name == name else m for m in kernel.memories)
        return replace(kernel, memories=tuple(memories))

    return bug


def swapped_operands(name: str) -> Bug:
    """The first two operands are the other way round."""

    def change(op: Op) -> tuple[Op, ...]:
        if op.name != name:
            return (op,)
        a, b, *rest = op.operands
        return (replace(op, operands=(b, a, *rest)),)

    return planted(change)


def unswizzled(name: str, attribute: str = "offset", **wanted: object) -> Bug:
    """Chunks of shared memory are accessed where they would lie without a swizzle: ``xor(a, b)`` becomes ``a``."""

    def plain(offset: Expr) -> Expr:
        for node in {node for node in offset.walk() if node.kind == "xor"}:
            rest, scale = offset, 1
            for coefficient, term in offset.terms():
                if term == node:
                    rest, scale = offset - node * coefficient, coefficient
            offset = rest + min(node.args, key=lambda argument: len(argument.symbols)) * scale
        return offset

    return altered(name, attribute, plain, **wanted)


def off_by_one(name: str, **wanted: object) -> Bug:
    """The first bound of every mask is one too large."""

    def wider(mask: tuple[tuple[Expr, Expr], ...]) -> tuple[tuple[Expr, Expr], ...]:
        return tuple((left, right + (1 if place == 0 else 0)) for place, (left, right) in enumerate(mask))

    return altered(name, "mask", wider, **wanted)
