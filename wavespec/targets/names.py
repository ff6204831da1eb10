"""The targets that a spec may name; each has a YAML file beside this one."""

from __future__ import annotations

from typing import Literal, get_args

TargetName = Literal["cpu", "sm_90", "gfx942", "gfx950"]
TARGETS: tuple[TargetName, ...] = get_args(TargetName)
