"""Hypothesis profiles: `fast` by default, `HYPOTHESIS_PROFILE=long` for minutes of search."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
_FOUND = (Phase.explicit, Phase.generate)  # shrinking a failure takes minutes: the long profile does it
settings.register_profile(
    "fast", max_examples=25, deadline=None, derandomize=True, phases=_FOUND, suppress_health_check=_SLOW
)
settings.register_profile("long", max_examples=1500, deadline=None, print_blob=True, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))
