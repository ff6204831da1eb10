"""Elements whose places are remainders side by side are one load where all are below the size, else what they were."""

from __future__ import annotations

import pytest

from tests.lower.gemms import CPU, NVIDIA
from tests.lower.ir_text import Text
from wavespec.lower.join_remainders import JoinRemainders

ROWS = Text("""
    thread kernel @k target cpu lanes 1
    symbol N in 0..4096 by 1
    symbol P in 0..4096 by 1
    symbol C in 0..4096 by 1
    symbol at in 0..4080 by 16
    plan "auto" stages 1 group 0
    memory @x : f32 (P: [P]) global input
    memory @z : f32 (C: [C]) global input
    memory @y : f32 (N: [N]) global output
""")


def step(first: int, place: str, count: int = 8, memory: str = "x", mask: str = "") -> str:
    """A load for each of some elements, and a store of all."""
    numbers = ["at" if number == 0 else f"at + {number}" for number in range(first, first + count)]
    loads = (
        f'%w{number} = load {{{mask}memory = "{memory}", offset = [{place.format(number)}]}} : f32x1\n'
        for number in numbers
    )
    loads = (
        line.replace(f"%w{number}", f"%w{at}")
        for at, (line, number) in enumerate(zip(loads, numbers, strict=True), first)
    )
    values = ", ".join(f"%w{at}" for at in range(first, first + count))
    return f'{"".join(loads)}%all{first} = pack {values} : f32x{count}\nstore %all{first} {{memory = "y", offset = [{numbers[0]}]}}\n'


REMAINDERS, QUOTIENTS = step(0, "({})%P"), step(0, "({})//P")


def joined(body: str) -> str:
    return ROWS.after(JoinRemainders(), CPU, body.replace("(at)", "at"))


def test_remainders_below_the_size_are_one_load() -> None:
    after = joined(REMAINDERS)
    assert 'load {memory = "x", offset = [rest]} : f32x8' in after
    assert "upper = [min(max(P - rest - 7, 0), 1)]" in after  # room for all eight
    assert after.count(": f32x1\n") == 8  # as they were, elsewhere


def test_one_quotient_is_one_element() -> None:
    after = joined(QUOTIENTS)
    assert 'load {memory = "x", offset = [quotient]} : f32x1' in after
    assert "broadcast" in after


def test_the_next_vector_divides_no_more() -> None:
    after = joined(REMAINDERS + step(8, "({})%P"))
    lets = [line for line in after.splitlines() if line.strip().startswith("let")]
    assert sum("%P" in line or "//P" in line for line in lets) == 2  # both digits of the first number
    assert any("rest - P*carry + 8" in line for line in lets)


def test_places_in_the_branch_are_computed_there() -> None:
    """What depends on nothing in the branch would be computed around it: eight divisions where one was wanted."""
    assert "offset = [(apart + at + 3)%P]" in joined(REMAINDERS)


def test_checks_that_grow_with_the_places_are_asked_once() -> None:
    """Where a size is known not to be 0, ``N // Q < B`` is ``N < B * Q``, another check for each element."""
    checked = "".join(
        line.replace("{memory", f"{{mask = (([at + {at}], [C*P],),), memory") if ": f32x1" in line else line
        for at, line in enumerate(QUOTIENTS.splitlines(keepends=True))
    ).replace("at + 0]", "at]")
    after = joined(checked)
    (branch,) = (line for line in after.splitlines() if "once = true" in line)
    assert "max(P - rest - 7, 0)" in branch
    assert "max(0 - at + C*P - 7, 0)" in branch  # where the last is there, all are
    assert 'load {memory = "x", offset = [quotient]} : f32x1' in after


@pytest.mark.parametrize(("least", "is_rare"), [(0, False), (7, False), (8, True)])
def test_branches_are_rare_where_sizes_have_room_for_a_vector(least: int, is_rare: bool) -> None:
    text = Text(ROWS.head.replace("symbol P in 0..", f"symbol P in {least}.."))
    after = text.after(JoinRemainders(), CPU, REMAINDERS.replace("(at)", "at"))
    assert ("rare = true" in after) == is_rare


@pytest.mark.parametrize(
    "body",
    [
        step(0, "({})%7"),
        step(0, "(({})%P)*2").replace("(at)%P", "at%P"),
        step(0, "({})%P", memory="y"),
        step(0, "({})%P", count=2),
        REMAINDERS.replace("at + 3)%P", "at + 3)%C"),
        step(0, "({})%P", mask="mask = (([at], [N],),), "),
    ],
    ids=["by a number", "apart", "no input", "few", "by two sizes", "checked"],
)
def test_others_stay(body: str) -> None:
    kernel = ROWS.kernel(body.replace("(at)", "at"))
    assert JoinRemainders()(kernel, CPU) is kernel


def test_machines_whose_waves_run_at_once_have_none() -> None:
    assert JoinRemainders().applies_to(CPU)
    assert not JoinRemainders().applies_to(NVIDIA)
