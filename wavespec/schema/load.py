"""A `.wave.yaml` file, or its text, goes in; a checked `KernelSpec`, or all its mistakes, comes out."""

from __future__ import annotations

import os
from pathlib import Path

from wavespec.diagnostics import Diagnostic, WavespecError, Where, in_order, quote, raise_all
from wavespec.schema.checking.check_spec import check_kernel
from wavespec.schema.families.members import is_family, member_to_extend, typed_to_extend
from wavespec.schema.language.errors import MissingField, WrongType
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.language.one_cause import said_once
from wavespec.schema.plans.planned import planned
from wavespec.schema.reading.dtype_members import name_of, name_of_all, named_member, parameters_of
from wavespec.schema.reading.each_strided import for_each_strided
from wavespec.schema.reading.grouped_cases import with_cases_of_groups
from wavespec.schema.reading.merge import finish, merge
from wavespec.schema.reading.parts import expand_parts
from wavespec.schema.reading.source_files import SPEC_SUFFIX, read_text
from wavespec.schema.reading.spec_file import SpecFile
from wavespec.schema.reading.tuned import (
    TunedAsSpec,
    TunedForAnother,
    TunedSpec,
    TunedWithoutSpec,
    spec_path,
    spec_with_tuned,
    tuned_path,
)
from wavespec.schema.reading.yaml_source import MappingNode, Node, ScalarNode, yaml_to_nodes
from wavespec.schema.reading.yaml_to_spec import nodes_to_spec, nodes_to_tuned


class BaseIsOneKernel(WavespecError, code="not-a-family"):
    def __init__(self, where: Where, base: str) -> None:
        super().__init__(where, f"{quote(base)} is one kernel, not a family.", hints=["Leave 'member' out."])


class FamilyAsKernel(WavespecError, code="family-as-kernel"):
    """A family was given where one kernel has to be."""

    def __init__(self, where: Where) -> None:
        super().__init__(
            where,
            "This file is a family of kernels, not one kernel.",
            hints=["'wavespec expand' writes its kernels as files; in Python, 'wavespec.load_family' reads it."],
        )


def load(path: str | os.PathLike[str]) -> KernelSpec:
    """Read, resolve `extends`, check the spec at `path`, and add the tuned cases that are kept beside it.

    Of a spec with `dtypes` it is the kernel of the first types; `load_family` has all of them.

    Raises:
        WavespecError: with a diagnostic for every mistake, sorted by position.
    """
    return load_with_warnings(path)[0]


def load_untuned(
    path: str | os.PathLike[str], member: str = "", place: Path | None = None
) -> tuple[KernelSpec, TunedSpec | None]:
    """The spec at `path` by itself, and the tuned settings beside it.

    Args:
        member: of a spec with `dtypes`, the name of the kernel that is meant.
        place: `path_of_member` of that.

    Raises:
        WavespecError: with a diagnostic for every mistake, sorted by position.
    """
    file = Path(path)
    spec, _ = _text_to_spec(read_text(file, None, follow_links=True), os.fspath(path), file, member=member)
    return spec, _read_tuned(spec, os.fspath(path), place or file)


def load_with_warnings(path: str | os.PathLike[str]) -> tuple[KernelSpec, tuple[Diagnostic, ...]]:
    """Like `load`, with what is suspicious but allowed."""
    file = Path(path)
    spec, warnings = _text_to_spec(read_text(file, None, follow_links=True), os.fspath(path), file)
    return with_tuned(spec, os.fspath(path), file), warnings


def is_tuned_file(path: str | os.PathLike[str]) -> bool:
    """Whether the file at `path` has tuned settings, by its name or by its `kind`."""
    file = Path(path)
    if spec_path(file) is not None:
        return True
    try:
        node, _ = yaml_to_nodes(read_text(file, None, follow_links=True), os.fspath(path))
    except WavespecError:
        return False
    return _kind(node, "Tuned") is not None


