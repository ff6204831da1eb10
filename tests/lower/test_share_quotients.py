"""Elements whose places have one quotient are loaded once, where the first and the last say that they do."""

from __future__ import annotations

import pytest

from tests.lower.gemms import CPU, NVIDIA
from tests.lower.ir_text import Text, lines
from wavespec.lower.share_quotients import ShareQuotients

PIXELS = Text("""
    thread kernel @k target cpu lanes 1
    symbol N in 0..4096 by 1
    symbol S in 0..4096 by 1
    symbol C in 0..4096 by 1
    symbol at in 0..4080 by 16
    plan "auto" stages 1 group 0
    memory @weight : f32 (C: [C]) global input
    memory @other : f32 (S: [S]) global input
    memory @y : f32 (N: [N]) global output
""")


def places(count: int, by: str = "S") -> list[str]:
    return [f"({'at' if number == 0 else f'at + {number}'})//{by}".replace("(at)", "at") for number in range(count)]


def loop(body: str, induction: str = "at", lower: str = "0", step: str = "16", upper: str = "N") -> str:
    head = f'for {{induction = "{induction}", lower = [{lower}], step = [{step}], unroll = 1, upper = [{upper}]}} () do'
    return f"{head}\n{body}  yield\nend\n"


def step(count: int, memory: str = "weight", by: str = "S") -> str:
    """A load for each element, and all of them stored."""
    loads = (
        f'  %w{number} = load {{memory = "{memory}", offset = [{place}]}} : f32x1\n'
        for number, place in enumerate(places(count, by))
    )
    values = ", ".join(f"%w{number}" for number in range(count))
    return f'{"".join(loads)}  %all = pack {values} : f32x{count}\n  store %all {{memory = "y", offset = [at]}}\n'


def test_a_step_with_one_quotient_loads_once() -> None:
    once = (
        '  %w0.1 = load {memory = "weight", offset = [at//S]} : f32x1\n  %all.1 = broadcast %w0.1 : f32x17\n'
        '  store %all.1 {memory = "y", offset = [at]}\n'
    )
    after = PIXELS.after(ShareQuotients(), CPU, loop(step(17)))
    apart = "0 - at//S + (at + 16)//S"
    first = loop(once, "at.same", "0", "1", "max(at//S - (at + 16)//S + 1, 0)")
    second = loop(step(17), "at.other", "0", "1", f"min({apart}, 1)")
    inner = "".join(f"  {line}\n" for line in (first + second).splitlines())
    assert after == lines(loop(inner))


@pytest.mark.parametrize(
    "body",
    [step(16), step(17, by="4"), step(17, memory="y"), step(17).replace("at + 3)//S", "at + 3)//C")],
    ids=["few loads", "by a number", "written in the step", "fewer by one size"],
)
def test_other_steps_stay(body: str) -> None:
    kernel = PIXELS.kernel(loop(body))
    assert ShareQuotients()(kernel, CPU) is kernel


def test_lanes_that_run_together_divide_for_themselves() -> None:
    kernel = PIXELS.kernel(loop(step(17)))
    assert ShareQuotients()(kernel, NVIDIA) is kernel


def test_numbers_that_grow_by_a_size_share_a_load_with_their_checks() -> None:
    """Weights of flat rows: ``C * j // S`` grows with j, and where the last place is there, all are."""
    ops = (
        f'  %w{at} = load {{mask = (([C*(at + {at})], [C*S],),), memory = "weight", offset = [(C*(at + {at}))//S]}} : f32x1\n'
        for at in range(17)
    )
    values = ", ".join(f"%w{at}" for at in range(17))
    body = f'{"".join(ops)}  %all = pack {values} : f32x17\n  store %all {{memory = "y", offset = [at]}}\n'
    same, other = PIXELS.after(ShareQuotients(), CPU, loop(body)).split("at.other")[0], "max("
    assert same.count("= load") == 1
    assert "mask" not in same  # of places that the condition around says
    assert other in same.split("at.same")[1]


def test_numbers_in_no_order_stay() -> None:
    """One that may be less than the one before says nothing of those between the first and the last."""
    body = step(17).replace("at + 3)//S", "0 - C + C*at + 3)//S")
    assert PIXELS.after(ShareQuotients(), CPU, loop(body)) == lines(loop(body))
