"""Groups of cases, and choices: of neighbouring cases the one that takes least."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.cli.command import SMALL
from wavespec.diagnostics import WavespecError
from wavespec.emit.interface import expression_to_size
from wavespec.runtime.first_case import FirstCase
from wavespec.schema import KernelSpec, load, loads
from wavespec.schema.cases import TargetCase, case_for_sizes, cases_for_target
from wavespec.schema.language.constraints import AnyConstraint, Tiling
from wavespec.schema.reading.spec_to_yaml import dump_yaml

HEAD = "  cpu:\n    params: {BLOCK_M: 24}\n    cases:\n"


def with_cases(cases: str) -> KernelSpec:
    return loads(SMALL.replace("  cpu: {params: {BLOCK_M: 24}}\n", HEAD + cases), "small.wave.yaml")


def blocks(cases: str) -> Callable[..., str]:
    """The tile that a call of M, N, K takes."""
    found = cases_for_target(with_cases(cases), "cpu")
    return lambda *sizes: str(case_for_sizes(found, dict(zip("MNK", sizes, strict=True))).spec.params["BLOCK_M"])


GROUPED = """\
      - when: [N % 8 == 0]
        schedule: {stages: 2}
        tensors: {a: {space: global}}
        cases:
          - {when: [M <= 64], params: {BLOCK_M: 12}}
          - params: {BLOCK_M: 36}
            cases:
              - {when: [K % 16 == 0], schedule: {stages: 3}}
              - {tensors: {b: {space: global}}}
      - {when: [M <= 12], params: {BLOCK_M: 12}}
"""
WRITTEN_OUT = """\
      - {when: [N % 8 == 0, M <= 64], params: {BLOCK_M: 12}, schedule: {stages: 2}, tensors: {a: {space: global}}}
      - {when: [N % 8 == 0, K % 16 == 0], params: {BLOCK_M: 36}, schedule: {stages: 3}, tensors: {a: {space: global}}}
      - when: [N % 8 == 0]
        params: {BLOCK_M: 36}
        schedule: {stages: 2}
        tensors: {a: {space: global}, b: {space: global}}
      - {when: [M <= 12], params: {BLOCK_M: 12}}
