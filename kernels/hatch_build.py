"""`generated/` of the project goes in; a wheel with the package `wavespec_kernels` comes out.

wavespec generate                                  # binaries beside the manifests
pip wheel --no-deps kernels                        # every target
WAVESPEC_KERNELS=cpu,sm_90 pip wheel --no-deps kernels
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

ROOT = Path(__file__).resolve().parents[1]
GENERATED = ROOT / "generated"
sys.path.insert(0, str(ROOT))

from wavespec.runtime.manifest import load_artifact  # noqa: E402
from wavespec.version import __version__  # noqa: E402


def chosen_targets() -> tuple[str, ...]:
    """Those that the environment names; none: all."""
    return tuple(sorted(filter(None, os.environ.get("WAVESPEC_KERNELS", "").split(","))))


class Metadata(MetadataHookInterface):
    """The version of wavespec, with the targets where they are chosen."""

    def update(self, metadata: dict[str, Any]) -> None:
        targets = chosen_targets()
        label = f"+{'.'.join(targets).replace('_', '.')}" if targets else ""
        metadata["version"] = __version__ + label
        metadata["dependencies"] = [f"wavespec=={__version__}"]


class Kernels(BuildHookInterface[Any]):
    """Wrappers, and the manifests and binaries of the chosen targets.

    Errors: `RuntimeError` where a binary is missing or not what its manifest says, or where a target has no kernels.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        targets = chosen_targets()
        manifests = sorted(GENERATED.rglob("*.json"))
        if unknown := set(targets) - {manifest.stem for manifest in manifests}:
            raise RuntimeError(f"WAVESPEC_KERNELS names {', '.join(sorted(unknown))}: nothing is built for that.")
        files = sorted(GENERATED.glob("*.py"))
        for manifest in manifests:
            if not targets or manifest.stem in targets:
                files += [manifest, *binaries_of(manifest)]
        build_data["force_include"] = {
            str(file): f"wavespec_kernels/{file.relative_to(GENERATED).as_posix()}" for file in files
        }


def binaries_of(manifest: Path) -> list[Path]:
    """The files that a manifest names."""
    found = [binary.code for member in load_artifact(manifest).members for binary in member.binaries]
    for code in found:
        if code.beside() is None:
            name = code.path.relative_to(ROOT)
            raise RuntimeError(f"{name} is missing, or not what its manifest says; run 'wavespec generate' first.")
    return [code.path for code in found]
