"""The targets that a spec may name, each with a YAML file beside this one; and how a build names variants of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

TargetName = Literal["cpu", "sm_90", "gfx942", "gfx950"]
TARGETS: tuple[TargetName, ...] = get_args(TargetName)

X86_64: Final = ("x86_64_amx", "x86_64_v4_bf16", "x86_64_v4", "x86_64_v3", "x86_64_v2")
AARCH64: Final = ("aarch64_v8_6", "aarch64_v8_2", "aarch64_v8")
VARIANTS: Final[Mapping[str, tuple[str, ...]]] = {
    "cpu": (*X86_64, *AARCH64),
    "sm_90": ("sm_90",),
    "gfx942": ("gfx942",),
    "gfx950": ("gfx950",),
}
"""The variants of each target as its file has them, for those who read specs and no machines."""
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