def load_tuned(path: str | os.PathLike[str]) -> tuple[KernelSpec, TunedSpec]:
    """The spec beside the tuned settings at `path`, with them in place of its own cases, and the settings.

    Raises:
        WavespecError: with a diagnostic for every mistake of the settings, or else of the spec.
    """
    file = Path(path)
    tuned = _text_to_tuned(read_text(file, None, follow_links=True), os.fspath(path))
    beside, member = _spec_of_tuned(file)
    if beside is None or not os.path.lexists(beside):
        raise TunedWithoutSpec(tuned.where("kernel"), tuned.kernel, beside)
    name = os.path.join(os.path.dirname(os.fspath(path)), beside.name)
    spec, _ = _text_to_spec(read_text(beside, None, follow_links=True), name, beside, member=member)
    _check_tuned(spec, tuned)
    return spec_with_tuned(spec, tuned, alone=True), tuned


def loads(text: str, file: str = "<text>", directory: str | os.PathLike[str] | None = None) -> KernelSpec:
    """Like `load`, for text; `file` is its name in messages, `directory` the folder that it is in, if any.

    Raises:
        WavespecError: with a diagnostic for every mistake, sorted by position.
    """
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"Expected the text of a spec, found {type(text).__name__}.")
    base = None if directory is None else Path(directory) / os.path.basename(file)
    spec, _ = _text_to_spec(text, file, base)
    return spec if base is None else with_tuned(spec, file, base)


def loads_plain(text: str) -> KernelSpec:
    """The plain spec of a target or case that was written as `text`; it shares its schedule with others.

    Raises:
        WavespecError: with a diagnostic for every mistake.
    """
    return _text_to_spec(text, "<plain>", None, is_plain=True)[0]


def _spec_of_tuned(tuned: Path) -> tuple[Path | None, str]:
    """The spec whose settings are at `tuned`, and which of its kernels has them if it is not the first."""
    beside = spec_path(tuned)
    if beside is None or os.path.lexists(beside):
        return beside, ""
    of_member = stem = beside.name.removesuffix(SPEC_SUFFIX)
    while "_" in stem:
        stem = stem.rpartition("_")[0]
        whole = beside.with_name(stem + SPEC_SUFFIX)
        try:
            node, _ = yaml_to_nodes(read_text(whole, None, follow_links=True), whole.name)
            root = merged_node(node, whole.name, whole, [])
            if (parameters := parameters_of(root)) is None:
                continue
            member = name_of_all(name_of(root), parameters) + of_member.removeprefix(stem)
            if named_member(root, parameters, member):
                return whole, member
        except WavespecError:  # there is none, or one that `check` says is wrong
            continue
    return beside, ""


def _text_to_spec(
    text: str, name: str, path: Path | None, *, is_plain: bool = False, member: str = ""
) -> tuple[KernelSpec, tuple[Diagnostic, ...]]:
    node, found = yaml_to_nodes(text, name)
    if kind := _kind(node, "Tuned"):
        raise TunedAsSpec(kind.span, spec_path(Path(name)))
    if kind := _kind(node, "Family"):
        raise FamilyAsKernel(kind.span)
    return node_to_spec(node, found, name, path, is_plain=is_plain, member=member)


def node_to_spec(
    node: Node,
    errors: list[WavespecError],
    name: str,
    path: Path | None,
    *,
    is_plain: bool = False,
    member: str = "",
) -> tuple[KernelSpec, tuple[Diagnostic, ...]]:
    """The checked kernel of a tree, and what is suspicious in it; `errors` were found before.

    Args:
        member: of a kernel with `dtypes`, the name of the one that is meant; by default that of the first types.

    Raises:
        WavespecError: with a diagnostic for every mistake, sorted by position.
    """
    errors = list(errors)
    node = merged_node(node, name, path, errors)
    if (parameters := parameters_of(node)) is not None:
        chosen = named_member(node, parameters, member)
        assert chosen is not None, f"{name} has no kernel {member}"
        node = chosen
    result = nodes_to_spec(node)
    errors += result.errors
    spec = result.spec
    if spec is not None:
        spec = spec.with_own_schedule(False) if is_plain else planned(spec)
        errors += check_kernel(spec, result.broken, is_whole=not errors)
    raise_all(said_once(errors))
    assert spec is not None
    return spec, in_order(diagnostic for error in errors for diagnostic in error.diagnostics)


