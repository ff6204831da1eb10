"""Waves with roles: signals, barriers of some waves, and what is found where one of them is missing or wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.sim.planted_bugs import Bug, altered, dropped, planted
from tests.sim.simulated_kernels import NVIDIA, kernel, line, numbers, shared, tensor
from wavespec.ir.expr import const, symbol
from wavespec.ir.kernel import Kernel, Op, Region
from wavespec.sim.interleaving import Order
from wavespec.sim.simt import simulate

ORDERS: tuple[Order, ...] = ("forward", "reverse", 0, 1)
TILES = 7


def ring() -> Kernel:
    """Wave 1 stages 7 tiles of 32 elements in a ring of two, by ordinary stores; wave 0 stores them mirrored."""
    body = """
    role {first = 1, waves = 1, registers = 0} () do
      for {induction = "t", lower = [0], upper = [7], step = [1]} () do
        signal_wait {signal = "empty", index = [t%2], phase = [1 - t//2%2]}
        %a = load {memory = "A", offset = [t*32 + lane]} : f32x1
        store %a {memory = "S", offset = [lane], buffer = [t%2]}
        signal_arrive {signal = "full", index = [t%2], bytes = 0}
        yield
      end
      yield
    end
    role {first = 0, waves = 1, registers = 0} () do
      for {induction = "t", lower = [0], upper = [7], step = [1]} () do
        let {symbol = "turn", value = [t//2%2]}
        signal_wait {signal = "full", index = [t%2], phase = [turn]}
        %b = load {memory = "S", offset = [31 - lane], buffer = [t%2]} : f32x1
        signal_arrive {signal = "empty", index = [t%2], bytes = 0}
        store %b {memory = "B", offset = [t*32 + lane]}
        yield
      end
      yield
    end
    """
    memories = [
        tensor("A", "input", 7 * 32),
        tensor("B", "output", 7 * 32),
        shared("S", 32, buffers=2),
        "memory @full : i64 () signal x2 arrivals 32",
        "memory @empty : i64 () signal x2 arrivals 32",
    ]
    made = kernel(NVIDIA, memories, body, symbols="symbol t in 0..6 by 1\nsymbol turn in 0..1 by 1")
    return replace(made, producers=1)


def kinds(test: Kernel, order: Order = "forward") -> set[str]:
    return simulate(test, NVIDIA, {"A": numbers(TILES * 32)}, {}, order=order).kinds()


@pytest.mark.parametrize("order", ORDERS)
def test_tiles_go_round_a_ring_of_two(order: Order) -> None:
    a = numbers(TILES * 32)
    report = simulate(ring(), NVIDIA, {"A": a}, {}, order=order)
    assert report.findings == (), report.render()
    np.testing.assert_array_equal(report.tensors["B"], a.reshape(TILES, 32)[:, ::-1].reshape(-1))
    assert report.counts["signal_wait"] == 2 * TILES and report.counts["load"] == 2 * TILES


@pytest.mark.parametrize("order", ORDERS)
def test_missing_wait_is_found_in_every_order(order: Order) -> None:
    assert kinds(dropped("signal_wait", signal="full")(ring()), order) & {"race", "unwritten-read"}
    assert kinds(dropped("signal_wait", signal="empty")(ring()), order) & {"race", "signal-overrun"}


def arriving_early(name: str) -> Bug:
    """The arrival at a signal comes one operation too early."""

    def change(op: Op) -> tuple[Op, ...]:
        if op.name != "for":
            return (op,)
        ops = list(op.body.ops)
        at = next((at for at, one in enumerate(ops) if one.get("signal") == name and one.name == "signal_arrive"), 0)
        if at:
            ops[at - 1], ops[at] = ops[at], ops[at - 1]
        return (replace(op, region=replace(op.body, ops=tuple(ops))),)

    return planted(change)


@pytest.mark.parametrize("order", ORDERS)
def test_arrival_before_the_access_orders_nothing(order: Order) -> None:
    assert kinds(arriving_early("full")(ring()), order) & {"race", "unwritten-read"}
    assert "race" in kinds(arriving_early("empty")(ring()), order)


def by_one_lane(op: Op) -> tuple[Op, ...]:
    if op.name != "signal_arrive":
        return (op,)
    only = ((symbol("lane", 0, 31), const(1)),)
    return (Op("if", attributes=(("mask", only),), region=Region((), (op,), ())),)


@pytest.mark.parametrize("order", ORDERS)
def test_one_lane_cannot_arrive_for_what_others_did(order: Order) -> None:
    test = planted(by_one_lane)(ring())
    memories = tuple(replace(m, arrivals=1) if m.space == "signal" else m for m in test.memories)
    assert kinds(replace(test, memories=memories), order) == {"race"}


@pytest.mark.parametrize("order", ORDERS)
def test_everybody_waiting_is_a_deadlock_that_says_for_what(order: Order) -> None:
    report = simulate(dropped("signal_arrive", signal="empty")(ring()), NVIDIA, {"A": numbers(7 * 32)}, {}, order=order)
    finding = next(finding for finding in report.findings if finding.kind == "deadlock")
    assert finding.message == (
        "Everybody waits: wave 0 of workgroup 0 at 'signal_wait' (operation 9) for a phase of parity 1 "
        "(phase 1 of @full[0] has 0 of 32 arrivals); wave 1 of workgroup 0 at 'signal_wait' (operation 2) for a phase of parity 0 "
        "(phase 0 of @empty[0] has 0 of 32 arrivals)."
    )


def test_deadlock_names_lines() -> None:
    def placed(op: Op) -> tuple[Op, ...]:
        return (replace(op, span=line(4 if op.get("signal") == "full" else 9)),)

    test = planted(placed)(dropped("signal_arrive", signal="empty")(ring()))
    report = simulate(test, NVIDIA, {"A": numbers(7 * 32)}, {})
    finding = next(finding for finding in report.findings if finding.kind == "deadlock")
    assert finding.span == line(4) and "wave 1 of workgroup 0 at 'signal_wait' (line 9)" in finding.message


@pytest.mark.parametrize("order", ORDERS)
def test_phase_that_goes_by_before_it_is_seen_is_found(order: Order) -> None:
    """Nothing keeps the producer from completing a phase that the consumer has not waited for."""
    test = dropped("load", memory="S")(dropped("store")(dropped("signal_wait", signal="empty")(ring())))
    assert "signal-overrun" in kinds(test, order)


@pytest.mark.parametrize("order", ORDERS)
def test_arrivals_beyond_those_of_a_phase_belong_to_the_next(order: Order) -> None:
    test = ring()
    memories = tuple(replace(m, arrivals=16) if m.name == "full" else m for m in test.memories)
    assert kinds(replace(test, memories=memories), order) & {"signal-overrun", "race", "deadlock"}


def turns(first: str) -> Kernel:
    """Two waves add to one element in turns; each hands on a signal of the other."""
    body = f"""
    for {{induction = "t", lower = [0], upper = [3], step = [1]}} () do
      signal_wait {{signal = "turn", index = [wave], phase = [{first}]}}
      %a = load {{memory = "S", offset = [lane], mask = (([0], [t*2 + wave],),)}} : f32x1
      %one = constant {{value = 1.0}} : f32x1
      %sum = elementwise %a, %one {{function = "add"}} : f32x1
      store %sum {{memory = "S", offset = [lane]}}
      store %sum {{memory = "B", offset = [t*64 + wave*32 + lane]}}
      signal_arrive {{signal = "turn", index = [1 - wave], bytes = 0}}
      yield
    end
    """
    memories = [tensor("B", "output", 192), shared("S", 32), "memory @turn : i64 () signal x2 arrivals 32"]
    return kernel(NVIDIA, memories, body, waves=2, symbols="symbol t in 0..2 by 1")


@pytest.mark.parametrize("order", ORDERS)
def test_waves_take_turns(order: Order) -> None:
    report = simulate(turns("(t + 1 - wave)%2"), NVIDIA, {}, {}, order=order)
    assert report.findings == (), report.render()
    np.testing.assert_array_equal(report.tensors["B"].reshape(6, 32)[:, 0], [1, 2, 3, 4, 5, 6])
    together = simulate(turns("(t + 1)%2"), NVIDIA, {}, {}, order=order)
    assert {"race", "unwritten-read", "signal-overrun"} & together.kinds()
    nobody = simulate(turns("t%2"), NVIDIA, {}, {}, order=order)
    assert "deadlock" in nobody.kinds()


def meeting(first: str, waves: int) -> Kernel:
    """Three waves exchange elements; only some of them meet between."""
    body = f"""
    %a = load {{memory = "A", offset = [wave*32 + lane]}} : f32x1
    store %a {{memory = "S", offset = [wave*32 + lane]}}
    barrier {{first = {first}, waves = {waves}}}
    %b = load {{memory = "S", offset = [wave*32 + 31 - lane]}} : f32x1
    store %b {{memory = "B", offset = [wave*32 + lane]}}
    """
    return kernel(NVIDIA, [tensor("A", "input", 96), tensor("B", "output", 96), shared("S", 96)], body, waves=3)


@pytest.mark.parametrize("order", ORDERS)
def test_barrier_orders_only_the_waves_that_meet(order: Order) -> None:
    a = {"A": numbers(96)}
    assert simulate(meeting("[wave]", 1), NVIDIA, a, {}, order=order).ok
    assert simulate(meeting("0", 3), NVIDIA, a, {}, order=order).ok
    across = altered("load", "offset", lambda at: 95 - at, memory="S")
    assert simulate(across(meeting("0", 3)), NVIDIA, a, {}, order=order).ok
    assert simulate(across(meeting("[wave]", 1)), NVIDIA, a, {}, order=order).kinds() & {"race", "unwritten-read"}


def test_wave_at_a_barrier_of_others_is_refused() -> None:
    with pytest.raises(ValueError, match=r"wave 0 is at a barrier of the waves \[1, 2\]"):
        simulate(meeting("1", 2), NVIDIA, {"A": numbers(96)}, {})


def test_barrier_that_a_wave_never_comes_to_is_a_deadlock() -> None:
    test = meeting("0", 3)
    role = Op("role", attributes=(("first", 0), ("waves", 2)), region=Region((), test.body, ()))
    (finding, *_) = simulate(replace(test, body=(role,)), NVIDIA, {"A": numbers(96)}, {}).findings
    assert finding.kind == "deadlock"
    assert "wave 1 of workgroup 0 at 'barrier' (operation 3) for wave 2" in finding.message


def test_only_the_lanes_of_a_mask_run_what_is_inside() -> None:
    body = """
    if {mask = (([lane], [20],), ([3], [lane],),)} () do
      let {symbol = "half", value = [lane//2]}
      %a = load {memory = "A", offset = [half]} : f32x1
      store %a {memory = "B", offset = [lane]}
      barrier
      yield
    end
    """
    memories = [tensor("A", "input", 10), tensor("B", "output", 32)]
    test = kernel(NVIDIA, memories, body, symbols="symbol half in 2..9 by 1")
    before, a = np.zeros(32, np.float32), np.arange(1, 11, dtype=np.float32)
    report = simulate(test, NVIDIA, {"A": a, "B": before}, {})
    assert report.kinds() == {"divergent-operation"}
    np.testing.assert_array_equal(report.tensors["B"][4:20], a.repeat(2)[4:20])
    assert not report.tensors["B"][:4].any() and not report.tensors["B"][20:].any()


def test_grid_that_is_not_made_of_clusters_is_refused() -> None:
    test = replace(kernel(NVIDIA, [tensor("B", "output", 3)], grid=3), cluster=2)
    with pytest.raises(ValueError, match=r"a grid of \(3,\) workgroups is not made of clusters of 2"):
        simulate(test, NVIDIA, {}, {})
