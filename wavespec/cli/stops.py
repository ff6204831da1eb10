"""`--break` and what selects beside it in; where the simulator stops, and a table of what lanes have there, out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from wavespec.cli.simulate import Simulator
from wavespec.diagnostics import WavespecError, enumeration, name_hints, quote
from wavespec.ir.kernel import Kernel, Op
from wavespec.sim.stops import Registers, Stop, StopAt
from wavespec.sim.workgroup import coordinate

_MOST_LANES, _MOST_NUMBERS, _MOST_LISTED = 8, 8, 24


class NoSuchPlace(WavespecError, code="no-such-place"):
    """There is nothing to stop behind: what a line or a node says became part of something else, or is not there."""

    def __init__(self, place: str, kernels: Sequence[Kernel], file: str) -> None:
        ops = [op for kernel in kernels for op in kernel.walk()]
        lines = sorted({op.span.line for op in ops if op.span and op.span.file == file})
        nodes = sorted({op.node for op in ops if op.node})
        what = f"line {place}" if place.isdecimal() else f"a node {quote(place)}"
        hints = name_hints(place, nodes, "The nodes are") if not place.isdecimal() else ()
        shown = enumeration(map(str, lines[:_MOST_LISTED])) + (" …" if len(lines) > _MOST_LISTED else "")
        super().__init__(
            f"--break {place}",
            f"No operation of the kernel comes from {what}.",
            hints=hints or (f"Lines with operations are {shown}.",),
        )


class NotReached(WavespecError, code="not-reached"):
    """The lanes that are asked for do not come by so often."""

    def __init__(self, at: BreakAt, passed: Sequence[int]) -> None:
        often = f"at most {max(passed)} times" if passed else "not at all"
        message = f"The waves of workgroup {at.workgroup} come by {quote(at.place)} {often}."
        super().__init__(f"--step {at.step}", message, hints=["Steps count from 0."] if passed else [])


class NoSuchKernel(WavespecError, code="no-such-kernel"):
    """A call runs no kernel of that name."""

    def __init__(self, name: str, kernels: Sequence[Kernel]) -> None:
        hints = name_hints(name, [one.name for one in kernels], "It runs")
        super().__init__("--kernel", f"A call of these sizes runs no kernel {quote(name)}.", hints=hints)


class NotInKernel(WavespecError, code="not-in-kernel"):
    """A workgroup, wave or lane that the kernel does not have."""

    def __init__(self, option: str, number: int, what: str, count: int) -> None:
        has = f"{count} {what}s, counted from 0" if count != 1 else f"one {what}, 0"
        super().__init__(f"{option} {number}", f"The kernel has {has}.")


@dataclass(frozen=True, slots=True)
class BreakAt:
    """The options: a ``place`` is a line of the spec or a node; no ``wave`` or ``lane``: all, as many as one reads; no
    ``kernel``: the last one that has the place."""

    place: str
    step: int = 0
    workgroup: int = 0
    wave: int | None = None
    lane: int | None = None
    kernel: str = ""

    def stop_at(self, simulator: Simulator, sizes: dict[str, int]) -> StopAt:
        """Where a call of these sizes stops.

        Raises:
            WavespecError: nowhere, as the kernel has no such place.
        """
        kernels = simulator.kernels(sizes)
        number, matches = self._found(kernels, simulator.file)
        kernel = kernels[number]
        limits = (
            ("--workgroup", self.workgroup, "workgroup", simulator.workgroups(sizes, number)),
            ("--wave", self.wave, "wave", kernel.threads // kernel.lanes),
            ("--lane", self.lane, "lane", kernel.lanes),
        )
        for option, asked, what, count in limits:
            if asked is not None and asked >= count:
                raise NotInKernel(option, asked, what, count)
        return StopAt(kernel, matches, self.step, self.workgroup)

    def ends_in(self, simulator: Simulator, sizes: dict[str, int]) -> int:
        """The number of the kernel that a call of these sizes stops in; errors as in `stop_at`."""
        return self._found(simulator.kernels(sizes), simulator.file)[0]

    def _found(self, kernels: Sequence[Kernel], file: str) -> tuple[int, Callable[[Op], bool]]:
        chosen = [number for number, one in enumerate(kernels) if self.kernel in ("", one.name)]
        if not chosen:
            raise NoSuchKernel(self.kernel, kernels)
        for matches in self._meanings(file):
            for number in reversed(chosen):
                if any(matches(op) for op in kernels[number].walk()):
                    return number, matches
        raise NoSuchPlace(self.place, [kernels[number] for number in chosen], file)

    def _meanings(self, file: str) -> Iterator[Callable[[Op], bool]]:
        """The line; or the node, and what schedules call its parts where it has no operation of its own."""
        if self.place.isdecimal():
            line = int(self.place)
            yield lambda op: op.span is not None and op.span.line == line and op.span.file == file
        else:
            yield lambda op: op.node == self.place
            yield lambda op: op.node.startswith(f"{self.place}.")

    def seen(self, stop_at: StopAt) -> list[Stop]:
        """The stops of the waves that are asked for, by their numbers.

        Raises:
            NotReached: there are none.
        """
        stops = sorted((stop for stop in stop_at.stops if self._waves(stop, stop_at.kernel)), key=lambda s: s.first)
        if not stops:
            raise NotReached(self, list(stop_at.passed.values()))
        return stops

    def _waves(self, stop: Stop, kernel: Kernel) -> list[int]:
        first, count = stop.first // kernel.lanes, len(stop.enabled) // kernel.lanes
        return [wave for wave in range(first, first + count) if self.wave in (None, wave)]

    def text(self, stops: Sequence[Stop], kernel: Kernel) -> str:
        """Where lanes stand, and for each wave a table of what they have."""
        lines: list[str] = []
        for stop in stops:
            counters = " ".join(f"{name}={value}" for name, value in stop.counters.items())
            where = f"'{stop.op.name}'" + (f" of '{stop.op.node}'" if stop.op.node else "")
            where += f" at {stop.op.span}" if stop.op.span else ""
            workgroup = f"workgroup {self.workgroup} of {kernel.name}"
            lines.append(f"  behind {where}, step {self.step}, {workgroup}: {counters}".rstrip(": "))
            for wave in self._waves(stop, kernel):
                start = wave * kernel.lanes - stop.first
                lines.append(f"  wave {wave}")
                if not stop.registers:
                    lines.append(f"    '{stop.op.name}' leaves nothing in registers")
                elif self.lane is None:
                    lines += _table(stop, start, kernel.lanes)
                else:
                    lines += _whole(stop, start + self.lane)
        return "\n".join(lines)

    def json(self, stops: Sequence[Stop], kernel: Kernel) -> list[dict[str, Any]]:
        """The same as data, of all lanes where none is asked for."""
        found: list[dict[str, Any]] = []
        for stop in stops:
            for wave in self._waves(stop, kernel):
                start = wave * kernel.lanes - stop.first
                lanes = range(kernel.lanes) if self.lane is None else (self.lane,)
                values = {
                    one.name: {str(lane): [_plain(value) for value in one.values[start + lane]] for lane in lanes}
                    for one in stop.registers
                }
                line = stop.op.span.line if stop.op.span else None
                place = {"kernel": kernel.name, "operation": stop.op.name, "node": stop.op.node, "line": line}
                found.append({**place, "wave": wave, "counters": dict(stop.counters), "registers": values})
        return found


def _table(stop: Stop, start: int, lanes: int) -> list[str]:
    """A row for each of the first lanes of a wave, with their first registers."""
    head, rows = ["lane"], [[str(lane)] for lane in range(min(lanes, _MOST_LANES))]
    shown, total = 0, sum(one.values.shape[1] for one in stop.registers)
    for one in stop.registers:
        count = min(one.values.shape[1], _MOST_NUMBERS - shown)
        if count <= 0:
            break
        shown += count
        columns = [one.name, *[""] * (count - 1)]
        head += [f"@{one.memory.memory.name} at", *columns] if one.memory else columns
        for lane, row in enumerate(rows):
            row += [_place(one, start + lane)] if one.memory else []
            values = one.values[start + lane, :count]
            row += [_number(value) for value in values] if stop.enabled[start + lane] else ["-"] * count
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    aligned = ("  ".join(map(str.rjust, line, widths)) for line in (head, *rows))
    table = [f"    {line}".rstrip() for line in aligned]
    left = [f"{n} more {what}" for n, what in ((lanes - len(rows), "lanes"), (total - shown, "registers")) if n]
    return [*table, *([f"    … {enumeration(left)}: '--lane N' shows one lane whole"] if left else [])]


def _whole(stop: Stop, thread: int) -> list[str]:
    """All registers of one lane."""
    if not stop.enabled[thread]:
        return ["    this lane takes no part"]
    lines: list[str] = []
    for one in stop.registers:
        place = f" (@{one.memory.memory.name} at {_place(one, thread)})" if one.memory else ""
        lines.append(f"    {one.name}{place}")
        numbers = [_number(value) for value in one.values[thread]]
        lines += [
            f"      {'  '.join(numbers[at : at + _MOST_NUMBERS])}" for at in range(0, len(numbers), _MOST_NUMBERS)
        ]
    return lines


def _place(registers: Registers, thread: int) -> str:
    memory, places = registers.memory, registers.places
    assert memory is not None and places is not None
    place = int(places[thread])
    inside = 0 <= place < memory.elements * memory.memory.buffers
    return coordinate(memory, place) if inside else "outside"


def _number(value: Any) -> str:
    plain = _plain(value)
    return f"{plain:.6g}" if isinstance(plain, float) else str(plain).lower()


def _plain(value: Any) -> float | int | bool | str:
    """The number as Python's own; JSON has no infinity."""
    kind = value.dtype.kind
    if kind == "b":
        return bool(value)
    if kind in "iu" or value.dtype.name in ("int4", "uint4"):
        return int(value)
    number = float(value)
    return number if number - number == 0 else str(number)
