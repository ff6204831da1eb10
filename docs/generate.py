"""The models, passes and errors of the code go in; the generated parts of the pages in docs/ come out.

    python docs/generate.py            rewrite them
    python docs/generate.py --check    only say which are not up to date (what CI runs)

A page is written by hand around parts of the form

    <!-- generated: NAME ARGUMENT... -->
    <!-- end generated -->
"""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import wavespec
from wavespec.cache import CompileCache
from wavespec.diagnostics import WavespecError
from wavespec.ir.declarations import Attribute, Trait
from wavespec.ir.thread_ops import THREAD_OPS
from wavespec.ir.tile_ops import TILE_OPS
from wavespec.lower.base import Pass
from wavespec.lower.order import PASSES
from wavespec.pipeline import FIRST_STAGE, build_variant, emit, stages_of
from wavespec.schema import loads
from wavespec.schema.families.load_family import is_family_file, loads_family
from wavespec.schema.language.dim_names import DIM_PATTERN
from wavespec.schema.ops import ARG_REDUCTIONS, OPS, REDUCTIONS, SCANS
from wavespec.schema.ops.elementwise import ELEMENTWISE, Elementwise
from wavespec.schema.reading.json_schema import family_json_schema, json_schema
from wavespec.schema.reading.source_files import SPEC_SUFFIX
from wavespec.targets.machine import variants
from wavespec.targets.names import TARGETS

_DOCS = Path(__file__).parent
_PART = re.compile(r"(<!-- generated: ([^>]*?) -->\n).*?(<!-- end generated -->)", re.DOTALL)
_LINES_SHOWN = 48
_WIDTH = 160
_EDITS = dict.fromkeys(("StatementEdits", "ConstraintEdits", "CaseEdits"), "edits-of-lists")
_SECTIONS = {"Constraint": "constraints", "Statement": "ops", "Part": "parts-of-graphs", **_EDITS}


def page_text(text: str) -> str:
    """The page with all of its generated parts made anew."""

    def part(found: re.Match[str]) -> str:
        name, *arguments = found[2].split()
        return f"{found[1]}{_PARTS[name](*arguments).strip()}\n{found[3]}"

    return _PART.sub(part, text)


def stages(name: str, target: str) -> str:
    """A kernel after every stage that changed it."""
    path = _DOCS.parent / "specs" / f"{name}.wave.yaml"
    spec = loads(path.read_text(encoding="utf-8"), f"specs/{path.name}", path.parent)
    # Not the best variant here: the page must not depend on the machine it is made on.
    machine = variants(target)[0]
    from wavespec.ir.printer import print_kernel

    lines: list[str] = []
    before = ""
    for stage, kernel, changed, _ in stages_of(spec, machine):
        lines += [f"### {stage}", "", _summary(stage), ""]
        skipped = any(one.name == stage and not one.applies_to(machine) for one in PASSES)
        same = "It is for other machines." if skipped else "It leaves this kernel as it was."
        after = print_kernel(kernel)
        lines += _code(_changes(before, after), "diff") if changed else [same, ""]
        before = after
    lines += [
        "### mlir",
        "",
        "What IREE is given. Every line carries the place in the spec that it comes from.",
        "",
    ]
    lines += _code(_shortened(emit(spec, machine).text), "mlir")
    _, compiled = build_variant(spec, machine, intermediates=True, cache=CompileCache())
    from wavespec.generate import isa_text

    lines += [
        "### isa",
        "",
        "What the machine executes.",
        "",
        *_code(_shortened(isa_text(compiled.dumped)[1]), "asm"),
    ]
    return "\n".join(lines)


def passes() -> str:
    """The passes in order, each with the first sentence of its class and the machines it does anything for."""
    rows = [f"| `{FIRST_STAGE}` | {_summary(FIRST_STAGE)} | all |"]
    rows += [f"| `{one.name}` | {_summary(one.name)} | {_machines_of(one)} |" for one in PASSES]
    return "\n".join(["| pass | what it does | machines |", "| --- | --- | --- |", *rows])


