"""What every pass shares: a kernel and a machine in, a kernel out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

from wavespec.ir.comparing import is_same
from wavespec.ir.kernel import Kernel, Value
from wavespec.ir.verifier import VerificationError, verify
from wavespec.lower import contracts
from wavespec.lower.contracts import Property
from wavespec.targets.machine import Machine


class Pass:
    """One rewriting of the kernel.  Subclasses set `name` and write `apply`, and `applies_to` where machines are left
    out; a class docstring says before and after, and what of that can be checked stands in the contract."""

    name: ClassVar[str]
    requires: ClassVar[tuple[Property, ...]] = ()
    """What the kernel has to have; earlier passes ensure it."""
    ensures: ClassVar[tuple[Property, ...]] = ()
    """What it has from here on, until a pass drops it."""
    drops: ClassVar[tuple[Property, ...]] = ()
    """What it may no longer have."""

    def applies_to(self, machine: Machine) -> bool:
        """Whether there is anything to do for a machine, whatever the kernel; else the pass is skipped."""
        del machine
        return True

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        """The rewritten kernel; user mistakes raise `WavespecError`."""
        raise NotImplementedError

    def holding(self, held: tuple[Property, ...], machine: Machine) -> tuple[Property, ...]:
        """What a kernel has after the pass that had ``held`` before."""
        if not self.applies_to(machine):
            return held
        return tuple(dict.fromkeys((*(one for one in held if one not in self.drops), *self.ensures)))

    def __call__(self, kernel: Kernel, machine: Machine, held: tuple[Property, ...] = ()) -> Kernel:
        """The rewritten kernel; ``kernel`` itself where the pass changes nothing of it.

        Where contracts are checked, it is verified, and has what the pass ensures and what it is known to have had
        (``held``).
        """
        if not self.applies_to(machine):
            return kernel
        checked = contracts.are_checked()
        if checked:
            unknown = [one for one in self.requires if one not in held]
            contracts.check(kernel, machine, unknown, f"before pass '{self.name}', which requires it")
        result = self.apply(kernel, machine)
        if is_same(kernel, result):
            result = kernel
        elif checked:
            try:
                verify(result, kernel)
            except VerificationError as error:
                raise VerificationError(f"after pass '{self.name}': {error}") from None
        if checked:
            known = held if result is kernel else ()
            left = [one for one in self.holding(held, machine) if one not in known]
            contracts.check(result, machine, left, f"after pass '{self.name}'")
        return result


def written_name(kernel: Kernel, value: Value) -> str:
    """What the spec calls a value, for messages: ``acc.1`` is another ``acc``, and the result of a loop has a dot."""
    name = value.name.split(".")[0]
    for op in kernel.walk():
        for argument in op.region.arguments if op.region else ():
            carried = argument.name.split(".")[0]
            if name == f"{op.node}_{carried}":
                return f"{op.node}.{carried}"
    return name


def _names(kernel: Kernel) -> Iterator[str]:
    """Of everything that operations define, and of the symbols."""
    for op in kernel.walk():
        for value in op.results:
            yield value.name
        for argument in op.region.arguments if op.region else ():
            yield argument.name
    for known in kernel.symbols:
        yield from known.symbols


def fresh_names(kernel: Kernel) -> Callable[[str], str]:
    """A function that makes names not yet used for values or symbols of ``kernel``: ``acc``, ``acc.1``, ..."""
    used = set[str]()  # of all operations, looked up when the first name is wanted: many passes want none
    counters: dict[str, int] = {}

    def fresh(hint: str) -> str:
        if not counters:
            used.update(_names(kernel))
        hint = hint.split(".")[0]
        name, number = hint, counters.get(hint, 0)
        while name in used:
            number += 1
            name = f"{hint}.{number}"
        counters[hint] = number
        used.add(name)
        return name

    return fresh
