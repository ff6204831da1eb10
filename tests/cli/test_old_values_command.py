"""`run`, `--simulate`, `--debug` and `tune` of results that depend on the order of elements."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.cli.command import Command
from wavespec.cli.measure import accuracy
from wavespec.schema import loads

TICKETS = """apiVersion: wavespec/v1
kind: Kernel
name: tickets
dims: {T: {}, X: {}}
tensors:
  counts: {shape: [X], dtype: i32, role: inout}
  expert: {shape: [T], dtype: i32, values: {min: 0, max: X - 1}}
  tickets: {shape: [T], dtype: i32, role: output}
constraints:
  - {workgroup: T, tile: 64, axis: 0}
  - {wave: T, tile: 16}
graph:
  - to: {read: expert}
  - one: {register: [T], dtype: i32, value: 1}
  - ticket: {atomic: one, to: counts, at: {X: to}, combine: add}
  - {write: ticket, to: tickets}
"""


@pytest.fixture
def tickets(tmp_path: Path) -> Path:
    path = tmp_path / "tickets.wave.yaml"
    path.write_text(TICKETS)
    return path


@pytest.mark.compiles
def test_a_run_is_judged_by_what_it_finds(wavespec: Command, tickets: Path) -> None:
    ran = wavespec("run", tickets, "--dim", "T=5000", "--dim", "X=3", "--debug", "ticket", "--json")
    (row,) = json.loads(ran.out)["results"]
    assert ran.code == 0 and row["verdict"] == "ok", row
    assert list(row["debug"]) == ["debug_ticket"] and row["debug"]["debug_ticket"]["difference"] == 0


def test_a_simulated_run_is_judged_by_what_it_finds(wavespec: Command, tickets: Path) -> None:
    ran = wavespec("run", tickets, "--dim", "T=90", "--dim", "X=3", "--simulate", "--target", "gfx942", "--json")
    (row,) = json.loads(ran.out)["results"]
    assert ran.code == 0 and row["verdict"] == "ok" and not row["findings"], row


def test_what_depends_on_the_order_is_not_compared_without_what_was_found() -> None:
    spec = loads(TICKETS, "tickets.wave.yaml")
    counts, expert = torch.zeros(2, dtype=torch.int32), torch.tensor([0, 1, 0], dtype=torch.int32)
    after, other = torch.tensor([2, 1], dtype=torch.int32), torch.tensor([1, 0, 0], dtype=torch.int32)
    found, doubts = accuracy(spec, [counts, expert], [after, other])
    assert found.ok
    assert [one.text for one in doubts] == ["'tickets' depends on the order of elements, and is not compared"]
    assert not accuracy(spec, [counts, expert], [after + 1, other])[0].ok


def test_candidates_cannot_be_compared(wavespec: Command, tickets: Path) -> None:
    assert "error[depends-on-order]" in wavespec("tune", tickets, "--workload", "T=90,X=3").err
