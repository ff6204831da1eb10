"""The functions of elementwise ops: near enough in their steps, and the same as torch's on whole tensors."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
import torch

from tests.ops.epilogues import epilogue
from tests.ops.rests import RESTS, by_c, of_any_exponent
from wavespec.ir.dtype import DTYPES
from wavespec.ir.kernel import Op, Value, VectorType
from wavespec.ir.thread import ThreadBuilder
from wavespec.ops.elementwise import MEANINGS
from wavespec.ops.functions import exp_below
from wavespec.ops.steps import Steps, StepsOfMachine
from wavespec.schema.ops import FUNCTIONS
from wavespec.sim.elements import converted, elementwise
from wavespec.sim.reference import reference

ROWS = {function.word: function for function in FUNCTIONS}
FLOATS = [function.word for function in FUNCTIONS if function.dtypes not in ("integers", "bits")]
UNARY = [word for word in FLOATS if ROWS[word].operands == 1]
BINARY = [word for word in FLOATS if ROWS[word].operands == 2]
WHOLE = [function.word for function in FUNCTIONS if "floats" not in function.dtypes and function.operands < 3]
POSITIVE = ("log", "log2", "log10", "sqrt", "rsqrt")
TURNS = ("sin", "cos", "tan")
OF_TWO = ("pow", "atan2", "hypot", "logaddexp", "xlogy", "ldexp")
CLOSE = ("tan", "asin", "acos", "atan", "cosh", "asinh", "acosh", "atanh", "erfc", "softplus", "logsigmoid", "mish")
CLOSE = (*CLOSE, "erfinv", "lgamma", "digamma", "modified_bessel_i0")
TINY, LARGEST = 2.0**-149, 3.4028234663852886e38
SPECIAL = (0.0, -0.0, 1e30, -1e30, float("inf"), -float("inf"), float("nan"), TINY, -TINY, 2.0**-126, 3.4e38, 1.0, -1.0)
SPECIAL = (*SPECIAL, LARGEST, -LARGEST, 1.75e38, -1.75e38, -(2.0**-126), 3 * TINY, 2.0**-127, -(2.0**-127), -3.4e38)
NUMPY = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "bool": np.bool_}
NUMPY |= {"i8": np.int8, "i16": np.int16}


def run(ops: list[Op], values: dict[str, np.ndarray]) -> np.ndarray:
    """The steps, one after the other; the last result."""
    for op in ops:
        operands = [values[value.name] for value in op.operands]
        kind = NUMPY[op.result.vector.dtype.name]
        match op.name:
            case "constant":
                values[op.result.name] = np.asarray(op["value"], kind)
            case "cast":
                values[op.result.name] = converted(operands[0], op.result.vector.dtype)
            case "bitcast":
                values[op.result.name] = operands[0].view(kind)
            case _:
                with np.errstate(all="ignore"):
                    values[op.result.name] = elementwise(op["function"], operands)
    return values[ops[-1].result.name]


def in_steps(
    word: str,
    *operands: torch.Tensor,
    close_powers: bool = False,
    close_ratios: bool = False,
    close_roots: bool = False,
    scales: bool = False,
) -> torch.Tensor:
    count = itertools.count()
    build = ThreadBuilder(lambda hint: f"{hint}{next(count)}")
    dtypes = {torch.uint8: "u8", torch.bool: "bool"}
    kinds = [
        DTYPES[dtypes.get(x.dtype, f"{'f' if x.is_floating_point() else 'i'}{x.element_size() * 8}")] for x in operands
    ]
    names = [Value(f"x{number}", VectorType(kind, 1)) for number, kind in enumerate(kinds)]
    machine = StepsOfMachine(close_powers, close_ratios, close_roots, scales)
    steps = Steps(build, names[-1], "y", machine)
    result = MEANINGS[word].steps(steps, *names)
    values = {name.name: operand.numpy() for name, operand in zip(names, operands, strict=True)}
    return torch.tensor(run(build.ops, values) if build.ops else values[result.name])


def by_torch(word: str, *operands: torch.Tensor) -> torch.Tensor:
    function = MEANINGS[word].reference
    if isinstance(function, str):
        function = functools.reduce(getattr, function.split("."), torch)
    return function(*operands, **MEANINGS[word].options)


def same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal bit by bit, except that one NaN is as good as another."""
    assert actual.dtype == expected.dtype
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
    if actual.is_floating_point():
        known = ~expected.isnan()
        assert torch.equal(actual.signbit()[known], expected.signbit()[known])


