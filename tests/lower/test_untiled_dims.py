"""A dim without a tile, or split where it is joined: the lines that the hints name make a kernel of the spec."""

from __future__ import annotations

import re

import pytest

from wavespec.cache import CompileCache
from wavespec.check_builds import check_builds
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.targets.machine import machines

HEAD = """\
apiVersion: wavespec/v1
kind: Kernel
name: rows
dims: {M: {}, N: {}, K: {}}
tensors:
  x: {shape: [M, N], dtype: f32}
  places: {shape: [M, K], dtype: i32}
  y: {shape: [M], dtype: f32, role: output}
  z: {shape: [M, N], dtype: f32, role: output}
  w: {shape: [M, K], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 4, axis: 0}
"""
TARGETS = ("cpu", "sm_90", "gfx942", "gfx950")


def spec(graph: str, *tensors: str, split: str = "") -> str:
    """A kernel that has, beside x, the tensors named."""
    unused = {"places", "y", "z", "w"} - set(tensors)
    lines = [line for line in HEAD.splitlines() if line.strip().partition(":")[0] not in unused]
    text = "\n".join([*lines, *([f"  - {split}"] if split else []), "graph:", *graph.strip("\n").splitlines()]) + "\n"
    return text if "places" in tensors or "w" in tensors else text.replace(", K: {}", "")


SUM = """
  - part: {read: x}
  - total: {sum: part, dim: N}
  - {write: total, to: y}
"""
TAKE = """
  - row: {read: x}
  - at: {read: places}
  - one: {take: row, dims: [M, K], at: {N: at}}
  - {write: one, to: w}
"""
DOUBLED = """
  - part: {read: x}
  - two: part * 2
  - {write: two, to: z}
"""
FROM_ELSEWHERE = """
  - one: {read: x, dims: [M, K], at: {N: K}}
  - {write: one, to: w}
"""
SOFTMAX = """
  - part: {read: x}
  - top: {max: part, dim: N}
  - power: exp(part - top)
  - {write: power, to: z}
"""
SPLIT = "{workgroup: N, tile: 64, axis: 1}"


def hints(text: str) -> list[str]:
    """Of the one mistake that every target has."""
    found: set[tuple[str, ...]] = set()
    for target in TARGETS:
        with pytest.raises(WavespecError) as raised:
            lower(loads(text), machines(target)[0])
        (diagnostic,) = raised.value.diagnostics
        found.add(diagnostic.hints)
    ((*said,),) = found
    return said


def build(text: str) -> None:
    """The kernel for every target."""
    for target in TARGETS:
        lower(loads(text), machines(target)[0])


def without_tiles(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if "constraints" not in line and "workgroup" not in line)


def build_planned(text: str) -> None:
    """All kernels of a spec without tiles."""
    (found,) = check_builds([loads(text)], cache=CompileCache(enabled=False), workers=1)
    assert not found, [one.message for one in found]


def hints_of_plan(text: str) -> dict[str, tuple[str, ...]]:
    """Of the mistakes of a spec without tiles, by the dim that each is about."""
    (found,) = check_builds([loads(text)], cache=CompileCache(enabled=False), workers=1)
    return {re.findall(r"along all of '(\w+)'", one.message)[0]: one.hints for one in found}


def with_constraint(text: str, line: str) -> str:
    return text.replace("graph:\n", f"  - {line}\ngraph:\n")


def whole(text: str, hint: str) -> str:
    """With the largest size and the one tile that a hint names."""
    match = re.search(
        r"\{(\w+): (\{max: \d+\})\} in 'dims' and, where there are 'constraints', (\{tiling: \w+, tile: \d+\})", hint
    )
    assert match, hint
    dim, largest, tile = match.groups()
    return with_constraint(text.replace(f"{dim}: {{}}", f"{dim}: {largest}"), tile)


