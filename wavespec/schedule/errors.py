"""What can be wrong with a schedule, beside names and dependences: errors with a place in the spec."""

from __future__ import annotations

from wavespec.diagnostics import WavespecError, Where, name_hints, quote
from wavespec.targets.machine import Machine

MOST_PRODUCTS = 512
"""Matrix instructions of one pipelined loop, first rounds included; compilers take long beyond."""


class StagesNotPossible(WavespecError, code="stages-not-possible"):
    def __init__(self, where: Where, stages: int, why: str, hint: str) -> None:
        super().__init__(where, f"{stages} stages need copies that run on while others compute: {why}.", hints=[hint])


class ProductInOnePart(WavespecError, code="product-in-one-part"):
    def __init__(self, where: Where) -> None:
        super().__init__(
            where,
            "No step has a last product that could be issued in parts, between the arithmetic of the next step.",
            hints=["Leave 'order' out."],
        )


class NoEarlyWait(WavespecError, code="no-early-wait"):
    def __init__(self, where: Where) -> None:
        super().__init__(
            where,
            "No step of a loop has what waves wait early for: a last product whose tile is awaited by itself, lanes "
            "that tell each other of the sums of the next step, as of the largest one of a row, and arithmetic with "
            "both.",
            hints=["Leave 'early_wait' out."],
        )


class ScheduleTakesRegisters(WavespecError, code="schedule-takes-registers"):
    """``overlap``: whether the spec has steps of the loop overlap, which takes some."""

    def __init__(
        self, where: Where, loop: str, needed: int, limit: int, threads: int, overlap: bool, machine: Machine
    ) -> None:
        hint = "Use fewer stages, or give nodes whose values are carried the same stage."
        if not overlap:
            hint = "Lower the tiles of what is carried, or share them out among more waves: {wave: ..., tile: ...}."
        super().__init__(
            where,
            f"The loop {quote(loop)} carries {needed} registers of each lane from round to round; "
            f"with {threads} lanes in a workgroup {machine.variant} has {limit} for each.",
            hints=[hint],
        )


class ScheduleTooLong(WavespecError, code="schedule-too-long"):
    def __init__(self, where: Where, loop: str, count: int) -> None:
        super().__init__(
            where,
            f"The loop {quote(loop)} would be written out as {count} matrix instructions of each wave; "
            f"at most {MOST_PRODUCTS} are.",
            hints=["Unroll less, or put the products in a later stage."],
        )


class StepsBeyondEnd(WavespecError, code="steps-beyond-end"):
    def __init__(self, where: Where, loop: str) -> None:
        super().__init__(
            where,
            f"The last rounds of {quote(loop)} would compute steps beyond its end; only sums of products of what is "
            "loaded stay the same then, and it carries something else.",
            hints=["Give all that it carries the last stage, and do not unroll."],
        )


class NotInnermost(WavespecError, code="not-innermost"):
    def __init__(self, where: Where, loop: str) -> None:
        super().__init__(
            where,
            f"Steps of {quote(loop)} cannot overlap: another loop is inside, 'until' may end it, or it hands on what "
            "it does not make.",
            hints=["Schedule the loop inside."],
        )


class PlannedByRoles(WavespecError, code="planned-by-roles"):
    def __init__(self, where: Where) -> None:
        super().__init__(
            where,
            "Waves with roles have the plan of their loops: the producer copies as far ahead as there are stages.",
            hints=["Leave out 'auto' and 'loops', or 'producers'."],
        )


class UnknownLoop(WavespecError, code="unknown-loop"):
    def __init__(self, where: Where, name: str, known: list[str]) -> None:
        super().__init__(where, f"The graph has no loop {quote(name)}.", hints=name_hints(name, known, "Its loops are"))


class StepsNotCounted(WavespecError, code="steps-not-counted"):
    def __init__(self, where: Where, node: str) -> None:
        super().__init__(
            where,
            f"Waves that only copy count all steps of {quote(node)}, and tiles or steps around it differ in how many "
            "it has.",
            hints=["Leave out 'producers', or only 'persistent' where bounds differ from tile to tile."],
        )


class NothingToCopy(WavespecError, code="nothing-to-copy"):
    def __init__(self, where: Where) -> None:
        super().__init__(
            where,
            "Waves that only copy fill shared memory in every step of a loop, and no loop reads a staged tensor in all "
            "of its steps.",
            hints=["Leave out 'producers', or read what they are to copy outside of branches."],
        )


class StagedOutsideLoop(WavespecError, code="staged-outside-loop"):
    def __init__(self, where: Where, tensor: str) -> None:
        super().__init__(
            where,
            "Waves that only copy fill shared memory step by step of a loop, and this reads the staged "
            f"{quote(tensor)} outside of one.",
            hints=["Read it in the loop that uses it, or keep it out of shared memory: 'space: global'."],
        )


class ValuesNotShared(WavespecError, code="values-not-shared"):
    def __init__(self, where: Where) -> None:
        super().__init__(
            where,
            "Waves that only copy know places of tiles and what they load for them; no values that a condition, a "
            "bound or another step is made of.",
            hints=["Leave out 'producers' of the schedule."],
        )