def _machines_of(one: Pass) -> str:
    known = [machine for target in TARGETS for machine in variants(target)]
    others = {machine.variant for machine in known if not one.applies_to(machine)}
    targets = [target for target in TARGETS if others.isdisjoint(machine.variant for machine in variants(target))]
    targets += [row.variant for row in known if row.variant not in others and row.target not in targets]
    return ", ".join(f"`{name}`" for name in targets) if others else "all"


def folders() -> str:
    """The packages of wavespec, each with its docstring."""
    rows: list[str] = []
    for path in sorted(Path(wavespec.__file__).parent.iterdir()):
        file = path / "__init__.py" if path.is_dir() else path
        if file.suffix == ".py" and file.exists() and not path.stem.startswith("__"):
            summary = _first_sentence(ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "")
            rows.append(f"| `wavespec/{path.name}{'/' * path.is_dir()}` | {summary} |")
    return "\n".join(["| where | what |", "| --- | --- |", *rows])


def family() -> str:
    """The fields of a family."""
    schema = family_json_schema()
    return _fields("Family", schema, schema["required"])


def models(*names: str) -> str:
    """Tables of fields, from the JSON Schema that editors use; without names, of the kernel itself."""
    schema = json_schema()
    # A spec that extends another may leave out what is required of a whole one: the schema says so apart.
    whole: dict[str, Any] = schema["else"]
    always = {
        "Kernel": whole["required"],
        "Tensor": whole["properties"]["tensors"]["additionalProperties"]["required"],
    }
    chosen: dict[str, Any] = {name: schema["$defs"][name] for name in names} if names else {"Kernel": schema}
    lines: list[str] = []
    for name, model in chosen.items():
        word = next(iter(model["properties"]))
        title = f"`{word}`" if word == name.lower() or (word in OPS and word in model.get("required", ())) else name
        lines += [_fields(title, model, [*model.get("required", []), *always.get(name, [])]), ""]
    return "\n".join(lines)


def _fields(title: str, model: dict[str, Any], required: list[str]) -> str:
    lines = [f"### {title}", "", _cell(model.get("description", "")), ""]
    lines += ["| field | type | default | meaning |", "| --- | --- | --- | --- |"]
    for field, value in model["properties"].items():
        default = "required" if field in required else _default(value)
        row = (f"`{field}`", _type(value), default, _cell(value.get("description", "")))
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def elementwise() -> str:
    """The elementwise ops, a row each."""
    takes = {
        "anything": "any, bool",
        "numbers": "any",
        "floats": "floating point",
        "small floats": "floating point up to f32",
        "integers": "integers",
        "bits": "integers, bool",
    }

    def operands(op: type[Elementwise]) -> str:
        names = ["value" if name == "operand" else name for name in op.headline]
        return f"[{', '.join(names)}]" if len(names) > 1 else names[0]

    rows = [
        f"| `{op.word}` | {operands(op)} | {takes[op.function.dtypes]} | {_cell(op.function.doc)} |"
        for op in ELEMENTWISE
    ]
    return "\n".join(["| op | operands | element types | result |", "| --- | --- | --- | --- |", *rows])


def reductions() -> str:
    """The reductions, a row each."""
    rows = [f"| `{row.word}` | {_cell(row.doc)} |" for row in REDUCTIONS]
    return "\n".join(["| op | result |", "| --- | --- |", *rows])


def arg_reductions() -> str:
    """The places of extremes, a row each."""
    rows = [f"| `{row.word}` | {_cell(row.doc)} |" for row in ARG_REDUCTIONS]
    return "\n".join(["| op | result |", "| --- | --- |", *rows])


def scans() -> str:
    """The scans, a row each."""
    rows = [f"| `{row.word}` | {_cell(row.doc)} |" for row in SCANS]
    return "\n".join(["| op | result |", "| --- | --- |", *rows])