"""


def test_group_is_its_cases_written_out() -> None:
    assert with_cases(GROUPED) == with_cases(WRITTEN_OUT)


@pytest.mark.parametrize("conditions", ["", "when: [N % 8 == 0], "])
def test_misspelt_list_of_a_group_is_one_error(conditions: str) -> None:
    """A group without conditions was told to have some, as if it were a case; one with hides no case with more."""
    group = f"      - {{{conditions}casesx: [{{when: [M <= 64], params: {{BLOCK_M: 12}}}}]}}\n"
    with pytest.raises(WavespecError) as caught:
        with_cases(f"{group}      - {{when: [N % 8 == 0, M <= 12], params: {{BLOCK_M: 12}}}}\n")
    (found,) = caught.value.diagnostics
    assert found.message == "A case has no field 'casesx'."
    assert found.hints == ("Did you mean 'cases'?",)


def test_list_of_cases_has_a_name_and_stands_in_several_groups() -> None:
    tiles = "let:\n  tiles:\n    - {when: [M <= 64], params: {BLOCK_M: 12}}\n    - {params: {BLOCK_M: 36}}\ntargets:\n"
    text = SMALL.replace(
        "  cpu: {params: {BLOCK_M: 24}}\n",
        HEAD
        + "      - {when: [N % 8 == 0], schedule: {stages: 2}, cases: tiles}\n      - {when: [N % 4 == 0], cases: tiles}\n",
    ).replace("targets:\n", tiles)
    cases = loads(text, "small.wave.yaml").targets["cpu"].cases
    assert [[str(one) for one in case.when] for case in cases] == [
        ["N % 8 == 0", "M <= 64"],
        ["N % 8 == 0"],
        ["N % 4 == 0", "M <= 64"],
        ["N % 4 == 0"],
    ]
    assert [str(case.params["BLOCK_M"]) for case in cases] == ["12", "36", "12", "36"]
    assert [case.schedule is not None for case in cases] == [True, True, False, False]


def test_cases_of_a_group_are_edited_inside_of_it(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "small.wave.yaml").write_text(SMALL.replace("  cpu: {params: {BLOCK_M: 24}}\n", HEAD + GROUPED))
    edits = '{change: {"N % 8 == 0": {cases: {remove: [M <= 64], change: {case 2: {params: {BLOCK_M: 48}}}}}}}'
    own = "apiVersion: wavespec/v1\nkind: Kernel\nextends: small.wave.yaml\nname: other\n"
    (tmp_path / "other.wave.yaml").write_text(f"{own}targets: {{cpu: {{cases: {edits}}}}}\n")
    cases = load(tmp_path / "other.wave.yaml").targets["cpu"].cases
    assert [str(case.params["BLOCK_M"]) for case in cases] == ["48", "48", "12"]


def test_a_group_without_conditions_is_called_by_its_number(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    group = "      - cases: [{when: [M > 8], params: {BLOCK_M: 12}}]\n"
    (tmp_path / "small.wave.yaml").write_text(SMALL.replace("  cpu: {params: {BLOCK_M: 24}}\n", HEAD + group))
    own = "apiVersion: wavespec/v1\nkind: Kernel\nextends: small.wave.yaml\nname: other\n"
    other = tmp_path / "other.wave.yaml"
    other.write_text(own + "targets: {cpu: {cases: {change: {case 1: {schedule: {stages: 2}}}}}}\n")
    (case,) = load(other).targets["cpu"].cases
    assert case.schedule is not None and case.schedule.stages == 2
    other.write_text(own + "targets: {cpu: {cases: {remove: [columns]}}}\n")
    with pytest.raises(WavespecError, match=r"It has 'case 1' and 'M > 8'\."):
        load(other)


NAMED = """\
      - name: wide
        when: [N % 8 == 0]
        cases:
          - {name: few_rows, when: [M <= 64], least: M, params: {BLOCK_M: 12}}
          - {name: many_rows, least: 2 * M - 64, params: {BLOCK_M: 36}}
      - {name: few_rows, when: [M <= 12], params: {BLOCK_M: 12}}
