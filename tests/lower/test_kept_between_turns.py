"""What one turn makes is there in the next: made again, loaded again, or kept in a place for each wave."""

from __future__ import annotations

import itertools
from dataclasses import replace

from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Value
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.lower.kept_between_turns import KeptBetweenTurns

HEAD = """thread kernel @k target cpu lanes 1
symbol N in 0..4096 by 1
symbol wave_M in 0..1 by 1
symbol at_N in 0..4096 by 1
plan "auto" stages 1 group 1
memory @x : f32 (M: [64]) global input
memory @y : f32 (M: [64]) global output
memory @own : f32 (element: [64]) private
{
"""
TURN = 'for {induction = "wave_M", lower = [0], step = [1], unroll = 1, upper = [2]} () do'


def kept(*turns: str, own: tuple[str, ...] = ("own",)) -> tuple[str, list[tuple[str, int]]]:
    """The body of two turns, or more, as text, and the values that got a place, with how many waves have one."""
    loops = "".join(
        f"  {TURN}\n" + "".join(f"    {line}\n" for line in turn.splitlines()) + "    yield\n  end\n" for turn in turns
    )
    return kept_in(loops, own)


def kept_in(body: str, own: tuple[str, ...] = ("own",)) -> tuple[str, list[tuple[str, int]]]:
    kernel = parse_kernel(HEAD + body + "}\n")
    numbers, places = itertools.count(), list[tuple[str, int]]()

    def place(value: Value, depth: int) -> tuple[str, Expr]:
        places.append((value.name, depth))
        return "own", kernel.symbol("wave_M") * 8

    make = KeptBetweenTurns(("wave_M",), own, place, lambda hint: f"{hint}.again{next(numbers)}")
    text = print_kernel(replace(kernel, body=make(kernel.body)))
    return text[text.index("\n{\n") + 3 :], places


LOAD = '%a = load {memory = "x", offset = [wave_M]} : f32x1'
STORE = 'store %a {memory = "y", offset = [wave_M]}'
SUM = f"{LOAD}\n%b = add %a, %a : f32x1"
STORE_SUM = 'store %b {memory = "y", offset = [wave_M]}'


def test_a_load_of_what_nothing_was_stored_to_is_done_again() -> None:
    text, places = kept(LOAD, STORE)
    assert not places
    assert text.count('load {memory = "x"') == 2 and "store %a.again0" in text


def test_what_was_computed_has_a_place_for_each_wave() -> None:
    text, places = kept(SUM, STORE_SUM)
    assert places == [("b", 1)]
    assert 'store %b {memory = "own", offset = [wave_M*8]}' in text
    assert '%b.again0 = load {memory = "own", offset = [wave_M*8]}' in text
    assert "store %b.again0" in text


def test_what_is_used_in_its_own_turn_stays_in_registers() -> None:
    text, places = kept(f"{SUM}\n{STORE_SUM}")
    assert not places and '"own"' not in text


def test_two_turns_share_a_place_and_each_loads_it() -> None:
    text, places = kept(SUM, STORE_SUM, f"{STORE_SUM}\n{STORE_SUM}")
    assert len(places) == 1
    assert text.count('store %b {memory = "own"') == 1 and text.count('load {memory = "own"') == 2


def test_a_load_of_what_was_stored_to_since_is_kept() -> None:
    load, other = LOAD.replace('"x"', '"y"'), STORE.replace('"y"', '"own"')
    assert kept(load, other)[1] == []
    text, places = kept(f"{load}\n{STORE}", other)
    assert places == [("a", 1)] and text.count('load {memory = "y"') == 1


def test_a_load_of_what_other_waves_store_to_in_their_turns_is_kept() -> None:
    assert kept(LOAD.replace('"x"', '"y"'), STORE)[1] == [("a", 1)]


def test_other_waves_change_no_memory_that_each_has_places_of_its_own_in() -> None:
    before = 'store %zero {memory = "own", offset = [wave_M]}'
    turn = f"%zero = constant {{value = 0.0}} : f32x1\n{before}\n{LOAD.replace('x', 'own', 1)}"
    turn = turn.replace('memory = "x"', 'memory = "own"')
    assert kept(turn, STORE)[1] == []
    assert kept(turn, STORE, own=())[1] == [("a", 1)]


def test_constants_are_made_again_with_what_is_made_of_them() -> None:
    text, places = kept(
        "%a = constant {value = 2.0} : f32x4\n%s = slice %a {start = 0} : f32x1", STORE.replace("%a", "%s")
    )
    assert not places and text.count("constant") == 2 and text.count("slice") == 2


def test_a_symbol_is_bound_again_to_the_value_that_was_kept() -> None:
    bind = '%i = constant {value = 1} : i32x1\n%j = add %i, %i : i32x1\nbind %j {symbol = "at_N"}'
    text, places = kept(bind, f"{LOAD.replace('wave_M', 'at_N')}\n{STORE}")
    assert places == [("j", 1)]
    assert text.count("bind") == 2 and text.index("%j.again0 = load") < text.rindex("bind %j.again0")


def test_what_a_loop_around_stores_was_there_before_the_step() -> None:
    load, store = LOAD.replace('"x"', '"own"'), STORE
    turns = "".join(f"    {TURN}\n      {line}\n      yield\n    end\n" for line in (load, store))
    last = '    store %z {memory = "own", offset = [0]}\n    yield\n  end\n'
    zero = "  %z = constant {value = 0.0} : f32x1\n"
    around = '  for {induction = "at_N", lower = [0], step = [1], unroll = 1, upper = [N]} () do\n'
    assert kept_in(zero + around + turns + last)[1] == []