def within_twice(actual: torch.Tensor, torchs: torch.Tensor, exact: torch.Tensor) -> None:
    finite = exact.isfinite() & torchs.isfinite()
    assert torch.equal(actual.isfinite(), torchs.isfinite())
    error, theirs = ((x.double() - exact).abs()[finite].max() for x in (actual, torchs))
    assert error <= 2 * max(theirs, 2.0**-24 * exact[finite].abs().max())


@pytest.mark.parametrize("word", UNARY)
@pytest.mark.parametrize("limit", [0.01, 1.0, 4.0, 20.0])
def test_steps_err_at_most_twice_as_much_as_torch(word: str, limit: float) -> None:
    x = torch.linspace(0.0 if word in POSITIVE else -limit, limit, 100_001)
    if word == "log1p":
        x = x[x >= -1]
    if word == "acosh":
        x = 1 + x.abs()
    within_twice(in_steps(word, x).float(), by_torch(word, x).float(), by_torch(word, x.double()).double())


@pytest.mark.parametrize("word", ["log", "log2", "log10", "log1p", "expm1", "sinh", "sin", "cbrt", "sqrt", "rsqrt"])
def test_small_results_have_as_many_digits_as_large_ones(word: str) -> None:
    """Errors in units of the last place: within 3 where torch is within 1."""
    x = torch.logspace(-37, 1.9, 200_001)
    near_one = torch.linspace(0.5, 1.5, 100_001) if word in POSITIVE else torch.linspace(-0.9, 0.9, 100_001)
    x = torch.cat([x, near_one, torch.logspace(-44, -38, 1001)])
    exact = by_torch(word, x.double())
    keep = exact.isfinite() & (exact.abs() > 2.0**-126)
    error = (in_steps(word, x).double() - exact).abs() / torch.exp2(exact.abs().log2().floor() - 23)
    assert error[keep].max() <= 3


@pytest.mark.parametrize(("word", "limit"), [("exp", 88.7), ("expm1", 88.7), ("sinh", 89.4)])
def test_exponentials_reach_the_largest_numbers(word: str, limit: float) -> None:
    x = torch.linspace(-limit, limit, 10_001)
    exact = by_torch(word, x.double())
    assert ((in_steps(word, x).double() - exact).abs() <= 2.0**-21 * exact.abs() + 2.0**-149).all()


@pytest.mark.parametrize("machine", ["close_powers", "scales"])
def test_powers_of_e_by_a_machines_steps_are_rounded_once_and_end_where_torchs_do(machine: str) -> None:
    """Below the normal numbers, too; the machine's own exp2 is a few units in the last place off, which is not seen here."""
    x = torch.cat([torch.linspace(-104, 89, 200_001), torch.tensor([*SPECIAL, -3e38, 3e38, 88.72, 88.73])])
    actual = in_steps("exp", x, **{machine: True})
    exact = torch.exp(x.double())
    known = ~exact.isnan()
    assert torch.equal(actual.isnan(), exact.isnan())
    assert torch.equal(actual.isinf(), exact.float().isinf())
    finite = known & exact.float().isfinite()
    assert ((actual.double() - exact).abs()[finite] <= 2.0**-22 * exact[finite] + 2.0**-149).all()


def test_inverse_roots_are_a_machines_step_in_f32_alone() -> None:
    x = torch.cat([torch.logspace(-44, 38, 10_001), torch.tensor([0.0, -0.0, 1.0, 4.0, -1.0, torch.inf, torch.nan])])
    same(in_steps("rsqrt", x, close_roots=True), torch.rsqrt(x.double()).float())
    for dtype, functions in (("f32", ["rsqrt"]), ("f64", ["sqrt", "div"])):
        count = itertools.count()
        build = ThreadBuilder(lambda hint, count=count: f"{hint}{next(count)}")
        value = Value("x", VectorType(DTYPES[dtype], 1))
        MEANINGS["rsqrt"].steps(Steps(build, value, "y", StepsOfMachine(close_roots=True)), value)
        assert [op["function"] for op in build.ops if op.name == "elementwise"] == functions