"""


def extending(folder: Path, cases: str) -> Path:
    """A spec that extends one with the cases `NAMED`, and has these edits."""
    (folder / "pyproject.toml").touch()
    (folder / "small.wave.yaml").write_text(SMALL.replace("  cpu: {params: {BLOCK_M: 24}}\n", HEAD + NAMED))
    own = "apiVersion: wavespec/v1\nkind: Kernel\nextends: small.wave.yaml\nname: other\n"
    (other := folder / "other.wave.yaml").write_text(f"{own}targets: {{cpu: {{cases: {cases}}}}}\n")
    return other


def test_a_case_has_a_name_for_edits_wherever_it_stands(tmp_path: Path) -> None:
    edits = "{change: {wide: {schedule: {stages: 2}}, wide.few_rows: {params: {BLOCK_M: 60}}}, before: {many_rows: [{when: [M == 70]}]}}"
    cases = load(extending(tmp_path, edits)).targets["cpu"].cases
    assert [str(case.params.get("BLOCK_M")) for case in cases] == ["60", "None", "36", "12"]
    assert [case.schedule is not None for case in cases] == [True, True, True, False]


def test_of_a_choice_that_is_extended_one_case_may_be_left(tmp_path: Path) -> None:
    (only, _) = load(extending(tmp_path, "{remove: [many_rows]}")).targets["cpu"].cases
    assert str(only.least) == "M"


def test_mistake_that_edits_leave_of_what_is_extended_shows_the_edits(tmp_path: Path) -> None:
    path = extending(tmp_path, "{remove: [wide.few_rows, many_rows]}")
    with pytest.raises(WavespecError) as emptied:
        load(path)
    assert str(emptied.value).startswith(f"{path}:5:49: error[out-of-range]: 'cases' is at least 1 entry long")
    edits = "{change: {wide: {constraints: {change: {tiling K: {tile: 16}}}}}}"
    middle = extending(tmp_path, edits).rename(tmp_path / "middle.wave.yaml")
    own = "apiVersion: wavespec/v1\nkind: Kernel\nextends: middle.wave.yaml\nname: last\n"
    (last := tmp_path / "last.wave.yaml").write_text(own + "constraints: {remove: [tiling K]}\n")
    with pytest.raises(WavespecError) as removed:
        load(last)
    (mistake,) = [one for one in removed.value.diagnostics if one.code == "unknown-item"]
    assert str(mistake.span) == f"{middle}:5:64"
    assert [str(one.span) for one in mistake.related] == [f"{last}:5:14"]


def test_name_of_a_case_that_an_edit_changes_is_for_who_extends_that(tmp_path: Path) -> None:
    middle = extending(tmp_path, "{change: {wide: {name: broad}, many_rows: {name: few_rows}}}")
    middle = middle.rename(tmp_path / "middle.wave.yaml")
    own = "apiVersion: wavespec/v1\nkind: Kernel\nextends: middle.wave.yaml\nname: last\n"
    last = tmp_path / "last.wave.yaml"
    last.write_text(own + 'targets: {cpu: {cases: {change: {"broad.case 1": {params: {BLOCK_M: 60}}}}}}\n')
    assert [str(one.params.get("BLOCK_M")) for one in load(last).targets["cpu"].cases] == ["60", "36", "12"]
    for edits, said in (("wide: {}", "no case 'wide'"), ("broad.few_rows: {}", "may be each of 2")):
        last.write_text(f"{own}targets: {{cpu: {{cases: {{change: {{{edits}}}}}}}}}\n")
        with pytest.raises(WavespecError, match=said):
            load(last)


SPLITS = """\
    constraints: {change: {tiling K: {tile: 16}}}
    cases:
      - when: [N % 8 == 0]
        constraints: {remove: [hardware], after: {tiling K: [assume: M % 2 == 0]}}
        cases:
          - {when: [M <= 64], constraints: {change: {tiling K: {tile: 64}}}}
          - {params: {BLOCK_M: 36}}
      - {when: [M <= 64], constraints: {change: {tiling K: {tile: 8}}, remove: [hardware]}}