def merged_node(node: Node, name: str, path: Path | None, errors: list[WavespecError]) -> Node:
    """The tree of a kernel with those that it `extends`; mistakes that leave it usable are added to ``errors``.

    Raises:
        WavespecError: a base that cannot be read, or a mistake in how they are put together.
    """
    made: list[WavespecError] = []
    node = finish(_with_base(node, SpecFile.of(name, path), errors, made), made.append)
    if not made:
        node = for_each_strided(with_cases_of_groups(expand_parts(node, made), made.append), made.append)
    # Of a kernel that was not put together, further mistakes would be about another one.
    raise_all(said_once([*errors, *made]) if made else [])
    return node


def with_tuned(spec: KernelSpec, name: str, path: Path) -> KernelSpec:
    """The spec with the tuned settings that are kept beside `path`, if there are some.

    Raises:
        WavespecError: with a diagnostic for every mistake of the settings.
    """
    tuned = _read_tuned(spec, name, path)
    return spec if tuned is None else spec_with_tuned(spec, tuned)


def _read_tuned(spec: KernelSpec, name: str, path: Path) -> TunedSpec | None:
    file = tuned_path(path)
    if file is None or not os.path.lexists(file):
        return None
    name = os.path.join(os.path.dirname(name), file.name)
    tuned = _text_to_tuned(read_text(file, None, follow_links=False), name)
    _check_tuned(spec, tuned)
    return tuned


def _text_to_tuned(text: str, name: str) -> TunedSpec:
    node, found = yaml_to_nodes(text, name)
    tuned, errors = nodes_to_tuned(node)
    raise_all([*found, *errors])
    assert tuned is not None
    return tuned


def _check_tuned(spec: KernelSpec, tuned: TunedSpec) -> None:
    if tuned.kernel != spec.name:
        raise TunedForAnother(tuned.span_of("kernel"), tuned.kernel, spec.name)
    # Alone: a tuned case may well stand in front of one that the spec has for the same sizes.
    raise_all(check_kernel(spec_with_tuned(spec, tuned, alone=True)))


def _kind(node: Node, word: str) -> ScalarNode | None:
    """What says that a file is of the kind `word`."""
    kind = node.get("kind") if isinstance(node, MappingNode) else None
    return kind if isinstance(kind, ScalarNode) and kind.value == word else None


def _with_base(node: Node, file: SpecFile, errors: list[WavespecError], made: list[WavespecError]) -> Node:
    """The tree over those that it extends; `errors` leave it usable, with those in `made` it is another kernel."""
    if not isinstance(node, MappingNode) or (extends := node.get("extends")) is None:
        return node
    own = MappingNode(tuple(entry for entry in node.entries if entry.key not in ("extends", "member")), node.span)
    for field in ("apiVersion", "kind"):
        if own.get(field) is None:
            # A file says itself what it is: it is read by editors and by people without its base.
            errors.append(MissingField(node.entries[0].key_span, field, "A kernel"))
    if not isinstance(extends, ScalarNode) or not isinstance(extends.value, str):
        errors.append(WrongType(extends.span, "a relative path", "something else"))
        return own
    member = node.get("member")
    above, base = file.base(extends, errors)
    if is_family(base):
        base = member_to_extend(base, above, member, extends.span)
        return merge(_with_base(base, above, errors, made), own, made.append)
    base = _with_base(base, above, errors, made)
    if member is not None:
        parameters = parameters_of(base)
        if parameters is None or not isinstance(base, MappingNode):
            raise BaseIsOneKernel(member.span, extends.value)
        base = typed_to_extend(base, parameters, member)
    return merge(base, own, made.append)
