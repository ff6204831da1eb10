"""The targets that a spec may name, each with a YAML file beside this one; and how a build names variants of one."""

from __future__ import annotations

from typing import Literal, get_args

TargetName = Literal["cpu", "sm_90", "gfx942", "gfx950"]
TARGETS: tuple[TargetName, ...] = get_args(TargetName)

ALIGNED: frozenset[TargetName] = frozenset(("sm_90", "gfx942", "gfx950"))
"""Those whose wide accesses start at multiples of their size, so that kernels differ by what is known of rows."""
ONE_LANE: frozenset[TargetName] = frozenset(("cpu",))
"""Those whose waves are one lane with vectors, which find faster what lies side by side for longer."""
WIDEST_BITS = 128
"""Of an access of one lane of those that are aligned."""


def target_of(chosen: str) -> str:
    """The target in ``TARGET`` or ``TARGET:VARIANT+VARIANT``."""
    return chosen.partition(":")[0]


def variants_in(chosen: str) -> frozenset[str]:
    """The variants in ``TARGET:VARIANT+VARIANT``; none where the target alone is named."""
    return frozenset(filter(None, chosen.partition(":")[2].split("+")))