def test_gelu_has_no_step_below_the_normal_numbers_where_a_machine_is_slow_with_them() -> None:
    count = itertools.count()
    build = ThreadBuilder(lambda hint: f"{hint}{next(count)}")
    value, x = (
        Value("x", VectorType(DTYPES["f32"], 1)),
        torch.cat([torch.linspace(-60, 60, 100_001), torch.tensor(SPECIAL)]),
    )
    MEANINGS["gelu"].steps(Steps(build, value, "y", StepsOfMachine(slow_subnormals=True)), value)
    values = {"x": x.numpy()}
    actual, usual = torch.tensor(run(build.ops, values)), in_steps("gelu", x)
    normal = (x.abs() > 2.0**-120).numpy()
    for name, step in values.items():
        is_subnormal = (step != 0) & (abs(step) < 2.0**-126)
        assert not np.broadcast_to(is_subnormal, x.shape)[normal].any(), name
    assert (actual - usual)[x.isfinite()].abs().max() < 2.0**-120
    assert torch.equal(actual.isnan(), usual.isnan())
    assert (actual[(x < -10.4) & x.isfinite()] == 0).all()


@pytest.mark.parametrize("word", ["sigmoid", "silu", "gelu_tanh"])
def test_quotients_that_need_not_be_exact_are_ratios_in_f32_alone(word: str) -> None:
    for dtype, function in (("f32", "ratio"), ("f64", "div")):
        count = itertools.count()
        build = ThreadBuilder(lambda hint, count=count: f"{hint}{next(count)}")
        x = Value("x", VectorType(DTYPES[dtype], 1))
        MEANINGS[word].steps(Steps(build, x, "y", StepsOfMachine(close_ratios=True)), x)
        assert [op["function"] for op in build.ops if op.get("function") in ("div", "ratio")] == [function]
    x = torch.linspace(-90, 90, 1001)
    assert torch.equal(in_steps(word, x, close_ratios=True), in_steps(word, x))


@pytest.mark.parametrize("word", ["sin", "cos"])
def test_large_angles_are_turned_back_exactly(word: str) -> None:
    x = torch.logspace(0, 14, 100_001)
    assert (in_steps(word, x).double() - by_torch(word, x.double())).abs().max() < 2.0**-23


@pytest.mark.parametrize("word", UNARY)
def test_special_numbers_have_the_limits_of_the_function(word: str) -> None:
    x = torch.tensor(SPECIAL)
    if word in TURNS:
        x = x[(x.abs() < 1e30) | ~x.isfinite()]
    expected = by_torch(word, x.double())
    if ROWS[word].result == "same":
        expected = expected.float()
    actual = in_steps(word, x)
    torch.testing.assert_close(actual, expected, equal_nan=True)
    if expected.dtype == torch.float32 and word not in ("gelu", "gelu_tanh", "silu", "sign"):
        known = ~expected.isnan()
        assert torch.equal(actual.signbit()[known], expected.signbit()[known])


@pytest.mark.parametrize("word", [word for word in BINARY if word not in OF_TWO])
def test_arithmetic_is_that_of_torch(word: str) -> None:
    x, y = torch.randn(2, 10_000) * torch.logspace(-3, 3, 10_000)
    x[:2], y[1:3] = float("nan"), float("nan")
    x[5:50], y[5:50] = (3 * x[5:50]).round(), (3 * y[5:50]).round()
    x = torch.cat([x, torch.tensor(SPECIAL).repeat(len(SPECIAL))])
    y = torch.cat([y, torch.tensor(SPECIAL).repeat_interleave(len(SPECIAL))])
    actual, expected = in_steps(word, x, y), by_c(word, x, y) if word in RESTS else by_torch(word, x, y)
    if word in (
        "fmax",
        "fmin",
        "maximum",
        "minimum",
    ):  # C leaves open which of two zeros is larger, and torch takes one
        actual, expected = actual + 0.0, expected + 0.0
    same(actual, expected)


def test_the_rest_of_c_is_that_of_torch_where_quotients_are_small() -> None:
    x, y = torch.randn(2, 10_000)
    for word in RESTS:
        same(by_c(word, x, y), by_torch(word, x, y))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("word", RESTS)
