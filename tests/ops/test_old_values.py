"""`atomic`: old values that some order of the elements finds, whoever holds them, and what is no such order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.lower.gemms import AMD, CPU, NVIDIA
from tests.ops.old_values import SIZES, WORKGROUPS, OldValues, assert_explained, inputs_of, simulated
from wavespec.diagnostics import WavespecError
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.ops.atomic import updated
from wavespec.ops.orders import walked
from wavespec.pipeline import lower
from wavespec.schema import load, loads
from wavespec.schema.old_values import order_dependent, with_old_values
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.sim.reference import explain, interpret
from wavespec.targets.machine import Machine

MACHINES = pytest.mark.parametrize("machine", [CPU, NVIDIA, AMD], ids=lambda machine: machine.variant)
OF_NUMBERS = ("add", "max", "min", "exchange")
OF_BITS = ("and", "or", "xor", "compare_and_swap")


@MACHINES
@pytest.mark.parametrize("combine", [*OF_NUMBERS, *OF_BITS])
def test_some_order_finds_all_old_values(machine: Machine, combine: str) -> None:
    observed = OldValues(combine).observed
    inputs = inputs_of(observed.spec, SIZES)
    report, written = simulated(observed.spec, machine, inputs, {**SIZES, "P": 40})
    assert report.ok, report.render()
    assert_explained(observed, inputs, written)


@MACHINES
@pytest.mark.parametrize("workgroups", WORKGROUPS.values(), ids=WORKGROUPS)
def test_all_who_hold_an_element_have_its_old_value(machine: Machine, workgroups: str) -> None:
    observed = OldValues("add", "i64", workgroups).observed
    for sizes in (SIZES, {"M": 1, "N": 1, "V": 1}, {"M": 33, "N": 9, "V": 2}):
        inputs = inputs_of(observed.spec, sizes)
        report, written = simulated(observed.spec, machine, inputs, {**sizes, "P": 40})
        assert report.ok, report.render()
        assert_explained(observed, inputs, written)


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
def test_floating_point_is_added_and_returned(dtype: str) -> None:
    observed = OldValues("add", dtype).observed
    inputs = inputs_of(observed.spec, SIZES)
    for machine in (CPU, NVIDIA, AMD):
        report, written = simulated(observed.spec, machine, inputs, {**SIZES, "P": 40})
        assert report.ok, report.render()
        assert_explained(observed, inputs, written)


def test_old_values_of_no_order_are_found() -> None:
    observed = OldValues("add").observed
    inputs = inputs_of(observed.spec, SIZES)
    _, written = simulated(observed.spec, CPU, inputs, {**SIZES, "P": 40})
    names = explain(observed, inputs, written, {}).computation.written
    old = written[names.index(observed.outputs["drawn"][0])]
    row = inputs[5]
    old[((row >= 0) & (row < SIZES["V"])).nonzero()[0]] += 100
    context = explain(observed, inputs, written, {})
    assert context.impossible[0].startswith(
        "no order of its elements finds the old values of 'drawn' at 1 places of 'counts'"
    )


def test_old_values_outside_are_zero() -> None:
    observed = OldValues("add").observed
    inputs = inputs_of(observed.spec, SIZES)
    _, written = simulated(observed.spec, CPU, inputs, {**SIZES, "P": 40})
    names = explain(observed, inputs, written, {}).computation.written
    row = inputs[5]
    written[names.index(observed.outputs["drawn"][0])][(row < 0) | (row >= SIZES["V"])] = 7
    assert explain(observed, inputs, written, {}).impossible == ["old values of 'drawn' outside of 'counts' are not 0"]


_STEPS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=5)


@given(_STEPS, st.sampled_from([*OF_NUMBERS, *OF_BITS]), st.randoms(use_true_random=False))
def test_an_order_is_seen_where_there_is_one(steps: list[tuple[int, int, int]], combine: str, random: Random) -> None:
    """Old values, of an order or of none, beside all orders there are."""
    places, value, expected = (torch.tensor(one) for one in zip(*steps, strict=True))
    start = torch.tensor([1, 0, 2])
    held, old = start.clone(), torch.empty_like(value)
    for one in random.sample(range(len(steps)), len(steps)):
        old[one] = held[places[one]]
        held[places[one]] = updated(combine, old[one], value[one], expected[one])
    if random.random() < 0.5:
        old[random.randrange(len(steps))] = random.randrange(4)
    found = walked(start, places, old, updated(combine, old, value, expected))
    ends = list(_ends(start, places, old, value, expected, combine))
    assert (not len(found.wrong)) == bool(ends)
    if ends:
        assert any(torch.equal(found.held, end) for end in ends)


def _ends(
    start: Tensor, places: Tensor, old: Tensor, value: Tensor, expected: Tensor, combine: str
) -> Iterator[Tensor]:
    """What places hold in the end, of each order that finds these old values."""
    for order in itertools.permutations(range(len(places))):
        held = start.clone()
        for one in order:
            if held[places[one]] != old[one]:
                break
            held[places[one]] = updated(combine, held[places[one]], value[one], expected[one])
        else:
            yield held


def test_the_reference_takes_elements_in_order() -> None:
    spec = OldValues("exchange").spec
    inputs = inputs_of(spec, SIZES)
    context = interpret(spec, *inputs)
    held, more, row = inputs[0].clone(), inputs[2], inputs[5]
    for number, place in enumerate(row.tolist()):
        old = held[place].item() if 0 <= place < SIZES["V"] else 0
        assert context.names["drawn"][number] == old
        if 0 <= place < SIZES["V"]:
            held[place] = more[number]
    assert torch.equal(context.output("counts"), held)


@MACHINES
def test_rows_go_where_tickets_say(machine: Machine) -> None:
    observed = with_old_values(load(Path(__file__).parents[1] / "specs" / "dispatch_experts.wave.yaml"))
    sizes = {"T": 23, "X": 3, "C": 6, "D": 70}
    used, buffers = torch.tensor([0, 2, 0], dtype=torch.int32), torch.zeros(3, 6, 70, dtype=torch.bfloat16)
    random = torch.Generator().manual_seed(1)
    x = torch.randn(23, 70, generator=random).to(torch.bfloat16)
    expert = torch.randint(0, 4, (23,), generator=random).to(torch.int32)
    inputs = [used, buffers, x, expert]
    report, written = simulated(observed.spec, machine, inputs, sizes)
    assert report.ok, report.render()
    assert_explained(observed, inputs, written)
    counted, rows, slot, *_ = written
    assert torch.equal(counted, used + torch.bincount(expert, minlength=4)[:3].int())
    for token, (one, place) in enumerate(zip(expert.tolist(), slot.tolist(), strict=True)):
        assert one == 3 or place >= 6 or torch.equal(rows[one, place], x[token])


def test_what_depends_on_the_order_is_known() -> None:
    assert order_dependent(OldValues("add").spec) == {"ticket", "places", "before"}
    assert order_dependent(OldValues("exchange").spec) == {"ticket", "places", "before", "counts", "table"}


def test_an_old_value_that_several_workgroups_need_is_refused() -> None:
    workgroups = "[{workgroup: M, tile: 4, axis: 0}, {workgroup: N, tile: 32, axis: 1}]"
    with pytest.raises(WavespecError) as raised:
        lower(OldValues(workgroups=workgroups).spec, NVIDIA)
    assert str(raised.value) == (
        "old_values.wave.yaml:20:12: error[old-value-of-several]: 'drawn' lacks the dim 'N', which workgroups split: each "
        "element is combined once, and the old value is known to the workgroup that does so alone.\n"
        "    |\n"
        " 20 |   - drawn: {atomic: part, to: counts, at: {V: into}, combine: add}\n"
        "    |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "    = note: For sm_90.\n"
        "    = hint: Give a workgroup all of 'N', or use the old values in a kernel of their own."
    )


@pytest.mark.parametrize(
    ("combine", "dtype", "old", "new", "code"),
    [
        ("xor", "f32", "", "", "dtype-mismatch"),
        (
            "add",
            "i32",
            "combine: add}\n  - {write: drawn",
            "combine: add, expected: guess}\n  - {write: drawn",
            "expected-of-nothing",
        ),
        ("compare_and_swap", "i32", ", expected: guess}", "}", "expected-of-nothing"),
        ("compare_and_swap", "i32", "expected: guess}", "expected: guesses}", "undefined-name"),
        (
            "add",
            "i32",
            "counts: {shape: [V], dtype: i32, role: inout}",
            "counts: {shape: [V], dtype: i32, role: output}",
            "nothing-to-combine",
        ),
    ],
)
def test_what_is_no_atomic_is_refused(combine: str, dtype: str, old: str, new: str, code: str) -> None:
    text = OldValues(combine, dtype).text.replace(old, new) if old else OldValues(combine, dtype).text
    with pytest.raises(WavespecError) as raised:
        loads(text, "old_values.wave.yaml")
    assert code in {one.code for one in raised.value.diagnostics}


def test_the_kernel_and_its_spec_survive_their_texts() -> None:
    spec = OldValues("compare_and_swap").spec
    assert loads(dump_yaml(spec), "old_values.wave.yaml") == spec
    kernel = lower(spec, NVIDIA)
    assert parse_kernel(print_kernel(kernel)) == kernel
