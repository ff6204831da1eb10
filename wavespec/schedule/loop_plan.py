"""When each operation of a loop happens, as data; whether a plan keeps the dependences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from wavespec.ir.kernel import Op
from wavespec.schedule.dependences import Dependence


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """One round of a pipelined loop.

    Round t runs every operation of stage s for step t - s, in the order of ``order`` (numbers of operations in the
    body).  ``between``: operations to put in front of a place in ``order``, in the loop only.  ``around``: operations
    in front of the loop and behind it.  ``buffers``: copies of each staged memory.  ``report``: why it is as it is, a
    sentence a line.
    """

    stage: tuple[int, ...]
    order: tuple[int, ...]
    buffers: Mapping[str, int]
    between: tuple[tuple[int, Op], ...] = ()
    around: tuple[tuple[Op, ...], tuple[Op, ...]] = ((), ())
    unroll: int = 1
    report: tuple[str, ...] = field(default=(), compare=False)

    @property
    def stages(self) -> int:
        return max(self.stage) + 1


def fences(places: Iterable[int]) -> tuple[tuple[int, Op], ...]:
    """Places of an order in front of which no compiler moves anything: for ``between``."""
    return tuple((place, Op("schedule_fence")) for place in sorted(places))


def violated(stage: Sequence[int], order: Sequence[int], dependences: Iterable[Dependence]) -> Iterator[Dependence]:
    """The dependences that stages and an order break."""
    place = {number: at for at, number in enumerate(order)}
    for one in dependences:
        ahead = stage[one.after] + one.distance - stage[one.before]
        if ahead < 0 or (ahead == 0 and place[one.before] >= place[one.after]):
            yield one


def fewest_buffers(stage: Sequence[int], order: Sequence[int], writes: Iterable[int], reads: Iterable[int]) -> int:
    """Copies of a staged tile such that no write of a later step meets a read of an earlier one."""
    place = {number: at for at, number in enumerate(order)}
    reads = list(reads)
    needed = [stage[r] - stage[w] + (place[w] < place[r]) for w in writes for r in reads]
    return max(1, *needed) if needed else 1