def test_a_rest_is_exact_however_large_the_quotient(word: str, dtype: torch.dtype) -> None:
    x, y = of_any_exponent(20_000, dtype), of_any_exponent(20_000, dtype).flip(0)
    same(in_steps(word, x, y), by_c(word, x, y))


def in_last_places(actual: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest error in units of the last place of the exact result, of those below the normal numbers in that of
    these; where the exact one is a finite f32."""
    unit = torch.exp2(exact.abs().log2().floor().clamp(min=-126) - 23)
    return ((actual.double() - exact).abs() / unit)[exact.isfinite() & (exact.abs() <= LARGEST)].max().item()


@pytest.mark.parametrize("word", CLOSE)
def test_digits_are_as_many_as_torchs_over_the_whole_range(word: str) -> None:
    """Numbers of every exponent, and those beside which a difference would lose digits."""
    x = torch.cat([of_any_exponent(200_000, torch.float32), torch.linspace(-1, 1, 100_001)])
    near_one = 1 + torch.logspace(-7, 1, 100_001)
    x = torch.cat([x, torch.linspace(-12, 12, 100_001), torch.linspace(-87, 87, 100_001), near_one, -near_one])
    x = x[x.isfinite() & (x.abs() < (2.0**50 if word in TURNS else torch.inf))]
    exact = by_torch(word, x.double())
    actual, torchs = in_steps(word, x), by_torch(word, x)
    assert torch.equal(actual.isnan(), exact.isnan())
    # 3/4 of a unit is what torch's least errors are; 1.5 is little more than the rounding of the last two steps.
    assert in_last_places(actual, exact) <= 2 * max(in_last_places(torchs, exact), 0.75)


@pytest.mark.parametrize("word", ["lgamma", "digamma"])
def test_the_gamma_function_has_all_digits_where_its_logarithm_is_no_difference(word: str) -> None:
    """Torch's own errors are no measure: it has none of the digits near its zeros. Beside a zero between two poles a
    distance is left that is that of f64."""
    x = torch.cat([of_any_exponent(200_000, torch.float32).abs(), torch.linspace(0, 30, 300_001)])
    x = torch.cat([x, torch.linspace(0.999, 1.001, 100_001), torch.linspace(1.999, 2.001, 100_001)])
    x = torch.cat([x, torch.linspace(1.4616, 1.4617, 10_001)])
    assert in_last_places(in_steps(word, x), by_torch(word, x.double())) <= 1.5
    x = torch.cat([-torch.linspace(0, 40, 400_001), torch.linspace(-2.45703, -2.45702, 1001)])
    actual, exact = in_steps(word, x).double(), by_torch(word, x.double())
    known = exact.isfinite()
    assert torch.equal(actual.isfinite(), known)
    assert ((actual - exact).abs() <= 2.0**-24 * exact.abs() + 2.0**-40)[known].all()


def test_powers_of_two_scale_exactly() -> None:
    """Also where the power alone is beyond f32, and where the result has no leading digit."""
    x, y = of_any_exponent(200_000, torch.float32), torch.randint(-300, 300, (200_000,)).float()
    same(in_steps("ldexp", x, y), (x.double() * y.double().exp2()).float())
    x, y = (
        torch.tensor([0.0, -0.0, float("inf"), 1.0, -1.0, TINY]),
        torch.tensor([1e30, 1e30, -1e30, 1e30, -1e30, 277.0]),
    )
    same(in_steps("ldexp", x, y), torch.tensor([0.0, -0.0, float("inf"), float("inf"), -0.0, float("inf")]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_neighbours_are_those_of_torch(dtype: torch.dtype) -> None:
    x, y = of_any_exponent(20_000, dtype), of_any_exponent(20_000, dtype).flip(0)
    same(in_steps("nextafter", x, y), torch.nextafter(x, y))


@pytest.mark.parametrize("word", ["hypot", "xlogy"])
def test_functions_of_two_numbers_have_all_digits_whatever_their_exponents(word: str) -> None:
    x, y = of_any_exponent(200_000, torch.float32), of_any_exponent(200_000, torch.float32).flip(0)
    exact = by_torch(word, x.double(), y.double())
    actual, torchs = in_steps(word, x, y), by_torch(word, x, y)
    assert in_last_places(actual, exact) <= 2 * max(in_last_places(torchs, exact), 0.75)


def test_a_sum_of_logarithms_has_the_digits_of_the_larger_term() -> None:
    x = torch.randn(200_000) * torch.logspace(-3, 3, 200_000)
    y = torch.where(torch.rand(200_000) < 0.5, x + torch.randn(200_000), torch.randn(200_000))
    exact = by_torch("logaddexp", x.double(), y.double())
    error, theirs = (
        (z.double() - exact).abs() / exact.abs().clamp(min=1)
        for z in (in_steps("logaddexp", x, y), by_torch("logaddexp", x, y))
    )
    assert error.max() <= 2 * max(theirs.max(), 2.0**-24)


@pytest.mark.parametrize("word", OF_TWO)
def test_functions_of_two_numbers_have_the_limits_of_torchs(word: str) -> None:
    special = torch.tensor((*SPECIAL, 0.5, -0.5, 2.0, 3.0, -3.0))
    x, y = (special.repeat(len(special)), special.repeat_interleave(len(special)))
    actual, expected = in_steps(word, x, y), by_torch(word, x, y)
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=0, equal_nan=True)
    known = ~expected.isnan()
    assert torch.equal(actual.signbit()[known], expected.signbit()[known])


@pytest.mark.parametrize("word", ["pow", "atan2"])
def test_functions_of_two_numbers_err_at_most_twice_as_much_as_torch(word: str) -> None:
    x, y = torch.rand(2, 200_000) * 8 + 0.01
    y = torch.where(torch.rand(200_000) < 0.5, y, -y)
    exact = by_torch(word, x.double(), y.double())
    error, theirs = (((z.double() - exact) / exact).abs().max() for z in (in_steps(word, x, y), by_torch(word, x, y)))
    assert error <= 2 * max(theirs, 2.0**-24)
    x = torch.logspace(-38, 38, 100_001)
    y = 87 / x.log().clamp(-87, 87)
    exact = by_torch("pow", x.double(), y.double())
    assert ((in_steps("pow", x, y).double() - exact) / exact).abs().max() <= 2.0**-22


@pytest.mark.parametrize("word", WHOLE)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8], ids=str)
def test_whole_numbers_are_exact(word: str, dtype: torch.dtype) -> None:
    limits = torch.iinfo(dtype)
    x = torch.cat(
        [torch.arange(limits.min, limits.min + 4), torch.arange(-4, 5), torch.arange(limits.max - 3, limits.max)]
    )
    x = torch.cat([x, torch.arange(0, 70), torch.randint(-(2**40), 2**40, (40,))]).to(dtype)
    x, y = x.repeat(len(x)), x.repeat_interleave(len(x))
    if word in ("floor_divide", "remainder", "fmod"):
        defined = (y != 0) & ~((y == -1) & (x == limits.min))
        x, y = x[defined], y[defined]
    operands = (x, y)[: ROWS[word].operands]
    expected = by_torch(word, *operands)
    same(in_steps(word, *operands), expected)


@pytest.mark.parametrize("word", [function.word for function in FUNCTIONS if function.dtypes in ("anything", "bits")])
def test_truth_values_have_their_own_arithmetic(word: str) -> None:
    operands = [torch.tensor(column) for column in zip(*itertools.product([False, True], repeat=3), strict=True)]
    operands = operands[: ROWS[word].operands]
    same(in_steps(word, *operands), by_torch(word, *operands))


def test_a_sum_of_products_is_rounded_once() -> None:
    """Against whole numbers, of which none is lost."""
    x, y = (torch.randint(-(2**24), 2**24, (10_000,)).float() for _ in range(2))
    z = -(x * y) * torch.randint(0, 2, x.shape)  # often only what rounding a product would lose is left
    exact = [int(a) * int(b) + int(c) for a, b, c in zip(x, y, z, strict=True)]
    expected = torch.tensor([rounded_to_f32(number) for number in exact])
    for actual in (in_steps("fma", x, y, z), by_torch("fma", x, y, z)):
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def rounded_to_f32(number: int) -> float:
    """The nearest f32, the even one of two."""
    shift = max(0, abs(number).bit_length() - 24)
    half, rest = divmod(abs(number), 2**shift)
    half += 2 * rest > 2**shift or (2 * rest == 2**shift and half % 2)
    return float(half * 2**shift if number >= 0 else -half * 2**shift)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32], ids=str)
def test_a_range_is_kept(dtype: torch.dtype) -> None:
    """Also where its ends are the wrong way round, or NaN."""
    special = torch.tensor([0.0, -0.0, 1.0, -1.0, 3.0, -3.0, float("inf"), -float("inf"), float("nan")])
    numbers = (
        special.to(dtype)
        if dtype.is_floating_point
        else torch.tensor([0, 1, -1, 5, -5, 2**31 - 1, -(2**31)], dtype=dtype)
    )
    x, low, high = (column.contiguous() for column in torch.cartesian_prod(numbers, numbers, numbers).T)
    actual, expected = in_steps("clamp", x, low, high), torch.clamp(x, low, high)
    assert torch.equal(actual.nan_to_num(7.0), expected.nan_to_num(7.0)) and actual.dtype == dtype


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8], ids=str)
def test_bits_are_counted(dtype: torch.dtype) -> None:
    limits = torch.iinfo(dtype)
    x = torch.cat(
        [torch.arange(-130, 130), torch.tensor([limits.min, limits.max]), torch.randint(-(2**62), 2**62, (1000,))]
    )
    x = x.to(dtype)
    mask = (1 << limits.bits) - 1
    assert in_steps("popcount", x).tolist() == [(number & mask).bit_count() for number in x.tolist()]


def test_where_takes_from_either_side() -> None:
    condition, x, y = torch.rand(100) < 0.5, torch.randn(100), torch.randn(100)
    same(in_steps("where", condition, x, y), torch.where(condition, x, y))


def test_reference_matches_dims_by_name() -> None:
    spec = epilogue(
        "bias_tile: {read: bias}",
        "turned_tile: {read: turned}",
        "biased: {sub: [bias_tile, sums.acc]}",
        "y: {mul: [biased, turned_tile]}",
        tensors="bias: {shape: [N], dtype: f32}\n  turned: {shape: [N, M], dtype: f32}",
    )
    a, b, bias, turned = torch.randn(3, 4), torch.randn(5, 4), torch.randn(5), torch.randn(5, 3)
    expected = (bias.double() - a.double() @ b.double().T) * turned.double().T
    torch.testing.assert_close(reference(spec, a, b, bias, turned), expected)


@pytest.mark.parametrize(("compute", "dtype"), [(None, torch.bfloat16), (torch.float64, torch.float64)])
def test_reference_rounds_only_where_it_computes_in_the_types_of_the_spec(
    compute: torch.dtype | None, dtype: torch.dtype
) -> None:
    spec = epilogue("y: {cast: sums.acc, dtype: bf16}", result="bf16")
    assert reference(spec, torch.randn(2, 3), torch.randn(4, 3), compute=compute).dtype == dtype


def test_reference_cuts_numbers_off_to_integers() -> None:
    spec = epilogue("y: {cast: sums.acc, dtype: i32}", result="i32")
    actual = reference(spec, torch.tensor([[1.7], [-1.7]]), torch.ones(1, 1))
    assert actual.dtype == torch.int32 and actual.flatten().tolist() == [1, -1]


def test_powers_of_nothing_positive_in_sums_with_a_1_end_with_the_normal_numbers() -> None:
    x = torch.cat([torch.linspace(-89, 0, 200_001), torch.tensor([-float("inf"), float("nan"), -3e38, -0.0])])
    value, count = Value("x0", VectorType(DTYPES["f32"], 1)), itertools.count()
    build = ThreadBuilder(lambda hint: f"{hint}{next(count)}")
    exp_below(Steps(build, value, "y", StepsOfMachine(close_powers=True)), value)
    actual, exact = torch.tensor(run(build.ops, {"x0": x.numpy()})), torch.exp(x.double())
    assert torch.equal(actual.isnan(), exact.isnan())
    for least, limit in ((-16.0, 3), (-85.0, 6)):
        known = x >= least
        assert ((actual.double() - exact).abs()[known] <= limit * 2.0**-24 * exact[known]).all()
    assert not actual[x < -104].any(), "nothing but minus infinity makes a sum without a 1, which is 0"
    assert (actual[x < -88] < 2.0**-126).all()  # which is 0 where the machine has no numbers below the normal ones
    assert actual[x == 0].eq(1).all()
