"""Plans of calls go in; what was made of the last ones comes out, so that calls of sizes in turns make it once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from wavespec.runtime.launch_plan import LaunchPlan

Made = TypeVar("Made")

_MOST: Final = 16
"""Plans that are kept, as many as calls of different sizes may take turns by."""


class KeptPlans(Generic[Made]):
    """What ``make`` makes of plans, by the plans themselves: equal ones of other calls are others."""

    def __init__(self, make: Callable[[LaunchPlan], Made]) -> None:
        self._make = make
        self._known = dict[int, tuple[LaunchPlan, Made]]()

    def of(self, plan: LaunchPlan) -> Made:
        known = self._known.get(id(plan))
        if known is None or known[0] is not plan:
            if len(self._known) >= _MOST:
                self._known.clear()
            known = self._known[id(plan)] = plan, self._make(plan)
        return known[1]
