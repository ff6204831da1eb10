"""What this machine's CPU can execute, in the words of /proc/cpuinfo, and the best binary for it."""

from __future__ import annotations

import ctypes
import functools
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from wavespec.architecture import architecture
from wavespec.runtime.artifact import ArtifactCase, KernelArtifact
from wavespec.runtime.code import ArtifactError, Binary

# https://docs.kernel.org/arch/x86/xstate.html: a process has to ask before its first AMX tile instruction.
_SYS_ARCH_PRCTL = 158
_ARCH_REQ_XCOMP_PERM = 0x1023
_XFEATURE_XTILEDATA = 18

# https://developer.apple.com/documentation/kernel/1387446-sysctlbyname/determining_instruction_set_characteristics
_MACOS_FEATURES = {
    "asimddp": b"hw.optional.arm.FEAT_DotProd",
    "i8mm": b"hw.optional.arm.FEAT_I8MM",
    "bf16": b"hw.optional.arm.FEAT_BF16",
}

_V2_FEATURES = frozenset({"cx16", "pni", "popcnt", "sse4_1", "sse4_2", "ssse3"})
_AVX2_FEATURES = _V2_FEATURES | {"avx", "avx2", "fma", "f16c", "bmi1", "bmi2", "movbe"}
_TORCH_CAPABILITY_FEATURES = {
    "AVX2": _AVX2_FEATURES,
    "AVX512": _AVX2_FEATURES | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}


@functools.cache
def cpu_features() -> frozenset[str]:
    """Feature names that code may use here, e.g. `avx2`, `avx512_bf16`; AMX only where Linux grants it."""
    if architecture() == "aarch64" and sys.platform == "darwin":
        return _features_of_macos()
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        if architecture() == "aarch64":
            return frozenset({"asimd"})
        import torch  # seconds, which nobody pays where the system says what there is

        return _TORCH_CAPABILITY_FEATURES.get(torch.backends.cpu.get_cpu_capability(), frozenset())
    line = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    features = frozenset(line[1].split()) if line else frozenset[str]()
    if "amx_tile" in features and not request_amx():
        return frozenset(name for name in features if not name.startswith("amx"))
    return features


def _features_of_macos() -> frozenset[str]:
    """What the kernel says, in Linux's words; every processor of Apple's has the first."""
    libc, number = ctypes.CDLL(None), ctypes.c_int()
    found = {"asimd"}
    for word, name in _MACOS_FEATURES.items():
        size = ctypes.c_size_t(ctypes.sizeof(number))
        if libc.sysctlbyname(name, ctypes.byref(number), ctypes.byref(size), None, ctypes.c_size_t(0)) == 0:
            found |= {word} if number.value else set()
    return frozenset(found)


@functools.cache
def request_amx() -> bool:
    """Ask Linux for the AMX tile registers, once per process; False where they cannot be used."""
    if sys.platform != "linux" or architecture() != "x86_64":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.syscall(_SYS_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA) == 0


def for_processor(artifact: KernelArtifact, features: Iterable[str]) -> KernelArtifact:
    """The kernel with those cases of it that the best of its variants here has: some cases are for others."""
    best = _best((artifact.steps or (artifact,))[-1].binaries, features)
    if best is None:
        return artifact

    def labels(case: ArtifactCase) -> set[str]:
        return {binary.label for part in (case.kernel, *case.kernel.steps) for binary in part.binaries}

    own = tuple(case for case in artifact.cases if best.label in labels(case))
    return artifact if len(own) == len(artifact.cases) else replace(artifact, cases=own)


def choose_binary(binaries: Sequence[Binary], features: Iterable[str], kernel: str) -> Binary:
    """The first of `binaries` (best first) that needs nothing beyond `features`, else `ArtifactError`."""
    best = _best(binaries, features)
    if best is not None:
        return best
    missing = {binary.label: sorted(set(binary.requires).difference(features)) for binary in binaries}
    raise ArtifactError(f"{kernel}: no variant runs on this CPU; features missing: {missing}.")


def _best(binaries: Sequence[Binary], features: Iterable[str]) -> Binary | None:
    available = frozenset(features)
    return next((binary for binary in binaries if available.issuperset(binary.requires)), None)
