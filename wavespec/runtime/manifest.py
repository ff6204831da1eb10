"""A compiled kernel goes to disk and comes back: one manifest, its binaries beside it or wherever `StoredCode` finds
them; or packed in one byte string.

On disk, beside the generated wrapper:

    gemm.artifacts/cpu.json                 manifest: tensors, dims, grid, sha256 of every binary
    gemm.artifacts/cpu.x86_64_v3.vmfb       one file per binary
    gemm.artifacts/cpu.case0.x86_64_v3.vmfb the same for the sizes of the first case
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from wavespec.runtime.artifact import (
    ArtifactCase,
    Assumption,
    Dim,
    KernelArtifact,
    TensorMap,
    TensorParameter,
    Window,
)
from wavespec.runtime.code import ArtifactError, Binary, PartPlace, Recipe, StoredCode
from wavespec.runtime.files import read_regular_file, replace_file
from wavespec.runtime.json_text import json_text
from wavespec.runtime.manifest_fields import check_fields
from wavespec.runtime.number_expr import number_from_json
from wavespec.runtime.scalars import ScalarParameter
from wavespec.runtime.shared_expr import TABLE, with_shared, without_shared
from wavespec.runtime.size_expr import from_json

FORMAT_VERSION: Final = 4
"""Raised whenever a manifest of an older version would be misread."""
_WITH_TABLE: Final = 5
"""Of a manifest that names expressions of a table."""

_MAGIC = b"WSKERNEL"
_MOST_MANIFEST_BYTES = 1 << 24
_FILE_NAME = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")


def artifact_to_manifest(artifact: KernelArtifact) -> dict[str, Any]:
    """Everything but the binaries' bytes, as JSON values; binaries are named and have their sha256, and so has all.

    A case has what it does not share with the kernel for all sizes.
    """
    launch = _launch_to_manifest(artifact)
    record = {
        "format_version": FORMAT_VERSION,
        "name": artifact.name,
        "target": artifact.target,
        "backend": artifact.backend,
        "architecture": artifact.architecture,
        "spec_sha256": artifact.spec_sha256,
        "compiler": artifact.compiler,
        "tensors": [_tensor_to_manifest(tensor) for tensor in artifact.tensors],
        **({"scalars": [_scalar_to_manifest(one) for one in artifact.scalars]} if artifact.scalars else {}),
        **launch,
        "cases": [
            {
                "when": _assumptions_to_manifest(case.conditions),
                **{name: own for name, own in _launch_to_manifest(case.kernel).items() if own != launch.get(name)},
            }
            for case in artifact.cases
        ],
    }
    record = with_shared(record)
    record |= {"format_version": _WITH_TABLE} if TABLE in record else {}
    return {**record, "sha256": _manifest_sha256(record)}


def _manifest_sha256(record: Mapping[str, Any]) -> str:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _tensor_to_manifest(tensor: TensorParameter) -> dict[str, Any]:
    record: dict[str, Any] = {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "dims": list(tensor.dims),
        "output": tensor.output,
    }
    record |= {word: True for word in ("updated", "zeroed") if getattr(tensor, word)}
    record |= {"strides": tensor.strides} if tensor.strides else {}
    return record | ({"promised": list(tensor.promised)} if tensor.promised else {})


def _scalar_to_manifest(scalar: ScalarParameter) -> dict[str, Any]:
    record: dict[str, Any] = {"name": scalar.name, "dtype": scalar.dtype}
    fields = ("default", "least", "most", "computed")
    record |= {field: value for field in fields if (value := getattr(scalar, field)) is not None}
    return record | ({"shapes": True} if scalar.shapes else {})


def _manifest_to_scalar(record: dict[str, Any]) -> ScalarParameter:
    limits = record.get("least"), record.get("most")
    computed = number_from_json(record["computed"]) if "computed" in record else None
    shapes = record.get("shapes", False)
    return ScalarParameter(record["name"], record["dtype"], record.get("default"), *limits, shapes, computed)


def _dim_to_manifest(dim: Dim) -> dict[str, Any]:
    record: dict[str, Any] = {"name": dim.name, "multiple_of": dim.multiple_of, "size": dim.size}
    record |= {} if dim.equals is None else {"equals": dim.equals}
    return {**record, "leading": True} if dim.leading else record


def _launch_to_manifest(artifact: KernelArtifact) -> dict[str, Any]:
    """What the kernels of two cases may have different."""
    return {
        "entry_point": artifact.entry_point,
        "dims": [_dim_to_manifest(dim) for dim in artifact.dims],
        "grid": list(artifact.grid),
        "workgroup_size": list(artifact.workgroup_size),
        "shared_memory_bytes": artifact.shared_memory_bytes,
        "scratch_bytes": list(artifact.scratch_bytes),
        **({"unlaunched_bytes": artifact.unlaunched_bytes} if artifact.unlaunched_bytes else {}),
        **({"unset_scratch": artifact.unset_scratch} if artifact.unset_scratch else {}),
        **({"waits": True} if artifact.waits else {}),
        **({"work": artifact.work} if artifact.work else {}),
        "tensor_maps": [_tensor_map_to_manifest(described) for described in artifact.tensor_maps],
        "assumptions": _assumptions_to_manifest(artifact.assumptions),
        "binaries": [_binary_to_manifest(binary) for binary in artifact.binaries],
        **({"steps": [_step_to_manifest(step) for step in artifact.steps]} if artifact.steps else {}),
    }


def _step_to_manifest(step: KernelArtifact) -> dict[str, Any]:
    return {
        "name": step.name,
        "tensors": [_tensor_to_manifest(tensor) for tensor in step.tensors],
        **_launch_to_manifest(step),
    }


def _tensor_map_to_manifest(described: TensorMap) -> dict[str, Any]:
    record: dict[str, Any] = {
        "tensor": described.tensor,
        "box": list(described.box),
        "swizzle_bytes": described.swizzle_bytes,
    }
    if described.view:
        record["view"] = list(described.view)
    if described.windows:
        record["windows"] = [{"first": w.first, "step": w.step, "count": w.count} for w in described.windows]
    if described.rounded:
        record["rounded"] = described.rounded
    if described.ended is not None:
        record["ended"] = described.ended
    if described.row_step > 1:
        record["row_step"] = described.row_step
    return record


def _manifest_to_tensor_map(record: dict[str, Any]) -> TensorMap:
    windows = (Window(w["first"], w["step"], from_json(w["count"])) for w in record.get("windows", ()))
    view = (from_json(size) for size in record.get("view", ()))
    box, rounded = tuple(record["box"]), record.get("rounded", "")
    further = record.get("ended"), record.get("row_step", 1)
    return TensorMap(record["tensor"], box, record["swizzle_bytes"], tuple(view), tuple(windows), rounded, *further)


def _binary_to_manifest(binary: Binary) -> dict[str, Any]:
    return {
        "label": binary.label,
        "format": binary.format,
        "requires": list(binary.requires),
        "bytes": binary.size,
        "sha256": binary.sha256,
        "mlir_sha256": binary.mlir_sha256,
        "figures": dict(binary.figures),
    }


def _assumptions_to_manifest(assumptions: tuple[Assumption, ...]) -> list[dict[str, Any]]:
    return [
        {"text": a.text, "condition": a.condition, **({"of_machine": True} if a.of_machine else {})}
        for a in assumptions
    ]


def artifact_files(artifact: KernelArtifact) -> dict[str, bytes]:
    """Binaries and, last, the manifest, by their names."""
    files = {
        _binary_name(artifact.target, place, binary.label, binary.format): binary.data
        for place, part in parts_of(artifact)
        for binary in part.binaries
    }
    return files | {manifest_name(artifact): manifest_text(artifact)}


def parts_of(artifact: KernelArtifact) -> Iterator[tuple[PartPlace, KernelArtifact]]:
    """What has code, in the order in which a pack has it."""
    for case, member in zip((*range(len(artifact.cases)), None), artifact.members, strict=True):
        for number, part in enumerate(member.parts):
            yield PartPlace(case, number if member.steps else None), part


def manifest_name(artifact: KernelArtifact) -> str:
    return f"{_checked_name(artifact.target)}.json"


def manifest_text(artifact: KernelArtifact) -> bytes:
    """The manifest as a file has it."""
    return (json_text(artifact_to_manifest(artifact)) + "\n").encode()


def save_artifact(artifact: KernelArtifact, directory: Path) -> list[Path]:
    """Write manifest and binaries into `directory`; returns the files, the manifest last.

    A file is replaced whole or not at all, and left alone where it already has the same bytes.
    """
    directory.mkdir(parents=True, exist_ok=True)
    files = {directory / name: data for name, data in artifact_files(artifact).items()}
    for path, data in files.items():
        if not path.is_file() or path.read_bytes() != data:
            replace_file(path, data)
    return list(files)


def load_artifact(manifest: Path, spec: Path | None = None) -> KernelArtifact:
    """Read a manifest; `ArtifactError` says what is missing, damaged, edited or too old.

    Its machine code is looked for when it is needed; ``spec``: the file that it may be built again from.
    """
    record = read_manifest(manifest)

    def stored(place: PartPlace, entry: dict[str, Any]) -> StoredCode:
        name = _binary_name(record["target"], place, entry["label"], entry["format"])
        recipe = spec and Recipe(
            spec, record["spec_sha256"], record["target"], place, entry["label"], entry["mlir_sha256"]
        )
        return StoredCode(record["name"], entry["sha256"], entry["bytes"], manifest.parent / name, recipe)

    try:
        return _from_manifest(record, stored)
    except ValueError as error:
        raise ArtifactError(f"{manifest.name}: {error}.") from error


def read_manifest(manifest: Path) -> dict[str, Any]:
    """The record that `artifact_to_manifest` made; `ArtifactError` for any other text."""
    try:
        return _checked_record(read_regular_file(manifest, _MOST_MANIFEST_BYTES))
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{manifest.name}: {error}.") from error


def _checked_record(text: bytes) -> dict[str, Any]:
    """Errors: `ValueError` for what is not a record as it was written.

    What a launch computes from a record decides which memory it touches, so none is believed that was edited.  Its
    fields are looked at all the same: whoever edits one can compute the sha256 of it, too.
    """
    try:
        values = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(values, dict):
        raise ValueError("not a manifest")
    record = cast(dict[str, Any], values)
    found = record.get("format_version")
    if found != (expected := _WITH_TABLE if TABLE in record else FORMAT_VERSION):
        raise ValueError(f"format version {found!r:.40}, expected {expected}; build it again")
    if record.pop("sha256", None) != _manifest_sha256(record):
        raise ValueError("it was changed since it was built; build it again")
    try:
        record = without_shared(record)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    check_fields(record)
    return record


def pack_artifact(artifact: KernelArtifact) -> bytes:
    """The artifact as one byte string, for pipes and files; `unpack_artifact` is the way back."""
    manifest = json.dumps(artifact_to_manifest(artifact), separators=(",", ":")).encode()
    binaries = [binary.data for _, part in parts_of(artifact) for binary in part.binaries]
    return b"".join((_MAGIC, len(manifest).to_bytes(8, "little"), manifest, *binaries))


def unpack_artifact(data: bytes) -> KernelArtifact:
    """Inverse of `pack_artifact`; `ArtifactError` where the bytes are not what it wrote."""
    try:
        start = len(_MAGIC) + 8
        if data[: len(_MAGIC)] != _MAGIC:
            raise ValueError("not a packed kernel")
        end = start + int.from_bytes(data[len(_MAGIC) : start], "little")
        record = _checked_record(data[start:end])

        def read(place: PartPlace, entry: dict[str, Any]) -> bytes:
            nonlocal end
            end += entry["bytes"]
            return _checked_code(entry, data[end - entry["bytes"] : end])

        artifact = _from_manifest(record, read)
        if end != len(data):
            raise ValueError(f"{len(data)} bytes, expected {end}")
        return artifact
    except ValueError as error:
        raise ArtifactError(f"Packed kernel: {error}.") from error


def manifest_to_artifact(text: bytes, read: Callable[[str], bytes]) -> KernelArtifact:
    """What `manifest_text` wrote; `read` gives machine code by its sha256.

    Errors: `ArtifactError` for another text, or other code; what `read` raises.
    """
    try:
        return _from_manifest(_checked_record(text), lambda _, entry: _checked_code(entry, read(entry["sha256"])))
    except ValueError as error:
        raise ArtifactError(f"Manifest: {error}.") from error


def _checked_code(entry: dict[str, Any], data: bytes) -> bytes:
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise ValueError(f"binary {entry['label']!r} does not have the sha256 of its manifest; build it again")
    return data


_ReadCode = Callable[[PartPlace, dict[str, Any]], bytes | StoredCode]


def _from_manifest(record: dict[str, Any], read: _ReadCode) -> KernelArtifact:
    """`read` gives the code of an entry of `binaries` at a place; it is called in the order in which a pack has
    them."""
    cases = [
        ArtifactCase(_assumptions(case["when"]), _member({**record, "steps": [], **case}, index, read))
        for index, case in enumerate(record["cases"])
    ]
    return replace(_member(record, None, read), cases=tuple(cases))


def _member(record: dict[str, Any], case: int | None, read: _ReadCode) -> KernelArtifact:
    kernel = _kernel(record, _binaries(record, partial(read, PartPlace(case))))
    steps = [record | step for step in record.get("steps", ())]
    parts = [_kernel(one, _binaries(one, partial(read, PartPlace(case, index)))) for index, one in enumerate(steps)]
    return replace(kernel, steps=tuple(parts))


def _binaries(record: dict[str, Any], read: Callable[[dict[str, Any]], bytes | StoredCode]) -> tuple[Binary, ...]:
    return tuple(
        Binary(
            entry["label"],
            entry["format"],
            read(entry),
            tuple(entry["requires"]),
            entry["mlir_sha256"],
            tuple(entry["figures"].items()),
        )
        for entry in record["binaries"]
    )


def _assumptions(records: list[dict[str, Any]]) -> tuple[Assumption, ...]:
    return tuple(Assumption(a["text"], from_json(a["condition"]), a.get("of_machine", False)) for a in records)


def _manifest_to_dim(record: dict[str, Any]) -> Dim:
    equals = from_json(record["equals"]) if "equals" in record else None
    return Dim(record["name"], record["multiple_of"], record["size"], equals, record.get("leading", False))


def _kernel(record: dict[str, Any], binaries: tuple[Binary, ...]) -> KernelArtifact:
    x, y, z = (from_json(expression) for expression in record["grid"])
    threads_x, threads_y, threads_z = (from_json(expression) for expression in record["workgroup_size"])
    return KernelArtifact(
        name=record["name"],
        target=record["target"],
        backend=record["backend"],
        architecture=record["architecture"],
        spec_sha256=record["spec_sha256"],
        compiler=record["compiler"],
        entry_point=record["entry_point"],
        tensors=tuple(
            TensorParameter(
                t["name"],
                t["dtype"],
                tuple(t["dims"]),
                t["output"],
                t.get("updated", False),
                t.get("zeroed", False),
                t.get("strides", ""),
                tuple(from_json(stride) for stride in t.get("promised", ())),
            )
            for t in record["tensors"]
        ),
        scalars=tuple(_manifest_to_scalar(one) for one in record.get("scalars", ())),
        dims=tuple(_manifest_to_dim(d) for d in record["dims"]),
        grid=(x, y, z),
        workgroup_size=(threads_x, threads_y, threads_z),
        shared_memory_bytes=record["shared_memory_bytes"],
        scratch_bytes=tuple(from_json(expression) for expression in record["scratch_bytes"]),
        unlaunched_bytes=from_json(record.get("unlaunched_bytes", 0)),
        unset_scratch=record.get("unset_scratch", 0),
        waits=record.get("waits", False),
        work=from_json(record.get("work", 0)),
        tensor_maps=tuple(_manifest_to_tensor_map(m) for m in record["tensor_maps"]),
        assumptions=_assumptions(record["assumptions"]),
        binaries=binaries,
    )


def file_stem(target: str, place: PartPlace, label: str) -> str:
    """Name, without its suffix, of a file about the binary `label` of what is at a place."""
    numbers = [f"{word}{number}" for word, number in zip(("case", "step"), place, strict=True) if number is not None]
    return ".".join([target, *numbers, *([] if label == target else [label])])


def _binary_name(target: str, place: PartPlace, label: str, file_format: str) -> str:
    return _checked_name(f"{file_stem(target, place, label)}.{file_format}")


def _checked_name(name: str) -> str:
    # A manifest is input: a label such as `../x` must not leave the directory.
    if not _FILE_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no file name for an artifact")
    return name