def in_a_loop(text: str, hint: str) -> str:
    """With the tiling and the statements that a hint names, in the place of the first two."""
    (tile,) = re.findall(r"\{tiling: \w+, tile: \d+\}", hint)
    start, steps = re.findall(r"'(- .*?)'", hint)
    (last,) = re.findall(r"and '(steps\.\w+)' behind it", hint)
    before, _, graph = text.partition("graph:\n")
    first, _, *rest = graph.splitlines()
    loop = [f"  {start}", f"  {steps.replace('...', first.strip().removeprefix('- '))}"]
    name = last.removeprefix("steps.")
    rest = [line.replace(f"write: {name},", f"write: {last},") for line in rest]
    before = "\n".join(line for line in before.splitlines() if SPLIT not in line)
    return with_constraint("\n".join([before, "graph:", *loop, *rest]), tile)


def test_what_is_joined_takes_a_loop_or_one_tile() -> None:
    loop, no_tiles, one_tile = hints(text := spec(SUM, "y"))
    build(in_a_loop(text, loop))
    build(whole(text, one_tile))
    assert "say nothing of tiles" in no_tiles
    build_planned(without_tiles(text))


def test_what_is_joined_and_written_takes_two_loops_or_one_tile() -> None:
    loop, second, _, one_tile = hints(text := spec(SOFTMAX, "z"))
    assert "'- start: {register: [M], dtype: f32, value: -.inf}'" in loop and "softmax.wave.yaml" in second
    build(whole(text, one_tile))
    build_planned(without_tiles(text))


def test_what_is_joined_both_ways_takes_two_specs_or_one_tile() -> None:
    graph = SUM + "  - column: {sum: part, dim: M}\n  - {write: column, to: v}\n"
    text = without_tiles(spec(graph, "y")).replace("  y:", "  v: {shape: [N], dtype: f32, role: output}\n  y:")
    for dim, (two, one_tile) in hints_of_plan(text).items():
        assert "Make two specs" in two
        (largest,) = re.findall(rf"\{{{dim}: (\{{max: \d+\}})\}} in 'dims'", one_tile)
        build_planned(text.replace(f"{dim}: {{}}", f"{dim}: {largest}"))


def test_what_starts_at_the_last_element_is_read_the_other_way_round() -> None:
    graph = "  - part: {read: x}\n  - after: {cumsum: part, dim: N, reverse: true}\n  - {write: after, to: z}\n"
    text = without_tiles(spec(graph, "z"))
    ((turned, _),) = hints_of_plan(text).values()
    assert "'after' starts at the last element" in turned
    (at,) = re.findall(r"at: \{.*?\}", turned)
    text = text.replace(", reverse: true", "").replace("{read: x}", f"{{read: x, {at}}}")
    build_planned(text.replace("to: z}", f"to: z, {at}}}"))


def test_what_is_taken_takes_one_tile() -> None:
    one_tile, read = hints(text := spec(TAKE, "places", "w", split="{workgroup: K, tile: 64, axis: 1}"))
    build(whole(text, one_tile))
    assert "'read' has 'at'" in read


@pytest.mark.parametrize(("graph", "tensors"), [(DOUBLED, ("z",)), (FROM_ELSEWHERE, ("w", "K"))])
def test_what_is_only_written_is_split(graph: str, tensors: tuple[str, ...]) -> None:
    text = spec(graph, *tensors).replace("K: {}", "K: {equals: N}")
    (hint,) = hints(text)
    (line,) = re.findall(r"\{workgroup: \w+, tile: 64, axis: 1\}", hint)
    build(with_constraint(text, line))


def test_what_workgroups_have_parts_of_takes_a_loop_or_a_combining_write() -> None:
    loop, parts = hints(text := spec(SUM, "y", split=SPLIT))
    build(in_a_loop(text, loop))
    assert "docs/splitting.md" in parts
    text = text.replace("role: output", "role: inout").replace("to: y}", "to: y, combine: add}")
    _, combined, _ = hints(text)
    (write,) = re.findall(r"\{write: .*combine: add\}", combined)
    lines = [line for line in text.splitlines() if "total" not in line]
    build("\n".join([*lines, f"  - {write}"]))
