"""Arrivals and bytes in, complete phases out: the signals that the waves of one workgroup wait for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from wavespec.ir.kernel import Op
from wavespec.sim.clocks import Clocks, Knowledge
from wavespec.sim.elements import Integers
from wavespec.sim.findings import FindingList


@dataclass(slots=True)
class Signal:
    """One signal: a phase is complete when ``pending`` arrivals and ``bytes`` of bulk copies have come."""

    clocks: Clocks
    findings: FindingList
    name: str
    number: int
    """Among all signals of the workgroups that run together."""
    arrivals: int
    pending: int = field(init=False)
    bytes: int = 0
    phases: int = 0
    gathered: Knowledge | None = None
    """What those who arrived in this phase know together."""
    complete: Knowledge | None = None
    """What everybody learns who waits for the last complete phase."""
    waited: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    """Per strand, when it last waited, and for how many phases."""

    def __post_init__(self) -> None:
        self.pending = self.arrivals

    def arrive(self, op: Op, lanes: Integers, announced: int) -> None:
        """Each of these lanes arrives and announces bytes."""
        while len(lanes):
            if not self.pending:
                self.findings.add(
                    "signal-overrun", op, lambda: f"One more lane arrives at {self.name}, but {self.state()}."
                )
                return
            now, lanes = lanes[: self.pending], lanes[self.pending :]
            self.gathered = self.clocks.released(now, landed=bool(op.get("landed"))).joined(self.gathered)
            self.pending -= len(now)
            self.bytes += announced * len(now)
            self._complete(op)

    def land(self, op: Op, count: int, step: int, known: Knowledge | None = None) -> None:
        """The bytes of a copy that was issued in some step have come; ``known``: what the lane that sent them knew,
        where that comes with them."""
        self.gathered = self.clocks.landing(self.number, step).joined(self.gathered).joined(known)
        self.bytes -= count
        self._complete(op)

    def passes(self, lanes: Integers, parity: int) -> bool:
        """Whether the wait of all these lanes is over."""
        return self.phases >= self._wanted(lanes, parity)

    def acquire(self, op: Op, lanes: Integers, parity: int) -> None:
        """The wait of these lanes is over; they learn what the phase that they waited for has to say."""
        wanted = self._wanted(lanes, parity)
        if self.phases > wanted:
            self._overrun(op, wanted, f"{self.phases} phases are complete")
        if self.complete is not None and (self.clocks.known[lanes, self._counter] < wanted).any():
            self.clocks.acquire(lanes, self.complete)
        self.waited[int(lanes[0]) // self.clocks.strand_lanes] = (self.clocks.now, wanted)

    def state(self) -> str:
        """Words for what it still waits for."""
        parts = [f"{self.arrivals - self.pending} of {self.arrivals} arrivals"]
        if self.bytes > 0:
            parts.append(f"{self.bytes} bytes to come")
        if self.bytes < 0:
            parts.append(f"{-self.bytes} bytes that nobody announced")
        return f"phase {self.phases} of {self.name} has {', '.join(parts)}"

    def _wanted(self, lanes: Integers, parity: int) -> int:
        """Phases that have to be complete: the first number of that parity that no lane knows to be past."""
        seen = self.clocks.known[lanes, self._counter]
        return int((seen + (seen % 2 == parity)).max())

    @property
    def _counter(self) -> int:
        return self.clocks.phases + self.number

    def _complete(self, op: Op) -> None:
        if self.pending or self.bytes > 0:
            return
        if self.bytes < 0:
            surplus, phase = -self.bytes, self.phases
            self.findings.add(
                "signal-bytes",
                op,
                lambda: f"Phase {phase} of {self.name} gets {surplus} bytes more than were announced.",
            )
        assert self.gathered is not None
        known = self.gathered.known.copy()
        self.phases += 1
        known[self._counter] = self.phases
        self.complete, self.gathered = replace(self.gathered, known=known), None
        self.pending, self.bytes = self.arrivals, 0
        for strand, (step, wanted) in self.waited.items():
            first = strand * self.clocks.strand_lanes
            if wanted == self.phases - 1 and step > known[first : first + self.clocks.strand_lanes].max():
                self._overrun(op, wanted, "the next one may be complete before")

    def _overrun(self, op: Op, wanted: int, how: str) -> None:
        self.findings.add(
            "signal-overrun",
            op,
            lambda: f"A wait for {wanted} complete phases of {self.name} may never end: {how}.",
        )


def fresh_signals(clocks: Clocks, findings: FindingList, rank: int) -> dict[str, list[Signal]]:
    """The signals of one of the workgroups that run together, by the name of their memory."""
    memories = [memory for memory in clocks.kernel.memories if memory.space == "signal"]
    number = rank * sum(memory.buffers for memory in memories)
    signals: dict[str, list[Signal]] = {}
    for memory in memories:
        names = [f"@{memory.name}[{index}]" for index in range(memory.buffers)]
        signals[memory.name] = [
            Signal(clocks, findings, name, number + index, memory.arrivals) for index, name in enumerate(names)
        ]
        number += memory.buffers
    return signals
