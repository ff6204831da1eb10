"""What passes require and ensure is checked, and the order of the passes keeps to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lower.gemms import MACHINES, NVIDIA, Gemm
from tests.lower.ir_text import Text
from wavespec.ir.dtype import DTYPES
from wavespec.ir.kernel import Kernel, Op, Value, VectorType
from wavespec.ir.verifier import VerificationError
from wavespec.lower import contracts
from wavespec.lower.base import Pass
from wavespec.lower.contracts import CHECK_PASSES, ContractError, Property
from wavespec.lower.order import PASSES
from wavespec.lower.spec_to_tile import ENSURES
from wavespec.lower.thread_properties import THREAD_PROPERTIES, values_are_used
from wavespec.lower.tile_properties import TILE_PROPERTIES
from wavespec.pipeline import lower
from wavespec.targets.machine import Machine

LANES = Text("""
    thread kernel @k target sm_90 lanes 32
    plan "auto" stages 1 group 0
    memory @y : f32 (K: [64]) global output
""")
USED = """
    %a = constant {value = 1.0} : f32x1
    store %a {memory = "y", offset = [0]}
"""
UNUSED = USED.replace("store %a", "%b = constant {value = 2.0} : f32x1\n    store %a")


class Does(Pass):
    """Whatever a test wants, under a contract of its own."""

    name = "does"

    def __init__(self, result: Kernel | None = None, **contract: tuple[Property, ...]) -> None:
        self.result = result
        for what, properties in contract.items():
            setattr(self, what, properties)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        return self.result or kernel


def test_a_pass_that_requires_what_is_not_there_says_so() -> None:
    with pytest.raises(ContractError) as caught:
        Does(requires=(values_are_used,))(LANES.kernel(UNUSED), NVIDIA)
    assert str(caught.value) == (
        "before pass 'does', which requires it: kernel 'k', operation 'constant': nothing uses %b (values-are-used: "
        "Around the loops nothing is computed that nothing needs.)"
    )
    Does(requires=(values_are_used,))(LANES.kernel(USED), NVIDIA)


def test_a_pass_that_does_not_do_what_it_ensures_says_so() -> None:
    with pytest.raises(ContractError, match="after pass 'does': kernel 'k', operation 'constant': nothing uses %b"):
        Does(ensures=(values_are_used,))(LANES.kernel(UNUSED), NVIDIA)
    Does(LANES.kernel(USED), ensures=(values_are_used,))(LANES.kernel(UNUSED), NVIDIA)


def test_what_held_before_holds_after_unless_the_pass_drops_it() -> None:
    used, unused, held = LANES.kernel(USED), LANES.kernel(UNUSED), (values_are_used,)
    Does(unused)(used, NVIDIA)
    with pytest.raises(ContractError, match=r"after pass 'does': .* nothing uses %b"):
        Does(unused)(used, NVIDIA, held)
    Does(unused, drops=held)(used, NVIDIA, held)
    assert Does().holding(held, NVIDIA) == held and Does(drops=held).holding(held, NVIDIA) == ()


def test_contracts_are_checked_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    one, kernel = Does(requires=(values_are_used,), ensures=(values_are_used,)), LANES.kernel(UNUSED)
    assert contracts.are_checked(), "in tests they are"
    for off in ("", "0"):
        monkeypatch.setenv(CHECK_PASSES, off)
        assert one(kernel, NVIDIA) is kernel
    monkeypatch.delenv(CHECK_PASSES)
    assert one(kernel, NVIDIA) is kernel
    monkeypatch.setenv(CHECK_PASSES, "1")
    with pytest.raises(ContractError):
        one(kernel, NVIDIA)


def test_breaches_have_the_line_of_the_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that forgets what another one relies on later is found at once."""
    (number,) = (number for number, one in enumerate(PASSES) if one.name == "split-k")
    apply = type(PASSES[number]).apply

    def forgets(self: Pass, kernel: Kernel, machine: Machine) -> Kernel:
        kernel = apply(self, kernel, machine)
        return replace(kernel, body=tuple(map(_without_origin, kernel.body)))

    monkeypatch.setattr(type(PASSES[number]), "apply", forgets)
    with pytest.raises(
        ContractError,
        match=r"after pass 'split-k': kernel 'gemm', operation 'write' \(gemm.wave.yaml:32:5\): it lacks 'origin'",
    ):
        lower(Gemm().spec, NVIDIA)


def test_a_kernel_is_verified_behind_the_last_pass_where_no_pass_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    last = type(PASSES[-1])
    apply = last.apply

    def uses_what_nothing_defines(self: Pass, kernel: Kernel, machine: Machine) -> Kernel:
        kernel = apply(self, kernel, machine)
        stored = Op("bind", (Value("nothing", VectorType(DTYPES["i32"], 1)),), attributes=(("symbol", "N"),))
        return replace(kernel, body=(stored, *kernel.body))

    def everywhere(self: Pass, machine: Machine) -> bool:
        del self, machine
        return True

    monkeypatch.setattr(last, "apply", uses_what_nothing_defines)
    monkeypatch.setattr(last, "applies_to", everywhere)
    found = r"kernel 'gemm', operation 'bind': %nothing is used before it is defined"
    with pytest.raises(VerificationError, match=f"after pass '{last.name}': {found}"):
        lower(Gemm().spec, NVIDIA)
    monkeypatch.setenv(CHECK_PASSES, "0")
    with pytest.raises(VerificationError, match=f"^{found}"):
        lower(Gemm().spec, NVIDIA)


def _without_origin(op: Op) -> Op:
    return replace(op, attributes=tuple(pair for pair in op.attributes if pair[0] != "origin"))


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.variant)
def test_what_a_pass_requires_an_earlier_one_ensures(machine: Machine) -> None:
    held: tuple[Property, ...] = ENSURES
    for one in PASSES:
        if one.applies_to(machine):
            missing = [str(each) for each in one.requires if each not in held]
            assert not missing, f"{one.name} requires {missing}, which nothing before it ensures"
        held = one.holding(held, machine)
    assert not any(each.level == "tile" for each in held), "what is left in the end is of lanes"


def test_every_property_is_ensured_by_one_pass() -> None:
    ensured = [*ENSURES, *(each for one in PASSES for each in one.ensures)]
    assert sorted(ensured, key=str) == sorted({*TILE_PROPERTIES, *THREAD_PROPERTIES}, key=str)


def test_every_pass_says_what_it_requires_and_drops_what_was_there() -> None:
    held: set[Property] = {*ENSURES}
    for one in PASSES:
        assert one.requires, one.name
        assert one.name == "tile-to-thread" or held.issuperset(one.drops), one.name
        held |= {*one.ensures}


@pytest.mark.parametrize("one", [*TILE_PROPERTIES, *THREAD_PROPERTIES], ids=str)
def test_properties_are_sentences(one: Property) -> None:
    assert one.doc.endswith(".") and one.doc[0].isupper()
