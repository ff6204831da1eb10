"""The emulator's counters of accesses in flight are as short as the hardware's."""

from __future__ import annotations

from tests.amd.amd_gemms import InFlight


def test_what_a_full_counter_has_no_room_for_waits_for_the_oldest_access() -> None:
    """Compilers leave out waits for loads that so many others were issued behind."""
    landed: list[int] = []
    flight = InFlight(3)
    for number in range(5):
        flight.append(lambda number=number: landed.append(number))
    assert landed == [0, 1]
    assert len(flight) == 3


def test_writes_that_wait_for_nothing_count_as_well() -> None:
    flight = InFlight(1)
    flight.append(None)
    flight.append(None)
    assert flight == [None]