"""


def test_edits_of_constraints_are_of_those_of_the_group_else_of_the_target_else_of_the_kernel() -> None:
    spec = loads(SMALL.replace("  cpu: {params: {BLOCK_M: 24}}\n", "  cpu:\n" + SPLITS), "small.wave.yaml")

    def said(constraints: Sequence[AnyConstraint] | None) -> str:
        return ", ".join(f"{one.tile}" if isinstance(one, Tiling) else type(one).__name__ for one in constraints or ())

    whole = "Workgroup, Workgroup, {}, Hardware"
    assert said(spec.constraints) == whole.format(32)
    assert said(spec.targets["cpu"].constraints) == whole.format(16)
    assert [said(case.constraints) for case in spec.targets["cpu"].cases] == [
        "Workgroup, Workgroup, 64, Assume",
        "Workgroup, Workgroup, 16, Assume",
        "Workgroup, Workgroup, 8",
    ]


CHOICE = """\
      - {when: [N % 8 == 0], params: {BLOCK_M: 12}, least: (M + BLOCK_M - 1) // BLOCK_M * 5}
      - {when: [N % 8 == 0], params: {BLOCK_M: 24}, least: (M + BLOCK_M - 1) // BLOCK_M * 8}
      - {when: [N % 8 == 0], params: {BLOCK_M: 60}, least: (M + BLOCK_M - 1) // BLOCK_M * 17}
"""


def test_the_case_that_takes_least_is_taken_and_the_first_of_several() -> None:
    block = blocks(CHOICE)
    takes = {12: 5, 24: 8, 60: 17}
    for m in range(1, 400):
        numbers = {tile: -(-m // tile) * each for tile, each in takes.items()}
        assert block(m, 8, 64) == str(min(numbers, key=lambda tile: numbers[tile])), m
    assert block(100, 9, 64) == "24"  # no condition holds: the target's own


APART = """\
      - {when: [K > 64], params: {BLOCK_M: 12}, least: 3}
      - {when: [N % 8 == 0, K % 16 == 0], params: {BLOCK_M: 24}, least: 1}
      - {when: [N >= 100, M != 7], params: {BLOCK_M: 36}, least: 2}
      - {when: [M < 10, K == 8], params: {BLOCK_M: 48}, least: 2}
      - {when: [M >= 0], params: {BLOCK_M: 60}, least: 4}
"""


def holding(m: int, n: int, k: int) -> dict[str, int]:
    """What each case of `APART` takes whose conditions hold."""
    said = {
        "12": (k > 64, 3),
        "24": (n % 8 == 0 and k % 16 == 0, 1),
        "36": (n >= 100 and m != 7, 2),
        "48": (m < 10 and k == 8, 2),
        "60": (True, 4),
    }
    return {block: takes for block, (holds, takes) in said.items() if holds}


def test_cases_whose_conditions_do_not_hold_are_none_of_the_choice() -> None:
    block = blocks(APART)
    for m in (1, 7, 9, 10, 50):
        for n in (8, 9, 99, 100, 104):
            for k in (8, 16, 64, 72, 80):
                takes = holding(m, n, k)
                assert block(m, n, k) == min(takes, key=lambda one: takes[one]), (m, n, k)


def test_a_case_without_a_number_ends_a_choice() -> None:
    block = blocks(
        """\
      - {when: [M > 8], params: {BLOCK_M: 12}, least: 2}
      - {when: [M > 4], params: {BLOCK_M: 24}, least: 3}
      - {when: [N == 1], params: {BLOCK_M: 36}}
      - {when: [M > 2], params: {BLOCK_M: 48}, least: 1}
      - {when: [M >= 0], params: {BLOCK_M: 60}, least: 0}
"""
    )
    assert [block(m, 1, 8) for m in (9, 5, 3)] == ["12", "24", "36"]
    assert [block(m, 2, 8) for m in (9, 5, 3, 1)] == ["12", "24", "60", "60"]


DIVIDED = """\
      - {when: [M > 20], params: {BLOCK_M: 12}, least: M // (N % 3)}
      - {when: [M % 2 == 0], params: {BLOCK_M: 24}, least: N / 4}
      - {when: [M // (N % 5) > 3], params: {BLOCK_M: 36}, least: N % (M % 4)}
      - {when: [M > 5], params: {BLOCK_M: 48}, least: 20 - N // 2}
"""


def test_no_case_up_to_one_whose_number_divides_by_zero_is_taken() -> None:
    block = blocks(
        """\
      - {when: [M > 0], params: {BLOCK_M: 12}, least: 1}
      - {when: [M > 3], params: {BLOCK_M: 24}, least: N // N * 4}
      - {when: [M > 0], params: {BLOCK_M: 36}, least: K // K * 6}
      - {when: [M > 0], params: {BLOCK_M: 48}, least: K // K * 7}
"""
    )
    assert [block(9, *one) for one in ((1, 8), (0, 8), (1, 0))] == ["12", "36", "48"]
    assert block(3, 0, 8) == "36", "whatever its conditions say"


def test_cases_for_other_kernels_are_none_of_the_choice() -> None:
    block = blocks(
        """\
      - {when: [BLOCK_M == 1], params: {BLOCK_M: 12}, least: 1}
      - {when: [M > 0], params: {BLOCK_M: 36}, least: 3}
      - {when: [M > 0], params: {BLOCK_M: 48}, least: 2}
"""
    )
    assert block(5, 5, 8) == "48"


def test_machines_without_some_cases_choose_among_the_others() -> None:
    cases = """\
      - {when: [M > 0], variants: [x86_64_v4], params: {BLOCK_M: 12}, least: 2}
      - {when: [M > 1], variants: [x86_64_v4], params: {BLOCK_M: 24}, least: 1}
      - {when: [M > 0], params: {BLOCK_M: 36}, least: M}
      - {when: [M > 0], params: {BLOCK_M: 48}, least: 3}
"""
    wide, wider, few, many, _ = cases_for_target(with_cases(cases), "cpu")
    assert [str(one.least) for one in (wide, few)] == [
        "2 <= 1 + min(1, max(0, 1 - M + 1)) * 2305843009213693952",
        "M <= 3",
    ]
    assert wider.least is None and many.least is None


def test_a_spec_with_a_choice_is_read_back_as_it_is() -> None:
    said = with_cases(CHOICE)
    assert loads(dump_yaml(said), "small.wave.yaml") == said


@pytest.mark.parametrize("cases", [CHOICE, APART, DIVIDED])
def test_a_call_finds_the_case_that_the_compiler_says(cases: str) -> None:
    found = cases_for_target(with_cases(cases), "cpu")
    first = FirstCase([[expression_to_size(one, _values(case)) for one in case.conditions] for case in found[:-1]])
    generator = random.Random(3)
    for _ in range(300):
        sizes = {"M": generator.randint(0, 200), "N": generator.randint(0, 120), "K": 8 * generator.randint(0, 12)}
        assert found[first(sizes)] is case_for_sizes(found, sizes), sizes


def _values(case: TargetCase) -> Mapping[str, int]:
    return {name: int(value.evaluate({})) for name, value in case.spec.params.items() if not value.names()}


def test_a_scalar_in_a_number_is_known_before_the_call() -> None:
    text = SMALL.replace("tensors:", "scalars: {window: {dtype: i32, default: 3}}\ntensors:").replace(
        "  cpu: {params: {BLOCK_M: 24}}\n",
        HEAD
        + "      - {when: [M > 0], params: {BLOCK_M: 12}, least: window}\n"
        + "      - {when: [M > 0], params: {BLOCK_M: 36}, least: 5}\n",
    )
    cases = cases_for_target(loads(text, "small.wave.yaml"), "cpu")
    taken = [case_for_sizes(cases, {"M": 5, "N": 5, "K": 8, "window": one}).spec.params["BLOCK_M"] for one in (4, 6)]
    assert [str(one) for one in taken] == ["12", "36"]


@pytest.mark.parametrize(
    ("cases", "column", "message"),
    [
        (
            "{when: M > 0, cases: [{when: [N > 0], params: {BLOCK_M: 12}}]}",
            16,
            "Expected a list, found the text 'M > 0'",
        ),
        ("{when: [M > 0], cases: []}", 32, "'cases' is at least 1 entry long, not 0"),
        ("{when: [M > 0], cases: few}", 32, "Expected a list of cases"),
        ("{when: [M > 0], caes: [{params: {BLOCK_M: 12}}]}", 25, "A case has no field 'caes'"),
        ("{when: [M > 0], cases: [12]}", 33, r"Expected a case \(a mapping\)"),
    ],
)
def test_a_group_that_is_none_is_a_mistake_where_it_stands(cases: str, column: int, message: str) -> None:
    """A condition of a group that was no list was left out, and an empty group was no case, in silence."""
    with pytest.raises(WavespecError, match=rf"small\.wave\.yaml:29:{column}: .*{message}") as raised:
        with_cases(f"      - {cases}\n")
    (told,) = raised.value.diagnostics
    hints = {"few": "No alias under 'let' is called 'few'.", "caes": "Did you mean 'cases'?"}
    assert all(hint in told.hints for word, hint in hints.items() if word in cases)