def operations(level: str) -> str:
    """The operations of the IR at a level, a row each."""
    rows: list[str] = []
    for one in {"tile": TILE_OPS, "thread": THREAD_OPS}[level].all():
        attributes = "; ".join(_attribute(name, attribute) for name, attribute in one.attributes.items())
        traits = ", ".join(sorted(trait.name.lower().replace("_", " ") for trait in one.traits))
        rows.append(f"| `{one.name}` | {_cell(one.signature)} | {_cell(one.doc)} | {_cell(attributes)} | {traits} |")
    head = ["| operation | operands -> results | meaning | attributes | traits |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([*head, *rows])


def traits() -> str:
    """What passes ask of operations, a row each."""
    rows = [f"| {trait.name.lower().replace('_', ' ')} | {trait.value} |" for trait in Trait]
    return "\n".join(["| trait | an operation that |", "| --- | --- |", *rows])


def _attribute(name: str, attribute: Attribute) -> str:
    absent = f", absent: {attribute.absent}" if attribute.absent is not None else ""
    by = f", set by {attribute.set_by}" if attribute.set_by else ""
    return f"`{name}` {attribute.kind.value}{absent}{by}"


def target_table() -> str:
    """The machines and their matrix instructions."""
    rows: list[str] = []
    for target in TARGETS:
        for machine in variants(target):
            instructions = ", ".join(f"`{row.name}`" for row in machine.instructions)
            shared = f"{machine.shared.bytes // 1024} KiB"
            rows.append(f"| `{target}` | `{machine.variant}` | {machine.lanes} | {shared} | {instructions} |")
    head = [
        "| target | variant | lanes of a wave | shared memory | matrix instructions |",
        "| --- | --- | --- | --- | --- |",
    ]
    return "\n".join([*head, *rows])


def kernels() -> str:
    """The specs of the project, a row each."""
    rows: list[str] = []
    for path in sorted((_DOCS.parent / "specs").glob(f"*{SPEC_SUFFIX}")):
        name = path.name.removesuffix(SPEC_SUFFIX)
        text, source = path.read_text(encoding="utf-8"), f"specs/{path.name}"
        if is_family_file(path):
            family = loads_family(text, source, path.parent)
            doc, others = family.spec.doc, f"a family of {len(family.members)}"
            if family.plain is not None:
                others = "in " + ", ".join("/".join(map(str, member.values.values())) for member in family.members)
        else:
            spec = loads(text, source, path.parent)
            doc, others = spec.doc, ", ".join(f"`{target}`" for target in spec.only or ())
        rows.append(f"| [`{name}`](../{source}) | {_cell(doc)} | {others} |")
    return "\n".join(["| spec | what it computes | only |", "| --- | --- | --- |", *rows])


def errors() -> str:
    """Every code with the sentence that it prints, or the docstring of its class where that varies."""
    rows: dict[str, list[str]] = {}
    for error in _error_classes():
        text = _sentence(error) or (_first_sentence(inspect.getdoc(error) or "") if error.__doc__ else "")
        if text and text not in rows.setdefault(error.code, []):
            rows[error.code].append(text)
    lines = [f"| `{code}` | {'<br>'.join(map(_cell, texts))} |" for code, texts in sorted(rows.items())]
    return "\n".join(["| code | meaning |", "| --- | --- |", *lines])


_PARTS: dict[str, Callable[..., str]] = {
    "arg_reductions": arg_reductions,
    "elementwise": elementwise,
    "errors": errors,
    "family": family,
    "folders": folders,
    "kernels": kernels,
    "models": models,
    "operations": operations,
    "passes": passes,
    "reductions": reductions,
    "scans": scans,
    "stages": stages,
    "targets": target_table,
    "traits": traits,
}


def _error_classes() -> Iterator[type[WavespecError]]:
    root = Path(wavespec.__file__).parent
    for file in sorted(root.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if re.search(r"^class \w+\(WavespecError, code=", text, re.MULTILINE):
            module = importlib.import_module(".".join(file.relative_to(root.parent).with_suffix("").parts))
            for value in vars(module).values():
                if inspect.isclass(value) and issubclass(value, WavespecError) and value.__module__ == module.__name__:
                    yield value


def _sentence(error: type[WavespecError]) -> str:
    """The message that `__init__` builds, with `‹name›` where it puts values in."""
    if "__init__" not in vars(error):
        return ""
    tree = ast.parse(textwrap.dedent(inspect.getsource(error.__init__)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "__init__":
            message = node.args[1] if len(node.args) > 1 else None
            if isinstance(message, ast.Constant):
                return str(message.value)
            if isinstance(message, ast.JoinedStr):
                return "".join(str(p.value) if isinstance(p, ast.Constant) else _hole(p) for p in message.values)
    return ""


def _hole(part: ast.expr) -> str:
    """`‹name›` for `{name}`, `{quote(name)}` and `{machine.name}`; `…` for more than that."""
    value = part.value if isinstance(part, ast.FormattedValue) else part
    if isinstance(value, ast.Call) and value.args:
        value = value.args[0]
    return f"‹{ast.unparse(value)}›" if isinstance(value, ast.Name | ast.Attribute) else "…"


def _summary(stage: str) -> str:
    if stage == FIRST_STAGE:
        return "Makes a tile kernel of the spec: whole-tile operations, nothing distributed yet."
    (one,) = (one for one in PASSES if one.name == stage)
    return _first_sentence(inspect.getdoc(type(one)) or "")


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    return re.split(r"(?<=[.])\s", paragraph)[0].replace("``", "`")


def _changes(before: str, after: str) -> str:
    if not before:
        return "\n".join(f"+{line[:_WIDTH]}" for line in after.splitlines())
    old, new = ([line[:_WIDTH] for line in text.splitlines()] for text in (before, after))
    changes = [line for line in difflib.unified_diff(old, new, n=0, lineterm="")][2:]
    return _shortened("\n".join(line for line in changes if not line.startswith("@@")))


def _shortened(text: str) -> str:
    lines = [line[:_WIDTH] + "…" * (len(line) > _WIDTH) for line in text.rstrip().splitlines()]
    if len(lines) <= _LINES_SHOWN + 8:
        return "\n".join(lines)
    head, tail = lines[: _LINES_SHOWN - 8], lines[-8:]
    return "\n".join([*head, f"… {len(lines) - _LINES_SHOWN} more lines …", *tail])


def _code(text: str, language: str) -> list[str]:
    return [f"```{language}", text, "```", ""]


def _type(value: dict[str, Any]) -> str:
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{_SECTIONS.get(name, name.lower())})"
    if "enum" in value:
        return ", ".join(f"`{item}`" for item in value["enum"])
    if "const" in value:
        return f"`{value['const']}`"
    if "anyOf" in value:
        return " or ".join(_type(item) for item in value["anyOf"] if item.get("type") != "null")
    if "prefixItems" in value:
        return f"list of {len(value['prefixItems'])}"
    if value.get("type") == "array":
        return f"list of {_type(value['items'])}"
    if value.get("type") == "object":
        inner = value.get("additionalProperties") or next(iter(value.get("patternProperties", {}).values()), None)
        return f"name: {_type(inner)}" if isinstance(inner, dict) else "mapping"
    kind = value.get("type", "")
    kinds = " or ".join(kind) if isinstance(kind, list) else kind
    pattern = value.get("pattern", "")
    if pattern == DIM_PATTERN:
        return "dim"
    if pattern.startswith("^[A-Z][A"):
        return "a name in `dtypes`"
    return "name" if pattern.startswith("^[A-Za-z]") else kinds or "expression"


def _default(value: dict[str, Any]) -> str:
    default = value.get("default")
    return "" if default in (None, {}, [], "") else f"`{json.dumps(default)}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> int:
    check = "--check" in sys.argv[1:]
    stale = 0
    for path in sorted(_DOCS.glob("*.md")):
        old = path.read_text(encoding="utf-8")
        new = page_text(old)
        if new == old:
            continue
        stale += 1
        print(f"docs/{path.name}: {'differs' if check else 'written'}")
        if not check:
            path.write_text(new, encoding="utf-8")
    if check and stale:
        print("Not up to date; run 'python docs/generate.py'.")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
